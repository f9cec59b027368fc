"""Settings of a client go with it through every schedule, and through a kill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from unskew.core.method import Method
from unskew.core.slots import Tune
from unskew.core.types import PerClient
from unskew.engines import Loop
from unskew.testing.toy_federation import play, tiny


@dataclass(frozen=True)
class ByNumber(Tune):
    """Client k trains with batches of 1 + k mod 3 at the rate 0.01 (1 + k)."""

    name: ClassVar[str] = "by_number"

    def settings(self, t, cohort, federation, local):
        k = cohort.clients
        return PerClient(batch=1 + k % 3, lr=0.01 * (1 + k), per_class=np.tile(1 + k[:, None] % 2, (1, 3)))


class Watching(Loop):
    """Sees that every client of every leg has its own settings."""

    legs = 0

    def visit(self, job, leg, rows, *rest):
        k = leg.clients
        assert leg.settings.batch.tolist() == (1 + k % 3).tolist()
        assert leg.settings.lr.tolist() == (0.01 * (1 + k)).tolist()
        assert leg.settings.per_class[:, 0].tolist() == (1 + k % 2).tolist()
        Watching.legs += len(k)
        return super().visit(job, leg, rows, *rest)


@pytest.mark.parametrize(
    "schedule",
    [
        "plain",
        "sem",
        "sem(pairing=derangement, hops=3)",
        "sem(pairing=emd)",
        "sem(via=others)",
        "phase_shift(3)",
    ],
)
@pytest.mark.parametrize("faults", [{}, {"drop": 0.3, "late": 0.3}])
def test_every_client_keeps_its_settings(schedule, faults):
    """Whoever gets a model trains it by its own settings, stopped after every round or not."""
    method = Method.of(ByNumber(), *Method.parse(schedule).parts)
    before = Watching.legs
    runs = [
        play(method, tiny(sizes=[6] * 9), rounds=5, engine=Watching(), stopped=s, **faults)
        for s in (False, True)
    ]
    assert Watching.legs > before
    assert runs[0] == runs[1]
