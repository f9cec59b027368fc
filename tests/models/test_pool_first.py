"""Pooling before ReLU gives the numbers of ReLU before pooling, to the bit."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from unskew.core.net import Net
from unskew.models import build
from unskew.models.pool_first import PoolFirst, in_order, pool_first

POOLS = [
    nn.MaxPool2d(2),
    nn.MaxPool2d(3, stride=1),
    nn.MaxPool2d(3, stride=2, padding=1),
    nn.MaxPool2d(2, ceil_mode=True),
    nn.MaxPool2d(2, dilation=2),
]


def images(kind: str) -> Tensor:
    torch.manual_seed(0)
    if kind == "ties":
        return torch.randint(-2, 3, (4, 3, 9, 9)).float()
    x = torch.randn(4, 3, 9, 9)
    if kind == "not finite":
        x[torch.rand(x.shape) < 0.2] = torch.nan
        x[torch.rand(x.shape) < 0.2] = torch.inf
        x[torch.rand(x.shape) < 0.2] = -torch.inf
    return x


@pytest.mark.parametrize("kind", ["usual", "ties", "not finite"])
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_values_and_gradients_are_the_same_to_the_bit(pool: nn.Module, kind: str) -> None:
    """Whatever the windows are, in both layouts of memory, with ties, NaN and infinities among the numbers."""
    plain = nn.Sequential(nn.Identity(), nn.ReLU(), pool)
    swapped = copy.deepcopy(plain)
    pool_first(swapped)
    assert isinstance(swapped, PoolFirst)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = []
        for model in (plain, swapped):
            x = images(kind).contiguous(memory_format=layout).requires_grad_()
            out = model(x)
            torch.manual_seed(1)
            found.append((out, *torch.autograd.grad(out, x, torch.randn(out.shape))))
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_a_pooling_moves_before_the_relu_that_it_follows_and_nothing_else_moves() -> None:
    model = nn.Sequential(
        nn.ReLU(), nn.MaxPool2d(2), nn.Tanh(), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2)
    )
    pool_first(model)
    assert [[*model].index(layer) for layer in in_order(model)] == [1, 0, 2, 3, 5, 6, 4]
    kept = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, return_indices=True))
    pool_first(kept)
    assert type(kept) is nn.Sequential


def test_a_slice_of_such_a_model_runs() -> None:
    """A model of one's own may take it apart in its forward pass, also between a ReLU and its pooling."""
    plain = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    swapped = copy.deepcopy(plain)
    pool_first(swapped)
    x = images("usual")
    for cut in range(1, 4):
        assert torch.equal(swapped[cut:](swapped[:cut](x)), plain(x))


@pytest.mark.parametrize("name", ["small_cnn", "lenet", "thesis_fashion", "resnet9"])
def test_a_net_trains_the_model_as_it_is_written(name: str) -> None:
    """The net's own forward pass, in training, gives the gradient of the module that it was made of."""
    module = build(name, (3, 16, 16), 10, 0)
    net = Net(module)
    assert any(isinstance(m, PoolFirst) for m in net.training.modules())
    assert not any(isinstance(m, PoolFirst) for m in module.modules())
    torch.manual_seed(0)
    x = torch.randn(4, 3, 16, 16)
    bound = net.bound(
        {k: net.initial[k].clone() for k in net.buffers}, torch.tensor(1) if net.draws_masks else None
    )
    params = {k: net.initial[k].clone().requires_grad_() for k in net.trainable}
    found = torch.autograd.grad(bound(params, x).sum(), list(params.values()))
    before = copy.deepcopy(bound)
    for part in before.training.modules():
        if isinstance(part, PoolFirst):
            part.__class__ = nn.Sequential
    wanted = torch.autograd.grad(before(params, x).sum(), list(params.values()))
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)
