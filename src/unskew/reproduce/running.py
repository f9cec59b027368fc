"""Run what is missing of an exhibit: a sweep a group, so that what is done is skipped and what was stopped goes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew.files import write_file
from unskew.reproduce.exhibit import Exhibit, Group, chosen_groups
from unskew.reproduce.making import Wanted, make_rows
from unskew.runs.experiment_file import grid_values
from unskew.runs.folder import read_folder
from unskew.runs.sweep import Cell, folder_name, sweep
from unskew.version import __version__

RESULTS = "results.jsonl"
KEPT = (
    "dataset",
    "partition",
    "partition_seed",
    "fraction",
    "min_samples",
    "clients",
    "cohort",
    "model",
    "epochs",
    "steps",
    "batch",
    "lr",
    "optimizer",
    "momentum",
    "weight_decay",
    "decay",
    "crop",
    "flip",
    "pixels",
    "rounds",
    "evaluate",
    "network",
    "precision",
    "compile",
)
"""The settings that a line of results tells, where they differ from the defaults."""

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


def run_exhibit(
    exhibit: Exhibit,
    out: Path,
    cells: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (),
    processes: int | None = None,
    tell: Callable[[list[Cell]], None] = lambda cells: None,
) -> list[dict[str, Any]]:
    """Run what is missing below ``out`` and give every line of results that is there then; they are written beside the
    runs as well."""
    lines: list[dict[str, Any]] = []
    for group, methods in chosen_groups(exhibit, list(cells)):
        _, swept = group.experiment()
        for alike in _with_equal_settings(group, methods):
            settings: Any = {**group.settings_of(alike[0]), **(given or {})}
            numbers = list(seeds) or grid_values("seed", swept["seed"], exhibit.name)
            grid = {"method": list(alike), "seed": numbers}
            place = out / folder_name(group.name)
            done = sweep(grid, place, processes=processes, tell=tell, **settings)
            lines += [line_of(cell.folder, group) for cell in done if cell.status == "done"]
    keep_lines(out, lines)
    return lines


def keep_lines(out: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write lines of results beside the runs; those of other cells that stand there already stay."""
    kept = merge_lines(read_kept(out), lines)
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / RESULTS, "".join(json.dumps(line) + "\n" for line in kept))


def read_kept(out: Path) -> list[dict[str, Any]]:
    """The lines of results that lie in an exhibit's folder."""
    file = out / RESULTS
    return [json.loads(text) for text in file.read_text("utf-8").splitlines()] if file.exists() else []


def merge_lines(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """All lines; of a run that is there twice the newer, and of a method in a group only one kind of seeds."""
    runs = {(line["group"], line["method"], line.get("seed")) for line in new}
    seeded = {(line["group"], line["method"]) for line in new if line.get("seed") is not None}
    return [
        line
        for line in old
        if (line["group"], line["method"], line.get("seed")) not in runs
        and not (line.get("seed") is None and (line["group"], line["method"]) in seeded)
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
    return {
        "exhibit": group.exhibit,
        "group": group.name,
        "method": spec.method,
        "seed": spec.seed,
        "setting": {name: changed[name] for name in KEPT if name in changed},
        "best": {"accuracy": result["best"]["accuracy"], "round": result["best"]["round"]},
        "final": {"accuracy": result["final"]["accuracy"], "round": result["final"]["round"]},
        "final_loss": result["final_loss"],
        "judged_every": spec.evaluate,
        "accuracy": [round(line["global_test_accuracy"], 4) for line in judged],
        **{name: result["totals"][name] for name in ("bytes_down", "bytes_up", "bytes_peer", "sample_steps")},
        **{name: result["skew"][name] for name in ("emd", "sparsity", "scarcity")},
        "version": __version__,
        "device": result["data"]["device"],
        "seconds": round(result["totals"]["wall_s"], 1),
        "origin": "the run's log",
    }


def run_quick(exhibit: Exhibit) -> list[dict[str, Any]]:
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
                ran = run(progress=False, **settings)
                line = {"exhibit": exhibit.name, "group": group.name, "method": method}
                told.append(line | ran.result["final"])
        if exhibit.makes:
            rows = make_rows(exhibit, Wanted(Path(place), quick=True, rounds=1, options=exhibit.options))
            told.append({"exhibit": exhibit.name, "rows": len(rows)})
    return told
