"""Fixtures every test may use."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from quick_sweeps import quick_sweeps  # noqa: F401  for whoever sweeps
from run_folders import six_runs, write_run  # noqa: F401  fixtures of reports and of their command

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

LONGEST = [
    "docs/test_docs.py",
    "engines/cluster/test_bits.py",
    "sites/test_flower.py",
    "testing/test_checks.py",
    "testing/test_pretend_gpu.py",
    "models/test_kernels.py",
    "studio/test_screens.py",
    "engines/cluster/test_ends.py",
    "engines/test_fast.py",
    "sites/test_faults.py",
    "privacy/test_laboratory.py",
    "parts/test_modalities.py",
    "studio/test_queue.py",
    "sites/test_equal.py",
    "parts/test_baselines.py",
    "parts/objective/test_flea.py",
    "engines/test_recorded_alone.py",
    "engines/test_unusual_models.py",
    "studio/test_compare_screen.py",
    "parts/test_combinations.py",
    "studio/test_partition_screen.py",
    "bench/test_bench.py",
    "engines/test_recorded.py",
    "data/partition/test_expected.py",
    "report/test_browser.py",
    "testing/test_walled.py",
    "runs/test_kill.py",
    "data/sources/test_real_data.py",
    "runs/test_held_out.py",
    "runs/test_fork_server.py",
    "runs/test_rounds.py",
    "report/results/test_look.py",
    "cli/test_demo.py",
    "runs/test_damage.py",
    "data/partition/test_solve.py",
    "studio/test_safety.py",
    "parts/test_seol_kim_invariants.py",
    "models/test_zoo.py",
    "sites/test_hostile.py",
    "reproduce/test_exhibits.py",
    "runs/test_early_stop.py",
    "runs/test_changes.py",
    "runs/test_on_slurm.py",
    "report/test_without_torch.py",
    "engines/cpu/test_workers.py",
    "report/results/test_formats.py",
    "runs/test_sweep.py",
]
"""Files that take longest go first, those that wait (for Ray, Flower, a browser) before those that compute: no process
of `make test` is left with a long one at the end. Each file is one process's (--dist loadfile), so no cluster,
federation or browser starts twice."""


hypothesis.settings.register_profile(
    "no clock", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("no clock")  # no test asserts a time: a busy machine is no failure


def pytest_collection(session: pytest.Session) -> None:
    """Not at once, for torch takes a second to load, and where tests run in several processes the first only tells the
    others what to do."""
    import torch

    if not torch.cuda.is_available():
        # Triton asks when it is loaded: test_kernels.py runs a GPU's kernels here
        os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they come."""
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish() -> None:
    """What was loaded for thousands of tests lives as long as they do: nobody need look through it for what is left
    over, and a fork need not copy it for that. And what tests leave over may lie for a while.

    Torch has dozens of loggers that tell no other; pytest would give each a handler and take it away again, three times
    a test."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout; a test that needs it skips where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="module")
def checked_charts() -> Iterator[None]:
    """Every piece of a chart is held against Vega-Lite's schema."""
    from unskew.report import theme

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "CHECKED", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are faster on one thread, and a shared machine does not slow them down."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
