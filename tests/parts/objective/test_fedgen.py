"""FedGen by hand: what a generator makes, what clients lose on it, how the server trains it, and when it begins."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import numbers
from unskew.core.method import Method
from unskew.core.slots import Batch, Out, Step
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.models.generator import EPS, generated, sample_generator, trained
from unskew.parts.objective import FedGen
from unskew.parts.objective.fedgen import alike
from unskew.seeds import generator
from unskew.testing.toy_federation import apart, normed, play, ready


def rows(*points):
    return torch.tensor(points, dtype=torch.float64)


def small_generator():
    """One hidden unit h = relu(z + 2 y0 - y1), then the features (2 h + 0.5, -h); its averages change nothing."""
    return {
        "0.weight": rows((1.0, 2.0, -1.0)),
        "0.scale": numbers(1.0),
        "0.shift": numbers(0.0),
        "0.mean": numbers(0.0),
        "0.var": numbers(1.0 - EPS),
        "1.weight": rows((2.0,), (-1.0,)),
        "1.shift": numbers(0.5, 0.0),
    }


class Identity:
    """A net whose classifier passes features on as logits."""

    task = CLASSIFICATION

    def for_rows(self, weight, remember):
        assert not remember
        return self

    def classify(self, params, features):
        return features


def step(draws, logits=((0.0, 0.0),), y=(1,)):
    batch = Batch(
        torch.zeros(len(y), 3, dtype=torch.float64), torch.tensor(y), torch.ones(len(y), dtype=torch.float64)
    )
    shared = small_generator() | {
        "labels": numbers(0.5, 1.0),
        "weight": numbers(2.0)[0],
        "match": numbers(3.0)[0],
    }
    out = Out(rows(*logits), batch.y)
    return Step(Identity(), {}, {}, batch, torch.zeros(2), out, shared, {}, draws)  # type: ignore[arg-type]


def test_a_generator_is_what_its_weights_say():
    """z = 0.5: for class 0 h = 2.5 and the features are (5.5, -2.5); for class 1 h = relu(-0.5) = 0 and (0.5, 0)."""
    made = generated(small_generator(), numbers(0.5, 0.5)[:, None], rows((1.0, 0.0), (0.0, 1.0)), (2,))
    assert made.tolist() == [pytest.approx([5.5, -2.5]), pytest.approx([0.5, 0.0])]


def test_a_client_adds_the_loss_on_what_is_made_up():
    """Draws 0.5 and 0.6 of p(y) = (0.5, 0.5) are the classes 0 and 1: features (5.5, -2.5) and (0.5, 0).

    Their losses are log(1 + e^-8) = 0.000335 and log(1 + e^0.5) = 0.974077; the weight 2 makes their mean 0.974412.
    The row whose draw is 0 is an engine's padding.
    """
    draws = {"label": numbers(0.5, 0.6, 0.0), "noise": numbers(0.5, 0.5, 9.0)[:, None]}
    found = FedGen("latent", noise=1).penalty(step(draws))
    assert float(found) == pytest.approx(0.974412, abs=1e-6)


def test_predictions_are_matched_where_asked_for():
    """p(G) = softmax(0.5, 0) = (0.622459, 0.377541) and (0.5, 0.5): KL 0.030300, three times; and 2 x 0.974077."""
    draws = {"label": numbers(1.0), "noise": numbers(0.5)[:, None], "match": numbers(0.5, 7.0)[:, None]}
    found = FedGen("latent", noise=1, match=1.0).penalty(step(draws))
    assert float(found) == pytest.approx(2 * 0.974077 + 3 * 0.030300, abs=1e-5)


def server(ensemble="mean"):
    """Two clients whose classifiers add (2, 0) and nothing, holding 3 and 1 of class 0; told in the other order."""
    net = SimpleNamespace(
        judge=lambda model, made, since: made + model["w"],
        judging=SimpleNamespace(last_layer="f"),
        task=CLASSIFICATION,
    )
    landed = SimpleNamespace(
        clients=np.array([7, 2]),
        params={"w": rows((0.0, 0.0), (2.0, 0.0))},
        uploads={"fedgen": {"counts": torch.tensor([[1, 5], [3, 0]])}},
    )
    after = SimpleNamespace(net=net, landed=landed, judging_net=net)
    return FedGen("latent", ensemble=ensemble).ensemble_judge(after)(rows((0.0, 0.0)), torch.tensor([0]))  # type: ignore[arg-type]


def test_the_servers_judge_is_the_mean_of_the_clients_logits():
    """Of (0, 0): the mean is (1, 0), and its loss for class 0 is log(1 + e^-1) = 0.313262."""
    assert float(server()) == pytest.approx(0.313262, abs=1e-6)


def test_or_each_client_counts_as_it_holds_the_class():
    """3/4 of log(1 + e^-2) = 0.126928 and 1/4 of log 2: 0.268483, as in the authors' code."""
    assert float(server("weighted")) == pytest.approx(0.268483, abs=1e-6)


