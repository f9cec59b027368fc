"""Copies of modules: those of ``copy.deepcopy``, sooner."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from unskew.models import build
from unskew.models.functional import copied


class Unusual(nn.Module):
    """A layer under two names, tensors that are no parameters, a hook, and a table that is there twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first
        self.norm = nn.BatchNorm1d(3)
        self.none = None
        self.add_module("absent", None)
        self.plain = torch.ones(2)
        self.table: dict[str, Any] = {}
        self.same = self.table
        self.register_buffer("passing", torch.zeros(1), persistent=False)
        self.seen: list[int] = []
        self.first.register_forward_hook(lambda module, given, out: out + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.again(self.first(x))) + self.plain.sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "model", [Unusual, "resnet9", "mobilenet_v2"], ids=["unusual", "resnet9", "mobilenet"]
)
def test_a_copy_computes_the_same_and_shares_no_memory(model: Any) -> None:
    module = model() if isinstance(model, type) else build(model, (3, 32, 32), 4)
    x = torch.randn(2, 3) if isinstance(model, type) else torch.randn(2, 3, 32, 32)
    made, wanted = copied(module), copy.deepcopy(module)
    assert torch.equal(made.eval()(x), wanted.eval()(x))
    found, expected = ([(n, type(m), {*vars(m)}) for n, m in one.named_modules()] for one in (made, wanted))
    assert found == expected
    mine = {v.data_ptr() for v in module.state_dict().values() if v.numel()}
    assert not mine & {v.data_ptr() for v in made.state_dict().values()}


def test_what_is_one_object_is_one_in_the_copy() -> None:
    made = copied(Unusual())
    assert made.first is made.again
    assert made.table is made.same
    made.table["x"] = 1
    assert Unusual().table == {}
    assert made.absent is None
    assert [*made.state_dict()] == [*Unusual().state_dict()]


class Counted(nn.Linear):
    """Says itself how it is copied."""

    copies = 0

    def __deepcopy__(self, memo: Any) -> Counted:
        self.copies += 1
        return self


def test_a_layer_that_says_how_it_is_copied_is_asked() -> None:
    layer = Counted(2, 2)
    assert copied(nn.Sequential(layer))[0] is layer
    assert layer.copies == 1
