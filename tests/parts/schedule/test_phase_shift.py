"""Phase-shift by hand: the queue, the blend, the last round, the bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unskew.core.round as rounds
from by_hand import Table, holding
from unskew.core.kept import blended
from unskew.core.method import Method
from unskew.core.round import play_round
from unskew.errors import InputError
from unskew.parts.schedule import PhaseShift
from unskew.parts.schedule.phase_shift import share_of_phase
from unskew.testing.toy_federation import normed, play, ready, tiny

# client 0 has one sample and adds 1 a round, client 1 has three and adds 2
TWO = holding([[1, 0], [1, 2]])


def everybody(count, taken):
    return [c for c in (0, 1) if c not in taken][:count]


def table(**settings):
    return Table(TWO, lambda c, w, share: w + (1 + c) * share, everybody, 2, **settings)


def test_two_clients_three_rounds():
    """n = 2, w = 0; a queue begins full, so the one whose phase is older (call it A) uploads after round 1.

    If A is client 0 (n = 1, +1 a round) and B client 1 (n = 3, +2):
    1  A: 0 + 1 = 1 uploads, w = 1, N = 1.            B: 0 + 2 = 2.
    2  B: 1/4 x 1 + 3/4 x 2 = 1.75, + 2 = 3.75, w = 3.75, N = 3.   A joins again: 1 + 1 = 2.
    3  A: 3/4 x 3.75 + 1/4 x 2 = 3.3125, + 1 = 4.3125. B joins: 3.75 + 2 = 5.75. The last round collects both:
       w = (1 x 4.3125 + 3 x 5.75) / 4 = 5.390625.
    If A is client 1:
    1  A: 2, w = 2, N = 3.  B: 1.
    2  B: 3/4 x 2 + 1/4 x 1 = 1.75, + 1 = 2.75, w = 2.75, N = 1.   A: 2 + 2 = 4.
    3  A: 1/4 x 2.75 + 3/4 x 4 = 3.6875, + 2 = 5.6875. B: 2.75 + 1 = 3.75. w = (3 x 5.6875 + 3.75) / 4 = 5.203125.
    """
    server = table(last=2)
    w, memory = server.play(PhaseShift(2), 0, 0.0, {})
    expected = [1.0, 3.75, 5.390625] if w == 1 else [2.0, 2.75, 5.203125]
    found = [w]
    for t in (1, 2):
        w, memory = server.play(PhaseShift(2), t, w, memory)
        found.append(w)
    assert found == expected
    assert server.notes["collected"] == 1
    assert set(memory) == {"behind"}


def test_the_blend_counts_uploads_that_landed():
    """n = 2, w = 0. What A, the older phase, uploads after round 1 is late by a round: then N = 0, not n_A.

    If A is client 0 (n = 1, +1 a round) and B client 1 (n = 3, +2):
    1  A: 1 is late, w = 0, N = 0.   B: 2.
    2  B keeps its own model, + 2 = 4, and uploads. A lands too: w = (3 x 4 + 1 x 1) / 4 = 3.25, N = 4. A was on its
       way, so nobody joins.
    3  client 0 joins: 3.25 + 1 = 4.25. Nobody uploads: w = 3.25, N = 4.
    4  client 0: 4/5 x 3.25 + 1/5 x 4.25 = 3.45, + 1 = 4.45. Client 1 joins: 5.25. All collected:
       w = (1 x 4.45 + 3 x 5.25) / 4 = 5.05, N = 4.
    If A is client 1:
    1  A: 2 is late, w = 0, N = 0.   B: 1.
    2  B: 1 + 1 = 2 uploads, A lands: w = (1 x 2 + 3 x 2) / 4 = 2, N = 4.
    3  client 0 joins: 3.   4  4/5 x 2 + 1/5 x 3 = 2.2, + 1 = 3.2; client 1: 4; w = (3.2 + 3 x 4) / 4 = 3.8.
    """
    server = table(last=3, late=lambda t, client: t == 0)
    w, memory, found = 0.0, {}, []
    for t in range(4):
        w, memory = server.play(PhaseShift(2), t, w, memory)
        found.append((w, float(memory["behind"])))
    expected = [0.0, 3.25, 3.25, 5.05] if found[1][0] == 3.25 else [0.0, 2.0, 2.0, 3.8]
    assert [w for w, _ in found] == pytest.approx(expected, abs=1e-12)
    assert [n for _, n in found] == [0.0, 4.0, 4.0, 4.0]


def test_a_run_remembers_the_samples_that_landed():
    """All eight clients are active and half of the uploads are late: N is what the log says landed, round by round."""
    setup = ready(Method.parse("phase_shift(2)"), cohort=8, late=0.5, rounds=6)
    state, waiting, behind = setup.state, np.zeros(0, np.int64), 0.0
    for t in range(5):
        before = queued(state)
        state, _ = play_round(setup.run, state)
        late = state.server["late"].get("clients", torch.zeros(0)).numpy().astype(np.int64)
        # who was active and does not go on has uploaded; in the first round, everybody was
        active = np.union1d(before, queued(state)) if t else np.arange(8)
        uploaded = np.setdiff1d(active, queued(state))
        landed = np.concatenate([np.setdiff1d(uploaded, late), waiting])
        behind = float(setup.job.roster.weigh[landed].sum()) or behind
        assert float(state.server["phase_shift"]["behind"]) == behind
        waiting = late
    assert behind


def test_where_clients_train_on_some_of_their_samples_the_blend_counts_these(monkeypatch):
    """With kld both n_k and N of n_k / (n_k + N) are what uploads weigh: the samples that clients were told to use."""
    setup = ready(
        Method.parse("kld(willing=all)+phase_shift(2)"), tiny((5, 3, 19, 4, 17, 12, 6, 8)), cohort=6
    )
    state, blends = setup.state, []
    monkeypatch.setattr(rounds, "blended", lambda leg: blends.append(leg) or blended(leg))
    for t in range(2):
        behind = state.server["phase_shift"].get("behind")
        state, _ = play_round(setup.run, state)
        for leg in blends:
            told = torch.from_numpy(leg.settings.per_class.sum(1)).double()
            assert (told.numpy() < setup.job.roster.weigh[leg.clients]).any()
            torch.testing.assert_close(leg.blend, told / (told + behind), rtol=1e-12, atol=0.0)
        assert bool(blends) == (t > 0)


def queued(state):
    return state.server["phase_shift"].get("clients", torch.zeros(0)).numpy().astype(np.int64)


@pytest.mark.parametrize("method", ["phase_shift(1)", "phase_shift(2)"])
def test_uploads_land_although_everybody_is_on_the_way(method):
    """Where every upload is late nobody can be asked in the next round, and that round still takes what lands."""
    lines = play(Method.parse(method), cohort=8, late=1.0, rounds=6).lines
    assert sum(line["answered"] for line in lines) > 8


def test_who_keeps_its_model_sends_nothing_up_and_is_sent_the_global_one():
    """Each round every active client downloads, and only the oldest phase uploads and closes its visit."""
    server = table()
    _, memory = server.play(PhaseShift(2), 0, 0.0, {})
    server.play(PhaseShift(2), 1, 1.0, memory)
    assert sorted((leg.upload, leg.closing) for leg in server.legs) == [(False, False), (True, True)]
    assert all(leg.source == "server" and leg.epochs == 1.0 and leg.done == 0.0 for leg in server.legs)
    assert all(float(leg.anchor["w"]) == 1.0 for leg in server.legs)


def test_what_a_visit_has_done_is_carried_over():
    """A client that uploads in its second round reports the work of both; what it moved is measured without blends."""
    server = table()
    _, memory = server.play(PhaseShift(2), 0, 0.0, {})
    server.play(PhaseShift(2), 1, 1.0, memory)
    landed = server.uploads[0]
    assert landed.work.tolist() == [2.0]
    assert landed.base["w"].tolist() == [[1.0]]


def test_epoch_mode_trains_three_quarters_of_a_round_in_two_phases():
    """E_ps = E (n + 1) / (2n): 9 of 12 epochs for n = 2 (table 6.1)."""
    server = table()
    server.play(PhaseShift(2, mode="epoch"), 0, 0.0, {})
    assert {leg.epochs for leg in server.legs} == {0.75}


@pytest.mark.parametrize(("cohort", "n"), [(10, 4), (7, 3), (5, 5), (3, 5), (40, 20)])
def test_groups_share_the_cohort_evenly(cohort, n):
    """Sizes differ by at most one, and n groups in a row make the cohort, whenever one begins."""
    sizes = [share_of_phase(cohort, n, t) for t in range(-n, 3 * n)]
    assert max(sizes) - min(sizes) <= 1
    assert all(sum(sizes[i : i + n]) == cohort for i in range(len(sizes) - n))


def test_with_everybody_active_phases_are_locked_and_else_they_mix():
    """Full participation keeps who shares a phase with whom; partial participation does not (section 4.8)."""
    federation = holding([[1, 1]] * 8)

    def companions(cohort, rounds):
        rng = np.random.default_rng(0)

        def chosen(count, taken):
            return rng.permutation([c for c in range(8) if c not in taken])[:count]

        server = Table(federation, lambda c, w, share: w, chosen, cohort)
        memory, groups = {}, set()
        for t in range(rounds):
            _, memory = server.play(PhaseShift(2), t, 0.0, memory)
            groups.add(frozenset(server.uploads[0].clients.tolist()))
        return groups

    assert len(companions(8, 12)) == 2
    assert len(companions(4, 12)) > 2


def test_a_lost_client_leaves_the_queue():
    """Whoever is lost while it keeps its model may be selected again; its group is not filled up."""
    server = table(lost=lambda leg, client: leg == 1)
    _, memory = server.play(PhaseShift(2), 0, 0.0, {})
    assert set(memory) == {"behind"}
    server.lost = lambda leg, client: False
    w, memory = server.play(PhaseShift(2), 1, 1.0, memory)
    assert len(server.uploads[0]) == 0
    assert w == 1.0
    assert memory["ages"].tolist() == [1]


def test_an_upload_that_is_lost_leaves_the_model_and_its_weight():
    """When nobody of the oldest phase answers, w and N stay: the blend goes on as before."""
    server = table()
    w, memory = server.play(PhaseShift(2), 0, 0.0, {})
    server.lost = lambda leg, client: server.legs[leg].upload
    after, later = server.play(PhaseShift(2), 1, w, memory)
    assert after == w
    assert float(later["behind"]) == float(memory["behind"])


def test_the_log_carries_the_emd_of_phases_and_between_them():
    """Client 0 holds (1, 0), client 1 (1, 2), all (2, 2)/4: EMDs 1 and 1/3, and 4/3 between the two."""
    server = table()
    server.play(PhaseShift(2), 0, 0.0, {})
    assert sorted(server.notes["phase_emd"]) == pytest.approx([1 / 3, 1.0])
    assert server.notes["between_phases_emd"] == pytest.approx(4 / 3)
    assert server.notes["active"] == 2


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}, {"model": normed}, {"drop": 0.3, "late": 0.3}])
def test_one_phase_is_a_plain_round_to_the_last_bit(settings):
    """phase_shift(1) is FedAvg, in either mode."""
    for method in ("phase_shift(1)", "phase_shift(1, mode=epoch)"):
        assert play(Method.parse(method), **settings).hash == play(Method.parse("fedavg"), **settings).hash


@pytest.mark.parametrize(("n", "share"), [(2, 0.75), (4, 0.625), (5, 0.60), (10, 0.55), (20, 0.525)])
def test_traffic_is_that_of_table_4_5(n, share):
    """(n + 1)/(2n) of FedAvg's bytes in every round but the last, whose collection of the others comes on top."""
    federation, settings = (
        tiny(sizes=[2] * 20),
        {"cohort": 20, "rounds": 3, "epochs": 1, "model": "linear"},
    )
    lines, plain = (
        play(Method.parse(m), federation, **settings).lines for m in (f"phase_shift({n})", "fedavg")
    )
    moved, usual = ([line["bytes_down"] + line["bytes_up"] for line in log] for log in (lines, plain))
    assert [a / b for a, b in zip(moved[:-1], usual[:-1], strict=True)] == pytest.approx(
        [share, share], abs=1e-12
    )
    model = plain[0]["bytes_up"] // 20
    collected = lines[-1]["collected"]
    assert collected == 20 - 20 // n
    assert moved[-1] - collected * model == pytest.approx(share * usual[-1])


def test_the_queue_survives_a_kill_with_settings_of_its_clients():
    """Models in flight lie in the state: stopped after every round it ends in the same bits."""
    whole, stopped = (play(Method.parse("phase_shift(3)"), rounds=6, stopped=s) for s in (False, True))
    assert whole == stopped


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: PhaseShift(0), "phase_shift needs at least 1 phase, not 0"),
        (
            lambda: PhaseShift(9).check(tiny(), 4),
            "phase_shift(9) needs a client in each of its 9 phases but there are 8; write at most phase_shift(8)",
        ),
    ],
)
def test_bad_input_is_one_sentence(build, sentence):
    """Value checks when it is made, checks against the clients when they are known."""
    with pytest.raises(InputError) as told:
        build()
    assert str(told.value) == sentence
