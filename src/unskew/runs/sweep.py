"""Many runs: a grid over any settings, several processes, finished cells skipped, a failed one on its own."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

from unskew.errors import InputError
from unskew.expression import convert
from unskew.machine.cores import cores
from unskew.notices import warn
from unskew.places import path_of
from unskew.progress import working
from unskew.readings import Reading, validation_key
from unskew.runs.cell_file import write_cell
from unskew.runs.chosen import Choice, choose_settings, method_family
from unskew.runs.describe import description
from unskew.runs.experiment_file import MOST_CELLS, grid_values
from unskew.runs.folder import read_folder, reason
from unskew.runs.fork_server import Stable, stable
from unskew.runs.judged_by import chosen
from unskew.runs.settings import AllSettings
from unskew.runs.spec import FREE, MOVED, STOPPING, Spec, UnsaidNumber
from unskew.runs.sweep_watch import CellWatch, check_watch, watchers_of
from unskew.runs.watchers import Watch


@dataclass
class Cell:
    """One run of a sweep."""

    name: str
    spec: Spec
    folder: Path
    status: str = "waiting"  # waiting, running, done, failed, stopped
    error: str = ""
    known: int = 0  # rounds that were played before this sweep
    played: int = 0  # rounds that are in its log
    seconds: float = 0.0  # for which it has run in this sweep
    renewed: dict[str, Any] = field(default_factory=dict)  # what a resume of it changes
    began: float = 0.0
    bytes_read: int = 0  # of its log

    @property
    def result(self) -> dict[str, Any]:
        return read_folder(self.folder)[0].result if self.begun else {}

    @property
    def begun(self) -> bool:
        return (self.folder / "spec.json").exists()

    def write_file(self, file: Path) -> None:
        """Write what the cell's process is handed."""
        write_cell(file, self.spec, self.folder, self.renewed)

    def begin(self) -> None:
        self.status, self.began, self.bytes_read = "running", time.monotonic(), 0

    def look(self) -> None:
        """See how far it is."""
        self.seconds = time.monotonic() - self.began
        with contextlib.suppress(OSError), open(self.folder / "rounds.jsonl", "rb") as log:
            # a resume may have shortened it
            if not self.bytes_read or log.seek(0, os.SEEK_END) < self.bytes_read:
                self.bytes_read = self.played = 0
            log.seek(self.bytes_read)
            further = log.read()
            self.bytes_read += len(further)
            self.played += further.count(b"\n")

    def end(self, code: int, said: str) -> None:
        self.look()
        self.status, self.error = ("done", "") if code == 0 else ("failed", said)


def cells(settings: Mapping[str, Any], grid: Mapping[str, Any], out: Path) -> list[Cell]:
    """Every combination of the grid's values, each with a folder named by them."""
    if not grid:
        raise InputError('there is nothing to sweep; give values, e.g. [sweep] with seed = "0-4"')
    values = [
        [(name, v) for v in grid_values(name, given, f"[sweep] {name}")] for name, given in grid.items()
    ]
    if (count := math.prod(map(len, values))) > MOST_CELLS:
        raise InputError(
            f"these values make {count:,} runs, and a sweep has at most {MOST_CELLS:,}; sweep fewer"
        )
    made: list[Cell] = []
    known: dict[Path | Spec, Cell] = {}  # by folder, and by what is run in it: 1 and 1.0 are one seed
    for combination in itertools.product(*values):
        chosen = {k: tuple(v) if isinstance(v, list) else v for k, v in combination}
        name = ",".join(f"{k}={v}" for k, v in chosen.items())
        folder = out / folder_name(name)
        spec = Spec.of({**settings, **chosen}, f"cell {name}")
        cell = Cell(name, spec, folder)
        for key in (folder, spec):
            if (twin := known.setdefault(key, cell)) is not cell:
                raise InputError(f"the cells {twin.name} and {name} are the same; sweep each value once")
        made.append(cell)
    return made


LONGEST_NAME = 255
"""Bytes that a folder's name may have on the usual file systems."""


def folder_name(cell: str) -> str:
    """The name of a cell's folder; one that is too long ends in a hash of the whole."""
    name = re.sub(r"[^A-Za-z0-9.,=+()-]+", "_", cell)
    if len(name) <= LONGEST_NAME:
        return name
    ending = "-" + hashlib.sha256(cell.encode()).hexdigest()[:12]
    return name[: LONGEST_NAME - len(ending)] + ending


