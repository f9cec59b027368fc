"""Seol & Kim by hand: algorithms 1 to 3 on four clients with three classes, and a round of all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import unskew
from by_hand import FakeNet, holding, viewed
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.types import Cohort, PerClient
from unskew.engines import Loop
from unskew.engines.cpu.fast import FastCPU
from unskew.errors import InputError
from unskew.parts.prepare import Oversample
from unskew.parts.prepare.repeats import additions
from unskew.parts.select import KLD
from unskew.parts.select.kld import balanced, uneven
from unskew.parts.tune import Dynamic
from unskew.seeds import generator
from unskew.testing.toy_federation import apart, play, ready

A, B, C, D = range(4)
COUNTS = [[8, 2, 2], [0, 6, 3], [1, 0, 7], [0, 0, 6]]
FOUR = holding(COUNTS)
LIFTED = np.array([[8, 4, 4], [0, 6, 3], [3, 0, 7], [0, 0, 6]])
BY_SIZE = np.array([A, C, B, D])  # 16, 10, 9, 6 samples once lifted
IN_ORDER = np.arange(3)  # how equally scarce classes come


# --- algorithm 1


def test_every_held_class_is_lifted_to_the_mean_class():
    """t = 12/3 = 4, 9/3 = 3, 8/3 = 2.67 and 6/3 = 2.

    A lifts 2 and 2 to 4; B holds 6 and 3 already and lacks the first class; C lifts 1 to 3, the whole number from 2.67
    on; D holds one class alone and is left as it is.
    """
    assert additions(np.array(COUNTS), 1.0).tolist() == [[0, 2, 2], [0, 0, 0], [2, 0, 0], [0, 0, 0]]
    grown = viewed(Oversample(), FOUR, memory=Oversample().init_server(FakeNet()))
    assert grown.counts.tolist() == LIFTED.tolist()
    assert grown.budget.tolist() == grown.weigh.tolist() == [16, 9, 10, 6]


def test_the_lift_falls_with_the_rounds():
    """delta = 0.11, r = 3: e^-0.33 = 0.7189; A lifts to 4 x 0.7189 = 2.88 -> 3, C to 2.67 x 0.7189 = 1.92 -> 2."""
    memory = {"delta": torch.tensor(0.11, dtype=torch.float64)}
    grown = viewed(Oversample(), FOUR, 3, memory=memory)
    assert grown.counts.tolist() == [[8, 3, 3], [0, 6, 3], [2, 0, 7], [0, 0, 6]]


def test_delta_rises_where_the_cohort_repeats_more_than_the_threshold():
    """A and C repeat (4 + 2) of (12 + 8) = 0.3 > 0.1: delta 0.01 -> 0.11. B and D repeat nothing: it stays."""
    part = Oversample()
    before = part.init_server(FakeNet())
    after, told = part.learn({A: 12 + 4, C: 8 + 2}, Roster.of(FOUR), before)
    assert float(after["delta"]) == pytest.approx(0.11)
    assert told == {"oversample": {"delta": 0.01, "repeated": 6, "share": 0.3}}
    after, told = part.learn({B: 9, D: 6}, Roster.of(FOUR), before)
    assert float(after["delta"]) == 0.01
    assert told["oversample"]["share"] == 0
    assert float(before["delta"]) == 0.01


def test_at_the_threshold_delta_stays():
    """A, B, C and D repeat 6 of 35; a threshold of exactly that is not passed."""
    part = Oversample(threshold=6 / 35)
    memory = part.init_server(FakeNet())
    held = dict(enumerate(viewed(part, FOUR, memory=memory).sizes.tolist()))
    assert float(part.learn(held, Roster.of(FOUR), memory)[0]["delta"]) == 0.01


def test_delta_is_that_of_the_log_and_of_the_state():
    """All four take part: 6/35 = 0.171 in round 0, so delta is 0.11 in round 1.

    e^-0.11 = 0.896: A lifts to 3.58 -> 4 again and C to 2.39 -> 3; the share is 6/35 again, delta 0.21 in round 2.
    e^-0.42 = 0.657: 2.63 -> 3 and 1.75 -> 2, so 3/35 = 0.086 < 0.1, and delta stays.
    """
    played = play(Method.parse("oversample+full"), FOUR, rounds=4)
    told = [line["oversample"] for line in played.lines]
    assert [t["delta"] for t in told] == pytest.approx([0.01, 0.11, 0.21, 0.21])
    assert [t["repeated"] for t in told][:3] == [6, 6, 3]
    assert float(played.state.server["oversample"]["delta"]) == pytest.approx(0.21)


def test_repeats_are_a_clients_own_and_of_the_class_that_lacks():
    """A's list begins with what it held; what it repeats it holds, drawn anew each round."""
    memory = Oversample(delta=0).init_server(FakeNet())
    drawn = []
    for t in range(12):
        grown = viewed(Oversample(delta=0), FOUR, t, memory=memory)
        for client in range(4):
            own = FOUR.samples(client)
            assert grown.samples(client)[: len(own)].tolist() == own.tolist()
            assert set(grown.samples(client)) == set(own)
        drawn.append(tuple(grown.samples(A)[12:]))
    assert len(set(drawn)) > 3


