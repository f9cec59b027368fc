"""Fixtures every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from quick_sweeps import quick_sweeps  # noqa: F401  for whoever sweeps
from run_folders import six_runs, write_run  # noqa: F401  fixtures of reports and of their command

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout; a test that needs it skips where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are faster on one thread, and a shared machine does not slow them down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
