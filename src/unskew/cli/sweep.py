"""``unskew sweep``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.cli import app
from unskew.cli.options import Json
from unskew.cli.settings import effective, with_settings
from unskew.progress import tell_columns


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
    processes: Annotated[int, typer.Option("--processes", "-j", help="Runs at a time.")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and stop.")] = False,
    as_json: Json = False,
    **settings: Any,
) -> int:
    """Run a grid: what is done is skipped, what was stopped goes on, a failed cell does not stop the rest."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unskew.sweep import cells, table
    from unskew.sweep import sweep as start

    spec, grid = effective(experiment, settings)
    swept = {
        name for name in grid if settings.get(name) in (None, [])
    }  # a flag overrules a swept setting too
    grid = {name: values for name, values in grid.items() if name in swept}
    fixed = {k: v for k, v in spec.as_dict().items() if k not in grid}
    folder = out or Path("runs") / experiment.stem
    if dry_run:
        planned = [cell.name for cell in cells(fixed, grid, folder)]
        typer.echo(json.dumps({"cells": planned, "folder": str(folder)}) if as_json else "\n".join(planned))
        return 0
    done = start(grid, folder, processes=processes, tell=Teller(not as_json), **fixed)
    rows = table(done)
    if as_json:
        typer.echo(json.dumps({"cells": rows, "folder": str(folder)}))
    else:
        shown = Table("cell", "status", "final", "best", box=None, padding=(0, 2, 0, 0))
        for row in rows:
            numbers = [f"{row[k]:.4f}" if row[k] is not None else "-" for k in ("final", "best")]
            shown.add_row(escape(row["cell"]), row["status"], *numbers)
        for about in tables_of(done):
            tell_columns(about)
        console = Console()
        console.print(shown)
        for row in rows:
            if row["error"]:
                told = f"[red]{escape(row['cell'])}[/]: {escape(row['error'])}"
                console.print(told, soft_wrap=True, highlight=False)
        following = escape(f"unskew report {shlex.quote(str(folder))}")
        console.print(f"next: {following}", soft_wrap=True, highlight=False)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


def tables_of(done: list[Any]) -> list[dict[str, Any]]:
    """What the runs tell of their tables' columns, each different one once."""
    found: list[dict[str, Any]] = []
    for cell in done:
        about = {"table": cell.result.get("data", {}).get("table")}
        if about["table"] is not None and about not in found:
            found.append(about)
    return found


class Teller:
    """Says on stderr how far the sweep is, when that changes."""

    def __init__(self, speaks: bool):
        self.speaks, self.last = speaks, ""

    def __call__(self, todo: list[Any]) -> None:
        states = [cell.status for cell in todo]
        line = f"{states.count('done')} of {len(todo)} done, {states.count('running')} running"
        line += f", {states.count('failed')} failed" if "failed" in states else ""
        if self.speaks and line != self.last:
            typer.echo(line, err=True)
            self.last = line