# --- algorithm 2


def chosen(counts, ordered, **given):
    usual = {"most": 10, "threshold": 0.01, "classes": IN_ORDER}
    clients, amounts, divergence = balanced(np.asarray(counts), np.asarray(ordered), **(usual | given))
    return clients.tolist(), amounts.tolist(), divergence


def test_the_largest_client_comes_first_and_may_be_enough():
    """v = (8, 4, 4): 0.5 ln 1.5 + 0.5 ln 0.75 = 0.0589 nats, below 0.1."""
    clients, amounts, divergence = chosen(LIFTED, BY_SIZE, threshold=0.1)
    assert (clients, amounts) == ([A], [[8, 4, 4]])
    assert divergence == pytest.approx(0.5 * math.log(1.5) + 0.5 * math.log(0.75))
    assert divergence == pytest.approx(0.0589, abs=1e-4)


def test_then_whoever_holds_the_scarcest_class_up_to_the_cap():
    """A gives m = 8. The second class is the scarcest (it comes before the third): C lacks it, B holds 6.

    s_B = min(8 - (8, 4, 4), (0, 6, 3)) = (0, 4, 3), so v = (8, 8, 7) and
    KLD = 2 x 8/23 ln(24/23) + 7/23 ln(21/23) = 0.0019 < 0.01.
    """
    clients, amounts, divergence = chosen(LIFTED, BY_SIZE)
    assert (clients, amounts) == ([A, B], [[8, 4, 4], [0, 4, 3]])
    assert divergence == pytest.approx(16 / 23 * math.log(24 / 23) + 7 / 23 * math.log(21 / 23))


@pytest.mark.parametrize(("onward", "third"), [(True, D), (False, C)])
def test_the_search_goes_on_down_the_list_or_begins_again(onward, third):
    """One of the third class is lacking: after B comes D; from the top it is C, which holds it too. Both give one."""
    clients, amounts, divergence = chosen(LIFTED, BY_SIZE, threshold=0.001, onward=onward)
    assert clients == [A, B, third]
    assert amounts[2] == [0, 0, 1]
    assert divergence == 0


def test_the_search_goes_around_the_end_of_the_list():
    """(9, 0, 0) lacks two classes: the second is at the end of the list, the third only before it."""
    counts = [[9, 0, 0], [0, 0, 7], [0, 5, 0]]
    assert chosen(counts, [0, 1, 2])[0] == [0, 2, 1]


def test_it_ends_at_h_clients():
    """Two at most, whatever the divergence."""
    assert chosen(LIFTED, BY_SIZE, threshold=0.0, most=2)[0] == [A, B]
    assert chosen(LIFTED, BY_SIZE, threshold=0.0, most=1)[0] == [A]


def test_it_ends_where_every_class_is_at_the_cap():
    """A threshold of 0 is never passed, but v = (8, 8, 8) takes nothing more."""
    assert chosen(LIFTED, BY_SIZE, threshold=0.0)[0] == [A, B, D]


def test_a_class_nobody_holds_is_passed_over():
    """No client holds the second class: the third is lifted instead, to 4 of 4, at ln 1.5 = 0.405 nats."""
    clients, amounts, divergence = chosen([[4, 0, 0], [0, 0, 3], [2, 0, 2]], [0, 2, 1])
    assert (clients, amounts) == ([0, 2, 1], [[4, 0, 0], [0, 0, 2], [0, 0, 2]])
    assert divergence == pytest.approx(math.log(1.5))


def test_all_clients_exhausted_ends_it():
    """Two clients, and neither makes the classes even: both are in, and that is all."""
    clients, amounts, divergence = chosen([[5, 1, 0], [0, 1, 1]], [0, 1])
    assert (clients, amounts) == ([0, 1], [[5, 1, 0], [0, 1, 1]])
    assert divergence > 0.01


