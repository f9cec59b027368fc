"""What oversample has clients repeat, and its running sums."""

from __future__ import annotations

import numpy as np
import pytest

from by_hand import holding
from unskew.core.roster import Roster
from unskew.parts.prepare import Oversample, repeats
from unskew.parts.prepare.repeats import RunningSums, additions
from unskew.seeds import generator


@pytest.mark.parametrize("cells", [1 << 18, 3000, 500, 20])
@pytest.mark.parametrize(("clients", "classes", "most"), [(1, 3, 5), (60, 3, 9), (900, 10, 3)])
def test_running_sums_are_the_sums_of_all_before(clients, classes, most, cells, monkeypatch):
    """At any decay, for the first, the last and any client, empty ones among them; of sums for each client, and of so
    few that some or all are looked at."""
    monkeypatch.setattr(repeats, "MOST_SUMS", cells)
    monkeypatch.setattr(repeats, "SAMPLES_A_SUM", 10**9)
    rng = generator(0, "repeats", clients)
    counts = rng.integers(0, most, (clients, classes)) * (rng.random((clients, classes)) < 0.6)
    roster = Roster(holding([[1] * classes]).dataset, counts.sum(1), counts=counts)
    sums = RunningSums.of(roster)
    assert sums.sums.size <= cells + 2 * sums.sums.shape[1]
    for decay in (1.0, 0.99, 0.5, 0.0123, 1e-12):
        every = additions(counts, decay).sum(1)
        for asked in ([0], [clients - 1], rng.permutation(clients)[:3], np.arange(clients)):
            found = sums.before(np.asarray(asked), decay, roster)
            assert found.tolist() == (np.cumsum(every) - every)[asked].tolist()


def test_a_round_goes_through_its_cohort_alone(monkeypatch):
    """Once the tables stand, no round adds up what all clients repeat."""
    roster = Roster.of(holding([[5, 1, 1], [1, 4, 2], [2, 1, 9], [0, 3, 3]] * 50))
    part, cohort = Oversample(), np.array([3, 77, 150])
    memory = part.init_server(None)
    every = additions(roster.counts, float(np.exp(-0.01 * 7))).sum(1)
    part.hand_out(cohort, 0, roster, memory)

    def refuse(*given):
        raise AssertionError("all clients were gone through")

    monkeypatch.setattr(repeats, "additions", refuse)
    monkeypatch.setattr(RunningSums, "of", refuse)
    told = part.hand_out(cohort, 7, roster, memory)
    assert told["skip"].tolist() == (np.cumsum(every) - every)[cohort].tolist()
