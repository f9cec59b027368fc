"""``unskew export``: a run's model as a file that others can use without unskew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from unskew.cli.app import app
from unskew.cli.options import Json


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            show_default=False,
            help="model.safetensors (weights), model.pt2 (torch.export) or model.onnx.",
        ),
    ],
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="NAME", help="This client's own model (runs of local_only)."),
    ] = None,
    round: Annotated[
        int | None,
        typer.Option(
            "--round", metavar="N", help="The model of this round, of those that the run kept (--keep)."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's model to a file, with its labels and its normalisation, for use without unskew."""
    from unskew.runs.saved_model import load_run

    found = load_run(run)
    whose: int | str | None = client
    if client is not None and re.fullmatch(r"\d{1,15}", client) and client not in (found.names or ()):
        whose = int(client)
    if not as_json and not found.done:
        typer.echo(f"{run}: {found.told}", err=True)
    place = found.save(out, client=whose, round=round)
    size, inputs, outputs = place.stat().st_size, found.intake.takes, len(found.labels)
    if as_json:
        typer.echo(
            json.dumps({"run": str(run), "saved": str(place), "bytes": size, "labels": list(found.labels)})
        )
    else:
        typer.echo(f"written to {place}: {inputs} in, {outputs} logits out")
