"""``unskew cell``: one run of a sweep, in a process of its own; the sweep writes its spec file and starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.app import app
from unskew.cli.run import hint_when_interrupted
from unskew.cli.stopping import HeedStop
from unskew.garbage import garbage_put_off


@app.command(hidden=True)
def cell(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The spec file that the sweep has written.")],
) -> None:
    """Begin a cell of a sweep, or go on with it where it has begun."""
    with garbage_put_off():
        from unskew.runs.cell_file import Listening, read_cell
        from unskew.runs.running import resume, run

    spec, folder, renewed = read_cell(file)
    watch = [Listening(file), HeedStop()]
    with hint_when_interrupted(folder):
        if (folder / "spec.json").exists():
            resume(folder, progress=False, watch=watch, **renewed)
        else:
            run(spec, out=folder, progress=False, watch=watch)
