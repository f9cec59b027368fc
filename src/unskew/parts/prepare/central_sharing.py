"""DACA's third baseline: a portion of the global data set, from the server to everybody."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.core.held import Held
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Depends, Prepare
from unskew.core.types import Ids
from unskew.data.partition.deal import shares
from unskew.errors import InputError
from unskew.network import Wireless
from unskew.notices import warn
from unskew.parts.prepare.central import RAW, hand_round, report, some_of
from unskew.seeds import generator


@dataclass(frozen=True)
class CentralSharing(Prepare):
    """Collects a share of everybody's samples at the server and sends them to all (Zhao et al., 2018).

    As DACA compares with it (figure 6), clients upload beta of all samples together, each in proportion to what it
    holds. The server multicasts them to every client, which keeps those it did not have. Collecting takes as long as
    the slowest upload, distributing as the worst link; both are in the log. Zhao et al. assume that the server has such
    a set of its own; here it comes from the clients.

    beta: the size of the shared set, as a share of all clients' samples (Zhao et al.); 0.01 of MNIST is 600 samples.
    v_th: the slowest link to the base station that counts, in bits a second; clients behind slower ones neither give
    nor get. DACA has such a threshold, and this baseline none: without it all wait for the worst of all links.
    weigh: what an update weighs by: the client's ``own`` samples (DACA's eq. 8), or all that it ``held`` then.
    budget: what a local epoch passes over: all samples ``held``, or as many as the client's ``own``.
    """

    name: ClassVar[str] = "central_sharing"
    paper: ClassVar[str] = "Zhao et al., 2018; DACA (Hu et al.), IV-A"
    discloses: ClassVar[Any] = Depends(RAW, lambda part: RAW if part.beta else ())
    neutral: ClassVar[str | None] = "central_sharing(0)"

    beta: float = 0.01
    v_th: float = 0.0
    weigh: Literal["own", "held"] = "own"
    budget: Literal["held", "own"] = "held"

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise InputError(f"beta of central_sharing is a share of the data from 0 to 1, not {self.beta:g}")
        if not (math.isfinite(self.v_th) and self.v_th >= 0):
            raise InputError(
                f"v_th of central_sharing is a rate of at least 0 bits a second, not {self.v_th:g}"
            )

    @property
    def sends(self) -> str:
        return "samples" if self.beta else ""

    def wanted(self, roster: Roster) -> int:
        """How many samples are collected."""
        return int(self.beta * int(roster.sizes.sum()) + 0.5)

    def check(self, roster: Roster, cohort: int) -> None:
        if self.beta and not self.wanted(roster):
            warn(
                f"central_sharing(beta={self.beta:g}) of {int(roster.sizes.sum()):,} samples is none at all, so "
                "nothing is shared: write a larger beta",
                stacklevel=2,
            )

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing | None:
        reached = self._reached(roster, seed)
        amounts = shares(
            min(self.wanted(roster), int(roster.sizes[reached].sum())),
            np.where(reached, roster.sizes, 0).astype(np.float64),
            generator(seed, self.name, "who gives how many"),
        )
        return hand_round(roster, self.name, amounts, seed, self.weigh, self.budget, reached)

    def give(self, held: Held, samples: int, seed: int) -> Ids:
        return some_of(held, self.name, samples, seed)

    def shared(self, sharing: Sharing, before: Roster, after: Roster) -> Mapping[str, Any]:
        return report(sharing, before, after)

    def _reached(self, roster: Roster, seed: int) -> Array:
        """Whose links to the base station are fast enough, both ways."""
        if not self.v_th:
            return np.ones(roster.clients, bool)
        network, clients = roster.network or Wireless(), roster.clients
        up, down = (network.server_rates(clients, seed, way=way) for way in ("up", "down"))
        reached = np.minimum(up, down) >= self.v_th
        if out := int((~reached).sum()):
            warn(
                f"v_th of central_sharing leaves out {out} of {clients} clients, whose links to the base station are "
                "slower" + ("" if reached.any() else "; nothing is shared at all: write a smaller v_th"),
                stacklevel=2,
            )
        return np.asarray(reached)

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        return roster.told_of(self.name)
