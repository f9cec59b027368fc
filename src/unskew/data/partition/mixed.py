"""``mixed``: some clients by one family, the rest by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import shares
from unskew.data.partition.family import Family, PartitionTask, build_family, fraction_of
from unskew.errors import InputError
from unskew.expression import Call, Usual


@dataclass(frozen=True)
class Mixed(Family):
    """A share of the clients by one family, the rest by another: ``mixed(labels(1), iid, share=0.95)``.

    The first ``share`` of the clients deal among themselves by ``first``, the rest by ``second``. Both
    groups get samples in proportion to their clients and in the pool's own class mix. Seol & Kim's case 2
    and DACA's 95 single-class users with 5 mixed ones are of this kind. EMD: that of the two groups,
    weighed by ``share``.
    """

    first: Annotated[Any, Usual(start="labels(1)")]  # a family, or the call or word that names one
    second: Annotated[Any, Usual(start="iid")]
    share: Annotated[float, Usual(0, 1)] = 0.5
    name: ClassVar[str] = "mixed"
    knob: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        fraction_of(self.share, "share of mixed")
        for which in ("first", "second"):
            value = getattr(self, which)
            if not isinstance(value, str | Call | Family):
                raise InputError(f"{which} of mixed must be a partition such as labels(1), not {value}")
            part = build_family(value)
            if part.name == "by":
                raise InputError("mixed cannot hold by(...): a column already says whose every sample is")
            object.__setattr__(self, which, part)

    def counts(self, task: PartitionTask) -> Array:
        ahead = round(self.share * task.clients)
        if ahead in (0, task.clients):
            alone = self.second if ahead == 0 else self.first
            task.note(
                f"all {task.clients} clients follow {alone}: share={self.share:g} leaves the other none"
            )
            return np.asarray(alone.counts(task.part("all", task.sizes, task.clients)))
        size = round(task.samples * ahead / task.clients)
        sizes = shares(size, task.sizes.astype(np.float64), task.generator("groups"))
        groups = (
            (self.first, task.part("first", sizes, ahead)),
            (self.second, task.part("second", task.sizes - sizes, task.clients - ahead)),
        )
        return np.concatenate(
            [
                # so few samples may leave a group without any, which no family is made for
                part.counts(group) if group.samples else np.zeros((group.clients, group.classes), np.int64)
                for part, group in groups
            ]
        )

    def closed_emd(self, classes: int, clients: int) -> float | None:
        ahead = round(self.share * clients)
        groups = ((self.first, ahead), (self.second, clients - ahead))
        emds = [part.closed_emd(classes, size) if size else 0.0 for part, size in groups]
        if emds[0] is None or emds[1] is None:
            return None
        return float(ahead * emds[0] + (clients - ahead) * emds[1]) / clients

    def unlimited(self, task: PartitionTask) -> Array:
        ahead = round(self.share * task.clients)
        groups = (("first", self.first, ahead), ("second", self.second, task.clients - ahead))
        tables = [
            part.unlimited(task.part(word, task.sizes, size)) * (size / task.clients)
            for word, part, size in groups
            if size
        ]
        return np.concatenate(tables)

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return 0.0, 1.0

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(**{**given, "share": share}) for share in (0.0, 1.0)]
