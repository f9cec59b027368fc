"""FedDyn by hand."""

from __future__ import annotations

import pytest
import torch

from by_hand import FakeNet, numbers, update
from unskew.core.method import Method
from unskew.core.slots import Batch, Step, Visit
from unskew.errors import InputError
from unskew.parts.aggregate import FedAvg
from unskew.parts.objective import FedDyn
from unskew.testing.toy_federation import play, tiny


def test_the_penalty_and_its_gradient():
    """alpha = 0.5, g = (1, -1), w = (2, 4), w_t = (1, 1).

    0.5 (<g, w> + ||w - w_t||^2 / 2) = 0.5 (-2 + 5) = 1.5; gradient 0.5 (g + w - w_t) = (1, 1).
    """
    w = numbers(2.0, 4.0).requires_grad_()
    batch = Batch(numbers(0.0), torch.zeros(1, dtype=torch.int64), numbers(1.0))
    mine = {"alpha": numbers(0.5)[0], "gone": {"w": numbers(1.0, -1.0)}}
    step = Step(FakeNet(), {"w": w}, {"w": numbers(1.0, 1.0)}, batch, torch.zeros(1), mine=mine)
    value = FedDyn(alpha=0.5).penalty(step)
    assert float(value.detach()) == pytest.approx(1.5)
    assert torch.autograd.grad(value, w)[0].tolist() == pytest.approx([1.0, 1.0])


def test_a_client_remembers_where_it_went():
    """g <- g + (w_k - w_t) = (1, -1) + (0.5, 2) = (1.5, 1); nothing is uploaded beside the model."""
    visit = Visit(
        net=FakeNet(),
        start={"w": numbers(0.0, 0.0)},
        end={"w": numbers(1.5, 3.0)},
        anchor={"w": numbers(1.0, 1.0)},
        moved={"w": numbers(9.0, 9.0)},
        steps=1,
        work=1.0,
        census=torch.zeros(1),
        t=0,
        shared={},
        mine={"alpha": numbers(0.5)[0], "gone": {"w": numbers(1.0, -1.0)}},
        gradient=lambda model: model,
    )
    sent, kept = FedDyn().report(visit)
    assert sent == {}
    assert kept["gone"]["w"].tolist() == [1.5, 1.0]
    assert float(kept["alpha"]) == 0.5


def test_the_servers_two_steps():
    """Two of N = 4 clients moved (1, 0) and (3, 4): h = (0, 1) + (4, 4) / 4 = (1, 2).

    The change is the mean of theirs, (2, 2), plus h: (3, 4).
    """
    landed = update([[1.0, 0.0], [3.0, 4.0]], [1, 1])
    h = FedDyn().absorb({"w": numbers(0.0, 1.0)}, landed, 4)
    assert h["w"].tolist() == [1.0, 2.0]
    mean = {"w": numbers(2.0, 2.0), "mean": numbers(5.0)}
    change = FedDyn().adjust(mean, h)
    assert change["w"].tolist() == [3.0, 4.0]
    assert change["mean"].tolist() == [5.0]


def test_alpha_is_divided_by_the_relative_size():
    """A client twice as large as the mean has half of alpha, as in the authors' code; or the same, as in the paper."""
    assert float(FedDyn(alpha=0.1).init_client(FakeNet(), 2.0)["alpha"]) == pytest.approx(0.05)
    assert float(FedDyn(alpha=0.1, weighted=False).init_client(FakeNet(), 2.0)["alpha"]) == pytest.approx(0.1)


def test_sizes_reach_the_clients():
    """Sizes 2 and 6 have the mean 4: alphas 0.02 and 0.00667."""
    played = play(Method.parse("feddyn(0.01)"), tiny(sizes=[2, 6]), cohort=2)
    alphas = {c: float(tree["alpha"]) for c, tree in played.state.clients.rows["feddyn"].items()}
    assert alphas == pytest.approx({0: 0.02, 1: 0.01 * 4 / 6})


@pytest.mark.parametrize("schedule", ["plain", "sem", "phase_shift(2)", "phase_shift(3)"])
@pytest.mark.parametrize("faults", [{}, {"drop": 0.3, "late": 0.3}])
def test_h_is_the_mean_of_what_all_clients_remember(schedule, faults):
    """h == mean(g_k), lost and late clients and every schedule included."""
    played = play(Method.parse(f"feddyn+{schedule}"), rounds=4, **faults)
    mine = played.state.clients.rows["feddyn"]
    for name, h in played.state.server["feddyn"].items():
        mean = sum(tree["gone"][name] for tree in mine.values()) / tiny().clients
        assert float((h - mean).abs().max()) < 1e-12


def test_it_averages_uniformly_unless_another_rule_is_written():
    """The paper's mean by its name alone, samples' where fedavg is written."""
    assert Method.parse("feddyn").aggregate == FedAvg(uniform=True)
    assert Method.parse("feddyn+fedavg").aggregate == FedAvg()


def test_alpha_must_be_above_zero():
    """At 0 there is no regulariser to divide by."""
    with pytest.raises(InputError, match=r"^alpha of feddyn must be above 0, not 0\.0; at 0 write fedavg$"):
        Method.parse("feddyn(0)")
