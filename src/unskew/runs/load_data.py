"""The federation that a spec names: its data set read, and dealt to clients."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from unskew.data.aside import own_tests
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.expression import path_and_options
from unskew.runs.describe import names
from unskew.runs.spec import Spec


def load_federation(
    spec: Spec, data: Dataset | Federation | tuple[Any, ...] | None
) -> tuple[Federation, Any]:
    from unskew.data import from_arrays
    from unskew.data.partition import PRESETS, Partition, partition
    from unskew.data.partition.by import column_of

    given = data is not None and spec.sites is None  # of real sites the data set is the coordinator's own
    if spec.label is not None and given:
        raise no_label(spec.dataset)
    if isinstance(data, Federation):
        seen = data.dataset.with_pixels(spec.pixels)
        return data if seen is data.dataset else replace(data, dataset=seen), None
    if data is None:
        dataset = load_dataset(spec)
    else:
        dataset = (data if isinstance(data, Dataset) else from_arrays(*data)).with_pixels(spec.pixels)
    if spec.partition.endswith(".npz"):
        held = Partition.load(Path(spec.partition), dataset)
        _refuse_dealing(spec, len(held.offsets) - 1)
    else:
        brings_clients = spec.partition.startswith("by(") or spec.partition in PRESETS
        held = partition(
            dataset,
            spec.partition,
            clients=100 if spec.clients is None and not brings_clients else spec.clients,
            seed=spec.seed if spec.partition_seed is None else spec.partition_seed,
            fraction=spec.fraction,
            samples_per_client=spec.samples_per_client,
            min_samples=spec.min_samples,
            emd=spec.emd,
        )
    federation = held.federation(dataset)
    told = dataset.columns_test.get(column_of(spec.partition) or "")  # test rows that say whose they are
    if told is not None and federation.names is not None and spec.client_test is None:
        federation = replace(federation, tests=own_tests(federation.names, told))
    return federation, held


def load_dataset(spec: Spec) -> Dataset:
    """The data set that a spec names, its images as a model is to see them."""
    from unskew.data import load

    dataset = load(spec.dataset, data_folder=spec.data_folder, **table_options(spec))
    if spec.client is not None and dataset.table is None:  # a table's reader has looked
        check_column(dataset, spec.client)
    return dataset.with_pixels(spec.pixels)


def check_column(dataset: Dataset, client: str) -> None:
    """Refuse a client column that data has not."""
    if client not in dataset.columns:
        raise InputError(
            f"{dataset.name} has no column {client!r}; it has {', '.join(dataset.columns) or 'none to split by'}"
        )


def no_label(dataset: str) -> InputError:
    """What is said of a label column where the data is no table."""
    return InputError(
        f"label names the label column of an own table, which {dataset} is not; leave it out "
        "(what reports call the method is method_label)"
    )


def table_options(spec: Spec) -> dict[str, Any]:
    """What a spec says of a table, by the names of its reader: the columns, and the rules for their values."""
    from unskew.data.load import has_columns, is_path, kind_of_own, own_clients
    from unskew.data.partition.by import column_of

    given = {
        "label": spec.label,
        "client": spec.client,
        "features": spec.features,
        "drop": spec.drop_columns,
        "impute": spec.impute,
        "fit": None if spec.fit == "all" else spec.fit,
        "test_column": spec.test_column,
    }
    options = {name: value for name, value in given.items() if value not in (None, ())}
    path, inner = path_and_options(spec.dataset)
    if has_columns(path):
        # whose a row is, is no feature of it; and a column must be known to be split by
        told = "client" in options or re.search(r"\bclient\s*=", inner)
        column = column_of(spec.partition)
        if not told and column is not None and column != own_clients(spec.dataset):
            options["client"] = column
        return options
    if is_path(path):
        kind_of_own(Path(path).expanduser())  # what is no data at all is not helped by leaving a setting out
    if spec.label is not None:
        raise no_label(spec.dataset)
    options.pop("client", None)  # other data brings its columns with it
    if strange := next(iter(options), None):
        name = "drop_columns" if strange == "drop" else strange
        raise InputError(
            f"{name} is about the columns of a table (.csv, .parquet), and {spec.dataset} is none"
        )
    return options


def _refuse_dealing(spec: Spec, clients: int) -> None:
    """A saved partition has its clients and samples: settings that would deal them otherwise are refused."""
    for name in set(names(Spec, "dealing")) - {"partition", "by"}:
        value = getattr(spec, name)
        if value != Spec.__dataclass_fields__[name].default and (name, value) != ("clients", clients):
            raise InputError(
                f"{spec.partition} is a saved partition of {clients} clients, so {name} = {value} comes too "
                f"late; leave {name} out, or deal samples out anew"
            )
