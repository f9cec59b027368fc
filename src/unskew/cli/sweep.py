"""``unskew sweep``."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.cli.settings import effective, setting_flags, with_settings, written
from unskew.cli.stopping import HeedStop, Interrupted
from unskew.progress import tell_columns

if TYPE_CHECKING:
    from unskew.runs.sweep import Cell


class Where(StrEnum):
    """Where the runs of a sweep go."""

    here = "here"
    ray = "ray"
    slurm = "slurm"


@app.command()
@with_settings
def sweep(
    experiment: Annotated[
        Path,
        typer.Argument(metavar="EXPERIMENT.toml", help=r"Settings, and a \[sweep] table of lists or ranges."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where the runs go; default: runs/<file>."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", "-j", help="Runs at a time; default: 2, at most one a core.", show_default=False
        ),
    ] = None,
    on: Annotated[
        Where,
        typer.Option(
            "--on", help="Where the runs go: here, ray (a cluster, see --ray), or slurm (one array job)."
        ),
    ] = Where.here,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check every cell as a run would, list them (slurm: show the script) and stop."
        ),
    ] = False,
    as_json: Json = False,
    **settings: Any,
) -> int:
    """Run a grid: what is done is skipped, what was stopped goes on, a failed cell does not stop the rest."""
    folder = out or Path("runs") / experiment.stem
    teller = Teller(not as_json)
    try:
        return _swept(experiment, folder, processes, on, settings, teller, dry_run, as_json)
    except KeyboardInterrupt:
        given = ["--out", str(folder), *(["-j", str(processes)] if processes else [])]
        given += ["--on", on.value] if on != Where.here else []
        again = shlex.join(["unskew", "sweep", str(experiment), *given, *setting_flags(written(settings))])
        typer.echo(
            "interrupted" if dry_run else f"interrupted: {teller.so_far()}; go on by `{again}`", err=True
        )
        raise Interrupted from None


def _swept(
    experiment: Path,
    folder: Path,
    processes: int | None,
    on: Where,
    settings: dict[str, Any],
    teller: Teller,
    dry_run: bool,
    as_json: bool,
) -> int:
    from unskew.runs.sweep import allowed, plan_cells, rehearse
    from unskew.runs.sweep import sweep as start

    spec, grid = effective(experiment, settings)
    # a flag overrules a swept setting too
    grid = {name: values for name, values in grid.items() if settings.get(name) in (None, [])}
    fixed: Any = {k: v for k, v in spec.as_dict().items() if k not in grid}
    address = fixed.pop("ray", None) if on == Where.ray else None
    at_a_time = allowed(processes) if on == Where.here else processes
    teller.at_a_time = at_a_time or 1
    if dry_run or on == Where.slurm:
        cells = plan_cells(fixed, grid, folder)
        rehearse(cells)
        if on == Where.slurm:
            return _by_slurm(cells, folder, processes, dry_run, as_json)
        return _listed(cells, folder, as_json)
    with teller:
        over: Any = {"on": "ray", "ray": address} if on == Where.ray else {}
        done = start(grid, folder, processes=at_a_time, tell=teller, **over, **fixed)
    return _shown(done, grid, folder, as_json)


def _listed(cells: list[Cell], folder: Path, as_json: bool) -> int:
    """What a sweep would do; the exit code is the sweep's."""
    failed = {cell.name: cell.error.removeprefix("error: ") for cell in cells if cell.status == "failed"}
    if as_json:
        states = {cell.name: cell.status for cell in cells}
        told = {"cells": list(states), "folder": str(folder), "status": states, "errors": failed}
        typer.echo(json.dumps(told))
    else:
        for cell in cells:
            rest = f", goes on after round {cell.played}" if cell.played and cell.status == "waiting" else ""
            typer.echo(cell.name + (", done" if cell.status == "done" else rest))
        for name, problem in failed.items():
            typer.echo(f"error: cell {name}: {problem}", err=True)
    return 1 if failed else 0


def _by_slurm(cells: list[Cell], folder: Path, processes: int | None, dry_run: bool, as_json: bool) -> int:
    """Submit what waits as one array job, or show its script."""
    from unskew.runs.on_slurm import slurm_script, submit

    failed = {cell.name: cell.error.removeprefix("error: ") for cell in cells if cell.status == "failed"}
    for name, problem in failed.items():
        typer.echo(f"error: cell {name}: {problem}", err=True)
    waiting = [cell for cell in cells if cell.status == "waiting"]
    told: dict[str, Any] = {"waiting": [cell.name for cell in waiting], "folder": str(folder)}
    if not waiting:
        said = "nothing is left to run"
    elif dry_run:
        told["script"] = said = slurm_script(waiting, folder, processes).rstrip()
    else:
        said = told["submitted"] = submit(waiting, folder, processes)
        said += f"; {len(waiting)} cells, and how far they are is listed by --dry-run without --on"
    typer.echo(json.dumps(told) if as_json else said)
    return 1 if failed else 0


