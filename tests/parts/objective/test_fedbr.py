"""FedBR by hand."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
import torch

from by_hand import before_round_0, holding, numbers, seen
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.models import build
from unskew.parts.objective import FedBR
from unskew.testing.toy_federation import play, tiny


def head():
    """A projection that changes nothing where features are positive."""
    layers = {f"fedbr:{i}.weight": torch.eye(2, dtype=torch.float64) for i in range(3)}
    return layers | {f"fedbr:{i}.bias": torch.zeros(2, dtype=torch.float64) for i in range(3)}


def step(**given):
    """The sample (4, 0) of class 0 and the pseudo-sample (0, 2), of which the global model keeps the second half."""
    shared, draws = {"x": numbers(0.0, 2.0)[None]}, {"mix": numbers(0.3)[None]}
    usual = {"anchor": numbers(0.0, 1.0), "head": head(), "shared": shared, "draws": draws}
    return seen([[4.0, 0.0]], [0], **(usual | given))


def test_pseudo_data_is_mixed_with_the_clients_own():
    """x~ = ((0, 2) + (4, 0)) / 2 = (2, 1); y~ = ((1/2, 1/2) + (1, 0)) / 2 = (3/4, 1/4)."""
    x, target = FedBR().mixed(step())
    assert (x.tolist(), target.tolist()) == ([[2.0, 1.0]], [[0.75, 0.25]])


def test_the_loss_of_two_classes():
    """x~ = (2, 1) with target (3/4, 1/4): CE = 3/4 ln(1 + e^-1) + 1/4 ln(1 + e).

    Features (2, 1) here, (0, 1) under the global model, (4, 0) of the sample: sims 1/sqrt 5 and 2/sqrt 5, so that
    l_con = ln(1 + exp((2/sqrt 5 - 1/sqrt 5) / 2)). In sum CE + 0.5 l_con; the head's side is worth 0.
    """
    ce = 0.75 * log(1 + exp(-1)) + 0.25 * log(1 + exp(1))
    contrast = log(1 + exp(1 / sqrt(5) / 2))
    assert float(FedBR().penalty(step())) == pytest.approx(ce + 0.5 * contrast)
    assert float(FedBR(mu=0, lam=0.8).penalty(step())) == pytest.approx(0.8 * ce)
    hotter = log(1 + exp(2 / sqrt(5) / 4 - 1 / sqrt(5)))
    assert float(FedBR(lam=0, tau1=1, tau2=4).penalty(step())) == pytest.approx(0.5 * hotter)


def test_unmixed_pseudo_data_is_of_no_class():
    """(0, 2) with target (1/2, 1/2): 1/2 ln(1 + e^2) + 1/2 ln(1 + e^-2)."""
    value = FedBR(mu=0, mix=0).penalty(step(draws={}))
    assert float(value) == pytest.approx((log(1 + exp(2)) + log(1 + exp(-2))) / 2)


def test_the_head_climbs_what_the_model_descends():
    """The model's gradient is mu dl/dw and the head's -gamma dl/dhead, from the same l_con."""
    names = list(head())

    def gradients(value, given):
        return torch.autograd.grad(value, [given.params[k] for k in ("w", *names)])

    def differentiable():
        grown = {k: v.requires_grad_() for k, v in head().items()}
        return step(w=numbers(1.0, 1.0).requires_grad_(), head=grown)

    part = FedBR(lam=0, mu=0.5, gamma=3)
    played = differentiable()
    found = gradients(part.penalty(played), played)
    plain = differentiable()
    x, _ = part.mixed(plain)
    features = plain.params["w"] * x, plain.anchor["w"] * x, plain.features()
    once = gradients(part.contrast(plain.params, *features), plain)
    assert found[0].tolist() == pytest.approx((0.5 * once[0]).tolist())
    assert any(float(g.abs().max()) > 0.01 for g in once[1:])
    for ours, theirs in zip(found[1:], once[1:], strict=True):
        assert torch.allclose(ours, -3 * theirs)


def test_padding_is_neither_mixed_in_nor_contrasted():
    """Rows of weight 0 come last: whatever is drawn, they are not taken."""
    padded = seen(
        [[4.0, 0.0], [90.0, -7.0]],
        [0, 1],
        weight=[1, 0],
        anchor=numbers(0.0, 1.0),
        head=head(),
        shared={"x": numbers(0.0, 2.0)[None].expand(3, 2)},
        draws={"mix": numbers(0.0, 0.7, 1.0)[:, None]},
    )
    assert float(FedBR().penalty(padded)) == pytest.approx(float(FedBR().penalty(step())))


def spread(values, holders):
    """Clients that each hold two samples of one value; the data's mean is 1 and its deviation 2."""
    x = np.repeat(np.asarray(values, np.float32), 2)[:, None, None, None] * np.ones((1, 1, 2, 2), np.float32)
    y = np.arange(len(x)) % 2
    moments = np.array([1.0], np.float32), np.array([2.0], np.float32)
    data = Dataset("spread", x, y, x[:2], y[:2], ("a", "b"), "image", {}, *moments)
    return Federation(data, np.arange(len(x)), np.concatenate([[0], np.cumsum(holders)]))


