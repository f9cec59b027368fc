"""The balanced loss by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from by_hand import Lens, numbers, seen
from unskew.core.method import Method
from unskew.core.slots import Local
from unskew.core.step import LocalTraining, StepInputs, loss
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.parts.objective import Balanced, FedLC
from unskew.testing.checks import check_method
from unskew.testing.toy_federation import play, tiny


class Seeing(Lens):
    """The lens as a whole pass."""

    def bound(self, buffers, seed, weight):
        return self

    def __call__(self, params, x):
        return self.classify(params, self.features(params, x))


def weights_of(census, part=None, **shared):
    step = seen([[0.0] * len(census)], [0], census=census, **shared)
    return (part or Balanced()).class_weights(step).tolist()


def test_the_loss_of_two_classes_and_its_gradient():
    """A client of 3 and 1 samples: w = 4 / (2 x 3) = 2/3 and 4 / (2 x 1) = 2.

    Logits (0, 0) have CE ln 2, so a batch of one sample each has (2/3 + 2) / 2 ln 2 = 4/3 ln 2. Gradients are
    w (p - y) / 2: 2/3 (-1/2, 1/2) / 2 = (-1/6, 1/6), and 2 (1/2, -1/2) / 2 = (1/2, -1/2).
    """
    step = seen([[0.0, 0.0], [0.0, 0.0]], [0, 1], census=[3, 1])
    weights = Balanced().class_weights(step)
    assert weights.tolist() == pytest.approx([2 / 3, 2.0])
    logits = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    value = CLASSIFICATION.loss(logits, step.batch.y, step.batch.weight, weights)
    assert float(value.detach()) == pytest.approx(4 / 3 * log(2))
    found = torch.autograd.grad(value, logits)[0]
    assert found.flatten().tolist() == pytest.approx([-1 / 6, 1 / 6, 1 / 2, -1 / 2])


def test_a_clients_samples_weigh_one_on_average():
    """(9 x 5/6 + 1 x 5/2) / 10 = 1 at power 1/2: n^(-1/2) = (1/3, 1) times 10 / (9/3 + 1)."""
    assert weights_of([9, 1], Balanced(power=0.5)) == pytest.approx([5 / 6, 5 / 2])
    assert weights_of([7, 2, 1]) == pytest.approx([10 / 21, 10 / 6, 10 / 3])


def test_a_class_that_is_not_there_weighs_nothing():
    """The others share what is left; a client without samples has no weights, and no nan."""
    assert weights_of([4, 0]) == [1.0, 0.0]
    assert weights_of([3, 0, 1]) == pytest.approx([2 / 3, 0.0, 2.0])
    assert weights_of([0, 0]) == [0.0, 0.0]


def test_global_counts_come_from_the_server():
    """3 and 1 here, 4 and 4 in all: everything weighs the same."""
    part = Balanced(counts="global")
    assert weights_of([3, 1], part, shared={"counts": torch.tensor([4.0, 4.0])}) == [1.0, 1.0]


def test_soft_labels_are_weighed_share_by_share():
    """Half a sample of each class at logits (0, 0): (2/3 + 2) / 2 ln 2, as torch has it for probabilities."""
    step = seen([[0.0, 0.0]], [0], census=[3, 1])
    soft, logits = numbers(0.5, 0.5)[None], numbers(0.0, 0.0)[None]
    value = CLASSIFICATION.loss(logits, soft, step.batch.weight, Balanced().class_weights(step))
    assert float(value) == pytest.approx(4 / 3 * log(2))
    expected = torch.nn.functional.cross_entropy(logits, soft, numbers(2 / 3, 2.0), reduction="sum")
    assert float(value) == pytest.approx(float(expected))


def test_padding_counts_nothing():
    """A row of weight 0 changes neither sum nor count."""
    step = seen([[0.0, 0.0], [5.0, -5.0]], [1, 0], weight=[1, 0], census=[3, 1])
    value = CLASSIFICATION.loss(
        step.out.logits, step.batch.y, step.batch.weight, Balanced().class_weights(step)
    )
    assert float(value) == pytest.approx(2 * log(2))


def test_it_weighs_what_fedlc_has_lowered():
    """FedLC makes logits (0, 0) into margins (-1, -0.5) for 1 and 16 samples; the weight of class 0 is 17/2."""
    step = seen([[0.0, 0.0]], [0], census=[1, 16])
    parts = (FedLC(), Balanced())
    training = LocalTraining(Seeing(), parts, Local(), 0)
    nothing = {part.name: {} for part in parts}
    batch = step.batch
    inputs = StepInputs(
        {}, batch.x, batch.y, batch.weight, step.anchor, step.census, nothing, nothing, nothing
    )
    value = loss(training, step.params, inputs, padded=False)
    assert float(value) == pytest.approx(17 / 2 * float(torch.log1p(torch.exp(torch.tensor(0.5)))))


def test_the_counts_that_are_told_are_counted():
    """Eight clients tell three numbers of four bytes once; every client that is asked gets three."""
    lines = play(Method.parse("balanced(counts=global)"), rounds=2).lines
    assert [line["bytes"]["up"].get("balanced at the start", 0) for line in lines] == [8 * 3 * 4, 0]
    assert [line["bytes"]["down"]["balanced"] for line in lines] == [4 * 3 * 4] * 2
    own = play(Method.parse("balanced"), rounds=2).lines
    assert all(set(line["bytes"]["up"]) == {"model"} for line in own)


def test_what_it_discloses_depends_on_whose_counts():
    assert Method.parse("balanced").discloses == ()
    assert Method.parse("balanced(counts=global)").discloses == ("label counts (balanced)",)
    assert Method.parse("balanced(counts=global, power=0)").discloses == ()


def test_others_labels_need_weights_for_classes_that_a_client_lacks():
    """One sentence says what to write; with global counts FLea and FedMix train."""
    with pytest.raises(InputError) as problem:
        Method.parse("balanced+flea(dense1, share=0.5)")
    assert str(problem.value) == (
        "balanced leaves out classes that a client lacks, and flea trains on others' labels; "
        "write balanced(counts=global)"
    )
    check_method("balanced(counts=global)+flea(dense1, share=0.5)", only=["expression", "finite"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "balanced+fedlc+fedntd",
        "balanced+fedrs+sem",
        "balanced(counts=global)+fedmix(group=2)",
        "local_only+balanced",
    ],
)
def test_it_combines(expression):
    """With parts that change logits, add to the loss, hand models on or exchange nothing, on every engine."""
    check_method(expression, only=["finite", "engines", "padding"])


def test_rare_classes_gain():
    """One sample in nine is of class 1: plainly it is never answered, balanced it is."""
    held = tiny(sizes=[9] * 4, classes=2, missing=None)
    held.dataset.y[:] = (torch.arange(36) % 9 == 0).numpy()
    plain, balanced = (
        play(Method.parse(m), held, cohort=4, rounds=3, lr=0.02).lines[-1]["per_class_accuracy"][1]
        for m in ("fedavg", "balanced")
    )
    assert plain < balanced


def test_values_that_make_no_sense_are_refused():
    with pytest.raises(
        InputError, match=r"^power of balanced must be from 0, which weighs nothing, to 1, not 2\.0$"
    ):
        Method.parse("balanced(power=2)")
    with pytest.raises(InputError, match=r"^counts of balanced must be client or global, not server$"):
        Method.parse("balanced(counts=server)")
