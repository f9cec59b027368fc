"""What a model is judged by: statistics of the samples at hand where clients keep theirs, and clients' own data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import FakeNet, numbers, update
from unskew.core.held import BEFORE, OWN
from unskew.core.holdings import Holdings
from unskew.core.ledger import Ledger
from unskew.core.method import Method
from unskew.core.net import JUDGED_AT_ONCE, Net
from unskew.core.query import RunQuestions
from unskew.core.round import play_round, told_by_all
from unskew.core.score import evaluate_model, judge_clients
from unskew.core.slots import Calibrate
from unskew.core.task import ClassSums
from unskew.data import Dataset, Federation
from unskew.engines import Loop
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.models import build
from unskew.parts.aggregate import FedFA
from unskew.runs.running import run
from unskew.testing.toy_federation import normed, play, ready, tiny

POLICIES = ["average", "local", "drop"]


def small(shape, classes):
    return nn.Sequential(nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], classes))


def two_classes():
    """Far apart, and the test set sorted by class."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 600)
    x = (rng.normal(size=(1200, 4)) + 4 * y[:, None]).astype(np.float32)
    dealt = rng.permutation(1200)[:400]
    return Federation(Dataset("two", x, y, x, y, ("a", "b"), "vector"), dealt, np.arange(0, 401, 100))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_order_of_the_test_set_does_not_matter(policy):
    """Sorted by class, blocks of 500 would each hold one class, and statistics of a block would hide which."""
    settings = {"rounds": 6, "cohort": 4, "lr": 0.3, "batch": 20, "engine": "loop", "progress": False}
    found = run(dataset=two_classes(), model=small((4,), 2), batch_norm=policy, **settings)
    assert found.result["final"]["accuracy"] > 0.97


def test_blocks_are_consecutive_or_mixed_and_of_one_size():
    """Of 1,201 samples: 500, 500 and 201 in order; by statistics of the block three of 400 and 401, by chance."""
    net = Net(build(small((4,), 2), (4,), 2, 0))
    assert [len(b) for b in net.blocks(1201)] == [JUDGED_AT_ONCE, JUDGED_AT_ONCE, 201]
    assert np.array_equal(np.concatenate(net.blocks(1201)), np.arange(1201))
    mixed = net.by_batch_statistics().blocks(1201)
    assert sorted(len(b) for b in mixed) == [400, 400, 401]
    assert np.array_equal(np.sort(np.concatenate(mixed)), np.arange(1201))
    assert np.ptp(mixed[0]) > 1000
    assert net.by_batch_statistics().blocks(300)[0].tolist() == list(range(300))


@pytest.mark.parametrize("policy", POLICIES)
def test_engines_judge_alike(policy):
    """Each puts answers back in the order of the questions."""
    federation = two_classes()
    job = ready(Method(), federation, model=small, batch_norm=policy).job
    answers = []
    for engine in (Loop(), FastCPU(workers=1), FastGPU("cpu")):
        engine.hold(Holdings(federation))
        answers.append(engine.judged(job, job.net.initial, None))
        engine.close()
    for found in answers[1:]:
        assert found.keys() == answers[0].keys()
        for name, values in found.items():
            assert np.array_equal(values, answers[0][name])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_probe_is_of_the_client_alone(policy):
    """Whoever else is in the cohort, a client's loss and accuracy are those of its own samples."""
    run = ready(Method.parse("fedfa"), model=normed, batch_norm=policy).run
    job = run.job
    params = dict(job.net.initial)

    def measured(*clients):
        return run.engine.evaluate(job, params, np.array(clients), BEFORE).means()

    together, alone = measured(0, 2, 4), [measured(c) for c in (0, 2, 4)]
    assert together["accuracy"].tolist() == [one["accuracy"][0] for one in alone]
    assert together["loss"].tolist() == pytest.approx([one["loss"][0] for one in alone])


@dataclass(frozen=True)
class Curious(Calibrate):
    """Asks for features."""

    name: ClassVar[str] = "curious"
    questions: ClassVar[tuple[str, ...]] = ("feature",)

    def feature(self, client, at):
        return {"f": client.embed(index=at)}

    def untold(self, client):
        return {}


def test_only_what_is_named_as_a_question_can_be_asked():
    """A question crosses as a name, so a part says which of its methods answer one."""
    run = ready(Method.of(Curious())).run
    with pytest.raises(TypeError, match="curious has no question 'untold': name it in `questions`"):
        RunQuestions(run, Ledger(0))(Curious(), "untold", [0])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_feature_is_a_function_of_its_sample_and_the_client(policy):
    """One row asked for is the row of all: alone, statistics of one row would make every feature the same."""
    run = ready(Method.of(Curious()), tiny(sizes=[6, 5]), model=normed, batch_norm=policy).run
    job = run.job
    query = RunQuestions(run, Ledger(0), dict(job.net.initial))
    every, one = (
        query(job.method.calibrate[0], "feature", [0, 1], at=at) for at in (None, torch.tensor([3]))
    )
    for client in (0, 1):
        assert torch.allclose(every[client]["f"][3], one[client]["f"][0], atol=1e-6)
    assert not torch.allclose(one[0]["f"], one[1]["f"], atol=1e-3)


def test_client_accuracies_are_on_clients_own_data():
    """What others sent is not a client's own, nor is what was pooled: the same numbers as without sharing."""
    plain, shared = (ready(Method.parse(m)).run for m in ("fedavg", "fed_data(0.5)"))
    assert shared.job.roster.sizes.sum() > plain.job.roster.sizes.sum()
    names = ("mean_client_train_accuracy", "worst_client_train_accuracy")
    found = [evaluate_model(run, dict(plain.job.net.initial), clients=True) for run in (plain, shared)]
    assert [found[0][n] for n in names] == [found[1][n] for n in names]
    model, everyone = dict(plain.job.net.initial), shared.job.roster.ids
    with_gifts = shared.engine.evaluate(shared.job, model, everyone, BEFORE).means()
    assert with_gifts["accuracy"].mean() != found[0]["mean_client_train_accuracy"]