def _shown(done: list[Cell], grid: dict[str, Any], folder: Path, as_json: bool) -> int:
    """What came out, in a table or as one JSON object."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unskew.runs.sweep import choices, table

    rows, chosen = table(done), choices(done, grid)
    if as_json:
        tables = [about["table"] for about in tables_of(done)]
        typer.echo(
            json.dumps(
                {
                    "cells": rows,
                    "chosen": [choice.as_dict() for choice in chosen],
                    "folder": str(folder),
                    **({"tables": tables} if tables else {}),
                }
            )
        )
    else:
        firsts = list(dict.fromkeys(row["metric"] for row in rows))
        also = list(dict.fromkeys(name for row in rows for name in row.get("also", {})))
        if not any(cell.spec.metrics for cell in done):  # all are in the log, and would not fit side by side
            also = [name for name in also if name == "balanced_accuracy"]
        shown = Table(box=None, padding=(0, 2, 0, 0))
        shown.add_column("cell", overflow="fold")
        validated = any(row["validation"] is not None for row in rows)  # what chose the best round
        for head in ("status", "final", "best", *(["validation"] if validated else []), *map(_head, also)):
            shown.add_column(head, no_wrap=True)
        for row in rows:
            values = [
                row["final"],
                row["best"],
                *([row["validation"]] if validated else []),
                *(row.get("also", {}).get(name) for name in also),
            ]
            numbers = ["-" if value is None else f"{value:.4f}" for value in values]
            ended = f"{row['status']}, stopped: {row['stopped']}" if row["stopped"] else row["status"]
            shown.add_row(escape(row["cell"]), escape(ended), *numbers)
        if firsts != ["accuracy"]:
            shown.caption = f"final and best by {', '.join(_head(name) for name in firsts)}"
            shown.caption_justify = "left"
        for about in tables_of(done):
            tell_columns(about)
        console = Console()
        console.print(shown)
        for row in rows:
            if row["error"]:
                told = f"[red]{escape(row['cell'])}[/]: {escape(row['error'])}"
                console.print(told, soft_wrap=True, highlight=False)
        for choice in chosen:
            console.print(escape(choice.in_words()), soft_wrap=True, highlight=False)
        following = escape(f"unskew report {shlex.quote(str(folder))}")
        console.print(f"next: {following}", soft_wrap=True, highlight=False)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


def _head(metric: str) -> str:
    """What a metric's column is called."""
    from unskew.readings import METRICS

    return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def tables_of(done: list[Any]) -> list[dict[str, Any]]:
    """What the runs tell of their tables' columns, each different one once."""
    found: list[dict[str, Any]] = []
    for cell in done:
        about = {"table": cell.result.get("data", {}).get("table")}
        if about["table"] is not None and about not in found:
            found.append(about)
    return found


class Teller:
    """How far a sweep is, with the time left: a bar over all rounds of all cells, or a line when that has changed."""

    def __init__(self, speaks: bool):
        from unskew.progress import is_terminal, make_bar

        self.at_a_time, self.last, self.said_at = 1, "", 0.0
        self.cells: list[Cell] = []
        self.speaks, self.bar = speaks, make_bar(left=False) if speaks and is_terminal() else None

    def __enter__(self) -> Teller:
        if self.bar is not None:
            self.task = self.bar.add_task("runs", total=None, said="")
            self.bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, cells: list[Cell]) -> None:
        from unskew.progress import duration
        from unskew.runs.sweep import seconds_left

        self.cells = cells
        HeedStop().round_ended(None)
        if not self.speaks:
            return
        states = self.counted()
        line = f"{states['done']} of {len(cells)} done"
        line += "".join(f", {states[name]} {name}" for name in ("running", "failed") if states[name])
        left = seconds_left(cells, self.at_a_time)
        if self.bar is not None:
            lasting = [cell for cell in cells if cell.status != "failed"]
            rounds = sum(c.spec.rounds for c in lasting)
            # who stopped early has nothing left to do
            played = sum(c.spec.rounds if c.status == "done" else c.played for c in lasting)
            about = "" if left is None else f", about {duration(left)} left"
            self.bar.update(self.task, completed=played, total=rounds, said=f"rounds, {line}{about}")
        elif line != self.last or time.monotonic() - self.said_at >= 60:
            self.last, self.said_at = line, time.monotonic()
            about = "" if left is None or not states["running"] else f", about {duration(left)} left"
            typer.echo(line + about, err=True)

    def counted(self) -> Counter[str]:
        return Counter(cell.status for cell in self.cells)

    def so_far(self) -> str:
        """What was done, in words."""
        if not self.cells:
            return "no run had begun"
        states = self.counted()
        begun = sum(cell.begun for cell in self.cells if cell.status == "stopped")
        waiting = states["waiting"] + states["stopped"] - begun
        words = [f"{states['done']} of {len(self.cells)} runs are done"]
        words += [f"{begun} stopped and saved"] if begun else []
        words += [f"{states['failed']} failed"] if states["failed"] else []
        words += [f"{waiting} not begun"] if waiting else []
        return ", ".join(words)
