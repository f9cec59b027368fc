"""What a user gives in Python: data, a method; and what cannot stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unskew.core.method import Method
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.runs.describe import names
from unskew.runs.spec import Spec

Data = str | Path | Dataset | Federation | tuple[Any, ...]


def take_data(data: Dataset | Federation | tuple[Any, ...]) -> Dataset | Federation:
    """Data given in Python."""
    from unskew.data import from_arrays

    if isinstance(data, tuple | list) and 2 <= len(data) <= 4:
        data = from_arrays(*data)
    if not isinstance(data, Dataset | Federation):
        raise InputError(
            "dataset is a data set's name, a path, a Dataset, a Federation or arrays (x, y) or (x, y, x_test, y_test), "
            f"not {type(data).__name__}"
            + ("; give unskew.from_frame(frame, label=...)" if type(data).__name__ == "DataFrame" else "")
            + (f" of {len(data)}" if isinstance(data, tuple | list) else "")
        )
    return data


def says_of_itself(data: Dataset | Federation) -> dict[str, Any]:
    """What the spec says of data given in Python: its own name, and that it was dealt already."""
    if isinstance(data, Federation):
        return {"dataset": data.dataset.name, "partition": "given", "clients": data.clients}
    return {"dataset": data.name}


def refuse_overruled(data: Dataset | Federation, spec: Spec | None, settings: Mapping[str, Any]) -> None:
    """Refuse settings that say how to read or to deal what was read, or dealt, before it was given."""
    changed, said_at_all = (spec.changed(), spec.said()) if spec else ({}, {})
    said = {n: v for n, v in said_at_all.items() if n in changed or n == "partition"}
    said |= {n: v for n, v in settings.items() if v is not None}
    if isinstance(data, Federation):
        known = says_of_itself(data)
        if spec is not None and spec.partition == "given":  # the spec of an earlier run on it
            said = {n: v for n, v in said.items() if n in settings or v != known.get(n)}
        for name in (*names(Spec, "dealing"), "client"):
            if name in said:
                raise InputError(
                    f"a Federation is dealt to its clients already; leave {name} out, or give its dataset, "
                    "federation.dataset, to be dealt anew"
                )
    reading = [name for name in names(Spec, "reading") if name not in ("dataset", "label", "client")]
    for name in (n for n in reading if n in said and said[n] != Spec.__dataclass_fields__[n].default):
        where = "leave it out" if name == "data_folder" else "give it to from_frame or from_clients"
        raise InputError(f"{name} comes too late for data given in Python; {where}")


def refuse_dealing(spec: Spec, settings: Mapping[str, Any]) -> None:
    """Refuse settings that deal samples beside real sites, which have theirs; ``settings``: what was written for this
    run, since an experiment file may be a simulation's."""
    for name in names(Spec, "dealing"):
        if spec.sites is not None and name != "partition_seed" and settings.get(name) is not None:
            raise InputError(
                f"{name} deals the samples of a simulation, and real sites have theirs; leave it out"
            )


def refuse_unrepeatable(method: str) -> None:
    """A run with a folder is there to be resumed, which finds its parts by their names."""
    try:
        Method.parse(method)
    except InputError as problem:
        raise InputError(
            f"a run of {method} could not be resumed ({problem}); define its parts in a module, or leave `out` away"
        ) from None
