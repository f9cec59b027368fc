"""From a drawing to torch's modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from unskew.models import drawing, layers, split


class Residual(nn.Module):
    """Two layers around which the input is passed on."""

    def __init__(self, drawn: drawing.Residual) -> None:
        super().__init__()
        self.conv1, self.conv2 = made(drawn.conv1), made(drawn.conv2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.conv1(x))  # type: ignore[no-any-return]


class InvertedResidual(nn.Module):
    """Expand, filter, project, and add the input where it fits."""

    def __init__(self, drawn: drawing.InvertedResidual) -> None:
        super().__init__()
        self.expand, self.filter, self.project = made(drawn.expand), made(drawn.filter), made(drawn.project)
        self.passes = drawn.passes
        self.shortcut = nn.Identity() if drawn.shortcut is None else made(drawn.shortcut)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(F.relu(self.filter(F.relu(self.expand(x)))))
        return out + self.shortcut(x) if self.passes else out


def _convolution(drawn: drawing.Conv2d) -> nn.Conv2d:
    sizes = (drawn.inputs, drawn.outputs, drawn.side, drawn.stride, drawn.padding)
    conv = nn.Conv2d(*sizes, groups=drawn.groups, bias=drawn.bias)
    if drawn.start is not None:
        nn.init.kaiming_normal_(conv.weight, a=drawn.start.slope, mode=drawn.start.fan)
        if conv.bias is not None:
            nn.init.zeros_(conv.bias)
    return conv


MAKERS: dict[type[drawing.Layer], Callable[[Any], nn.Module]] = {
    drawing.Conv2d: _convolution,
    drawing.Linear: lambda drawn: nn.Linear(drawn.inputs, drawn.outputs),
    drawing.MaxPool2d: lambda drawn: nn.MaxPool2d(drawn.side),
    drawing.AdaptiveAvgPool2d: lambda drawn: nn.AdaptiveAvgPool2d(drawn.side),
    drawing.Flatten: lambda drawn: nn.Flatten(),
    drawing.ReLU: lambda drawn: nn.ReLU(),
    drawing.Softmax: lambda drawn: nn.Softmax(dim=1),
    drawing.Dropout: lambda drawn: layers.Dropout(drawn.p, channels=drawn.channels),
    drawing.BatchNorm: lambda drawn: layers.BatchNorm(drawn.features),
    drawing.Sequential: lambda drawn: nn.Sequential(*map(made, drawn.layers)),
    drawing.Residual: Residual,
    drawing.InvertedResidual: InvertedResidual,
}


def made(drawn: drawing.Layer) -> nn.Module:
    """One layer, its weights drawn from torch's generator in the order in which layers are drawn."""
    return MAKERS[type(drawn)](drawn)


def made_model(drawn: drawing.Stages) -> split.Stages:
    """The model that was drawn."""
    return split.Stages({name: made(stage) for name, stage in drawn.stages.items()}, drawn.tail)
