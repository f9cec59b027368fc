"""``unskew report``: runs beside one another, in a page, a figure or a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli import completion, options
from unskew.cli.app import app
from unskew.errors import InputError
from unskew.readings import METRICS


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
    target: Annotated[
        list[float] | None,
        typer.Option(
            "--target",
            metavar="X",
            help="Tell what it cost to reach this accuracy, or value of the first metric; may be repeated.",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            metavar="NAME",
            help="Tell these, and go by the first; default: what the runs name. May be repeated.",
            autocompletion=completion.one_of(*METRICS),
        ),
    ] = None,
    spread: Annotated[
        str,
        typer.Option(
            "--spread", metavar="ci|sd", help="What ± is: half the 95% interval, or the standard deviation."
        ),
    ] = "ci",
    method_label: Annotated[
        list[str] | None,
        typer.Option(
            "--method-label",
            "--label",
            metavar="METHOD=TEXT",
            help="What a method is called in the report; may be repeated.",
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            "--width", metavar="W", help="Of a figure: pixels, or with a unit such as 84mm or 3.3in."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare runs over seeds: what won, by how much, how sure, at what cost."""
    from unskew.report.results.comparison import compare
    from unskew.report.results.terminal import show
    from unskew.report.results.write import destination, pixels, save

    place, kind = destination(runs, out, format)
    wide = pixels(width, kind) if width is not None else None
    compared = compare(
        runs,
        baseline,
        target=target or (),
        spread=spread,  # type: ignore[arg-type]
        labels=_labels(method_label or []),
        metrics=metrics or (),
    )
    save(compared, place, kind, title, wide)
    if as_json:
        typer.echo(json.dumps(compared.as_dict() | {"report": str(place)}))
        return
    console = Console()
    show(compared, console)
    console.print(f"\nreport written to [bold]{escape(str(place))}[/]", soft_wrap=True)


def _labels(given: list[str]) -> dict[str, str]:
    """METHOD=TEXT, where a method's own values have = in their brackets."""
    labels: dict[str, str] = {}
    for text in given:
        method, equals, label = _outside_brackets(text)
        if not equals or not method.strip() or not label.strip():
            raise InputError(
                f"--label {text!r} is not METHOD=TEXT; write e.g. --label 'fedprox(mu=0.1)=FedProx'"
            )
        labels[method.strip()] = label.strip()
    return labels


def _outside_brackets(text: str) -> tuple[str, str, str]:
    """Split at the first = that is in no brackets."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "=" and depth == 0:
            return text[:at], "=", text[at + 1 :]
    return text, "", ""
