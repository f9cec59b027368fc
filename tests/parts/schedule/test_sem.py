"""SEM by hand, and what it must be at its edges."""

from __future__ import annotations

import numpy as np
import pytest

from by_hand import Table, holding, update
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.schedule import SEM
from unskew.parts.schedule.sem import assign_partners, class_distances
from unskew.seeds import generator
from unskew.testing.toy_federation import normed, play, tiny

# client 0 adds 1, client 1 triples, client 2 adds 10; two, four and six samples
RULES = {0: lambda w: w + 1, 1: lambda w: w * 3, 2: lambda w: w + 10}
THREE = holding([[1, 1], [2, 2], [3, 3]])


def table(clients, **settings):
    return Table(
        THREE, lambda c, w, share: RULES[c](w), lambda count, taken: clients, len(clients), **settings
    )


def test_two_clients_exchange_their_models():
    """From w = 2: model 0 is (2 + 1) x 3 = 9, model 1 is 2 x 3 + 1 = 7. Both weigh 2 + 4 = 6, so w = 8."""
    server = table([0, 1])
    w, memory = server.play(SEM(), 0, 2.0, {})
    assert w == pytest.approx(8.0, abs=1e-12)
    assert memory == {}
    assert server.uploads[0].examples.tolist() == [6.0, 6.0]
    assert sorted(server.uploads[0].params["w"][:, 0].tolist()) == [7.0, 9.0]


def test_a_client_left_over_trains_the_whole_round_alone():
    """Three clients: two swap with weight n_A + n_B, the third trains a full round and weighs 2 n_C."""
    server = table([0, 1, 2])
    server.play(SEM(), 0, 2.0, {})
    alone = [leg for leg in server.legs if leg.epochs == 1.0]
    halves = [leg for leg in server.legs if leg.epochs == 0.5]
    assert len(alone) == 1
    assert len(alone[0].clients) == 1
    assert [leg.done for leg in halves] == [0.0, 0.5]
    assert sorted(halves[0].clients) == sorted(halves[1].clients)
    assert (halves[0].clients != halves[1].clients).all()
    weighs = dict(zip(server.uploads[0].clients.tolist(), server.uploads[0].examples.tolist(), strict=True))
    lone = int(alone[0].clients[0])
    assert weighs.pop(lone) == 2 * THREE.weigh[lone]
    assert set(weighs.values()) == {float(THREE.weigh.sum() - THREE.weigh[lone])}


def test_drift_is_measured_against_the_global_model_in_both_halves():
    """The second half's anchor is the model of the round, and what was moved is carried over."""
    server = table([0, 1])
    server.play(SEM(), 0, 2.0, {})
    first, second = server.legs
    assert float(second.anchor["w"]) == 2.0
    assert second.carry is not None
    assert second.carry.work.tolist() == [0.5, 0.5]
    assert (first.closing, first.upload, second.closing, second.upload) == (False, False, True, True)


def test_a_circle_visits_everyone_once():
    """Three hops along a circle of three: every model ends having seen all, weighs 2 + 4 + 6 = 12."""
    server = table([0, 1, 2])
    server.play(SEM(pairing="derangement", hops=3), 0, 2.0, {})
    assert [leg.epochs for leg in server.legs] == [1 / 3] * 3
    visits = np.stack([leg.clients for leg in server.legs])
    assert all(sorted(column) == [0, 1, 2] for column in visits.T)
    assert server.uploads[0].examples.tolist() == [12.0, 12.0, 12.0]


def test_the_pairing_by_emd_has_the_largest_sum():
    """Four clients of classes a, a, b, c: the best exchange pairs nobody of the same labels.

    EMDs are 2 between different and 0 between equal labels, so the largest sum is 4 x 2 = 8.
    """
    counts = np.array([[5, 0, 0], [3, 0, 0], [0, 4, 0], [0, 0, 4]])
    distance = class_distances(counts, counts)
    np.fill_diagonal(distance, -1)
    for seed in range(5):
        to = assign_partners(distance, generator(seed, "pairs"))
        assert sorted(to) == [0, 1, 2, 3]
        assert distance[np.arange(4), to].sum() == 8.0


