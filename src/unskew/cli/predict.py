"""``unskew predict``: a run's model on a table, pictures or arrays."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.errors import InputError
from unskew.places import refuse_replacing

if TYPE_CHECKING:
    from unskew.runs.predict import Prediction

WRITTEN = (".csv", ".tsv", ".parquet")


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A table, a folder of pictures, a picture, .npz or .npy.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write .csv, .tsv or .parquet; default: print a CSV."
        ),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="NAME", help="Ask this client's own model (runs of local_only)."),
    ] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Scale pictures of other sizes.")] = False,
    as_json: Json = False,
) -> None:
    """Use a run's model: the class of every row or picture, and how probable each class is."""
    if out is not None:
        _check(out)
        refuse_replacing(out, file)
    from unskew.runs.saved_model import load_run

    found = load_run(run)
    whose: int | str | None = (
        int(client) if client is not None and re.fullmatch(r"\d{1,15}", client) else client
    )
    if found.names is not None and client in found.names:
        whose = client  # a site may be called 7
    if not as_json and not found.done:
        typer.echo(f"{run}: {found.told}", err=True)
    answers = found.predict(file, resize=resize, client=whose)
    if out is not None:
        from unskew.files import replace_file

        with replace_file(out, make_folder=True) as draft:
            if out.suffix.lower() == ".parquet":
                answers.frame().to_parquet(draft, index=False)
            else:
                written = answers.csv("\t" if out.suffix.lower() == ".tsv" else ",")
                draft.write_text(written, encoding="utf-8", newline="")
    if as_json:
        told = summary(answers) | {
            "run": str(run),
            "round": found.round,
            "saved": None if out is None else str(out),
        }
        if out is None:
            told["predictions"] = json.loads(answers.frame().to_json(orient="records"))
        typer.echo(json.dumps(told))
        return
    if out is None:
        typer.echo(answers.csv(), nl=False)
    typer.echo(_said(answers, out), err=out is None)


def summary(answers: Prediction) -> dict[str, Any]:
    """How many got which answer, and how many were right, where that is known."""
    counts = Counter(answers.labels[answers.inputs.usable].tolist())
    return {
        "rows": len(answers),
        "left_out": answers.left_out,
        "predicted": {name: counts.get(name, 0) for name in answers.classes},
        "accuracy": answers.accuracy,
        "unknown_classes": list(answers.unknown_classes),
    }


def _said(answers: Prediction, out: Path | None) -> str:
    # it loads numpy, and a shell that completes a word must not wait for that
    from unskew.data.cells import listed

    told = summary(answers)
    ranked = sorted(told["predicted"].items(), key=lambda one: -one[1])
    # "11 1, 9 0" could be read as any number
    of = "of class " if any(name[:1].isdigit() for name in answers.classes) else ""
    some = ", ".join(f"{count:,} {of}{name}" for name, count in ranked[:8] if count)
    rows, answered = told["rows"], told["rows"] - told["left_out"]
    many = f"{rows:,}" if answered == rows else f"{answered:,} of {rows:,}"
    lines = [f"{many} predicted: {some}" + (" …" if len(ranked) > 8 and ranked[8][1] else "")]
    if told["left_out"]:
        lines.append(
            f"{told['left_out']:,} rows lack a value and have no answer (the run was trained with impute=drop)"
        )
    if told["accuracy"] is not None:
        said = f"{told['accuracy']:.4f} of them are right, by the classes that the input tells"
        if strange := told["unknown_classes"]:
            said += f"; rows of {listed(strange)} cannot be: the model knows {listed(answers.classes)}"
        lines.append(said)
    if out is not None:
        lines.append(f"written to {out}")
    return "\n".join(lines)


def _check(out: Path) -> None:
    """Refuse a place that cannot be written before any work is done."""
    from unskew.report.page import output

    if out.suffix.lower() not in WRITTEN:
        raise InputError(
            f"predictions are written as .csv, .tsv or .parquet, not as {out.name!r}; write -o FILE.csv"
        )
    output(str(out), "the predictions")
