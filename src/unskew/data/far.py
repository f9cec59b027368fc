"""Clients that live elsewhere: how many samples each holds is known, and not one sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.data.aside import Aside, Purpose
from unskew.data.federation import EVERYBODY, Federation
from unskew.errors import InputError


@dataclass(frozen=True, eq=False)
class FarFederation(Federation):
    """A federation whose samples are on other machines; ``given_counts`` are label counts, where they were given."""

    given_counts: Array | None = None

    def __post_init__(self) -> None:
        held = self.sizes
        for size, usual in (("budget", held), ("weigh", held), ("pooled", np.zeros_like(held))):
            if getattr(self, size) is None:
                object.__setattr__(self, size, usual)

    @classmethod
    def of(
        cls,
        dataset: Any,
        sizes: Array,
        names: tuple[str, ...],
        counts: Array | None,
        aside: Mapping[Purpose, Array],
    ) -> FarFederation:
        """Clients of these names and sizes; ``aside`` says how many samples each keeps to be judged by."""
        none = np.zeros(0, np.int64)
        kept: dict[str, Any] = {
            "tests" if purpose == "test" else purpose: Aside(none, _offsets(held))
            for purpose, held in aside.items()
        }
        return cls(dataset, none, _offsets(sizes), names=names, given_counts=counts, **kept)

    def take_census(self, clients: Array | slice = EVERYBODY) -> Array:
        if self.given_counts is None:
            raise InputError("these clients did not give their label counts")
        return self.given_counts[clients]

    def set_aside(self, *shares: Any, **more: Any) -> Federation:
        """As it is: these clients have set aside what they were told to, where they live."""
        return self


def _offsets(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])