def test_of_clients_without_data_nobody_is_chosen():
    """The largest client is empty, so all are; the divergence of nothing is ln 3."""
    clients, amounts, divergence = chosen([[0, 0, 0]] * 3, [2, 0, 1])
    assert clients == amounts == []
    assert divergence == pytest.approx(math.log(3))


def test_equally_scarce_classes_come_in_the_order_given():
    """One class a client: after the first class, whichever is named first."""
    counts = np.diag([5, 4, 3])
    assert chosen(counts, [0, 1, 2], most=2, classes=np.array([0, 1, 2]))[0] == [0, 1]
    assert chosen(counts, [0, 1, 2], most=2, classes=np.array([0, 2, 1]))[0] == [0, 2]


def selected(part, federation, seeds=range(60), count=10, exclude=()):
    """Whom the part chooses, seed by seed."""
    excluded = np.array(exclude, np.int64)
    return [
        part.select(count, excluded, Roster.of(federation), {}, generator(seed, "test"))[0].clients.tolist()
        for seed in seeds
    ]


def test_equal_sizes_come_in_seeded_order():
    """Six equal clients: each is the first in some round, and the same seed chooses the same."""
    equal = holding([[4, 0, 0], [0, 4, 0], [0, 0, 4]] * 2)
    found = selected(KLD(willing="all", h=3), equal)
    assert {clients[0] for clients in found} == set(range(6))
    assert found == selected(KLD(willing="all", h=3), equal)
    assert all({c % 3 for c in clients} == {0, 1, 2} for clients in found)  # a class each, always


def test_with_fewer_picks_than_classes_every_class_has_its_turn():
    """Three classes, two picks: a scarcest class is drawn, not always the one with the lowest number."""
    found = selected(KLD(willing="all", h=2), holding(np.diag([6, 5, 5]).tolist()))
    assert {clients[1] for clients in found} == {1, 2}


def test_on_fixed_counts_all_willing_would_train_the_same_for_ever():
    """Sizes differ: with all clients willing the choice never changes; with half of them, all have their turn."""
    federation = holding([[12, 0, 0], [0, 11, 0], [0, 0, 10], [9, 0, 0], [0, 8, 0], [0, 0, 7]])
    found = selected(KLD(willing="all", h=3, search="top"), federation)
    assert {tuple(c) for c in found} == {(0, 1, 2), (0, 2, 1)}
    some = selected(KLD(willing=3, h=3), federation)
    assert set().union(*some) == set(range(6))
    lines = {
        willing: play(Method.of(KLD(willing=willing, h=3, search="top")), federation, rounds=12).lines
        for willing in ("all", 3)
    }
    assert lines["all"][-1]["distinct_clients"] == 3
    assert lines[3][-1]["distinct_clients"] > 3
    assert [line["kld"]["willing"] for line in lines[3]] == [3] * 12


def test_the_cohort_bounds_h_and_the_excluded_are_not_asked():
    """A schedule that wants two gets two; who is busy is not among the willing."""
    equal = holding([[4, 0, 0], [0, 4, 0], [0, 0, 4]] * 2)
    assert {len(c) for c in selected(KLD(willing="all"), equal, count=2)} == {2}
    assert all(not {0, 5} & set(c) for c in selected(KLD(willing="all"), equal, exclude=[0, 5]))


# --- algorithm 3


def tuned(part, per_class=None, clients=(A, B, C, D)):
    cohort = Cohort(np.array(clients), PerClient(per_class=per_class))
    return part.settings(0, cohort, Roster.of(FOUR), Local())


def test_batches_and_rates_follow_the_data():
    """beta = 3; 16, 7 and 1 samples: b = 5, 2 and 0 -> 1; eta = 0.1 arctan b = 0.1373, 0.1107, 0.0785 = 0.1 pi/4."""
    per_class = np.array([[8, 4, 4], [0, 4, 3], [0, 0, 1]])
    roomy = holding([[8, 4, 4], [0, 4, 3], [0, 0, 1]])
    found = Dynamic(beta=3).settings(
        0, Cohort(np.arange(3), PerClient(per_class=per_class)), Roster.of(roomy), Local()
    )
    assert found.batch.tolist() == [5, 2, 1]
    assert found.lr == pytest.approx([0.13734, 0.11071, 0.1 * math.pi / 4], abs=1e-5)
    assert found.per_class is per_class


