"""Models that can be cut: up to a layer, and from it on.

``functional_call`` calls ``forward`` and nothing else, so the cut is an argument of ``forward``:

    functional_call(net, trees, (x,))                                   # logits
    functional_call(net, trees, (x,), {"upto": layer})                  # embed: the activation at that layer
    functional_call(net, trees, (f,), {"since": layer})                 # head: from there to the logits
    functional_call(net, trees, (f,), {"since": layer, "upto": other})  # the way between two layers

A layer is named in ``net.layers``; the last of them is the penultimate feature, the input of the classifier.
There is no hook and no state, so all of it works inside ``vmap`` and ``grad``; and since every layer belongs
to one side of a cut, embedding and then heading on updates batch norm's running statistics once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from torch import Tensor, nn

from unskew.models.cuts import Cuttable
from unskew.models.layers import BatchNorm, Dropout


class SplitModel(nn.Module, Cuttable):
    """A classifier with named places to cut, in order, in ``layers``.

    A subclass sets ``layers`` and writes ``forward(x, *, since=None, upto=None)``. For every layer,
    ``forward(x)`` equals ``head(embed(x, layer), layer)`` exactly.
    """

    def forward(self, x: Tensor, *, since: str | None = None, upto: str | None = None) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what it computes: define forward()")

    def embed(self, x: Tensor, layer: str) -> Tensor:
        """The activation at a layer."""
        return self(x, upto=layer)  # type: ignore[no-any-return]

    def head(self, f: Tensor, layer: str) -> Tensor:
        """The logits, from the activation at a layer."""
        return self(f, since=layer)  # type: ignore[no-any-return]

    def features(self, x: Tensor) -> Tensor:
        """The penultimate feature: what the classifier sees."""
        return self.embed(x, self.last_layer)

    def classify(self, features: Tensor) -> Tensor:
        """The logits, from the penultimate feature."""
        return self.head(features, self.last_layer)

    @cached_property
    def fed(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the buffers that take a seed, and of those that take sample weights."""
        found = list(self.named_modules())
        seeds = (f"{name}.seed" for name, module in found if isinstance(module, Dropout))
        weights = (f"{name}.sample_weight" for name, module in found if isinstance(module, BatchNorm))
        return tuple(seeds), tuple(weights)


class Stages(SplitModel):
    """Modules run one after the other; a cut may follow each of them but the classifier's.

    ``tail`` says how many of the last stages make up the classifier.
    """

    def __init__(self, stages: Mapping[str, nn.Module], tail: int = 1) -> None:
        super().__init__()
        for name, stage in stages.items():
            self.add_module(name, stage)
        self.layers = tuple(stages)[:-tail]

    def forward(self, x: Tensor, *, since: str | None = None, upto: str | None = None) -> Tensor:
        start, end = self.span(since, upto)
        for stage in list(self._modules.values())[start:end]:
            x = stage(x)  # type: ignore[misc]
        return x