def sweep(
    grid: Mapping[str, Any],
    out: str | Path,
    *,
    processes: int | None = None,
    on: Literal["here", "ray"] = "here",
    tell: Callable[[list[Cell]], None] = lambda cells: None,
    watch: Callable[[Cell], Watch] | None = None,
    **settings: Unpack[AllSettings],
) -> list[Cell]:
    """Run every cell in a process of its own; what is done is skipped, what was stopped goes on.

    Each run gets its share of the cores. Neither that nor the number of processes changes anything but the time.
    ``on="ray"``: over the nodes of a Ray cluster, the one at ``ray`` or one of its own. ``watch`` is a function that
    gives each cell that runs its watchers (``Watcher``), which live here: ``watch=lambda cell: Tracker(cell.name)``.
    """
    if not isinstance(grid, Mapping):
        raise InputError(f'a grid is a dictionary of settings, such as {{"seed": "0-4"}}, not {grid!r}')
    if on not in ("here", "ray"):
        raise InputError(f'on is "here" or "ray", not {on!r}')
    out = path_of(out, "out", "folder's path")
    check_watch(watch)
    watched: dict[int, CellWatch] = {}
    address = settings.pop("ray", None) if on == "ray" else None
    at_a_time = allowed(processes) if on == "here" else 1
    for given in (settings.get("dataset", ""), *grid.get("dataset", ())):
        if not isinstance(given, (str, os.PathLike)):
            raise InputError(
                "the runs of a sweep are processes of their own, so dataset is a data set's name or a path, not a "
                f"{type(given).__name__}; write a loop of unskew.run(dataset=..., seed=...) instead"
            )
    todo = plan_cells(settings, grid, out)
    waiting = [cell for cell in todo if cell.status == "waiting"]
    if not waiting:
        tell(todo)
        return todo
    runs: Stable
    if on == "ray":
        from unskew.runs.on_ray import OnRay

        _check_words(waiting)
        gpus = any(cell.spec.device != "cpu" for cell in waiting)
        runs = over = OnRay(address, out, processes, gpus)
        at_a_time = over.at_a_time
    else:
        runs = stable()  # it loads torch meanwhile
    try:
        _check_words(waiting)
        running: dict[int, Cell] = {}
        while waiting or running:
            while waiting and len(running) < at_a_time:
                cell = waiting.pop(0)
                side_by_side = min(at_a_time, len(running) + len(waiting) + 1)
                running[number := todo.index(cell)] = cell
                cell.begin()
                if watch is not None:
                    watchers = watchers_of(watch, cell)
                    watched[number] = CellWatch(cell, watchers, partial(runs.stop, number))
                runs.start(number, cell.write_file, max(1, cores() // side_by_side))
            tell(todo)
            for number, code, said in runs.ended(patience=0.2):
                running.pop(number).end(code, said)
                if number in watched:
                    watched.pop(number).end()
            for number, cell in running.items():
                cell.look()
                if number in watched:
                    watched[number].look()
        tell(todo)
    finally:
        runs.close()
        for cell in todo:
            if cell.status == "running":
                cell.look()
                cell.status = "stopped"
        for one in watched.values():
            one.end()
    return todo


def allowed(processes: int | None) -> int:
    """How many runs go side by side: two where nothing is said, and never more than there are cores."""
    there = cores()
    if processes is None:
        return min(2, there)
    processes = convert(processes, int, "processes")
    if processes < 1:
        raise InputError(f"processes must be at least 1, not {processes}")
    if processes > there:
        warn(
            f"{processes:,} runs at a time are more than the {there} core{'s' if there > 1 else ''} here, and would "
            f"only wait for each other; {there} at a time",
            stacklevel=3,
        )
    return min(processes, there)


def plan_cells(settings: Mapping[str, Any], grid: Mapping[str, Any], out: Path) -> list[Cell]:
    """The cells of a sweep, those marked that are done or cannot be read; a place that cannot be its own is refused."""
    try:
        if (out / "spec.json").exists():
            raise InputError(
                f"{out} is a run itself, and a sweep needs a folder for its runs; choose another, such as {out}-sweep"
            )
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is a file; name a folder for the sweep")
    except OSError as problem:
        raise InputError(
            f"no sweep can be written to {out} ({reason(problem)}); choose another folder"
        ) from None
    todo = cells(settings, grid, out)
    for cell in todo:
        _mark(cell)
    return todo


def rehearse(todo: list[Cell]) -> None:
    """Try all that the waiting cells do before they train: data read and dealt, parts checked, folders free.

    A cell that could not run is marked as failed, with the sentence that it would fail with.
    """
    from unskew.data.load import read_once
    from unskew.runs import rehearsal
    from unskew.runs.folder import check_folder

    waiting = [cell for cell in todo if cell.status == "waiting"]
    _check_words(waiting)
    with read_once(), working("checking cells", len(waiting)) as advance:
        for cell in waiting:
            try:
                if not cell.begun:
                    check_folder(cell.folder)
                rehearsal.rehearse(cell.spec)
            except InputError as problem:
                cell.status, cell.error = "failed", f"error: {problem}"
            advance(1)


def seconds_left(todo: list[Cell], at_a_time: int) -> float | None:
    """About how long it still takes, by the pace of the runs so far; None before the first round.

    A cell that has not begun is as fast as those of its method, else as all.
    """
    paced = [cell for cell in todo if cell.seconds and cell.played > cell.known]
    if not paced:
        return None
    paces = {id(cell): cell.seconds / (cell.played - cell.known) for cell in paced}
    overall = sum(paces.values()) / len(paces)
    left = []
    for cell in todo:
        if cell.status not in ("waiting", "running"):
            continue
        alike = [paces[id(other)] for other in paced if other.spec.method == cell.spec.method]
        pace = paces.get(id(cell)) or (sum(alike) / len(alike) if alike else overall)
        left.append(pace * max(0, cell.spec.rounds - cell.played))
    return max([sum(left) / at_a_time, *left], default=0.0)


def _check_words(waiting: list[Cell]) -> None:
    """What no cell could do is refused before the first starts."""
    from unskew.runs.checks import check_words  # a list of cells that are done needs no parts

    for cell in waiting:
        try:
            check_words(cell.spec)
        except InputError as problem:
            raise InputError(f"cell {cell.name}: {problem}") from None


def _mark(cell: Cell) -> None:
    """Mark a cell that is done, or that cannot be read; refuse a folder that holds something else."""
    if not cell.begun:
        return
    try:
        folder, spec, _ = read_folder(cell.folder)
    except InputError as problem:
        cell.status, cell.error = "failed", f"error: {problem}"
        return
    for name, value in cell.spec.as_dict().items():
        if (had := getattr(spec, name)) != value:
            if isinstance(value, UnsaidNumber) and had < value:
                continue  # nobody wrote it, and it gave way to the data
            if name in STOPPING:  # a run that has ended by another rule may go on
                cell.renewed[name] = value
                continue
            if name in FREE and name not in ("rounds", *MOVED):
                if value != Spec.__dataclass_fields__[name].default:  # else what the run has will do
                    cell.renewed[name] = value
                continue
            raise InputError(
                f"{cell.folder} was run with {name} = {had!r}, not {value!r}; choose another --out"
            )
    cell.known = cell.played = len(folder.lines)
    goes_on = "stopped" in folder.result and any(name in cell.renewed for name in STOPPING)
    if folder.is_done and not folder.damage and not goes_on:
        cell.status = "done"


def choices(done: list[Cell], grid: Mapping[str, Any]) -> list[Choice]:
    """The settings that the sweep speaks for, of each method on each data; none where only seeds were swept."""
    problem = [name for name in grid if description(Spec, name).own_problem]
    free = [n for n in grid if n not in (*problem, "seed", "method_label")]
    tried: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    first: dict[str, Reading] = {}
    for cell in done:
        settings = {name: getattr(cell.spec, name) for name in (*problem, *free)}
        family = method_family(cell.spec.method)
        of = ", ".join([family, *(f"{name}={settings[name]}" for name in problem)])
        here = ", ".join(
            f"{name}={settings[name]}" for name in free if name != "method" or cell.spec.method != family
        )
        seeds = tried.setdefault(of, {}).setdefault(here or cell.spec.method, {})
        if cell.status == "done" and "best" in (result := cell.result):
            first.setdefault(of, chosen(cell.spec.metrics, result.get("data", {}))[0])
            seeds[cell.spec.seed] = result["best"]
    found = []
    for of, settings_tried in tried.items():
        most = max(map(len, settings_tried.values()))
        whole = {name: list(seeds.values()) for name, seeds in settings_tried.items() if len(seeds) == most}
        if most and (choice := choose_settings(of, whole, first[of])) is not None:
            found.append(choice)
    return found


def table(done: list[Cell]) -> list[dict[str, Any]]:
    """One row a cell: what it was, how it ended, what came out."""
    rows = []
    for cell in done:
        result = cell.result if cell.status == "done" else {}
        first, *others = chosen(cell.spec.metrics, result.get("data", {}))
        final, best = result.get("final", {}), result.get("best", {})
        rows.append(
            {
                "cell": cell.name,
                "status": cell.status,
                "stopped": result.get("stopped", {}).get("said"),
                "metric": first.name,
                "final": final.get(first.name),
                "best": best.get(first.name),
                "best_chosen_on": best.get("chosen_on"),
                "validation": best.get(validation_key(first.key)),
                **({"also": {r.name: final.get(r.name) for r in others}} if result else {}),
                "error": cell.error,
                "folder": str(cell.folder),
            }
        )
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]