def test_the_bounded_form_keeps_the_bound_that_the_text_promises():
    """2/pi arctan 1 = 1/2; arctan(10^6) is nearly pi/2, so the printed rule nears 0.157 and the bounded one 0.1."""
    assert tuned(Dynamic(beta=6, form="bounded"), clients=[D]).lr == pytest.approx([0.05])
    many = holding([[400]])
    far = [
        Dynamic(beta=1, form=form).settings(0, Cohort(np.array([0])), Roster.of(many), Local()).lr[0]
        for form in ("printed", "bounded")
    ]
    assert far[0] == pytest.approx(0.1 * math.atan(400))
    assert far[0] > 0.15
    assert 0.099 < far[1] < 0.1


def test_without_selection_by_class_all_data_counts():
    """12, 9, 8 and 6 samples over beta = 3."""
    assert tuned(Dynamic(beta=3)).batch.tolist() == [4, 3, 2, 2]


def test_the_runs_decay_holds_for_tuned_rates_too():
    """A rate that halves every round: 0.1 arctan 4, then half of it."""
    rates = []

    class Watching(Loop):
        def visit(self, *given):
            update = super().visit(*given)
            rates.append(float(update.lr[0]))
            return update

    play(Method.parse("dynamic(beta=3)+full"), FOUR, rounds=2, decay="exponential(0.5)", engine=Watching())
    assert rates == pytest.approx([0.1 * math.atan(4), 0.05 * math.atan(4)])


# --- all of it


class Books(Loop):
    """Keeps every leg with its answer and the samples each client trained on."""

    def __init__(self):
        super().__init__()
        self.visits = []

    def visit(self, job, leg, rows, round_inputs):
        update = super().visit(job, leg, rows, round_inputs)
        self.visits.append((leg, update, round_inputs.roster))
        return update


