"""Layers with the batch innermost are torch's layers: values, gradients, gradients of gradients, stacked, ties."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from unskew.core.net import Net
from unskew.models import build
from unskew.models.batch_last import BatchLastConv2d, BatchLastPool2d, lay_batch_last

LAYERS = [
    nn.Conv2d(3, 4, 3),
    nn.Conv2d(3, 4, 3, padding=1),
    nn.Conv2d(3, 4, (4, 1), stride=(2, 1), padding=1),
    nn.Conv2d(3, 4, 5, padding="same", bias=False),
    nn.Conv2d(3, 4, 2, stride=3, padding="valid"),
    nn.MaxPool2d(2),
]


def batch_last(layer: nn.Module) -> nn.Module:
    found = nn.Sequential(copy.deepcopy(layer))
    lay_batch_last(found)
    assert type(found[0]) in (BatchLastConv2d, BatchLastPool2d)
    return found[0]


@pytest.mark.parametrize("plain", LAYERS, ids=str)
def test_it_is_the_same_function(plain: nn.Module) -> None:
    """Forwards, backwards, and the gradient of a gradient (FedMix) to rounding in float64; sides may be odd."""
    torch.manual_seed(0)
    plain = plain.double()
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True)
    found = []
    for layer in (plain, batch_last(plain)):
        out = layer(x)
        weights = (x, *layer.parameters())
        once = torch.autograd.grad(out.square().sum(), weights)
        first = torch.autograd.grad(layer(x).square().sum(), weights, create_graph=True)
        second = torch.autograd.grad(
            sum(g.square().sum() for g in first), weights, allow_unused=True, materialize_grads=True
        )
        found.append((out, *once, *first, *second))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_of_equal_neighbours_the_first_in_reading_order_gets_the_gradient() -> None:
    x = torch.randint(0, 2, (5, 2, 6, 6)).double().requires_grad_()
    weights = torch.randn(5, 2, 3, 3, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((layer(x) * weights).sum(), x)[0]
        for layer in (nn.MaxPool2d(2), batch_last(nn.MaxPool2d(2)))
    ]
    torch.testing.assert_close(*gradients)


def test_stacked_clients_each_have_their_own_filters() -> None:
    plain = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(3, 2, 2)
    ).double()
    ours = copy.deepcopy(plain)
    lay_batch_last(ours)
    weights = {k: torch.randn(4, *v.shape).double().requires_grad_() for k, v in plain.named_parameters()}
    x = torch.randn(4, 5, 2, 6, 6, dtype=torch.float64)
    stacked = vmap(lambda w, rows: functional_call(ours, w, (rows,)))(weights, x)
    alone = torch.stack(
        [functional_call(plain, {k: v[i] for k, v in weights.items()}, (x[i],)) for i in range(4)]
    )
    torch.testing.assert_close(stacked, alone)
    given = list(weights.values())
    for a, b in zip(*(torch.autograd.grad(y.sin().sum(), given) for y in (stacked, alone)), strict=True):
        torch.testing.assert_close(a, b)


def test_one_sample_without_its_axis() -> None:
    for plain in (nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)):
        x = torch.randn(3, 8, 8)
        torch.testing.assert_close(batch_last(plain)(x), plain(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.MaxPool2d(3),
        nn.MaxPool2d(2, stride=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(4, 4, 3, groups=2),
    ],
    ids=str,
)
def test_other_layers_stay_as_they_are(layer: nn.Module) -> None:
    whole = nn.Sequential(copy.deepcopy(layer))
    lay_batch_last(whole)
    assert type(whole[0]) is type(layer)


def test_a_net_trains_batch_last_and_judges_as_before() -> None:
    net = Net(build("thesis_mnist", (1, 28, 28), 10, 0))
    here = net.batch_last
    assert here is net.batch_last  # one object, by which recorded steps are known
    assert any(isinstance(m, BatchLastConv2d) for m in here.training.modules())
    assert not any(isinstance(m, BatchLastConv2d) for m in (*net.training.modules(), *here.judging.modules()))
    assert here.stackable((1, 28, 28))