def test_averages_are_gathered_from_whoever_holds_enough():
    """Two of three clients hold two samples, all 5 and all 9: averages are (5 - 1) / 2 = 2 or (9 - 1) / 2 = 4."""
    gathered = before_round_0(FedBR(pseudo=20, group=2), spread([5, 9], [2, 0, 2]))
    assert gathered["x"].shape == (20, 1, 2, 2)
    expected = {0: 2.0, 2: 4.0}
    for sender, x in zip(gathered["owner"].tolist(), gathered["x"], strict=True):
        assert x.flatten().tolist() == [expected[sender]] * 4
    assert set(gathered["owner"].tolist()) == {0, 2}


def test_averages_may_come_from_few_clients():
    """collect=2 of five."""
    part = FedBR(collect=2)
    gathered = before_round_0(part, holding([[5, 5]] * 5))
    assert len(set(gathered["owner"].tolist())) == 2
    assert set(part.givers(gathered, 5).tolist()) == set(gathered["owner"].tolist())
    assert part.sends == "averages(10)"


def test_the_head_has_two_hidden_layers_and_travels():
    """6 features: 6-12-12-6, or as FLea writes it 6-256-256-512; 156 + 84 + 78 more weights a model."""
    net = Net(build("mlp(hidden=[6])", (1, 6, 6), 3, 0, torch.float64))
    sizes = [tuple(v.shape) for k, v in FedBR().extra(net, (1, 6, 6), 0).items() if "weight" in k]
    assert sizes == [(12, 6), (12, 12), (6, 12)]
    flea = FedBR(width=256, out=512).extra(net, (1, 6, 6), 0)
    assert [tuple(v.shape) for k, v in flea.items() if "weight" in k] == [(256, 6), (256, 256), (512, 256)]
    ours, plain = (
        play(Method.parse(m), rounds=1).lines[0]["bytes"]["up"]["model"] for m in ("fedbr(group=2)", "fedavg")
    )
    assert ours - plain == 4 * 8 * (6 * 12 + 12 + 12 * 12 + 12 + 12 * 6 + 6)  # four clients, float64


def test_a_head_of_absurd_size_is_refused():
    """8,192 features: 8,192 x 16,384 twice and 16,384 squared."""
    net = Net(build("mlp(hidden=[8192])", (1, 6, 6), 3, 0))
    with pytest.raises(InputError) as refused:
        FedBR().extra(net, (1, 6, 6), 0)
    assert str(refused.value) == (
        "the head of fedbr would have 536,870,912 weights on 8,192 features; "
        "write a width and an output, such as fedbr(width=256, out=512)"
    )


def test_bytes_of_pseudo_data_are_counted():
    """Up once, 32 x 36 float64; down to each of the four clients of every round."""
    lines = play(Method.parse("fedbr(group=2)"), rounds=2).lines
    assert lines[0]["bytes"]["up"]["fedbr at the start"] == 32 * 36 * 8
    assert "fedbr at the start" not in lines[1]["bytes"]["up"]
    assert [line["bytes"]["down"]["fedbr"] for line in lines] == [4 * 32 * 36 * 8] * 2


def test_what_it_discloses():
    """Averages, unless nothing uses them; then it is FedAvg."""
    assert FedBR().discloses == ("averages of its samples to every client",)
    assert FedBR(mu=0, lam=0).discloses == ()
    assert FedBR(mu=0, lam=0).sends == ""


def test_values_that_make_no_sense_are_refused():
    """Each in a sentence."""
    for text, sentence in (
        ("fedbr(mu=-1)", "mu of fedbr must be at least 0, not -1.0"),
        ("fedbr(tau2=0)", "tau2 of fedbr is a temperature above 0, not 0.0"),
        (
            "fedbr(group=1)",
            "group of fedbr must be at least 2, since the mean of one sample is that sample, not 1",
        ),
        ("fedbr(pseudo=20000)", "pseudo of fedbr must be at most 10,000, not 20,000"),
        ("fedbr(width=0)", "width of fedbr must be at least 1, not 0"),
    ):
        with pytest.raises(InputError) as refused:
            Method.parse(text)
        assert str(refused.value) == sentence


def test_data_too_scarce_to_average_is_refused():
    """Sizes 0, 4, 0, 5, 0, 3: nobody holds ten samples, and two hold four."""
    few = tiny(sizes=[0, 4, 0, 5, 0, 3])
    for text, sentence in (
        (
            "fedbr",
            "fedbr averages 10 samples of a client, and the largest client holds 5; write group=5 or less",
        ),
        (
            "fedbr(group=4, collect=3)",
            "fedbr is to collect from 3 clients, and 2 hold the 4 samples of an average; write collect=2 or less",
        ),
    ):
        with pytest.raises(InputError) as refused:
            play(Method.parse(text), few)
        assert str(refused.value) == sentence
    assert FedBR(group=4, collect=2).check(few, 2) is None
