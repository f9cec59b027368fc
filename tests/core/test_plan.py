"""Which samples a client trains on in which step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.core.plan import Plan, batches_in, plan, subset
from unskew.core.slots import Local
from unskew.seeds import borrow_generator, generator


def planned(held: int, local: Local | None = None, **rest: Any) -> Plan:
    told = {"budget": held, "seed": 0, "t": 0, "client": 0} | rest
    return plan(held, told.pop("budget"), local or Local(), **told)


def sizes(work: Plan) -> list[int]:
    return np.diff(work.cuts).tolist()


@given(st.integers(0, 2**40), st.text(max_size=5), st.integers(0, 50))
def test_a_borrowed_generator_draws_what_a_new_one_would(seed: int, word: str, n: int) -> None:
    """Also where the one before it stopped in the middle of a word of random bits."""
    borrow_generator(seed, "before").integers(7, size=n, dtype=np.uint32)
    lent, own = borrow_generator(seed, word), generator(seed, word)
    assert lent.permutation(n).tolist() == own.permutation(n).tolist()
    assert lent.integers(2**63, size=3).tolist() == own.integers(2**63, size=3).tolist()


@pytest.mark.parametrize(("last", "expected"), [("keep", [2, 2, 1]), ("drop", [2, 2]), ("wrap", [2, 2, 2])])
def test_five_samples_in_batches_of_two(last: str, expected: list[int]) -> None:
    """A partial last batch is kept, dropped, or filled from the beginning of the same pass."""
    work = planned(5, Local(batch=2, last=last))
    assert sizes(work) == expected
    first_pass = work.order[:5].tolist()
    assert len(set(first_pass)) == len(first_pass)
    assert work.order[5:].tolist() == (work.order[:1].tolist() if last == "wrap" else [])


def test_each_epoch_is_a_pass_in_a_new_order() -> None:
    """Three passes over seven samples: each holds every sample once, and no two are in the same order."""
    work = planned(7, Local(epochs=3, batch=7))
    passes = [work.order[a:b].tolist() for a, b in pairwise(work.cuts)]
    assert [sorted(p) for p in passes] == [list(range(7))] * 3
    assert len({tuple(p) for p in passes}) == 3


@pytest.mark.parametrize(
    ("epochs", "steps"),
    [
        (1, 3),
        (0.5, 2),
        (1 / 3, 1),
        (0.01, 1),
        (1.5, 5),
        (2, 6),
        (0.1 + 0.2, 1),
        (2.25, 7),
        (0.4, 1),
        (1.1, 3),
    ],
)
def test_fractions_of_an_epoch_round_to_the_nearest_step(epochs: float, steps: int) -> None:
    """One epoch of five samples in batches of two is three steps; half of it, 1.5, is two, and a tenth is one."""
    assert planned(5, Local(epochs=epochs, batch=2)).steps == steps


@pytest.mark.parametrize("batches", range(1, 30))
def test_a_share_of_epochs_is_as_many_steps_as_that_many_epochs(batches: int) -> None:
    """phase_shift(2, mode=epoch) with 3 epochs spends three quarters of them: the steps of --epochs 2.25."""
    part = planned(batches, Local(epochs=3, batch=1), share=0.75)
    alone = planned(batches, Local(epochs=2.25, batch=1))
    assert part.steps == alone.steps == int(2.25 * batches + 0.5)


@pytest.mark.parametrize("last", ["keep", "drop", "wrap"])
@pytest.mark.parametrize("budget", [7, 20, 33, 98, 100, 130, 250])
def test_a_pooled_client_makes_up_for_what_it_rounds(budget: int, last: str) -> None:
    """100 samples in batches of 32: after any number of rounds it has spent its budget to half a batch."""
    local = Local(epochs=1, batch=32, last=last)
    spent = 0
    for t in range(12):
        spent += planned(100, local, budget=budget, pooled=3, t=t).samples
        assert abs(spent - (t + 1) * budget) <= 16


def test_rounding_of_the_product_adds_no_step() -> None:
    """0.07 x 100 batches are 7 steps although the product is 7.000000000000001 in floating point."""
    assert planned(100, Local(epochs=0.07, batch=1)).steps == 7


def test_steps_are_taken_over_as_many_passes_as_they_need() -> None:
    """Eight steps over five samples in twos: three passes, the third cut short after two steps."""
    assert sizes(planned(5, Local(epochs=None, steps=8, batch=2))) == [2, 2, 1, 2, 2, 1, 2, 2]


@pytest.mark.parametrize("last", ["keep", "drop", "wrap"])
def test_a_client_smaller_than_a_batch_trains_on_what_it_has(last: str) -> None:
    """Three samples in batches of 32 are one step of three."""
    assert sizes(planned(3, Local(batch=32, last=last))) == [3]


def test_a_client_without_samples_has_no_steps() -> None:
    assert (planned(0).steps, planned(0).samples) == (0, 0)


def test_the_budget_counts_epochs_of_its_own_size() -> None:
    """A client that was given 4 more samples holds 10, but spends one epoch of its own 6: three steps of two."""
    assert sizes(planned(10, Local(batch=2), budget=6)) == [2, 2, 2]


@pytest.mark.parametrize(("last", "expected"), [("keep", [4, 2]), ("drop", [4]), ("wrap", [4, 4])])
def test_batches_are_as_large_as_those_of_the_budget(last: str, expected: list[int]) -> None:
    """Six of its own in batches of four are 4 and 2, whatever it was given: else scarce clients would compute more."""
    work = planned(30, Local(batch=4, last=last, epochs=2), budget=6)
    assert sizes(work) == 2 * expected
    assert len(set(work.order.tolist())) == work.samples


def test_what_was_given_is_seen_pass_by_pass() -> None:
    """Ten samples, a budget of 6: five epochs are 30 samples, which are three passes over all ten."""
    work = planned(10, Local(batch=4, epochs=5), budget=6)
    assert [sorted(work.order[i : i + 10].tolist()) for i in (0, 10, 20)] == [list(range(10))] * 3


@given(
    budget=st.integers(1, 40),
    more=st.integers(0, 40),
    batch=st.integers(1, 12),
    epochs=st.floats(0.1, 4),
    cut=st.floats(0, 1),
    last=st.sampled_from(["keep", "drop", "wrap"]),
)
@settings(max_examples=100)
def test_two_legs_are_one_and_more_data_takes_no_more_compute(
    budget: int, more: int, batch: int, epochs: float, cut: float, last: str
) -> None:
    """Wherever a visit is cut, its two parts are the whole, batch by batch; what was given changes no batch's size."""
    local = Local(epochs=epochs, batch=batch, last=last)
    whole = planned(budget + more, local, budget=budget)
    assert sizes(whole) == sizes(planned(budget, local))
    legs = [{"share": cut}, {"done": cut, "share": 1 - cut}]
    parts = [planned(budget + more, local, budget=budget, **leg) for leg in legs]
    assert np.array_equal(np.concatenate([part.order for part in parts]), whole.order)
    assert [n for part in parts for n in sizes(part)] == sizes(whole)
    assert [part.first for part in parts] == [0, parts[0].steps]
    assert {part.whole for part in parts} == {whole.steps}


