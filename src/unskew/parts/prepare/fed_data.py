"""Everybody shares a tenth of their raw data: the reference that FLea wants to reach without doing so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from unskew.core.conditions import warn_of_silent
from unskew.core.held import Held
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Depends, Prepare
from unskew.core.types import Ids
from unskew.errors import InputError
from unskew.parts.prepare.central import RAW, hand_round, report, some_of


@dataclass(frozen=True)
class FedData(Prepare):
    """Appends to everybody's data a share of everybody else's (Zhao et al., 2018; FLea's reference FedData).

    Before round 0 every client sends floor(share n_k) of its samples, drawn without replacement, to the server, which
    hands all of them to all clients. A client appends those of the others; one with fewer than 1/share samples
    gives none and still gets all. Then training goes on as usual: a local epoch passes over all samples held, and an
    update weighs them all.

    share: how much each client gives, 0 to 1; 0.1 in FLea.
    weigh: what an update weighs by: all samples ``held``, or the client's ``own``.
    budget: what a local epoch passes over: all samples ``held``, or as many as the client's ``own``.
    """

    name: ClassVar[str] = "fed_data"
    paper: ClassVar[str] = "Zhao et al., 2018; FLea (Xia et al., KDD 2024)"
    discloses: ClassVar[Any] = Depends(RAW, lambda part: RAW if part.share else ())
    neutral: ClassVar[str | None] = "fed_data(0)"

    share: float = 0.1
    weigh: Literal["held", "own"] = "held"
    budget: Literal["held", "own"] = "held"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InputError(f"share of fed_data is a share of a client's data, 0 to 1, not {self.share:g}")

    @property
    def sends(self) -> str:
        return "samples" if self.share else ""

    def check(self, roster: Roster, cohort: int) -> None:
        if self.share:
            least = math.ceil(1 / self.share - 1e-9)
            warn_of_silent(roster, least, f"fed_data(share={self.share:g})", "write a larger share")

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing | None:
        amounts = np.floor(self.share * roster.sizes + 1e-9).astype(np.int64)
        return hand_round(roster, self.name, amounts, seed, self.weigh, self.budget)

    def give(self, held: Held, samples: int, seed: int) -> Ids:
        return some_of(held, self.name, samples, seed)

    def shared(self, sharing: Sharing, before: Roster, after: Roster) -> Mapping[str, Any]:
        return report(sharing, before, after)

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        return roster.told_of(self.name)
