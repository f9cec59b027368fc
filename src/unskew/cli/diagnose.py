"""``unskew diagnose``: how skewed, how scarce, what to try, and what it would disclose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from unskew.cli import completion, options
from unskew.cli.app import app
from unskew.errors import InputError
from unskew.progress import tell_columns

if TYPE_CHECKING:
    from unskew.data import Dataset
    from unskew.data.partition import Partition
    from unskew.report.diagnosis import Diagnosis
    from unskew.runs.spec import Spec

DEFAULT, DEFAULT_CLIENTS = "dirichlet(0.1)", 100
"""What data without a client column is split by when nothing is said: SEM's hardest setting."""


@app.command()
def diagnose(
    data: options.Data = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="P",
            help='Split it so first, e.g. "dirichlet(0.1)", or as in a saved partition (.npz).',
            autocompletion=completion.partitions,
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Clients are the values of this column.")
    ] = None,
    clients: options.Clients = None,
    seed: options.Seed = 0,
    fraction: options.Fraction = 1.0,
    samples_per_client: options.SamplesPerClient = None,
    min_samples: options.MinSamples = 1,
    emd: options.Emd = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="REPORT.html", help="Write the report, with pictures."),
    ] = None,
    label: options.Label = None,
    client: options.Client = None,
    features: options.Features = None,
    drop: options.Drop = None,
    impute: options.Impute = None,
    fit: options.Fit = None,
    data_folder: options.DataFolder = None,
    scarce: options.Scarce = 50,
    cohort: Annotated[
        float,
        typer.Option("--cohort", metavar="N", help="For the advice: clients a round, or a share below 1."),
    ] = 10,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="For the advice: how many rounds.")
    ] = 50,
    epochs: Annotated[
        float | None, typer.Option("--epochs", metavar="E", help="For the advice: epochs a visit; default 1.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="For the advice: steps a visit instead.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="B", min=1, help="For the advice: samples a step.")
    ] = 32,
    sites: Annotated[
        Path | None,
        typer.Option(
            "--sites",
            metavar="FEDERATION",
            help="Instead of data: live sites, by label counts they agree to give.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """How skewed and how scarce federated data is, what to try, and what that would disclose."""
    from unskew.runs.spec import Spec

    # a spec refuses what a run would refuse
    planned = Spec(clients=clients, cohort=cohort, rounds=rounds, epochs=epochs, steps=steps, batch=batch)
    if expression and by:
        raise InputError("--partition and --by both say who holds what; keep one")
    report = options.checked_report(out)
    if sites is not None:
        if data is not None or expression or by or label or client:
            raise InputError(
                "--sites asks sites for their counts, so no data is named beside it; leave it out"
            )
        _tell_sites(sites, scarce, report, as_json, planned)
        return
    from unskew.data.load import own_clients
    from unskew.data.partition.by import column_of

    columns = options.TableFlags(features, drop, impute, fit)
    dataset = options.loaded(data, data_folder, label, client or by or column_of(expression), columns)
    said = ""
    if expression is None:
        client = client or (own_clients(data) if data is not None and not by else None)
        expression, clients, said = _chosen(dataset, by, client, clients)
        column = column_of(expression)
        if dataset.table is not None and column is not None and column not in dataset.table.clients:
            dataset = options.loaded(data, data_folder, label, column, columns)  # it is no feature then
    part = options.split(dataset, expression, clients, seed, fraction, samples_per_client, min_samples, emd)
    _tell(dataset, part, scarce, report, as_json, said, _plan(planned, part.clients))


def _plan(planned: Spec, clients: int) -> dict[str, Any]:
    """What the advice is to be for."""
    count = max(1, round(planned.cohort * clients)) if planned.cohort < 1 else int(planned.cohort)
    return {
        "cohort": count,
        **{name: getattr(planned, name) for name in ("rounds", "epochs", "steps", "batch")},
    }


def _chosen(
    dataset: Dataset, by: str | None, client: str | None, clients: int | None
) -> tuple[str, int | None, str]:
    """Who holds what, if no partition is named: a column, or the default split, and a line that says so."""
    from unskew.expression import Call

    columns = tuple(dataset.columns)
    if dataset.table is not None:  # texts, dates and identifiers are words too, but nobody is split by them
        columns = tuple(c for c in columns if c not in dataset.table.unused) or columns
    column = by or client or (columns[0] if len(columns) == 1 else None)
    if column is not None:
        said = "" if by else f"clients are the values of {column!r}"
        return str(Call("by", (column,))), clients, said
    if columns:
        raise InputError(f"{dataset.name} can be split by {' or '.join(columns)}; add --by {columns[0]}")
    few = max(1, min(DEFAULT_CLIENTS, len(dataset) // 10)) if clients is None else clients
    over = f"{few:,} client{'' if few == 1 else 's'}"
    return DEFAULT, few, f"no partition was named, so {DEFAULT} over {over}; choose with --partition"


def _tell(
    dataset: Dataset,
    part: Partition,
    scarce: int,
    report: str | None,
    as_json: bool,
    said: str,
    plan: Mapping[str, Any],
) -> None:
    from unskew.report.about import about
    from unskew.report.diagnosis import diagnose as measure

    found = measure(
        part.counts,
        dataset=dataset.name,
        about=about(dataset, part),
        labels=dataset.labels,
        record=part.record,
        scarce=scarce,
        names=part.names,
        **plan,
    )
    _give(found, options.columns_told(dataset), [said] if said else [], report, as_json)


def _tell_sites(folder: Path, scarce: int, report: str | None, as_json: bool, planned: Spec) -> None:
    """The diagnosis of live sites: those that keep their counts to themselves are named, and left out."""
    from unskew.report.diagnosis import diagnose as measure
    from unskew.sites.flower.carrier import FlowerCarrier
    from unskew.sites.folders import FederationFolder
    from unskew.sites.survey import gather_counts

    federation = FederationFolder.read(folder)
    with FlowerCarrier(federation) as carrier:
        there = carrier.names()
        if not there:
            raise InputError(
                f"no site of {federation.name} is there; see `unskew federation status {folder}`"
            )
        told = gather_counts(carrier, there)
    left_out = [f"without {site}: {reason}" for site, reason in told.unwilling.items()]
    left_out += [f"without {site}: it is not there" for site in federation.sites if site not in there]
    if not told.clients:
        raise InputError(f"no site gave its label counts: {next(iter(told.unwilling.values()))}")
    samples = int(told.counts.sum())
    who = f"{len(told.clients):,} client{'' if len(told.clients) == 1 else 's'}"
    about = f"{federation.name} · {who} at real sites · {samples:,} training samples"
    found = measure(
        told.counts,
        dataset=federation.name,
        about=about,
        labels=told.classes,
        scarce=scarce,
        names=told.clients,
        **_plan(planned, len(told.clients)),
    )
    _give(found, {"left_out": left_out}, left_out, report, as_json)


def _give(found: Diagnosis, more: dict[str, Any], said: list[str], report: str | None, as_json: bool) -> None:
    """Print a diagnosis, and write its page where one is wanted."""
    from unskew.report.terminal import show

    if report is not None:
        from unskew.report.diagnosis_page import save_diagnosis

        save_diagnosis(found, report)
    if as_json:
        typer.echo(json.dumps(found.as_dict() | more | {"report": report}))
        return
    tell_columns(more)
    console = Console()
    for line in said:
        console.print(f"[dim]{escape(line)}[/]", soft_wrap=True)
    show(found, console)
    if report is not None:
        console.print(f"\nreport written to [bold]{escape(report)}[/]", soft_wrap=True)
