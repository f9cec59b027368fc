"""The task in one place: what is minimised and what is predicted, whoever asks."""

from __future__ import annotations

from math import log

import pytest
import torch
from torch import Tensor

from by_hand import numbers
from unskew.core.held import BEFORE
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.query import ClientView
from unskew.core.task import CLASSIFICATION, Classification, Task, hard_labels, soft_labels
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.loop import Loop
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
    view = ClientView(held, job.net, setup.state.params, job)
    assert view.losses(job.net, view.model).tolist() == [2] * len(view)