def test_other_noise_must_make_something_else():
    """Noise 0 and 2 is 4 apart (squared), (0, 0) and (1, 3) are 2 (mean): pairs (0, 8, 8, 0) average 4, and e^-4."""
    assert float(alike(numbers(0.0, 2.0)[:, None], rows((0.0, 0.0), (1.0, 3.0)))) == pytest.approx(
        math.exp(-4)
    )
    assert float(alike(numbers(0.0, 2.0)[:, None], rows((1.0,), (1.0,)))) == 1.0


@pytest.mark.parametrize(
    ("kind", "shape", "coarse", "size"),
    [
        # 42 inputs; three layers of 16, 64 and 8 numbers a pair of channels; scale and shift of what lies between
        ("image", (3, 32, 32), (4, 4), 42 * 128 * 16 + (128 * 64 + 64 * 32 + 32 * 3) * 16 + 2 * 224),
        ("image", (1, 28, 28), (4, 4), 42 * 128 * 16 + (128 * 64 + 64 * 32 + 32 * 1) * 16 + 2 * 224),
        ("spectrogram", (2, 64, 344), (1, 6), 42 * 64 * 6 + (64 * 32 + 32 * 16 + 16 * 2) * 64 + 2 * 112),
        ("series", (1, 128, 3), (2, 3), 42 * 128 * 6 + (128 * 64 + 64 * 32 + 32 * 1) * 8 + 2 * 224),
        ("vector", (13,), (), 42 * 256 + 256 * 13 + 2 * 256),
    ],
)
def test_every_kind_of_data_has_its_generator(kind, shape, coarse, size):
    """Four layers from a coarse grid; made samples have mean 0 and spread 1 in every channel, as normalised data."""
    rng = generator(0, kind)
    tree = sample_generator(kind, shape, 10, 32, rng)
    assert tuple(tree["0.weight"].shape[2:]) == coarse
    assert sum(tree[k].numel() for k in trained(tree)) == size
    noise, label = (
        torch.from_numpy(rng.standard_normal((20, 32))),
        torch.eye(10, dtype=torch.float64).repeat(2, 1),
    )
    statistics: dict[str, torch.Tensor] = {}
    made = generated(tree, noise, label, shape, statistics)
    assert tuple(made.shape) == (20, *shape)
    channels = made.transpose(0, 1).flatten(1)
    torch.testing.assert_close(
        channels.mean(1), torch.zeros(len(channels), dtype=torch.float64), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(
        channels.std(1, unbiased=False), torch.ones(len(channels), dtype=torch.float64), atol=1e-3, rtol=0
    )
    assert set(statistics) == set(tree) - set(trained(tree))
    assert generated(tree, noise, label, shape).shape == made.shape


@pytest.mark.parametrize("variant", ["input", "latent"])
def test_until_it_starts_it_is_fedavg(variant):
    """Two rounds of start=2 are FedAvg's to the bit; the third is not, and its clients are sent a generator."""
    method = Method.parse(f"fedgen({variant}, start=2, steps=3, batch=8)")
    with pytest.warns(UserWarning, match="does nothing before round 3, and the run ends after 2"):
        early = play(method, rounds=2)
    assert early.hash == play(Method.parse("fedavg"), rounds=2).hash
    third = play(method, rounds=3)
    assert third.hash != play(Method.parse("fedavg"), rounds=3).hash
    assert ["fedgen" in line["bytes"]["down"] for line in third.lines] == [False, False, True]


def test_by_default_fleas_starts_after_thirty_rounds_and_the_original_after_one():
    """The generator of samples needs a global model that knows something."""
    assert (FedGen().begins, FedGen("latent").begins) == (30, 1)


def test_the_generator_learns_what_the_global_model_recognises():
    """After 120 steps the model sees the wanted class in nine of ten samples that are made."""
    method = Method.parse("fedgen(start=1, steps=40, lr=0.02, batch=16)")
    played = play(method, rounds=3, lr=0.3)
    setup = ready(method)
    tree = method.objective[0].hand_out(played.state.server["fedgen"], 3)
    rng = generator(0, "made")
    label = torch.arange(60) % 3
    noise = torch.from_numpy(rng.standard_normal((60, 32)))
    made = generated(tree, noise, torch.eye(3, dtype=torch.float64)[label], (1, 6, 6))
    seen = setup.job.net.judge(played.state.params, made).argmax(1)
    assert float((seen == label).double().mean()) > 0.9
    assert int(played.state.server["fedgen"]["count"]) == 120


def test_what_is_made_up_moves_no_running_average():
    """At a weight of 1e-30 the model is FedAvg's, and so are its batch statistics."""
    faint = play(Method.parse("fedgen(start=1, steps=2, batch=8, weight=1e-30)"), model=normed)
    assert apart(faint.state.params, play(Method.parse("fedavg"), model=normed).state.params) < 1e-12


def test_the_original_sends_label_counts_and_says_so():
    """The server adds them up: four clients a round of the tiny federation, of two classes each."""
    assert Method.parse("fedgen(latent)").discloses == ("label counts (fedgen)",)
    assert Method.parse("fedgen").discloses == ()
    played = play(Method.parse("fedgen(latent, steps=2, batch=8)"), rounds=2)
    assert all(line["bytes"]["up"]["fedgen"] == 4 * 3 * 4 for line in played.lines)
    assert float(played.state.server["fedgen"]["labels"].sum()) > 0


def test_weights_shrink_round_by_round():
    """decay = 0.5: the weight 4 is 1 in the third round, number 2."""
    part = FedGen(start=1, weight=4.0, decay=0.5, steps=2, batch=8)
    played = play(Method.of(part), rounds=2)
    assert float(part.hand_out(played.state.server["fedgen"], 2)["weight"]) == 1.0


def test_a_model_that_cannot_be_split_is_refused_by_the_original_only():
    """Features need a place to cut; samples do not."""

    class Whole(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.fc = nn.Linear(36, classes)

        def forward(self, x):
            return self.fc(x.flatten(1)).tanh()

    assert ready(Method.parse("fedgen(start=1)"), model=Whole)
    with pytest.raises(InputError, match="cannot be split"):
        ready(Method.parse("fedgen(latent)"), model=Whole)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedgen(noise=100000000)", "noise of fedgen must be at most 10,000, not 100,000,000"),
        ("fedgen(start=0)", "start of fedgen must be at least 1, not 0"),
        ("fedgen(batch=1)", "batch of fedgen must be at least 2, not 1"),
        ("fedgen(weight=-1)", "weight of fedgen must be at least 0, not -1.0"),
        ("fedgen(lr=0)", "lr of fedgen must be above 0, not 0.0"),
        ("fedgen(decay=2)", "decay of fedgen is a factor above 0 and at most 1, not 2.0"),
        ("fedgen(match=1)", "match of fedgen is for features; write fedgen(variant=latent, ...)"),
        (
            "fedgen(ensemble=weighted)",
            "ensemble of fedgen is for features; write fedgen(variant=latent, ...)",
        ),
        ("fedgen(pixel)", "variant of fedgen must be input or latent, not pixel"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence
