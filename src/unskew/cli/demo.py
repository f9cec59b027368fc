"""``unskew demo``: the main job on the data set that comes with unskew, ending in a table and a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli import app, options
from unskew.errors import InputError


@app.command()
def demo(
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FOLDER", help="Where the reports go.")
    ] = "unskew-demo",
    seed: options.Seed = 0,
) -> None:
    """Show what unskew does, on data that comes with it; ends with a table and a report."""
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{output!r} is a file; name a folder for the reports")
    if not folder.parent.is_dir():
        raise InputError(f"the folder {str(folder.parent)!r} does not exist; make it or write elsewhere")
    folder.mkdir(exist_ok=True)
    console = Console()
    reports = [part(folder, seed, console) for part in SHOWN]
    console.print(
        "\nopen " + ", ".join(f"[bold]{escape(str(report))}[/]" for report in reports), soft_wrap=True
    )


def _diagnosis(folder: Path, seed: int, console: Console) -> Path:
    """Scarce digits over 50 clients, as skewed as SEM's hardest setting."""
    from unskew.data import load
    from unskew.data.partition import partition
    from unskew.report.diagnosis import diagnose
    from unskew.report.diagnosis_page import save_diagnosis
    from unskew.report.terminal import show

    digits = load("digits")
    part = partition(digits, "dirichlet(0.1)", clients=50, seed=seed, fraction=0.5)
    found = diagnose(
        part.counts,
        data=digits.name,
        about=options.about(digits, part),
        labels=digits.labels,
        record=part.record,
    )
    show(found, console)
    report = folder / "diagnosis.html"
    save_diagnosis(found, report)
    return report


SHOWN: tuple[Callable[[Path, int, Console], Path], ...] = (_diagnosis,)
"""What the demo shows, in order; each prints its table and returns the report it wrote."""