def test_later_hops_by_emd_look_at_all_a_model_has_seen():
    """Classes a, b, c at one client each: after two hops a model has seen two classes, and goes to the third."""
    federation = holding([[4, 0, 0], [0, 4, 0], [0, 0, 4]])
    server = Table(federation, lambda c, w, share: w, lambda count, taken: [0, 1, 2], 3)
    server.play(SEM(pairing="emd", hops=3), 0, 0.0, {})
    visits = np.stack([leg.clients for leg in server.legs])
    assert all(sorted(column) == [0, 1, 2] for column in visits.T)


def test_a_relay_to_others_never_returns_to_the_cohort():
    """The second halves are trained by clients that were not selected first (section III.C)."""
    federation = holding([[2, 2]] * 6)
    rest = lambda count, taken: [c for c in range(6) if c not in taken][:count]  # noqa: E731
    server = Table(federation, lambda c, w, share: w + c, rest, 3)
    server.play(SEM(via="others"), 0, 0.0, {})
    first, second = server.legs
    assert first.clients.tolist() == [0, 1, 2]
    assert second.clients.tolist() == [3, 4, 5]
    assert second.source == "relay"


def test_where_others_run_out_models_stay():
    """Three models and one client left: one is handed over, two go on where they are."""
    federation = holding([[2, 2]] * 4)
    rest = lambda count, taken: [c for c in range(4) if c not in taken][:count]  # noqa: E731
    server = Table(federation, lambda c, w, share: w + c, rest, 3)
    server.play(SEM(via="others"), 0, 0.0, {})
    assert server.legs[1].clients.tolist() == [3, 1, 2]


def test_who_is_lost_in_the_first_half_takes_its_model_along():
    """Of four clients one is lost in the first half: two of three exchange, the third goes on with its own model."""
    federation = holding([[2, 2]] * 4)
    everybody = lambda count, taken: [0, 1, 2, 3]  # noqa: E731
    server = Table(
        federation, lambda c, w, share: w + 1, everybody, 4, lost=lambda leg, c: leg == 0 and c == 2
    )
    w, _ = server.play(SEM(), 0, 0.0, {})
    second = server.legs[1]
    held = second.carry.clients
    assert sorted(second.clients) == sorted(held) == [0, 1, 3]
    assert (second.clients == held).sum() == 1
    assert w == 2.0


def test_who_is_lost_in_the_second_half_loses_its_partners_model():
    """Clients 0 and 1 exchange and 1 is lost: the model that 0 began is gone, the other weighs 2 + 4."""
    server = table([0, 1], lost=lambda leg, c: leg == 1 and c == 1)
    w, _ = server.play(SEM(), 0, 2.0, {})
    assert server.uploads[0].clients.tolist() == [0]
    assert server.uploads[0].examples.tolist() == [6.0]
    assert w == 2.0 * 3 + 1


@pytest.mark.parametrize("pairing", ["swap", "derangement", "emd"])
@pytest.mark.parametrize("leg", [0, 1])
def test_a_cohort_that_vanishes_leaves_the_model(pairing, leg):
    """Everybody is lost in the first or in the second half."""
    server = table([0, 1, 2, 1][:2], lost=lambda number, c: number == leg)
    assert server.play(SEM(pairing=pairing), 0, 2.0, {})[0] == 2.0


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.9}, {"optimizer": "adam"}, {"epochs": 3}, {"model": normed}]
)
def test_one_client_is_a_plain_round_to_the_last_bit(settings):
    """SEM with nobody to exchange with is FedAvg, momentum, dropout and an odd number of epochs included."""
    alone = tiny(sizes=[7])
    for method in ("sem", "sem(pairing=emd)", "sem(pairing=derangement, hops=3)"):
        found, plain = (play(Method.parse(m), alone, **settings) for m in (method, "fedavg"))
        assert found.hash == plain.hash


