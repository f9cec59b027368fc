"""Models that compute in bf16 while something of them stays in float32: weights that are not trained, tables of
constants, samples that name rows of a vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any

from torch import Tensor, nn

from unskew.models.layers import BatchNorm


def looks_up(module: nn.Module) -> bool:
    """Whether samples may name rows of a table: bf16 knows no whole number between 256 and 258."""
    return any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules())


def stays_wide(module: nn.Module, trained: Collection[str]) -> bool:
    """Whether the model has numbers beside those that are trained, but for what batch norm knows to deal with."""
    plain = {path for path, layer in module.named_modules() if not isinstance(layer, BatchNorm)}
    every = [*module.named_parameters(), *module.named_buffers()]
    beside = (name for name, value in every if value.is_floating_point() and name not in trained)
    return any(name.rpartition(".")[0] in plain for name in beside)


def take_any_type(module: nn.Module, wide: Set[str]) -> None:
    """Let layers take what they are handed in the type of their own weights, in place: but those that take any type,
    whose weights are ``wide``."""
    for path, layer in module.named_modules():
        own = [f"{path}.{name}" for name, _ in layer.named_parameters(recurse=False)]
        whole = type(layer).__module__.startswith("torch.nn.") or not any(True for _ in layer.children())
        if own and whole and wide.isdisjoint(own):
            layer.register_forward_pre_hook(_as_its_weights)


def _as_its_weights(layer: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    kind = next(weight.dtype for _, weight in layer.named_parameters(recurse=False))
    return tuple(v.to(kind) if isinstance(v, Tensor) and v.is_floating_point() else v for v in given)
