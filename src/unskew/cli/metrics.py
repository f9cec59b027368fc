"""``unskew metrics``: what a model may be judged by."""

from __future__ import annotations

import json

import typer

from unskew.cli.app import app
from unskew.cli.options import Json


@app.command()
def metrics(as_json: Json = False) -> None:
    """List what a model may be judged by; the first that `--metrics` names is what runs are ranked by."""
    from rich.console import Console
    from rich.table import Table

    from unskew.readings import METRICS

    if as_json:
        told = {
            name: {"key": one.key, "help": one.help, "larger_is_better": one.larger_is_better}
            for name, one in METRICS.items()
        }
        typer.echo(json.dumps(told))
        return
    console = Console()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    for name, one in METRICS.items():
        table.add_row(name, one.help)
    console.print(table)
    console.print(
        '\nchoose some by metrics = \\["macro_f1", "accuracy"] in an experiment file, or --metrics macro_f1; one of '
        'your own in Python: unskew.run(..., metrics={"name": function})',
        highlight=False,
    )
