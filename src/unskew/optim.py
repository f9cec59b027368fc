"""Local optimisers as functions on trees: the same arithmetic for one client or for many stacked.

They follow torch.optim's conventions (L2 weight decay added to the gradient; the momentum buffer starts as the
first gradient), but hold no state: it comes in and goes out, so a visit can be handed over or resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from unskew.errors import InputError
from unskew.parts import Local
from unskew.types import Tree


class Optimizer(Protocol):
    def init(self, params: Tree) -> Tree: ...
    def step(self, params: Tree, grads: Tree, state: Tree, lr: float | Tensor, count: int | Tensor) -> None:
        """Move ``params`` in place. Stacked clients may each have a rate: then ``lr`` is a tensor, one a row."""
        ...


class SGD:
    """w <- w - lr d with d = g + weight_decay w, through momentum and Nesterov's look-ahead where asked."""

    def __init__(self, local: Local):
        self.momentum, self.nesterov, self.decay = local.momentum, local.nesterov, local.weight_decay

    def init(self, params: Tree) -> Tree:
        return {k: torch.zeros_like(v) for k, v in params.items()} if self.momentum else {}

    def step(self, params: Tree, grads: Tree, state: Tree, lr: float | Tensor, count: int | Tensor) -> None:
        weights = list(params.values())
        d = [grads[k] for k in params]
        if self.decay:
            d = list(torch._foreach_add(d, weights, alpha=self.decay))
        if self.momentum:
            buffers = [state[k] for k in params]
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_add_(buffers, d)
            d = list(torch._foreach_add(d, buffers, alpha=self.momentum)) if self.nesterov else buffers
        _descend(weights, d, lr)


class Adam:
    """Kingma & Ba, 2015, algorithm 1, with beta = (0.9, 0.999) and eps = 1e-8."""

    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def __init__(self, local: Local):
        self.decay = local.weight_decay

    def init(self, params: Tree) -> Tree:
        return {f"{m}:{k}": torch.zeros_like(v) for m in ("first", "second") for k, v in params.items()}

    def step(self, params: Tree, grads: Tree, state: Tree, lr: float | Tensor, count: int | Tensor) -> None:
        weights = list(params.values())
        g = [grads[k] for k in params]
        if self.decay:
            g = list(torch._foreach_add(g, weights, alpha=self.decay))
        first: list[Tensor] = [state[f"first:{k}"] for k in params]
        second: list[Tensor] = [state[f"second:{k}"] for k in params]
        torch._foreach_lerp_(first, g, 1 - self.beta1)
        torch._foreach_mul_(second, self.beta2)
        torch._foreach_addcmul_(second, g, g, value=1 - self.beta2)
        root = list(torch._foreach_sqrt(second))
        torch._foreach_div_(root, (1 - self.beta2 ** (count + 1)) ** 0.5)
        torch._foreach_add_(root, self.eps)
        _descend(weights, list(torch._foreach_div(first, root)), lr / (1 - self.beta1 ** (count + 1)))


def _descend(weights: list[Tensor], direction: list[Tensor], lr: float | Tensor) -> None:
    """weights <- weights - lr x direction, with one rate for all or one a row."""
    if isinstance(lr, Tensor):
        rates = [lr.view(-1, *[1] * (w.dim() - 1)).to(w.dtype) for w in weights]
        torch._foreach_sub_(weights, torch._foreach_mul(direction, rates))
    else:
        torch._foreach_add_(weights, direction, alpha=-lr)


OPTIMIZERS: dict[str, Callable[[Local], Optimizer]] = {"sgd": SGD, "adam": Adam}


def optimizer(local: Local) -> Optimizer:
    if local.optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer must be {' or '.join(OPTIMIZERS)}, not {local.optimizer!r}")
    return OPTIMIZERS[local.optimizer](local)


def clip(grads: Tree, largest: float) -> Tree:
    """The gradient scaled down to a whole norm of at most ``largest``."""
    norm = torch.sqrt(sum((g.square().sum() for g in grads.values()), torch.zeros(())))
    scale = (largest / norm.clamp_min(1e-12)).clamp_max(1.0)
    return {k: g * scale.to(g.dtype) for k, g in grads.items()}
