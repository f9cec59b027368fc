"""Max pooling before ReLU: the largest of some numbers is the same before and after negative ones become 0.

So is the gradient: where the largest is positive both orders hand it to the same place, and where none is both hand on
0. Models are written as their papers write them; run this way, ReLU looks at a quarter of the numbers where a pooling
is 2x2, forwards and backwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn


class PoolFirst(nn.Sequential):
    """nn.Sequential run in another order; layers keep their places and names, and so do slices of it."""

    def forward(self, input: Tensor) -> Tensor:
        for layer in in_order(self):
            input = layer(input)
        return input


def in_order(layers: Iterable[nn.Module]) -> list[nn.Module]:
    """These layers, each pooling before the ReLU that it follows."""
    found = [*layers]
    for i in range(1, len(found)):
        before, after = found[i - 1], found[i]
        if type(before) is nn.ReLU and isinstance(after, nn.MaxPool2d) and not after.return_indices:
            found[i - 1], found[i] = after, before
    return found


def pool_first(module: nn.Module) -> None:
    """Let a model pool before ReLU wherever one directly follows the other, in place."""
    for part in module.modules():
        if type(part) is nn.Sequential and in_order(part) != [*part]:
            part.__class__ = PoolFirst
