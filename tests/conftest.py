"""Fixtures every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout; a test that needs it skips where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED_DATA
