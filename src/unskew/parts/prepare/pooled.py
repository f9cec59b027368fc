"""All data in one place: the upper bound of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Prepare


@dataclass(frozen=True)
class Pooled(Prepare):
    """Gathers all clients' data in one client that spends what a cohort would (SEM's SingleSet).

    A federated round spends E epochs of cohort x n/K samples on average; the pooled client spends the same
    number of sample-steps, on samples drawn without replacement from all the data. Where the budget is a number
    of steps, it spends those of every client in a cohort. What is no whole number of batches is made up for in
    the rounds that follow, so that a run spends its budget to half a batch.
    """

    name: ClassVar[str] = "pooled"
    paper: ClassVar[str] = "SEM, section IV (SingleSet)"
    discloses: ClassVar[tuple[str, ...]] = ("raw samples to the server",)

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing:
        asked = min(cohort, roster.clients)
        spent = max(1, round(int(roster.budget.sum()) * asked / roster.clients))
        return Sharing(self.name, pooled=(spent, asked))
