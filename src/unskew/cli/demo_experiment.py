"""The demo: the main job, end to end, on real data that comes with unskew.

It is an ordinary experiment: its folder holds the experiment file, one run folder per method and seed, and the
reports, so everything it shows can be looked into, changed and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.errors import InputError, RunFailed
from unskew.files import replace_folder, write_file
from unskew.runs.spec import Spec, toml_value
from unskew.runs.sweep import Cell, sweep

if TYPE_CHECKING:
    from unskew.report.diagnosis import Diagnosis

METHODS = (
    "fedavg",
    "centralized",
    "scaffold",
    "sem",
    "scaffold+sem",
    "phase_shift(2)",
    "fedaug",
)
"""What the demo compares: the baseline, the upper bound, and what the papers compare or propose."""

SEEDS = (0, 1, 2)

SETTINGS: Mapping[str, Any] = {
    "dataset": "digits",
    "partition": "dirichlet(0.1)",
    "clients": 50,
    "fraction": 0.5,  # about 14 samples a client
    "rounds": 40,
    "cohort": 10,
    "epochs": 5.0,
    "batch": 10,
    "lr": 0.05,
}
"""The same for every method: nothing here was tuned for one of them."""

EXPERIMENT = "demo.toml"


def experiment(methods: Sequence[str], seeds: Sequence[int], settings: Mapping[str, Any]) -> str:
    """The experiment file: what ``unskew sweep`` takes."""
    swept = f"method = {toml_value(methods)}\nseed = {toml_value(seeds)}\n"
    return f"{Spec.of(settings).toml()}\n[sweep]\n{swept}"


def diagnosis() -> Diagnosis:
    """How skewed and how scarce the demo's data is, dealt as the first seed deals it."""
    from unskew.data import load
    from unskew.data.partition import partition
    from unskew.report.about import totals
    from unskew.report.diagnosis import diagnose

    data = load(SETTINGS["dataset"])
    part = partition(
        data, SETTINGS["partition"], SETTINGS["clients"], seed=SEEDS[0], fraction=SETTINGS["fraction"]
    )
    plan = {name: SETTINGS[name] for name in ("cohort", "rounds", "epochs", "batch")}
    about = f"{data.name} · {SETTINGS['partition']} · seed {SEEDS[0]} · {totals(part)}"
    return diagnose(
        part.counts, dataset=data.name, about=about, labels=data.labels, record=part.record, **plan
    )


def train(
    folder: Path,
    methods: Sequence[str],
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    processes: int = 2,
    tell: Callable[[list[Cell]], None] = lambda cells: None,
) -> list[Cell]:
    """Run every method over every seed into ``folder``, in place of an earlier demo; returns what failed."""
    check(folder)
    with replace_folder(folder) as draft:
        write_file(draft / EXPERIMENT, experiment(methods, seeds, settings))
        grid = {"method": list(methods), "seed": list(seeds)}
        cells = sweep(grid, draft, processes=processes, tell=tell, **settings)
        failed = [cell for cell in cells if cell.status != "done"]
        if len(failed) == len(cells):
            raise RunFailed(f"every run of the demo failed, the first with: {failed[0].error}")
    return failed


def check(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the demo")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / EXPERIMENT).is_file():
        raise InputError(f"{folder} is not empty and holds no demo; choose another folder")
