"""``unskew partition``: make, inspect, draw and save a partition, or list the ones that reach an EMD."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.cli import completion, options
from unskew.cli.app import app
from unskew.errors import InputError
from unskew.progress import tell_columns

if TYPE_CHECKING:
    from unskew.data import Dataset
    from unskew.report.diagnosis import Diagnosis


@app.command()
def partition(
    data: options.Data = None,
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="P",
            help='How to split it, e.g. "dirichlet(0.1)", or a saved partition (.npz).',
            autocompletion=completion.partitions,
            show_default=False,
        ),
    ] = None,
    clients: options.Clients = None,
    seed: options.Seed = 0,
    fraction: options.Fraction = 1.0,
    samples_per_client: options.SamplesPerClient = None,
    min_samples: options.MinSamples = 1,
    emd: options.Emd = None,
    out: Annotated[str | None, typer.Option("--out", "-o", metavar="FILE.npz", help="Save it here.")] = None,
    picture: Annotated[
        str | None, typer.Option("--picture", metavar="FILE", help="Draw it: .html, .png, .svg or .pdf.")
    ] = None,
    label: options.Label = None,
    client: options.Client = None,
    features: options.Features = None,
    drop: options.Drop = None,
    impute: options.Impute = None,
    fit: options.Fit = None,
    data_folder: options.DataFolder = None,
    scarce: options.Scarce = 50,
    solve: Annotated[
        float | None, typer.Option("--solve", metavar="EMD", help="List every setting that reaches this EMD.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", help="With --solve and no data: the number of classes.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make, inspect, draw and save a partition of a data set over clients."""
    if solve is not None:
        if expression is not None:
            raise InputError(
                f"--solve lists the settings of every family; leave out {expression}, or write --emd {solve:g} to "
                "have it solved for this data"
            )
        if (data is None) == (classes is None):
            raise InputError(
                f"how many classes? write unskew partition --solve {solve:g} --classes 10, or name the data"
                if data is None
                else f"--classes goes without data: the classes of {data} are counted; leave out one of the two"
            )
        columns = options.TableFlags(features, drop, impute, fit)
        given = options.loaded(data, data_folder, label, client, columns) if classes is None else classes
        _solve(
            solve,
            given,
            20 if clients is None else clients,
            fraction,
            samples_per_client,
            min_samples,
            as_json,
        )
        return
    if classes is not None:
        raise InputError("--classes goes with --solve; with data the classes are counted")
    if data is not None and expression is None:
        raise InputError(
            f"how is {data} to be split? add a partition, e.g. unskew partition {data} 'dirichlet(0.1)'"
        )
    _make(
        data, str(expression), clients, seed, fraction, samples_per_client, min_samples, emd,
        out, picture, label, client, options.TableFlags(features, drop, impute, fit), data_folder, scarce, as_json,
    )  # fmt: skip


def _make(
    data: str | None,
    expression: str,
    clients: int | None,
    seed: int,
    fraction: float,
    samples_per_client: int | None,
    min_samples: int,
    emd: float | None,
    out: str | None,
    picture: str | None,
    label: str | None,
    client: str | None,
    columns: options.TableFlags,
    data_folder: str | None,
    scarce: int,
    as_json: bool,
) -> None:
    from unskew.data.partition.by import column_of
    from unskew.expression import path_and_options
    from unskew.places import refuse_replacing

    targets = options.checked_outputs(out, picture)
    if targets.partition is not None and data is not None:
        refuse_replacing(targets.partition, path_and_options(data)[0])
    dataset = options.loaded(data, data_folder, label, client or column_of(expression), columns)
    part = options.split(dataset, expression, clients, seed, fraction, samples_per_client, min_samples, emd)
    from unskew.report.about import about
    from unskew.report.diagnosis import diagnose

    found = diagnose(
        part.counts,
        dataset=dataset.name,
        about=about(dataset, part),
        labels=dataset.labels,
        record=part.record,
        scarce=scarce,
        names=part.names,
    )
    if targets.partition is not None:
        part.save(targets.partition)
    if targets.picture is not None:
        from unskew.report.charts import partition_picture
        from unskew.report.drawing import save_chart

        chart = partition_picture(
            found.counts, found.skew, found.labels, found.about, scarce=scarce, names=part.names
        )
        save_chart(chart, targets.picture, found.headline)
    if as_json:
        shown = found.as_dict()
        del shown["findings"], shown["advice"]
        typer.echo(json.dumps(shown | options.columns_told(dataset) | {"saved": out, "picture": picture}))
        return
    tell_columns(options.columns_told(dataset))
    console = Console()
    _show(found, console)
    for what, place in (("partition", out), ("picture", picture)):
        if place is not None:
            console.print(f"{what} saved to [bold]{escape(place)}[/]", soft_wrap=True)