def test_odd_epochs_are_halved_exactly():
    """Three epochs of two batches are six steps, three in each half; the whole costs what a plain round costs."""
    spent = [
        sum(line["sample_steps"] for line in play(Method.parse(m), epochs=3).lines) for m in ("sem", "fedavg")
    ]
    assert spent[0] == spent[1]


def test_bytes_of_the_three_ways_to_hand_over():
    """Of a model of M bytes and K = 4 clients: K M down and up; K M between peers, or K M more up and down.

    Others lack nothing but the model, since no part shares or measures anything here.
    """
    lines = {m: play(Method.parse(f"sem(via={m})"), rounds=1).lines[0] for m in ("peer", "relay", "others")}
    whole = lines["peer"]["bytes_peer"]
    moved = {
        m: [line[f"bytes_{way}"] // whole for way in ("down", "up", "peer")] for m, line in lines.items()
    }
    assert moved == {"peer": [1, 1, 1], "relay": [2, 2, 0], "others": [2, 2, 0]}


@pytest.mark.parametrize(("via", "asked"), [("peer", 4), ("others", 8)])
def test_label_counts_are_told_and_counted_where_partners_are_chosen_by_them(via, asked):
    """Three classes, four bytes a number, from every client of the round; without EMD nobody tells anything."""
    found = {
        m: play(Method.parse(f"sem(pairing={m}, via={via})"), rounds=1).lines[0]["bytes"]["up"]
        for m in ("emd", "derangement")
    }
    assert found["emd"].pop("label counts") == asked * tiny().dataset.classes * 4
    assert found["emd"] == found["derangement"]


def test_strangers_are_also_sent_what_parts_share():
    """SCAFFOLD to others: the second four clients need the control variate and the global model too."""
    line = play(Method.parse("scaffold+sem(via=others)"), rounds=1).lines[0]
    model = line["bytes"]["up"]["model"] // 8
    assert line["bytes"]["down"] == {"model": 12 * model, "scaffold": 8 * model}


def test_relayed_and_direct_models_are_the_same():
    """peer and relay give the same numbers."""
    assert play(Method.parse("sem(via=relay)")).hash == play(Method.parse("sem")).hash


def test_a_client_that_goes_on_with_its_own_model_sends_nothing():
    """Three models at clients 1, 0 and 2, of which the last stays: two travel."""
    from unskew.core.ledger import Ledger
    from unskew.core.types import Leg

    carry = update([[0.0, 0.0]] * 3, [1, 1, 1])
    ledger = Ledger(model=100)
    ledger.asked = {0, 1, 2}
    ledger.sent(Leg(np.array([1, 0, 2]), {}, carry=carry, source="peer"), {})
    assert ledger.peer["model"] == 200


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: SEM(hops=0), "hops of sem must be at least 1, not 0"),
        (
            lambda: Method.parse("sem(pairing=best)"),
            "pairing of sem must be swap or derangement or emd, not best",
        ),
        (
            lambda: SEM(via="others").check(tiny(), 5),
            "sem(via=others) takes 2 x 5 clients a round but there are 8; write cohort = 4 or less",
        ),
        (
            lambda: SEM(hops=3, via="others").check(tiny(sizes=[4, 4]), 1),
            "sem(via=others) takes 3 x 1 clients a round but there are 2; write hops=2 or less",
        ),
        (
            lambda: SEM(via="others").check(tiny(sizes=[4]), 1),
            "sem(via=others) takes 2 x 1 clients a round but there is 1; leave via=others out",
        ),
    ],
)
def test_bad_input_is_one_sentence(build, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        build()
    assert str(told.value) == sentence


def test_what_is_disclosed_depends_on_the_pairing():
    """Label counts leave a client only where the pairing needs them."""
    assert SEM().discloses == ("its half-trained model to another client",)
    assert SEM(pairing="emd").discloses[-1] == "label counts"