@pytest.mark.parametrize("method", ["fedntd", "moon"])
def test_a_teacher_without_statistics_is_warned_of(method):
    """Dropped ones leave the global model with those it began with; a model without batch norm has no such trouble."""
    with pytest.warns(
        UserWarning, match=f"{method} asks the global model for answers, and with batch_norm = drop"
    ):
        ready(Method.parse(method), model=normed, batch_norm="drop")


@pytest.mark.parametrize(
    ("method", "models"),
    [("fedavg", 8), ("fedlc", 8), ("fedmix", 8), ("fedprox(mu=0.1)", 12), ("fedfa", 12), ("fedfv", 12)],
)
def test_strangers_get_the_global_model_where_they_need_it(method, models):
    """SEM hands models to four others. To measure drift or a loss by it, they need the round's first model as well."""
    line = play(Method.parse(f"{method}+sem(via=others)"), rounds=1).lines[0]
    one = play(Method(), rounds=1).lines[0]["bytes"]["down"]["model"] // 4
    assert line["bytes"]["down"]["model"] == models * one


def counted(right, count, loss):
    """What groups of samples told: so many right of so many, and the sum of their losses."""
    hits, truths = (np.array([v, np.zeros(len(v))], np.int64).T for v in (right, count))
    return ClassSums(np.array(loss), np.array(count), truths=truths, guesses=truths, hits=hits)


def test_who_tells_no_probe_is_taken_for_the_mean_of_the_others():
    """Losses 2/1, none and 12/3, weights 1, 5 and 3: the second is (1 x 2 + 3 x 4) / 4 = 3.5, right (1 + 3 x 1/3) / 4.

    Where nobody tells any, all are alike; where everybody does, nothing changes.
    """
    found = told_by_all(counted([1, 0, 1], [1, 0, 3], [2.0, 0.0, 12.0]), ["loss", "accuracy"], np.ones(3))
    assert found["loss"].tolist() == [2.0, 3.0, 4.0]
    found = told_by_all(
        counted([1, 0, 1], [1, 0, 3], [2.0, 0.0, 12.0]), ["loss", "accuracy"], np.array([1.0, 5.0, 3.0])
    )
    assert found["loss"].tolist() == [2.0, 3.5, 4.0]
    assert found["accuracy"].tolist() == pytest.approx([1.0, 0.5, 1 / 3])
    nobody = told_by_all(counted([0, 0], [0, 0], [0.0, 0.0]), ["loss"], np.ones(2))
    assert nobody["loss"].tolist() == [0.0, 0.0]


class Away(Loop):
    """Clients whose site answered in training and is away when it is asked how the model does there."""

    def __init__(self, *away):
        super().__init__()
        self.away = away

    def evaluate(self, job, model, clients=None, moment=OWN):
        found = super().evaluate(job, model, clients, moment)
        if clients is None:
            return found
        here = ~np.isin(clients, self.away)
        kept = {name: getattr(found, name) for name in ("loss", "count", "truths", "guesses", "hits")}
        return replace(found, **{name: v * here.reshape(-1, *[1] * (v.ndim - 1)) for name, v in kept.items()})


def test_an_adaptive_mu_does_not_take_a_site_that_is_away_for_one_without_loss():
    """The global loss falls in every round; a client that is away in one of them makes it neither fall nor rise."""
    setup = ready(Method.parse("fedprox(adaptive=true)"), rounds=4, cohort=8, lr=0.01, engine=Away(2, 6))
    engine, state, mus = setup.run.engine, setup.state, []
    for away in ((), (2, 6), (), ()):
        engine.away = away
        state, _ = play_round(setup.run, state)
        mus.append(float(state.server["fedprox"]["mu"]))
    assert mus == [0.0, 0.0, 0.0, 0.0]


def test_a_client_that_holds_nothing_is_not_the_one_that_is_served_worst():
    """FedFA's weights grow as accuracy falls. Right: 3/4, nobody knows, 1/4; so 3/4, 1/2, 1/4, shares 1/2, 1/3, 1/6.

    -log2 of these is 1, 1.58496, 2.58496, of 5.16993: weights 0.19343, 0.30657, 0.5. It moved nothing.
    """
    found = told_by_all(
        counted([3, 0, 1], [4, 0, 4], [1.0, 0.0, 1.0]), ["accuracy"], np.array([4.0, 0.0, 4.0])
    )
    landed = update([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [4, 0, 4])
    part = FedFA(0, 0, 0)
    change, _ = part.merge(
        {"w": numbers(0.0, 0.0)}, replace(landed, probes=found), part.init_server(FakeNet()), ("w",)
    )
    assert change["w"].tolist() == pytest.approx([0.19343, 0.5], abs=2e-5)


def test_accuracies_are_of_the_clients_that_told_theirs():
    """Who is away when the model is judged is no client with an accuracy of 0, and not the worst of all."""
    setup = ready(Method(), engine=Away(0, 5))
    model = dict(setup.job.net.initial)
    found = evaluate_model(setup.run, model, clients=True)
    setup.run.engine.away = ()
    who, shares = judge_clients(setup.run, model)
    here = shares[~np.isin(who, [0, 5])]
    assert found["client_train_accuracy"]["clients"] == 6
    assert found["mean_client_train_accuracy"] == pytest.approx(float(here.mean()))
    assert found["worst_client_train_accuracy"] == float(here.min())
