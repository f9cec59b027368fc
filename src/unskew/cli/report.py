"""``unskew report``: runs beside one another, in a page, a figure or a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli import app, completion, options


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders, or folders that hold run folders at any depth."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to write; default: report.html."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="METHOD",
            help="What others are compared with; default: fedavg.",
            autocompletion=completion.methods,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="html|png|svg|pdf|csv|latex",
            help="The page, the figure or the table; default: by the file's ending.",
            autocompletion=completion.one_of("html", "png", "svg", "pdf", "csv", "latex"),
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="A title of your own for the page.")] = None,
    as_json: options.Json = False,
) -> None:
    """Compare runs over seeds: what won, by how much, how sure, at what cost."""
    from unskew.report.results.comparison import compare
    from unskew.report.results.terminal import show
    from unskew.report.results.write import save, target

    place, kind = target(runs, out, format)
    compared = compare(runs, baseline)
    save(compared, place, kind, title)
    if as_json:
        typer.echo(json.dumps(compared.as_dict() | {"report": str(place)}))
        return
    console = Console()
    show(compared, console)
    console.print(f"\nreport written to [bold]{escape(str(place))}[/]", soft_wrap=True)
