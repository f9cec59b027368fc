"""``by``: the data's own clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.family import Family, PartitionTask
from unskew.errors import InputError, unknown
from unskew.expression import parse_one


@dataclass(frozen=True)
class By(Family):
    """One client for each value of a column, in sorted order: the person, the speaker, the recording.

    Nothing is drawn and nothing is moved: a real client's samples are its own, so a client below
    ``min_samples`` is refused rather than repaired.
    """

    column: str
    name: ClassVar[str] = "by"

    def counts(self, task: PartitionTask) -> Array:
        raise InputError(f"{self} has the EMD of the data itself: measure it with unskew diagnose")

    def owners(self, task: PartitionTask) -> Array:
        values = _distinct(self._values(task.columns))[1]
        return np.asarray(values if task.used is None else values[task.used])

    def natural_clients(self, columns: Mapping[str, Array]) -> int:
        return len(_distinct(self._values(columns))[0])

    def natural_names(self, columns: Mapping[str, Array]) -> tuple[str, ...]:
        return tuple(str(value) for value in _distinct(self._values(columns))[0].tolist())

    def _values(self, columns: Mapping[str, Array]) -> Array:
        if not columns:
            raise InputError(f"by({self.column}) needs a data set with columns, and this one has none")
        if self.column not in columns:
            raise unknown("column", self.column, columns)
        values = np.asarray(columns[self.column])
        missing = np.flatnonzero(values != values)  # NaN differs from itself
        if values.dtype == object:
            missing = np.array([k for k, v in enumerate(values) if v is None or v != v], np.int64)
        if len(missing):
            raise InputError(
                f"column {self.column!r} is empty or NaN in {len(missing)} of {len(values)} training samples, so "
                "they belong to no client; fill it in or drop those samples"
            )
        return values


def _distinct(values: Array) -> tuple[Array, Array]:
    values = np.asarray(values)
    if values.dtype == object:
        values = values.astype(str)  # mixed kinds have no order of their own
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, place.reshape(-1)


def column_of(expression: str | None) -> str | None:
    """The column of ``by(column)``, which a table must be told of before it is read; a saved partition tells it too."""
    from unskew.data.partition.result import Partition

    if expression is None:
        return None
    if expression.endswith(".npz"):
        expression = str(Partition.load(expression).record["expression"])
    call = parse_one(expression, "partition")
    given = call.args[:1] or tuple(value for key, value in call.kwargs if key == "column")
    return str(given[0]) if call.name == "by" and given else None
