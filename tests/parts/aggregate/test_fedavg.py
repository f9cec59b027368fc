"""FedAvg against numbers worked by hand, against torch's own optimisers, and against itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unskew.core.plan import plan
from unskew.core.slots import Local
from unskew.data import Dataset, Federation
from unskew.models import build
from unskew.runs.ended import Run
from unskew.runs.running import run


def federation(x: Any, y: Any, sizes: list[int], classes: int = 2) -> Federation:
    """These samples, dealt in order; they are their own test set, and are not normalised."""
    x, y = np.asarray(x, np.float32), np.asarray(y)
    names = tuple(map(str, range(classes)))
    dataset = Dataset("hand", x, y, x, y, names, "vector")
    return Federation(dataset, np.arange(len(y)), np.concatenate([[0], np.cumsum(sizes)]))


def played(data: Federation, **settings: Any) -> Run:
    return run(dataset=data, progress=False, **({"cohort": data.clients, "rounds": 1} | settings))


def only(run: Run, name: str) -> list[float]:
    """The values of the one tensor whose name ends so."""
    (found,) = (v for k, v in run.state.params.items() if k.endswith(name))
    return [round(float(v), 12) for v in found.flatten()]


def cloud(samples: int, features: int, classes: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(samples, features)), np.arange(samples) % classes


# --- one round by hand


@pytest.fixture
def two_weights() -> nn.Module:
    """One feature, two classes, no bias, both weights 0: every probability is 1/2."""
    model = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(model.weight)
    return model


@pytest.fixture
def two_clients() -> Federation:
    """A holds (x=2, y=0); B holds three times (x=1, y=1)."""
    return federation([[2.0], [1.0], [1.0], [1.0]], [0, 1, 1, 1], [1, 3])


def test_one_round_of_two_clients_and_two_weights(two_weights: nn.Module, two_clients: Federation) -> None:
    """The gradient of cross-entropy is (p - onehot) x, and p = (1/2, 1/2) at the start; lr = 1/2.

    A: ((1/2 - 1) 2, (1/2) 2) = (-1, 1), so A ends at (1/2, -1/2).
    B: the mean over three equal samples, (1/2, -1/2), so B ends at (-1/4, 1/4).
    n_A = 1, n_B = 3: (1/4)(1/2) + (3/4)(-1/4) = -1/16, and +1/16 for the other weight.
    """
    assert only(played(two_clients, model=two_weights, lr=0.5), "weight") == [-1 / 16, 1 / 16]


def test_uniform_weights_count_clients_not_samples(two_weights: nn.Module, two_clients: Federation) -> None:
    """The same with equal weights: (1/2)(1/2) + (1/2)(-1/4) = 1/8."""
    ended = played(two_clients, model=two_weights, lr=0.5, method="fedavg(uniform=true)")
    assert only(ended, "weight") == [1 / 8, -1 / 8]


def test_bytes_and_sample_steps_of_that_round(two_weights: nn.Module, two_clients: Federation) -> None:
    """Two float32 weights are 8 bytes, sent to two clients and back; 1 + 3 samples were trained on once."""
    (line,) = played(two_clients, model=two_weights, lr=0.5).folder.lines
    assert (line["bytes_down"], line["bytes_up"], line["bytes_peer"]) == (16, 16, 0)
    assert (line["sample_steps"], line["asked"], line["answered"]) == (4, 2, 2)


def test_the_second_round_starts_from_the_average(two_weights: nn.Module, two_clients: Federation) -> None:
    """From w = (-1/16, 1/16): A's logits are (-1/8, 1/8), B's (-1/16, 1/16); p0 = 1 / (1 + exp(gap)).

    A moves by lr 2 (1 - p0(A)), B by -lr p0(B), and they weigh 1/4 and 3/4.
    """
    p_a, p_b = 1 / (1 + np.exp(2 / 8)), 1 / (1 + np.exp(2 / 16))
    expected = -1 / 16 + 0.25 * (0.5 * 2 * (1 - p_a)) + 0.75 * (-0.5 * p_b)
    ended = played(two_clients, model=two_weights, lr=0.5, rounds=2, precision="float64")
    assert only(ended, "weight") == pytest.approx([expected, -expected], abs=1e-12)


# --- one client is plain training


RULES: dict[str, tuple[dict[str, Any], Any]] = {
    "sgd": ({"lr": 0.1}, lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": ({"lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "nesterov": (
        {"lr": 0.1, "momentum": 0.8, "nesterov": True},
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, nesterov=True),
    ),
    "weight decay": (
        {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.02},
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, weight_decay=0.02),
    ),
    "adam": ({"lr": 0.01, "optimizer": "adam"}, lambda p: torch.optim.Adam(p, 0.01)),
    "adam with decay": (
        {"lr": 0.01, "optimizer": "adam", "weight_decay": 0.02},
        lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.02),
    ),
    "clipped": ({"lr": 0.5, "clip": 0.3}, lambda p: torch.optim.SGD(p, 0.5)),
}


@pytest.mark.parametrize("rule", RULES)
def test_one_client_is_torch_optim_on_the_same_batches(rule: str) -> None:
    """Two rounds of two epochs over 11 samples in batches of 4 agree to 1e-6 in float32."""
    settings, optimiser = RULES[rule]
    x, y = cloud(11, 5, 3)
    data = federation(x, y, [11], classes=3)
    ended = played(data, model="mlp(hidden=[8])", rounds=2, epochs=2, batch=4, seed=5, **settings)

    model = build("mlp(hidden=[8])", (5,), 3, seed=5)
    clip = settings.get("clip")
    for t in range(2):
        work = plan(11, 11, Local(epochs=2, batch=4), seed=5, t=t, client=0)
        opt = optimiser(model.parameters())  # a visit begins without memory
        for first, stop in pairwise(work.cuts):
            at = work.order[first:stop]
            opt.zero_grad()
            out = model(torch.tensor(x[at], dtype=torch.float32))
            nn.functional.cross_entropy(out, torch.tensor(y[at])).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()
    for name, value in model.named_parameters():
        torch.testing.assert_close(ended.state.params[name], value.detach(), atol=1e-6, rtol=0)


def test_clients_with_the_same_data_and_full_batches_are_one_client() -> None:
    """Five copies of one client, all samples in each step: the average is what one of them makes."""
    x, y = cloud(9, 4, 3)
    settings = {"model": "mlp(hidden=[6])", "epochs": 3, "batch": 9, "rounds": 3, "lr": 0.2}
    alone = played(federation(x, y, [9], 3), precision="float64", **settings)
    data = federation(x, y, [9], 3).dataset
    five = Federation(data, np.tile(np.arange(9), 5), np.arange(6) * 9)
    for method in ("fedavg", "fedavg(uniform=true)"):
        together = played(five, precision="float64", method=method, **settings)
        for name, value in alone.state.params.items():
            torch.testing.assert_close(together.state.params[name], value, atol=1e-12, rtol=0)


def test_a_decayed_rate_is_the_rate_of_that_round(two_weights: nn.Module, two_clients: Federation) -> None:
    """step(1, 0.5) halves the rate for the second round: its move is half of the undecayed one."""
    settings = {"model": two_weights, "lr": 0.5, "precision": "float64"}
    first = only(played(two_clients, **settings), "weight")[0]
    plain = only(played(two_clients, rounds=2, **settings), "weight")[0]
    halved = only(played(two_clients, rounds=2, decay="step(1, 0.5)", **settings), "weight")[0]
    assert halved - first == pytest.approx((plain - first) / 2, abs=1e-11)


# --- batch norm's statistics


@pytest.fixture
def normed() -> nn.Module:
    """Batch norm of one feature, then two classes: 2 + 4 trained numbers and 2 measured ones."""
    return nn.Sequential(nn.BatchNorm1d(1, momentum=0.1), nn.Linear(1, 2))


@pytest.fixture
def measured() -> Federation:
    """A holds 0 and 2 (mean 1, unbiased variance 2); B holds 3, 6 and 9 (mean 6, unbiased variance 9)."""
    return federation([[0.0], [2.0], [3.0], [6.0], [9.0]], [0, 1, 0, 1, 0], [2, 3])


def test_averaged_statistics_are_the_weighted_mean(normed: nn.Module, measured: Federation) -> None:
    """One step moves the running mean from 0 to 0.1 and 0.6, the variance from 1 to 1.1 and 1.8.

    Weighted 2/5 and 3/5: mean 0.04 + 0.36 = 0.4, variance 0.44 + 1.08 = 1.52; 8 numbers of 4 bytes travel.
    """
    ended = played(measured, model=normed, precision="float64")
    assert only(ended, "running_mean") == pytest.approx([0.4])
    assert only(ended, "running_var") == pytest.approx([1.52])
    assert played(measured, model=normed).folder.lines[0]["bytes_up"] == 2 * 8 * 4


def test_local_statistics_come_back_to_their_client_and_never_travel(
    normed: nn.Module, measured: Federation
) -> None:
    """After two visits A's running mean is 0.9 x 0.1 + 0.1 x 1 = 0.19, B's 0.9 x 0.6 + 0.1 x 6 = 1.14."""
    ended = played(measured, model=normed, batch_norm="local", rounds=2)
    assert only(ended, "running_mean") == [0.0]
    own = ended.state.clients.rows["batch_norm"]
    kept = {c: next(float(v) for k, v in tree.items() if k.endswith("mean")) for c, tree in own.items()}
    assert kept == pytest.approx({0: 0.19, 1: 1.14})
    assert {line["bytes_up"] for line in ended.folder.lines} == {2 * 6 * 4}
    assert {line["bytes_down"] for line in ended.folder.lines} == {2 * 6 * 4}


def test_dropped_statistics_are_fresh_at_each_visit_and_never_travel(
    normed: nn.Module, measured: Federation
) -> None:
    """Nobody keeps any: the global ones stay as they began, no client remembers its own, 6 numbers travel."""
    ended = played(measured, model=normed, batch_norm="drop", rounds=2)
    assert only(ended, "running_mean") == [0.0]
    assert only(ended, "running_var") == [1.0]
    assert "batch_norm" not in ended.state.clients.rows
    assert {line["bytes_up"] for line in ended.folder.lines} == {2 * 6 * 4}


def test_the_policy_changes_what_is_judged_by_not_what_is_trained(
    normed: nn.Module, measured: Federation
) -> None:
    """Training normalises by the batch at hand, so all three policies end in the same trained numbers."""
    ends = [played(measured, model=normed, batch_norm=p, rounds=2) for p in ("average", "local", "drop")]
    for name in ends[0].net.trainable:
        for other in ends[1:]:
            assert torch.equal(ends[0].state.params[name], other.state.params[name])


# --- the centralised bound


@pytest.mark.parametrize("last", ["keep", "drop", "wrap"])
@pytest.mark.parametrize(
    ("cohort", "epochs", "batch"), [(6, 1, 4), (6, 2.5, 4), (3, 2, 1), (1, 4, 5), (5, 20, 7)]
)
def test_centralised_training_spends_the_samples_of_a_cohort(
    cohort: int, epochs: float, batch: int, last: str
) -> None:
    """Six clients hold 8 samples each: epochs x cohort x 8 sample-steps, to half a batch."""
    x, y = cloud(48, 3, 2)
    settings = {"cohort": cohort, "epochs": epochs, "batch": batch, "last": last, "model": "linear"}
    ended = played(federation(x, y, [8] * 6), method="centralized", **settings)
    assert abs(ended.result["totals"]["sample_steps"] - epochs * cohort * 8) <= batch / 2
    if last == "keep":
        cohorts = played(federation(x, y, [8] * 6), **settings)
        assert cohorts.result["totals"]["sample_steps"] == epochs * cohort * 8


def test_centralised_training_by_steps_takes_those_of_every_client_in_a_cohort() -> None:
    """Three clients of six take 5 steps of 4 samples: 60 sample-steps, centralised too."""
    x, y = cloud(48, 3, 2)
    for method in ("fedavg", "centralized"):
        settings = {"cohort": 3, "steps": 5, "batch": 4, "model": "linear", "method": method}
        ended = played(federation(x, y, [8] * 6), **settings)
        assert ended.result["totals"]["sample_steps"] == 60


def test_centralised_training_holds_everything_in_one_client() -> None:
    """One asked, one answer, one model of 8 numbers (3 x 2 + 2) each way."""
    x, y = cloud(48, 3, 2)
    ended = played(federation(x, y, [8] * 6), method="centralized", cohort=3, model="linear")
    (line,) = ended.folder.lines
    assert (line["asked"], line["answered"], line["bytes_up"]) == (1, 1, 8 * 4)
    assert ended.result["discloses"] == ["raw samples to the server (pooled)"]