def test_a_round_of_all_three():
    """A lifted to (8, 4, 4) is taken whole; its 0.0589 nats are above 0.05. B or (from the second tie) C follows.

    E = 2, beta = 4: A trains on 16 samples in batches of 4, 32 sample-steps in 8 steps. Its update weighs 16, the
    other what it was told; the log counts the same samples once, and four bytes a class for each of the four willing
    and for each chosen.
    """
    books = Books()
    method = Method.parse("kld(threshold=0.05, willing=all)+oversample+dynamic(beta=4)")
    line = play(method, FOUR, rounds=1, epochs=2, engine=books).lines[0]
    leg, update, _ = books.visits[0]
    told = leg.settings.per_class.sum(1)
    assert leg.clients[0] == A
    assert told[0] == 16
    assert len(told) == 2
    assert update.examples.tolist() == told.tolist()
    assert leg.settings.batch.tolist() == [4, max(1, told[1] // 4)]
    assert (int(update.steps[0]), int(update.samples[0])) == (8, 32)
    assert line["samples_used"] == told.sum()
    assert line["sample_steps"] == 2 * told.sum()
    assert line["asked"] == line["distinct_clients"] == 2
    assert line["bytes"]["up"]["label counts"] == 4 * 3 * 4
    assert line["bytes"]["up"]["oversample numbers"] == 2 * 4  # how many samples each of the two repeated
    assert line["bytes"]["down"]["samples by class"] == 2 * 3 * 4
    assert line["kld"]["divergence"] < 0.05


def test_a_client_trains_on_what_it_was_told():
    """Its census, which objectives see, is s_k, and its data a draw of its own that changes from round to round."""
    part, federation = (
        Method.parse("kld(threshold=0, willing=all)"),
        holding([[8, 2, 2], [0, 6, 3], [1, 0, 7]]),
    )
    seen = []

    class Watching(Loop):
        def visit(self, job, leg, rows, round_inputs):
            from unskew.core.dispatch import make_client_job

            for row in rows:
                found = make_client_job(job, leg, int(row), round_inputs, self.holdings)
                assert found.census.tolist() == leg.settings.per_class[row].tolist()
                assert set(found.held.tolist()) <= set(federation.samples(int(leg.clients[row])))
                seen.append((int(leg.clients[row]), tuple(sorted(found.held.tolist()))))
            return super().visit(job, leg, rows, round_inputs)

    play(part, federation, rounds=6, engine=Watching())
    assert len({held for client, held in seen if client == 2}) > 1


@pytest.mark.parametrize(
    "expression", ["fedavg", "seol_kim", "sem", "phase_shift(2)+kld", "oversample+full", "centralized"]
)
def test_samples_used_are_those_trained_on_each_once_a_round(expression):
    """Never more than was spent or than the round's clients hold; the result adds the rounds up."""
    setup = ready(Method.parse(expression), FOUR, cohort=2)
    lines = play(Method.parse(expression), FOUR, cohort=2, rounds=4, epochs=3).lines
    most = 35 + 6  # all samples, and all that are repeated
    assert all(0 < line["samples_used"] <= min(most, line["sample_steps"]) for line in lines)
    distinct = [line["distinct_clients"] for line in lines]
    assert distinct == sorted(distinct)
    assert distinct[-1] <= setup.job.roster.clients


@pytest.mark.parametrize("expression", ["kld", "seol_kim", "oversample"])
def test_where_only_a_sum_is_kept_the_weights_are_the_same(expression, monkeypatch):
    """Large cohorts are summed as they come: by what each client was told to train on."""
    expected = play(Method.parse(expression), FOUR)
    monkeypatch.setattr("unskew.engines.cpu.summed.LARGEST_STACK", 0)
    engine = FastCPU(workers=1)
    found = play(Method.parse(expression), FOUR, engine=engine)
    assert apart(expected.state.params, found.state.params) < 1e-9


@pytest.mark.parametrize(("case", "clients"), [(1, 200), (2, 200), (3, 100), (4, 200)])
def test_the_four_cases_of_table_2_are_ready_partitions(case, clients):
    """By name, with the paper's number of clients; one class a client in cases 1 and 4, and for 180 in case 2."""
    done = unskew.run(
        dataset="digits", partition=f"seol_kim_{case}", method="seol_kim", rounds=1, progress=False
    )
    held = (done.partition.counts > 0).sum(1)
    assert len(held) == done.result["data"]["clients"] == clients
    single = {1: clients, 2: 180, 3: 0, 4: clients}[case]
    assert (held[:single] == 1).all()
    assert done.result["distinct_clients"] <= 10
    assert done.result["totals"]["samples_used"] > 0


def test_the_preset_is_its_three_parts():
    """It is written with a sum, and discloses what its parts do."""
    method = Method.parse("seol_kim")
    assert method == Method.of(KLD(), Oversample(), Dynamic())
    assert method.discloses == (
        "how many samples it repeats (oversample)",
        "label counts (oversample)",
        "label counts (kld)",
    )


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("kld(threshold=-1)", "threshold of kld is a divergence in nats, 0 or more, not -1.0"),
        ("kld(h=0)", "h of kld must be at least 1, not 0"),
        (
            "kld(willing=0)",
            "willing of kld is a share between 0 and 1, a whole number of clients or all, not 0",
        ),
        (
            "kld(willing=2.5)",
            "willing of kld is a share between 0 and 1, a whole number of clients or all, not 2.5",
        ),
        ("kld(willing=some)", "willing of kld must be a number or all, not some"),
        ("kld(search=up)", "search of kld must be onward or top, not up"),
        ("kld+full", "kld and full both decide 'select'; keep one"),
        ("oversample(delta=-0.1)", "delta of oversample must be 0 or more, not -0.1"),
        ("oversample(increment=-1)", "increment of oversample must be 0 or more, not -1.0"),
        ("oversample(threshold=-1)", "threshold of oversample must be 0 or more, not -1.0"),
        ("dynamic(beta=0)", "beta of dynamic must be at least 1 step an epoch, not 0"),
        ("dynamic(eta_max=0)", "eta_max of dynamic must be above 0, not 0.0"),
        ("dynamic(form=free)", "form of dynamic must be printed or bounded, not free"),
        (
            "seol_kim(3)",
            "seol_kim is a preset and takes no values; write its parts: kld+oversample+dynamic",
        ),
    ],
)
def test_bad_values_are_refused_in_one_sentence(expression, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as refused:
        Method.parse(expression)
    assert str(refused.value) == sentence


def test_more_willing_clients_than_there_are_is_refused():
    """Before anything is trained."""
    with pytest.raises(InputError) as refused:
        ready(Method.parse("kld(willing=5)"), FOUR)
    assert str(refused.value) == (
        "kld(willing=5) counts on more than the 4 clients there are; write willing = 4 or all"
    )


def test_the_divergence_is_that_of_the_measures():
    """The same number as the KLD of one client against equal classes."""
    from unskew.metrics import skew

    counts = np.array([8, 4, 4])
    assert uneven(counts) == pytest.approx(skew(counts[None], reference=np.full(3, 1 / 3)).kld)
