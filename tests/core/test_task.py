"""The task in one place: what is minimised and what is predicted, whoever asks."""

from __future__ import annotations

from math import log
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

from by_hand import numbers
from unskew.core.held import BEFORE
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.query import ClientView
from unskew.core.round import play_round
from unskew.core.score import evaluate_model
from unskew.core.task import CLASSIFICATION, Classification, Sums, Task, hard_labels, soft_labels
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.loop import Loop
from unskew.readings import Reading
from unskew.testing.toy_federation import play, ready, tiny


def test_cross_entropy_by_hand():
    """Logits (0, 0) and (ln 3, 0): losses ln 2 and ln 4/3 for class 0, and their mean by weight."""
    outputs = torch.stack([numbers(0.0, 0.0), numbers(log(3), 0.0)])
    targets = torch.tensor([0, 0])
    assert CLASSIFICATION.losses(outputs, targets).tolist() == pytest.approx([log(2), log(4 / 3)])
    assert float(CLASSIFICATION.loss(outputs, targets)) == pytest.approx((log(2) + log(4 / 3)) / 2)
    assert float(CLASSIFICATION.loss(outputs, targets, numbers(0.0, 1.0))) == pytest.approx(log(4 / 3))
    weighed = CLASSIFICATION.losses(outputs, targets, numbers(5.0, 1.0))
    assert weighed.tolist() == pytest.approx([5 * log(2), 5 * log(4 / 3)])
    assert CLASSIFICATION.predict(outputs).tolist() == [0, 0]
    assert CLASSIFICATION.probabilities(outputs)[1].tolist() == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_stacked_clients_have_the_bits_of_each_alone(dtype: torch.dtype) -> None:
    """Under vmap the loss is written otherwise: losses and slopes are those of torch's own, beside padding, too."""
    drawing = torch.Generator().manual_seed(0)
    outputs = torch.randn(3, 5, 4, generator=drawing).to(dtype).requires_grad_()
    targets = torch.randint(0, 4, (3, 5), generator=drawing)
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0]).to(dtype).expand(3, 5)
    stacked = vmap(CLASSIFICATION.loss)(outputs, targets, weight)
    alone = torch.stack([CLASSIFICATION.loss(*row) for row in zip(outputs, targets, weight, strict=True)])
    assert torch.equal(stacked, alone)
    slopes = [torch.autograd.grad(found.sum(), outputs)[0] for found in (stacked, alone)]
    assert torch.equal(*slopes)


def test_labels_are_hard_or_soft():
    """Hard ones become one for their class; soft ones stay, and stand for the class of the largest share."""
    like = torch.zeros(2, 3, dtype=torch.float64)
    hard = torch.tensor([2, 0])
    assert soft_labels(hard, like).tolist() == [[0, 0, 1], [1, 0, 0]]
    soft = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], dtype=torch.float64)
    assert soft_labels(soft, like) is soft
    assert hard_labels(hard) is hard
    assert hard_labels(soft).tolist() == [0, 2]


