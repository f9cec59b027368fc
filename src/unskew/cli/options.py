"""Options that several commands share, written once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import completion
from unskew.errors import InputError
from unskew.runs.describe import description
from unskew.runs.spec import Spec

if TYPE_CHECKING:
    from unskew.data import Dataset
    from unskew.data.partition import Partition


def _help(setting: str) -> str:
    """What the setting of this name says of itself, so that it is written once."""
    return description(Spec, setting).help


Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASET",
        help="A data set by name (see 'unskew datasets') or a file or folder.",
        autocompletion=completion.datasets,
    ),
]
Clients = Annotated[int | None, typer.Option("--clients", help="How many clients to split the data over.")]
Seed = Annotated[int, typer.Option("--seed", help="Fixes the split, on any machine.")]
Fraction = Annotated[
    float, typer.Option("--fraction", metavar="U", help="Use only this share of the samples (0 to 1).")
]
SamplesPerClient = Annotated[
    int | None, typer.Option("--samples-per-client", metavar="N", help="Use only this many samples a client.")
]
MinSamples = Annotated[
    int, typer.Option("--min-samples", help="Give every client at least this many samples.")
]
Emd = Annotated[
    float | None, typer.Option("--emd", metavar="X", help="Let the family solve its parameters for this EMD.")
]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data-folder", metavar="FOLDER", help="Where published files lie (or set UNSKEW_DATA_FOLDER)."
    ),
]
_TABLES = "Own tables"
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="The label column.", rich_help_panel=_TABLES),
]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="COLUMN", help="The client column.", rich_help_panel=_TABLES),
]
Features = Annotated[
    list[str] | None,
    typer.Option("--features", metavar="COLUMN", help=_help("features"), rich_help_panel=_TABLES),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        "--drop-columns",
        metavar="COLUMN",
        help="Columns of an own table to leave out.",
        rich_help_panel=_TABLES,
    ),
]
Impute = Annotated[
    str | None, typer.Option("--impute", metavar="RULE", help=_help("impute"), rich_help_panel=_TABLES)
]
Fit = Annotated[
    str | None, typer.Option("--fit", metavar="all|client", help=_help("fit"), rich_help_panel=_TABLES)
]
Scarce = Annotated[
    int, typer.Option("--scarce", metavar="T", min=0, help="A client with at most T samples is scarce.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@dataclass(frozen=True)
class TableFlags:
    """What the shared flags say of a table's columns."""

    features: list[str] | None
    drop: list[str] | None
    impute: str | None
    fit: str | None

    def given(self) -> dict[str, Any]:
        """What was said, by the names of the table's reader."""
        lists = {"features": tuple(self.features or ()), "drop": tuple(self.drop or ())}
        words = {"impute": self.impute, "fit": self.fit}
        return {name: value for name, value in (lists | words).items() if value}


def loaded(
    data: str | None, data_folder: str | None, label: str | None, client: str | None, table: TableFlags
) -> Dataset:
    """The data set that the shared options name; a column named ``client`` is there to split by."""
    from unskew.data import load
    from unskew.data.load import has_columns, is_path, kind_of_own, own_clients
    from unskew.expression import path_and_options
    from unskew.runs.load_data import check_column

    if data is None:
        raise InputError("which data? name a data set (see 'unskew datasets') or a file, e.g. digits")
    path = path_and_options(data)[0]
    if has_columns(path):
        client = None if client == own_clients(data) else client
        chosen = {key: value for key, value in (("label", label), ("client", client)) if value is not None}
        with spelt("label", "client", "features", "drop", "impute", "fit"):
            return load(data, data_folder, **chosen, **table.given())
    if is_path(path):
        kind_of_own(Path(path).expanduser())  # what is no data at all is not helped by leaving a flag out
    if about_columns := next(iter(table.given()), None):
        raise InputError(
            f"--{about_columns} is about the columns of a table (.csv, .parquet), but {data} is none; leave it out"
        )
    if label is not None:
        raise InputError(
            f"--label names a column of a table (.csv, .parquet), but {data} is none; leave it out"
        )
    dataset = load(data, data_folder)
    if client is not None:
        check_column(dataset, client)
    return dataset


def columns_told(dataset: Dataset) -> dict[str, Any]:
    """What became of a table's columns, under the name that it has in a run's result too; nothing of other data."""
    return {} if dataset.table is None else {"table": dataset.table.summary(dataset.source)}


def split(
    dataset: Dataset,
    expression: str,
    clients: int | None,
    seed: int,
    fraction: float,
    samples_per_client: int | None,
    min_samples: int,
    emd: float | None,
) -> Partition:
    """The partition that the shared options name; a saved one is read as it is."""
    from unskew.data.partition import Partition, partition

    if expression.endswith(".npz"):
        dealing = {"--clients": clients, "--samples-per-client": samples_per_client, "--emd": emd}
        dealing |= {"--fraction": fraction != 1, "--min-samples": min_samples != 1}
        if late := [flag for flag, value in dealing.items() if value]:
            raise InputError(f"{expression} is a saved partition, so {late[0]} comes too late; leave it out")
        return Partition.load(expression, dataset)
    with spelt("clients", "min_samples", "samples_per_client", "fraction"):
        return partition(
            dataset,
            expression,
            clients=clients,
            seed=seed,
            fraction=fraction,
            samples_per_client=samples_per_client,
            min_samples=min_samples,
            emd=emd,
        )


@contextmanager
def spelt(*names: str) -> Iterator[None]:
    """Messages name Python's ``clients=20``; on the command line the same is ``--clients 20``."""
    try:
        yield
    except InputError as error:
        said = str(error)
        for name in names:
            said = re.sub(rf"\b{name}= ?", f"--{name.replace('_', '-')} ", said)
        raise InputError(said) from error


@dataclass(frozen=True)
class Outputs:
    """Where a command will write, checked before it starts."""

    partition: Path | None
    picture: Path | None


def checked_outputs(partition: str | None, picture: str | None) -> Outputs:
    """Refuse a place that cannot be written before any work is done."""
    from unskew.report.drawing import picture_target
    from unskew.report.page import output

    if partition is not None and not partition.endswith(".npz"):
        raise InputError(f"a partition is saved as .npz, not as {Path(partition).name!r}; write -o FILE.npz")
    return Outputs(
        None if partition is None else output(partition, "the partition"),
        None if picture is None else picture_target(picture),
    )


def checked_report(path: str | None) -> str | None:
    """Refuse a report that cannot be written before any work is done."""
    from unskew.report.page import output

    if path is not None:
        if not path.lower().endswith((".html", ".htm")):
            raise InputError(
                f"a report is written as .html, not as {Path(path).name!r}; write -o REPORT.html"
            )
        output(path, "the report")
    return path
