"""``unskew attack RUN``: what a run's clients gave away, and what attackers get out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import DataFolder, Json
from unskew.garbage import garbage_put_off


@app.command()
def attack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="NAMES",
            help="Some of exposure, correlation, reconstruction, context, inversion; with commas.",
        ),
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(
            "--rounds",
            metavar="N,...",
            help="Whose models; default: those kept, and the last. Updates are of the last.",
        ),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            metavar="VIEW",
            help="Attack samples, averages(10) or features(LAYER) whatever was shared.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            metavar="N",
            help="Samples that the decoder learns from; default: 5,000, all on a GPU.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", metavar="N", help="Passes of the decoder.")] = 20,
    optimizer: Annotated[
        str, typer.Option("--optimizer", metavar="adam|sgd", help="Of the decoder; sgd is FLea's own code's.")
    ] = "adam",
    examples: Annotated[
        str | None,
        typer.Option("--examples", metavar="N,...", help="Examples that context detectors learn from."),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", help="Detectors for each number of examples.")
    ] = 3,
    rule: Annotated[
        str, typer.Option("--rule", metavar="cosine|dlg", help="How updates are inverted.")
    ] = "cosine",
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Steps of an inversion.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="The attackers' seed.")] = 0,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, cuda or auto; default: the run's.")
    ] = None,
    data_folder: DataFolder = None,
    draw: Annotated[
        bool,
        typer.Option("--draw", help="Only draw what was attacked before, on a GPU machine for instance."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure what a run gave away: exposure, correlation, and three attacks with pictures."""
    if not draw:
        from unskew.runs.folder import read_folder

        read_folder(run)  # what is no run is refused before torch is loaded
    with garbage_put_off():
        from unskew.privacy.context import Context
        from unskew.privacy.inversion import Inversion
        from unskew.privacy.laboratory import FOLDER, attack, read
        from unskew.privacy.reconstruction import Reconstruction

    if draw:
        from unskew.report.attack.page import draw as drawn

        page: Path | None = drawn(run / FOLDER)
        record: dict[str, Any] = read(run) or {}
    else:
        if device is not None:
            from unskew.runs.choose_engine import device_of
            from unskew.runs.spec import Spec

            device_of(Spec(device=device))  # refuses one that is not there
        numbers = tuple(_numbers(examples, "examples")) if examples is not None else Context().examples
        decoder: dict[str, Any] = {
            "epochs": epochs,
            "optimizer": _one_of(optimizer, "optimizer", "adam", "sgd"),
        }
        made = attack(
            run,
            only=[word.strip() for word in only.split(",")] if only is not None else (),
            rounds=_numbers(rounds, "rounds") if rounds is not None else (),
            view=view or (),
            reconstruction=Reconstruction(samples=_available(samples, device), **decoder),
            context=Context(repeats=repeats, examples=numbers),
            inversion=Inversion(rule=_one_of(rule, "rule", "cosine", "dlg"), steps=steps),
            seed=seed,
            data_folder=data_folder,
            device=device,
            progress=not as_json,
        )
        record, page = made.record, made.page
    from unskew.privacy.verdict import verdict

    if as_json:
        typer.echo(
            json.dumps(record | {"verdict": str(verdict(record)), "page": str(page) if page else None})
        )
        return
    _show(record, run / FOLDER, page)


def _available(samples: int | None, device: str | None) -> int | None:
    """All samples on a GPU, a few thousand elsewhere, unless told."""
    import torch

    from unskew.privacy.laboratory import ON_A_CPU

    fast = torch.cuda.is_available() and (device or "auto") != "cpu"
    return samples if samples is not None else None if fast else ON_A_CPU


def _one_of(word: str, name: str, *known: str) -> Any:
    from unskew.errors import InputError

    if word not in known:
        raise InputError(f"--{name} is {' or '.join(known)}, not {word!r}")
    return word


def _numbers(text: str, name: str) -> list[int]:
    from unskew.errors import InputError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"--{name} takes whole numbers with commas, such as 1,10, not {text!r}") from None


def _show(record: dict[str, Any], folder: Path, page: Path | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unskew.privacy.findings import findings
    from unskew.privacy.verdict import verdict

    console = Console()
    console.print(f"[bold]{escape(verdict(record).title)}[/]\n", highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("declared", escape("; ".join(record["discloses"]) or "nothing beyond model updates"))
    last = ""
    for name, sentence in findings(record):
        table.add_row(name if name != last else "", escape(sentence))
        last = name
    console.print(table, highlight=False)
    where = page or folder / "attack.json"
    hint = "" if page else f"   draw it where altair is installed: unskew attack {folder.parent} --draw"
    console.print(f"[dim]{escape(str(where))}[/]{escape(hint)}", soft_wrap=True, highlight=False)