def _show(found: Diagnosis, console: Console) -> None:
    from unskew.report.terminal import counts_table, numbers_table

    console.print(f"\n[bold]{escape(found.headline)}[/]")
    console.print(f"[dim]{escape(found.about)}[/]")
    counts = counts_table(found)
    if counts is not None:
        console.print(counts)
    console.print()
    console.print(numbers_table(found.findings))
    console.print()
    console.print(_record(found.record))


def _record(record: Mapping[str, Any]) -> Table:
    """What the partition says of itself: what made it, what was moved or left out, and its fingerprint."""
    lines = {"made by": f"{record['expression']}, seed {record['seed']}"}
    if record["unused"]:
        lines["left out"] = f"{record['unused']:,} samples"
    if record["moves"]:
        lines["moved"] = (
            f"{record['moves']:,} samples, to {record['moved_to']:,} clients that would have held fewer than "
            f"{record['min_samples']}"
        )
    lines |= {"note": " ".join(record["notes"])} if record["notes"] else {}
    lines["sha256"] = record["sha256"]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in lines.items():
        table.add_row(key, escape(value))
    return table


def _in_the_thesis(expression: str) -> str:
    """How the thesis (chapter 3) writes this partition, where it has it: ll(2,0.88) for limit_labels."""
    from unskew.expression import parse_one

    call = parse_one(expression, "partition")
    short = {"limit_labels": "ll", "limit_labels_q": "ll_q", "q": "q", "dirichlet": "Dir"}.get(call.name)
    values = [f"{v:.2f}" if isinstance(v, float) else str(v) for _, v in call.kwargs]
    return f"{short}({','.join(values)})" if short else ""


def _solve(
    emd: float,
    given: int | Dataset,
    clients: int,
    fraction: float,
    samples_per_client: int | None,
    min_samples: int,
    as_json: bool,
) -> None:
    from unskew.data.partition import solutions

    names = ("clients", "min_samples", "samples_per_client", "fraction")
    with options.spelt(*names), Console(stderr=True).status("simulating what no formula tells"):
        found = solutions(
            emd, given, clients,
            fraction=fraction, samples_per_client=samples_per_client, min_samples=min_samples,
        )  # fmt: skip
    if isinstance(given, int):
        many = (
            "unlimited samples" if samples_per_client is None else f"{samples_per_client:,} samples a client"
        )
        pool, classes = f"{given} equal classes of {many}", given
    else:
        pool, classes = given.name, given.classes
        if fraction != 1:
            pool += f", {fraction:.4g} of its samples"
        if samples_per_client is not None:
            pool += f", {samples_per_client:,} samples a client"
    if as_json:
        listed = [
            {"partition": expression, "emd": float(exact), "spread": exact.spread}
            for expression, exact in found
        ]
        typer.echo(
            json.dumps(
                {"emd": emd, "classes": classes, "clients": clients, "pool": pool, "solutions": listed}
            )
        )
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("partition", no_wrap=True)
    table.add_column("in the thesis", no_wrap=True)
    table.add_column("EMD", no_wrap=True)
    for expression, exact in found:
        shown = str(exact) if exact.spread >= 0.0005 else f"{exact:.4f}"
        table.add_row(escape(expression), _in_the_thesis(expression), shown)
    console = Console()
    console.print(table)
    console.print(f"[dim]{escape(pool)}; {clients:,} clients[/]")
    if any(exact.spread for _, exact in found):
        console.print("[dim]±: simulated, the mean of many partitions and the deviation of a single one[/]")
