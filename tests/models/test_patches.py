"""Convolution as a product over patches is convolution: values, gradients, gradients of gradients, stacked."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from unskew.core.net import Net
from unskew.models import build
from unskew.models.patches import PatchedConv2d, can_be_patched, patch

LAYERS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (4, 1), "stride": (2, 1), "padding": 1},
    {"kernel_size": 5, "padding": "same", "bias": False},
    {"kernel_size": 2, "stride": 3, "padding": "valid"},
    {"kernel_size": 1},
]


@pytest.mark.parametrize("settings", LAYERS, ids=str)
def test_it_is_the_same_function(settings: dict[str, object]) -> None:
    """Forwards, backwards, and the gradient of a gradient (FedMix) to rounding in float64."""
    torch.manual_seed(0)
    plain = nn.Conv2d(3, 4, dtype=torch.float64, **settings)  # type: ignore[arg-type]
    products = copy.deepcopy(plain)
    patch(products)
    assert type(products) is PatchedConv2d
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True)
    found = []
    for layer in (plain, products):
        out = layer(x)
        weights = (x, *layer.parameters())
        first = torch.autograd.grad(out.square().sum(), weights, create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), weights, allow_unused=True)
        found.append((out, *first, *(g for g in second if g is not None)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_stacked_clients_each_have_their_own_filters() -> None:
    layer = nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64)
    products = copy.deepcopy(layer)
    patch(products)
    weights = {"weight": torch.randn(4, 3, 2, 3, 3), "bias": torch.randn(4, 3)}
    weights = {k: v.double() for k, v in weights.items()}
    x = torch.randn(4, 5, 2, 6, 6, dtype=torch.float64)
    stacked = vmap(lambda w, rows: functional_call(products, w, (rows,)))(weights, x)
    for i in range(4):
        alone = functional_call(layer, {k: v[i] for k, v in weights.items()}, (x[i],))
        torch.testing.assert_close(stacked[i], alone)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 2, 3),
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(2, 2, 3, dilation=2),
        nn.Conv2d(2, 2, 3, padding_mode="circular", padding=1),
        nn.Conv2d(2, 2, 2, padding="same"),
        nn.Linear(2, 2),
    ],
    ids=str,
)
def test_other_layers_stay_as_they_are(layer: nn.Module) -> None:
    kind = type(layer)
    patch(layer)
    assert not can_be_patched(layer)
    assert type(layer) is kind


def test_how_large_patches_are() -> None:
    """Worked by hand: 24 x 24 places of 5 x 5 x 1, and 8 x 8 of 5 x 5 x 10; a model with groups has none."""
    assert Net(build("thesis_mnist", (1, 28, 28), 10, 0)).patch_values((1, 28, 28)) == 24 * 24 * 25 + 64 * 250
    assert Net(build("mlp", (1, 28, 28), 10, 0)).patch_values((1, 28, 28)) == 0
    assert Net(build("mobilenet_v2", (3, 32, 32), 10, 0)).patch_values((3, 32, 32)) == float("inf")
