"""FedNova by hand, and how work is counted through momentum and pulls."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from by_hand import numbers, update
from unskew.core.method import Method
from unskew.core.optimisers import sum_of_rates
from unskew.core.slots import Local
from unskew.parts.aggregate import FedAvg, FedNova
from unskew.testing.toy_federation import normed, play, tiny


def test_two_clients_with_two_and_four_steps():
    """lr 0.1, tau = 2 and 4, n = 1 and 3, deltas (-1, 0) and (2, 4).

    p = 1/4, 3/4; tau_eff lr = 0.25 x 0.2 + 0.75 x 0.4 = 0.35. Weights 0.25 x 0.35/0.2 = 0.4375 and
    0.75 x 0.35/0.4 = 0.65625. The step is (-0.4375 + 1.3125, 2.625) = (0.875, 2.625).
    """
    landed = update([[-1.0, 0.0], [2.0, 4.0]], [1, 3], reach=[0.2, 0.4], pulled=[0.2, 0.4])
    assert FedNova().weights(landed).tolist() == pytest.approx([0.4375, 0.65625])
    change, _ = FedNova().merge({"w": numbers(1.0, 1.0)}, landed, {}, ("w",))
    assert change["w"].tolist() == pytest.approx([0.875, 2.625])


def test_a_pull_shortens_the_normaliser_and_not_the_effective_steps():
    """The same, with pulls that leave 0.18 and 0.3 of the way: weights 0.25 x 0.35/0.18 and 0.75 x 0.35/0.3."""
    landed = update([[0.0, 0.0]] * 2, [1, 3], reach=[0.2, 0.4], pulled=[0.18, 0.3])
    assert FedNova().weights(landed).tolist() == pytest.approx([0.0875 / 0.18, 0.875])


def test_statistics_are_averaged_by_samples():
    """Running means of 2 and 6 from 1 and 3 samples give 5, whatever the steps."""
    landed = update([[0.0, 0.0]] * 2, [1, 3], reach=[0.2, 0.4], pulled=[0.2, 0.4])
    landed = replace(
        landed,
        base=landed.base | {"mean": torch.zeros(2, 1, dtype=torch.float64)},
        params=landed.params | {"mean": numbers(2.0, 6.0).view(2, 1)},
    )
    before = {"w": numbers(0.0, 0.0), "mean": numbers(0.0)}
    assert FedNova().merge(before, landed, {}, ("w",))[0]["mean"].tolist() == [5.0]


def test_equal_work_gives_fedavgs_weights_to_the_last_bit():
    """Seven clients of equal reach and sizes that do not divide well."""
    landed = update([[0.0, 0.0]] * 7, [3, 7, 11, 13, 17, 19, 23], reach=[0.3] * 7, pulled=[0.3] * 7)
    assert torch.equal(FedNova().weights(landed), FedAvg().weights(landed))


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}, {"model": normed}])
@pytest.mark.parametrize("schedule", ["plain", "sem"])
def test_with_equal_steps_it_is_fedavg_to_the_last_bit(schedule, settings):
    """Four steps each, handed over or not, momentum and batch norm included."""
    settings = settings | {"steps": 4, "epochs": None}
    nova, plain = (play(Method.parse(f"{m}+{schedule}"), **settings) for m in ("fednova", "fedavg"))
    assert nova.hash == plain.hash


def test_under_phase_shift_it_is_fedavg_but_for_the_last_collection():
    """Models of one age hold equal work; the last round collects models of two ages, and weighs them by it."""
    held, settings = tiny(sizes=[4] * 8), {"rounds": 5, "steps": 4, "epochs": None}
    nova, plain = (play(Method.parse(f"{m}+phase_shift(2)"), held, **settings) for m in ("fednova", "fedavg"))
    losses = [[line["global_test_loss"] for line in played.lines] for played in (nova, plain)]
    assert losses[0][:-1] == pytest.approx(losses[1][:-1], abs=1e-12)
    assert nova.hash != plain.hash


def test_unequal_steps_change_the_model():
    """Clients of two to nine samples take unequal steps: it is not FedAvg then."""
    assert play(Method.parse("fednova")).hash != play(Method.parse("fedavg")).hash


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_momentum_adds_up_as_in_the_paper(steps):
    """lr (t - r (1 - r^t) / (1 - r)) / (1 - r), section 4.2: for r = 0.9, t = 2 it is 1 + 1.9 = 2.9 lr."""
    r, lr = 0.9, 0.1
    closed = lr * (steps - r * (1 - r**steps) / (1 - r)) / (1 - r)
    assert sum_of_rates(Local(momentum=r), lr, steps) == pytest.approx(closed)
    assert sum_of_rates(Local(momentum=r), lr, 2) == pytest.approx(0.29)


def test_nesterov_adds_a_look_ahead():
    """r = 0.5, two steps: buffers 1, 1.5, steps 1 + 0.5, 1 + 0.75: 3.25 lr."""
    assert sum_of_rates(Local(momentum=0.5, nesterov=True), 0.1, 2) == pytest.approx(0.325)


@pytest.mark.parametrize("steps", [1, 3, 9])
def test_a_proximal_pull_adds_up_as_in_the_reference(steps):
    """a <- a (1 - lr mu) + 1 each step; in closed form (1 - (1 - lr mu)^t) / (lr mu)."""
    lr, mu, a = 0.1, 0.5, 0.0
    for _ in range(steps):
        a = a * (1 - lr * mu) + 1
    assert sum_of_rates(Local(), lr, steps, mu) == pytest.approx(lr * a)
    assert lr * a == pytest.approx((1 - (1 - lr * mu) ** steps) / mu)


def test_plain_steps_count_as_learning_rates():
    """Also for Adam, whose steps are no sum of gradients."""
    assert sum_of_rates(Local(), 0.1, 7) == pytest.approx(0.7)
    assert sum_of_rates(Local(optimizer="adam"), 0.1, 7) == pytest.approx(0.7)
    assert sum_of_rates(Local(), 0.1, 2, 0.0, 1.0) == pytest.approx(1.2)


def test_a_client_without_steps_has_no_weight():
    """Nothing is divided by its work of 0."""
    landed = update([[0.0, 0.0], [1.0, 1.0]], [0, 3], reach=[0.0, 0.3], pulled=[0.0, 0.3])
    assert FedNova().weights(landed).tolist() == [0.0, 1.0]


def test_the_pull_of_fedprox_reaches_the_rule():
    """With one client the normaliser cancels tau_eff but for the pull: fednova+fedprox goes further than fedprox."""

    def params(method):
        return play(Method.parse(method), tiny(sizes=[6]), rounds=1).state.params

    start = play(Method.parse("fedprox(mu=1)"), tiny(sizes=[6]), rounds=1, drop=1.0).state.params
    plain, nova = params("fedprox(mu=1)"), params("fedprox(mu=1)+fednova")
    # four steps of lr 0.1 against mu 1: (1 - 0.9^4) = 0.3439 of 0.4
    for name, value in start.items():
        assert torch.allclose((nova[name] - value) * 0.3439, (plain[name] - value) * 0.4, atol=1e-12)
