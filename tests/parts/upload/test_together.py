"""Encoded uploads in whole rounds: with schedules, objectives, engines, lost and late clients, and a resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from unskew.core.method import Method
from unskew.core.slots import Upload
from unskew.core.types import Tree
from unskew.engines.cpu import summed
from unskew.engines.cpu.fast import FastCPU
from unskew.errors import InputError
from unskew.testing.toy_federation import apart, models, normed, play, ready


@pytest.mark.parametrize("part", ["topk(1)", "quantize(32)", "topk(1)+quantize(32)"])
@pytest.mark.parametrize("base", ["sem", "phase_shift(2)", "feddyn"])
def test_at_the_ends_of_their_scales_nothing_changes(part, base):
    """All numbers in full are the base method bit for bit and byte for byte."""
    plain, encoded = (play(Method.parse(m), rounds=2) for m in (base, f"{base}+{part}"))
    assert plain.hash == encoded.hash
    assert [line["bytes"] for line in plain.lines] == [line["bytes"] for line in encoded.lines]


@pytest.mark.parametrize(
    "base", ["fednova+sem", "scaffold+phase_shift(2)", "feddyn", "sem(via=relay)", "fedfv", "fedadam"]
)
def test_it_combines_and_resumes(base):
    """Stopped after every round and read back, with clients lost, late and broken, it ends in the same bits."""
    method = Method.parse(f"{base}+topk(0.2)+quantize(6)")
    faults = {"drop": 0.2, "late": 0.3, "nan": 0.2}
    whole, stopped = play(method, **faults), play(method, stopped=True, **faults)
    assert (whole.hash, whole.lines) == (stopped.hash, stopped.lines)


def test_workers_encode_as_the_loop_does():
    """Two processes: what they send back is decoded to the loop's models, and costs its bytes."""
    method = Method.parse("topk(0.2)+quantize(6)+sem")
    engine = FastCPU(workers=2)
    try:
        found, expected = play(method, engine=engine, model=normed), play(method, model=normed)
    finally:
        engine.close()
    assert apart(models(found.state), models(expected.state)) <= 1e-9
    assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in expected.lines]
    for client, row in expected.state.clients.rows["topk"].items():
        other = found.state.clients.get("topk", client, {})
        assert apart(row["unsent"], other["unsent"]) <= 1e-9  # type: ignore[index]


def test_workers_still_sum_where_nobody_looks_at_single_ones(monkeypatch):
    """With models too large to keep, each message is decoded where it was made and only the sum comes back."""
    method = Method.parse("topk(0.2)+quantize(6)")
    expected = play(method)
    monkeypatch.setattr(summed, "LARGEST_STACK", 0)
    seen = []
    plain = FastCPU._summed
    monkeypatch.setattr(FastCPU, "_summed", lambda *given: seen.append(1) or plain(*given))
    found = play(method, engine=FastCPU(workers=1))
    assert len(seen) == 3
    assert apart(models(found.state), models(expected.state)) <= 1e-9
    assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in expected.lines]


def test_a_memory_is_kept_only_when_its_upload_lands():
    """All uploads are late: after a round nobody remembers anything, after the second those who were late do."""
    played = [play(Method.parse("topk(0.1)"), rounds=n, late=1.0) for n in (1, 2)]
    assert "topk" not in played[0].state.clients.rows
    assert len(played[1].state.clients.rows["topk"]) == 4


def test_statistics_of_batch_norm_travel_as_they_are():
    """The normed model has 30 + 6 + 81 + 3 = 120 trained numbers and two statistics of 3, and dropout draws nothing.

    In float64 a tenth is 12 numbers of 12 bytes; the statistics add what the model takes beyond its trained numbers,
    where they are averaged, and nothing where they stay at home.
    """
    net = ready(Method(), model=normed).job.net
    trained = sum(net.initial[k].numel() for k in net.trainable)
    statistics = net.travelling_bytes({k: net.initial[k] for k in net.buffers}, "average")
    kept = int(np.ceil(trained / 10))
    for policy, beside in (("average", statistics), ("local", 0)):
        (line,) = play(Method.parse("topk(0.1)"), rounds=1, model=normed, batch_norm=policy).lines
        assert line["bytes"]["up"]["model"] == 4 * (12 * kept + beside)


def test_only_what_is_uploaded_is_encoded():
    """SEM hands whole models over between clients, and SCAFFOLD's variates travel as they are."""
    plain, encoded = (
        play(Method.parse(m), rounds=1).lines[0]["bytes"] for m in ("scaffold+sem", "scaffold+sem+topk(0.1)")
    )
    assert encoded["peer"] == plain["peer"]
    assert encoded["up"]["scaffold"] == plain["up"]["scaffold"]
    assert encoded["up"]["model"] == 4 * 300


def test_who_was_handed_a_model_by_a_stranger_is_sent_the_global_one():
    """A change is told from the global model: with sem(via=others) the second clients must have it, too."""
    plain, encoded = (
        play(Method.parse(m), rounds=1).lines[0] for m in ("sem(via=others)", "sem(via=others)+topk(0.1)")
    )
    strangers = plain["asked"] - 4
    assert strangers > 0
    more = encoded["bytes"]["down"]["model"] - plain["bytes"]["down"]["model"]
    assert more == strangers * 243 * 8


def test_the_server_sees_the_message_and_not_the_model():
    """What an engine brings back holds no trained parameter: the walled engine's clients send their messages."""
    setup = ready(Method.parse("topk(0.1)"))
    from unskew.core.held import Moment
    from unskew.core.types import Leg

    clients = np.arange(3)
    inputs = setup.run.inputs(setup.job.roster, {}, setup.state.clients, Moment(0, clients=clients))
    update = setup.run.engine.visit(setup.job, Leg(clients, setup.state.params), clients, inputs)
    assert (update.params, update.moved) == ({}, {})
    assert [len(message.sent) for message in update.messages] == [1, 1, 1]
    assert update.sent.tolist() == [300, 300, 300]


@dataclass(frozen=True)
class Clipped(Upload):
    """A bound on what leaves: a change of at most this length, all weights together."""

    name: ClassVar[str] = "clipped"

    length: float = 0.1

    def encode(self, change: Tree, memory: Tree, rng: Any) -> tuple[Tree, Tree]:
        whole = torch.cat([v.flatten() for v in change.values()]).norm()
        return {k: v * (self.length / whole).clamp(max=1) for k, v in change.items()}, memory


def test_a_bound_on_what_leaves_is_an_upload_part():
    """One encode() is all it takes: a client moves the model by at most 0.1, and bytes are FedAvg's."""
    setup = ready(Method())
    found = play(Method.of(Clipped()), rounds=1, cohort=1)
    moved = torch.cat([(found.state.params[k] - v).flatten() for k, v in setup.state.params.items()])
    assert float(moved.norm()) == pytest.approx(0.1)
    assert found.lines[0]["bytes"] == play(Method(), rounds=1, cohort=1).lines[0]["bytes"]


def test_where_nothing_is_uploaded_nothing_is_encoded():
    """local_only refuses it by name."""
    with pytest.raises(
        InputError, match="local_only exchanges nothing, and topk encodes what clients upload"
    ):
        Method.parse("local_only+topk(0.1)")
