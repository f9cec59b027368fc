"""Run what is missing of an exhibit: a sweep a group, so that what is done is skipped and what was stopped goes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.core.method import Method
from unskew.files import write_file
from unskew.reproduce.exhibit import Exhibit, Group, chosen_groups
from unskew.reproduce.line_settings import KEPT, changed_settings
from unskew.reproduce.making import Wanted, make_rows
from unskew.reproduce.results import read_results
from unskew.runs.experiment_file import grid_values
from unskew.runs.folder import read_folder
from unskew.runs.sweep import Cell, folder_name, sweep
from unskew.runs.watchers import Watch
from unskew.version import __version__

RESULTS = "results.jsonl"

QUICK: dict[str, Any] = {
    "dataset": "digits",
    "model": "mlp(hidden=[16])",
    "fraction": 0.3,
    "samples_per_client": None,
    "clients": 10,
    "cohort": 4,
    "rounds": 1,
    "epochs": 1,
    "min_samples": 1,
    "evaluate": 1,
    "measure": (),
    "keep": (),
    "engine": "loop",
    "device": "cpu",
}
"""What makes a cell tiny: its method and its split on the embedded digits, one round."""


@dataclass(frozen=True)
class Ran:
    """What came of an exhibit's runs: a line of each that is done, and those that failed, with their groups' names."""

    lines: list[dict[str, Any]]
    failed: list[tuple[str, Cell]]


def run_exhibit(
    exhibit: Exhibit,
    out: Path,
    cells: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (),
    processes: int | None = None,
    tell: Callable[[list[Cell]], None] = lambda cells: None,
) -> Ran:
    """Run what is missing below ``out``; as soon as a run is done, its line is kept beside the runs."""
    ran = Ran([], [])
    for group, methods in chosen_groups(exhibit, list(cells)):
        _, swept = group.experiment()
        for alike in _with_equal_settings(group, methods):
            settings: Any = {**group.settings_of(alike[0]), **(given or {})}
            numbers = list(seeds) or grid_values("seed", swept["seed"], exhibit.name)
            grid = {"method": list(alike), "seed": numbers}
            kept: dict[Path, dict[str, Any]] = {}

            def keep(
                cells: list[Cell], group: Group = group, kept: dict[Path, dict[str, Any]] = kept
            ) -> None:
                ended = [cell.folder for cell in cells if cell.status == "done" and cell.folder not in kept]
                if ended:
                    kept |= {folder: line_of(folder, group) for folder in ended}
                    keep_lines(out, [kept[folder] for folder in ended])
                tell(cells)

            done = sweep(grid, out / folder_name(group.name), processes=processes, tell=keep, **settings)
            ran.lines.extend(kept[cell.folder] for cell in done if cell.folder in kept)
            ran.failed.extend((group.name, cell) for cell in done if cell.status == "failed")
    return ran


def make_kept_rows(exhibit: Exhibit, wanted: Wanted) -> list[dict[str, Any]]:
    """The lines of an exhibit's own rows, kept beside its runs; they say what was changed in the runs they are of."""
    changed = {} if exhibit.groups or wanted.rounds is None else {"rounds": wanted.rounds}
    kept = read_kept(wanted.runs, exhibit.name)
    for group in exhibit.groups:
        for line in kept:
            if line["group"] == group.name and line["method"] in group.methods:
                changed |= changed_settings(line, group)
    made = make_rows(exhibit, wanted)
    lines = [line | {"setting": changed} for line in made] if changed else made
    keep_lines(wanted.runs, lines)
    return lines


def keep_lines(out: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write lines of results beside the runs; those of other cells that stand there already stay."""
    kept = merge_lines(read_kept(out), lines)
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / RESULTS, "".join(json.dumps(line) + "\n" for line in kept))


def read_kept(out: Path, exhibit: str = "") -> list[dict[str, Any]]:
    """The lines of results that lie in a folder: of one exhibit, or of all where none is named."""
    file = out / RESULTS
    lines = read_results(file) if file.exists() else []
    return [line for line in lines if not exhibit or line["exhibit"] == exhibit]


def merge_lines(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """All lines; of a run that is there twice the newer, and of a method in a group only one kind of seeds."""

    def method(line: Mapping[str, Any]) -> tuple[Any, ...]:
        return line["exhibit"], line["group"], line["method"]

    runs = {(*method(line), line.get("seed")) for line in new}
    seeded = {method(line) for line in new if line.get("seed") is not None}
    return [
        line
        for line in old
        if (*method(line), line.get("seed")) not in runs
        and not (line.get("seed") is None and method(line) in seeded)
    ] + list(new)


def _with_equal_settings(group: Group, methods: Sequence[str]) -> list[tuple[str, ...]]:
    """Methods that share their settings, together."""
    found: dict[str, list[str]] = {}
    for method in methods:
        found.setdefault(json.dumps(group.differs.get(method, {}), sort_keys=True), []).append(method)
    return [tuple(alike) for alike in found.values()]


def line_of(folder: Path, group: Group) -> dict[str, Any]:
    """What is kept of a run: a line of a few kilobytes."""
    kept, spec, _ = read_folder(folder)
    result = kept.result
    judged = [line for line in kept.lines if line.get("global_test_accuracy") is not None]
    changed = spec.changed()
    best = {"accuracy": result["best"]["accuracy"], "round": result["best"]["round"]}
    curve = [round(line["global_test_accuracy"], 4) for line in judged]
    # where the last model alone is calibrated, rounds before it are another method's
    whole = all(part.due(last=False) for part in Method.parse(spec.method).calibrate)
    return {
        "exhibit": group.exhibit,
        "group": group.name,
        "method": spec.method,
        "seed": spec.seed,
        "setting": {name: changed[name] for name in KEPT if name in changed},
        **({"best": best} if whole else {}),
        "final": {"accuracy": result["final"]["accuracy"], "round": result["final"]["round"]},
        "final_loss": result["final_loss"],
        "judged_every": spec.evaluate,
        **({"accuracy": curve} if whole else {}),
        **{name: result["totals"][name] for name in ("bytes_down", "bytes_up", "bytes_peer", "sample_steps")},
        **{name: result["skew"][name] for name in ("emd", "sparsity", "scarcity")},
        "version": __version__,
        "device": result["data"]["device"],
        "seconds": round(result["totals"]["wall_s"], 1),
        "origin": "the run's log",
    }


def run_quick(exhibit: Exhibit, watch: Watch = ()) -> list[dict[str, Any]]:
    """One tiny cell, its base and its method: that the exhibit still runs, not what comes out."""
    from unskew.runs.running import run

    told: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for group in exhibit.groups[:1]:
            cell = group.cells[-1] if group.cells and not exhibit.makes else None
            for method in (cell.over, cell.method) if cell else group.methods[-1:]:
                small = method
                for layer in ("conv1", "conv2", "block0"):  # of models that the digits are too small for
                    small = small.replace(f"flea({layer}", "flea(dense1")
                settings: Any = {**group.settings_of(method), **QUICK, "method": small, "seed": 0}
                if "phase_shift" in small:
                    settings |= {"cohort": 10}
                if exhibit.makes:  # it reads the run's folder
                    settings |= {"out": Path(place) / "run", "keep": (1,)}
                ran = run(progress=False, watch=watch, **settings)
                line = {"exhibit": exhibit.name, "group": group.name, "method": method}
                told.append(line | ran.result["final"])
        if exhibit.makes:
            wanted = Wanted(Path(place), quick=True, rounds=1, options=exhibit.options, watch=watch)
            rows = make_rows(exhibit, wanted)
            told.append({"exhibit": exhibit.name, "rows": len(rows)})
    return told