def test_two_halves_of_three_steps_are_two_and_one() -> None:
    """Half of three steps is rounded up in the first leg, so SEM's second client takes one."""
    local = Local(batch=2)
    assert sizes(planned(5, local, share=0.5)) == [2, 2]
    assert sizes(planned(5, local, done=0.5, share=0.5)) == [1]


def test_the_order_depends_on_seed_round_and_client_alone() -> None:
    """The same words give the same batches; another seed, round or client gives others."""
    same = planned(20), planned(20)
    assert np.array_equal(same[0].order, same[1].order)
    for word in ("seed", "t", "client"):
        assert not np.array_equal(planned(20, **{word: 1}).order, same[0].order)


def test_batches_of_a_pass() -> None:
    """Dropping never drops the only batch."""
    assert [batches_in(5, 2, last) for last in ("keep", "drop", "wrap")] == [3, 2, 3]
    assert batches_in(1, 2, "drop") == 1


def test_a_subset_holds_what_was_asked_of_each_class_and_no_more_than_there_is() -> None:
    """Of labels 0 0 0 1 1 2, two zeros, five ones (there are two) and no two."""
    labels = np.array([0, 0, 0, 1, 1, 2])
    chosen = subset(labels, np.array([2, 5, 0]), seed=0, t=0, client=0)
    assert labels[chosen].tolist() == [0, 0, 1, 1]
    assert len(set(chosen.tolist())) == 4
