"""What holds of Seol & Kim's parts whatever the counts: against the printed loop, and with everything they meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from by_hand import FakeNet, holding, viewed
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.types import Cohort, PerClient
from unskew.parts.prepare import Oversample
from unskew.parts.prepare.oversample import additions
from unskew.parts.select import KLD
from unskew.parts.select.kld import balanced, uneven
from unskew.parts.tune import Dynamic
from unskew.seeds import generator
from unskew.testing.toy_federation import apart, other_engines, play

COUNTS = arrays.arrays(
    np.int64,
    st.tuples(st.integers(1, 12), st.integers(1, 6)),
    elements=st.integers(0, 9) | st.just(0),
)
FEDERATIONS = COUNTS.filter(lambda counts: counts.any())


def printed(counts, ordered, most, threshold, classes, onward):
    """Algorithm 2 as its loops are printed, one client after the other, with the amendments of the docstring of KLD."""
    volume, told = np.zeros(counts.shape[1], np.int64), {}
    if counts[ordered[0]].any():
        told[0] = counts[ordered[0]]
        volume, cap = volume + told[0], counts[ordered[0]].max()
    at = 0
    while told and len(told) < most and uneven(volume) >= threshold:
        reachable = [
            f
            for f in classes
            if volume[f] < cap and any(counts[c, f] > 0 for p, c in enumerate(ordered) if p not in told)
        ]
        if not reachable:
            break
        scarce = min(reachable, key=lambda f: volume[f])
        places = [*range(at + 1, len(ordered)), *range(at + 1)] if onward else range(len(ordered))
        at = next(p for p in places if p not in told and counts[ordered[p], scarce] > 0)
        told[at] = np.minimum(cap - volume, counts[ordered[at]])
        volume = volume + told[at]
    return [int(ordered[p]) for p in told], [row.tolist() for row in told.values()]


@given(
    counts=COUNTS,
    most=st.integers(1, 12),
    threshold=st.sampled_from([0.0, 0.01, 0.1, 0.5, 3.0]),
    onward=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_it_chooses_as_the_printed_loop_does(counts, most, threshold, onward, seed):
    """Whatever the counts: the same clients in the same order, with the same amounts."""
    rng = generator(seed, "test")
    ordered = rng.permutation(len(counts))
    ordered = ordered[np.argsort(-counts[ordered].sum(1), kind="stable")]
    classes = rng.permutation(counts.shape[1])
    clients, amounts, divergence = balanced(
        counts, ordered, most=most, threshold=threshold, classes=classes, onward=onward
    )
    expected = printed(counts, ordered, most, threshold, classes, onward)
    assert (clients.tolist(), amounts.tolist()) == expected
    assert divergence == uneven(amounts.sum(0) if len(amounts) else np.zeros(counts.shape[1]))


@given(
    counts=FEDERATIONS,
    count=st.integers(1, 12),
    h=st.integers(1, 12),
    threshold=st.sampled_from([0.0, 0.05, 0.5]),
    share=st.sampled_from([0.3, 0.5, "all"]),
    exclude=st.sets(st.integers(0, 11)),
    seed=st.integers(0, 2**32),
)
def test_no_class_passes_the_cap_and_nobody_gives_more_than_it_has(
    counts, count, h, threshold, share, exclude, seed
):
    """v_r <= m in every class, s_k <= n_k, each client once and with something, nobody excluded, at most h."""
    federation = holding(counts.tolist())
    busy = np.array(sorted(exclude & set(range(len(counts)))), np.int64)
    part = KLD(threshold=threshold, h=h, willing=share)
    cohort, _ = part.select(count, busy, Roster.of(federation), {}, generator(seed, "test"))
    clients, amounts = cohort.clients, cohort.settings.per_class
    assert amounts.shape == (len(clients), counts.shape[1])
    assert len(set(clients.tolist())) == len(clients) <= min(h, count)
    assert not set(clients.tolist()) & set(busy.tolist())
    assert (amounts <= counts[clients]).all()
    assert (amounts >= 0).all()
    assert (amounts.sum(1) > 0).all()
    if len(clients):
        assert amounts.sum(0).max() == counts[clients[0]].max()
        assert amounts[0].tolist() == counts[clients[0]].tolist()


@given(counts=FEDERATIONS, delta=st.floats(0, 1), t=st.integers(0, 20), seed=st.integers(0, 2**32))
def test_oversampling_lifts_what_is_held_and_nothing_else(counts, delta, t, seed):
    """Held classes reach t_k e^(-delta r), by less than one sample too many; only own samples are repeated."""
    federation = holding(counts.tolist())
    part = Oversample(delta=delta)
    grown = viewed(part, federation, t, seed, part.init_server(FakeNet()))
    level = counts.sum(1, keepdims=True) / counts.shape[1] * np.exp(-delta * t)
    lifted = grown.counts
    assert (lifted >= counts).all()
    assert (lifted[counts > 0] >= np.broadcast_to(level, counts.shape)[counts > 0] - 1e-6).all()
    more = lifted > counts
    assert (lifted[more] < np.broadcast_to(level + 1, counts.shape)[more]).all()
    assert (lifted[counts == 0] == 0).all()
    single = (counts > 0).sum(1) <= 1
    assert (lifted[single] == counts[single]).all()
    for client in range(federation.clients):
        own = federation.samples(client)
        assert set(grown.samples(client).tolist()) == set(own.tolist())
        assert grown.samples(client)[: len(own)].tolist() == own.tolist()
    assert (grown.budget - federation.budget).tolist() == (lifted - counts).sum(1).tolist()
    assert (grown.weigh - federation.weigh).tolist() == (lifted - counts).sum(1).tolist()


@given(counts=COUNTS)
def test_the_lift_never_grows_as_the_decay_goes_on(counts):
    """Less is repeated at a smaller e^(-delta r), and nothing at 0."""
    before = additions(counts, 1.0)
    for decay in (0.7, 0.3, 0.0):
        after = additions(counts, decay)
        assert (after <= before).all()
        before = after
    assert not before.any()


@given(
    counts=FEDERATIONS,
    beta=st.integers(1, 30),
    eta=st.floats(1e-4, 10),
    form=st.sampled_from(["printed", "bounded"]),
)
def test_batches_and_rates_stay_in_their_bounds(counts, beta, eta, form):
    """At least one sample a batch; rates grow with it, the bounded below eta_max, the printed below pi/2 eta_max."""
    federation = holding(counts.tolist())
    cohort = Cohort(np.arange(len(counts)), PerClient(per_class=counts))
    found = Dynamic(beta, eta, form).settings(0, cohort, Roster.of(federation), Local())
    assert (found.batch == np.maximum(1, counts.sum(1) // beta)).all()
    assert (found.lr > 0).all()
    assert (found.lr < eta * (1 if form == "bounded" else np.pi / 2)).all()
    order = np.argsort(found.batch)
    assert (np.diff(found.lr[order]) >= 0).all()


SKEWED = holding([[9, 1, 0], [0, 8, 2], [2, 1, 9], [0, 0, 5], [7, 0, 0], [1, 10, 1]])
PARTS = (
    "kld(threshold=0.02)",
    "oversample",
    "dynamic(beta=3)",
    "kld(threshold=0.02)+oversample+dynamic(beta=3)",
)
OTHERS = ("sem", "phase_shift(2)", "scaffold", "fedprox+sem", "fednova", "feddyn", "fedfa", "fedaug(0.8)")


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("own", PARTS)
def test_each_is_usable_alone_and_with_any_other(own, other):
    """The model moves and stays finite; stopped after every round it ends in the same bits; engines agree to 1e-9."""
    method = Method.parse(f"{own}+{other}")
    settings = {"rounds": 3, "epochs": 1, "momentum": 0.5}
    whole, stopped = (play(method, SKEWED, stopped=s, **settings) for s in (False, True))
    assert whole.hash != whole.started
    assert whole == stopped
    assert all(line["global_test_loss"] < 1e3 for line in whole.lines)
    for engine in other_engines():
        found = play(method, SKEWED, engine=engine, **settings)
        assert apart(whole.state.params, found.state.params) < 1e-9
        assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in whole.lines]
        assert [line["samples_used"] for line in found.lines] == [li["samples_used"] for li in whole.lines]