@pytest.fixture
def flat(monkeypatch):
    """Another task: every sample has the loss 2 and no slope, and is taken for class 1."""

    def losses(self: Task, outputs: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
        return 2 + 0 * outputs.sum(1)

    monkeypatch.setattr(Classification, "losses", losses)
    monkeypatch.setattr(
        Classification, "predict", lambda self, outputs: torch.ones_like(outputs[:, 0]).long()
    )


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize(
    ("method", "engine"),
    [
        ("fedavg", lambda: FastGPU("cpu")),
        ("fedavg", lambda: FastCPU(workers=1)),
        ("scaffold(option=1)", Loop),
        ("ccvr(virtual=5, epochs=1)", Loop),
        ("fedfv", Loop),
    ],
)
def test_another_task_is_trained_and_judged_by_every_engine(method, engine):
    """Without a slope nothing moves, whoever takes a gradient; the loss is 2, and class 1 alone is right."""
    played = play(Method.parse(method), engine=engine(), rounds=2)
    assert played.hash == played.started
    for line in played.lines:
        assert line["global_test_loss"] == pytest.approx(2)
        assert line["per_class_accuracy"] == [0, 1, 0]


@pytest.mark.usefixtures("flat")
def test_another_task_is_what_clients_answer_by():
    """The losses of a client's samples are the task's."""
    setup = ready(Method())
    job, federation = setup.job, tiny()
    held = Holdings(federation).held(0, BEFORE, job.roster, (), job.seed)
    view = ClientView.of(job, held, setup.state.params)
    assert view.losses(job.net, view.model).tolist() == [2] * len(view)


@pytest.mark.parametrize("engine", [Loop, lambda: FastCPU(workers=1), lambda: FastGPU("cpu")])
def test_engines_give_enough_for_every_metric(engine):
    """What each class was taken for, and of two classes every sample's log-odds: the server's own test set."""
    setup = ready(Method(), tiny(), engine=engine())
    found = setup.run.engine.evaluate(setup.job, setup.state.params)
    truth, guess = found.answers["truth"], found.answers["predicted"]
    assert found.truths.tolist() == [np.bincount(truth, minlength=3).tolist()]
    assert found.guesses.tolist() == [np.bincount(guess, minlength=3).tolist()]
    assert found.hits.tolist() == [np.bincount(truth[truth == guess], minlength=3).tolist()]
    scores = setup.job.net.task.scores(found)
    assert scores["accuracy"][0] == np.mean(truth == guess)
    assert scores["log_loss"][0] == pytest.approx(found.answers["loss"].mean())
    assert "auc" not in scores


def test_of_clients_only_sums_come_back():
    """Counts for each class of each client, so that they can be judged by any metric of counts; no sample's answer."""
    setup = ready(Method(), tiny())
    found = setup.run.engine.evaluate(setup.job, setup.state.params, np.array([0, 2]))
    assert found.answers is None
    assert found.truths.sum(1).tolist() == found.count.tolist()
    assert CLASSIFICATION.scores(found)["macro_f1"].shape == (2,)


def test_two_classes_are_ranked_by_log_odds():
    """Probabilities of 1 - 1e-20 and 1 - 1e-30 are both 1; their log-odds are 46 and 69, and differ."""
    outputs = torch.tensor([[0.0, 46.0], [0.0, 69.0], [1.0, 0.0]], dtype=torch.float32)
    details = CLASSIFICATION.details(outputs)
    assert details["log_odds"].tolist() == [46.0, 69.0, -1.0]
    assert "probabilities" not in details
    kept = Classification(keep_probabilities=True).details(torch.zeros(2, 3))
    assert kept["probabilities"].tolist() == pytest.approx(np.full((2, 3), 1 / 3))
    truth, answers = np.array([0, 1, 0]), {"predicted": np.array([1, 1, 0]), "loss": np.zeros(3)}
    found = CLASSIFICATION.sums(truth, answers | {"log_odds": details["log_odds"].numpy()}, 2)
    assert CLASSIFICATION.scores(found)["auc"].tolist() == [1.0]


class Grades(Task):
    """Another task in one class: the number of a class is a grade, predicted as a mean, off by squares."""

    metrics: ClassVar = {"error": Reading("error", "Mean distance.", "error", larger_is_better=False)}

    def losses(self, outputs, targets, class_weights=None):
        return (self.predict(outputs) - targets) ** 2

    def predict(self, outputs):
        return outputs.softmax(1) @ torch.arange(outputs.shape[1], dtype=outputs.dtype)

    def sums(self, truth, answers, classes, owner=None, groups=1):
        owner = np.zeros(len(truth), np.int64) if owner is None else owner
        return Sums(np.bincount(owner, answers["loss"], groups), np.bincount(owner, minlength=groups))

    def scores(self, found):
        return {"error": found.means()["loss"] ** 0.5}


@pytest.mark.parametrize("engine", [Loop, lambda: FastCPU(workers=1), lambda: FastGPU("cpu")])
def test_another_kind_of_task_is_one_class(engine):
    """It is trained by its own loss and judged by its own metric, and nothing else has to know of it."""
    setup = ready(Method(), tiny(), engine=engine())
    setup.job.net.task = Grades()
    before = evaluate_model(setup.run, setup.state.params)
    state = setup.state
    for _ in range(3):
        state, _ = play_round(setup.run, state)
    after = evaluate_model(setup.run, state.params)
    assert before.keys() == {"global_test_error"}
    assert after["global_test_error"] < before["global_test_error"]
