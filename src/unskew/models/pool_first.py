"""Max pooling before ReLU: the largest of some numbers is the same before and after negative ones become 0.

So is the gradient: where the largest is positive both orders hand it to the same place, and where none is both hand on
0. Models are written as their papers write them; run this way, ReLU looks at a quarter of the numbers where a pooling
is 2x2, forwards and backwards.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn


class PoolFirst(nn.Sequential):
    """nn.Sequential run in another order; layers keep their places and names."""

    order: tuple[int, ...]

    def forward(self, input: Tensor) -> Tensor:
        layers = [*self]
        for place in self.order:
            input = layers[place](input)
        return input


def pool_first(module: nn.Module) -> None:
    """Let a model pool before ReLU wherever one directly follows the other, in place."""
    for part in module.modules():
        if type(part) is not nn.Sequential:
            continue
        order, layers = list(range(len(part))), [*part]
        for i in range(1, len(order)):
            before, after = (layers[place] for place in order[i - 1 : i + 1])
            if type(before) is nn.ReLU and type(after) is nn.MaxPool2d and not after.return_indices:
                order[i - 1], order[i] = order[i], order[i - 1]
        if order != sorted(order):
            part.__class__ = PoolFirst
            cast(PoolFirst, part).order = tuple(order)
