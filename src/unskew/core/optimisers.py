"""Local optimisers as functions on trees: the same arithmetic for one client or for many stacked.

They follow torch.optim's conventions (L2 weight decay added to the gradient; the momentum buffer starts as the
first gradient), but hold no state: it comes in and goes out, so a visit can be handed over or resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from unskew.core.layout import fills_memory
from unskew.core.slots import Local
from unskew.core.types import Memory, Tree, map_tensors
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


class Optimizer(Protocol):
    def init(self, params: Tree) -> Memory: ...
    def step(self, params: Tree, grads: Tree, state: Memory, lr: float | Tensor, count: int | Tensor) -> None:
        """Move ``params`` in place. Stacked clients may each have a rate: then ``lr`` is a tensor, one a row."""
        ...


class SGD:
    """w <- w - lr d with d = g + weight_decay w, through momentum and Nesterov's look-ahead where asked."""

    def __init__(self, local: Local):
        self.momentum, self.nesterov, self.decay = local.momentum, local.nesterov, local.weight_decay

    def init(self, params: Tree) -> Memory:
        return {"momentum": map_tensors(torch.zeros_like, params)} if self.momentum else {}

    def step(self, params: Tree, grads: Tree, state: Memory, lr: float | Tensor, count: int | Tensor) -> None:
        weights = list(params.values())
        d = [grads[k] for k in params]
        buffers: list[Tensor] = [state["momentum"][k] for k in params] if self.momentum else []
        if isinstance(lr, torch.Tensor) and _in_one_kernel(lr, weights, d, buffers):
            torch._fused_sgd_(
                weights,
                d,
                buffers,
                weight_decay=self.decay,
                momentum=self.momentum,
                lr=lr,
                dampening=0.0,
                nesterov=self.nesterov,
                maximize=False,
                is_first_step=False,
            )
            return
        if self.decay:
            d = list(torch._foreach_add(d, weights, alpha=self.decay))
        if self.momentum:
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_add_(buffers, d)
            d = list(torch._foreach_add(d, buffers, alpha=self.momentum)) if self.nesterov else buffers
        _descend(weights, d, lr)


class Adam:
    """Kingma & Ba, 2015, algorithm 1, with beta = (0.9, 0.999) and eps = 1e-8."""

    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def __init__(self, local: Local):
        self.decay = local.weight_decay

    def init(self, params: Tree) -> Memory:
        return {moment: map_tensors(torch.zeros_like, params) for moment in ("first", "second")}

    def step(self, params: Tree, grads: Tree, state: Memory, lr: float | Tensor, count: int | Tensor) -> None:
        weights = list(params.values())
        g = [grads[k] for k in params]
        if self.decay:
            g = list(torch._foreach_add(g, weights, alpha=self.decay))
        first: list[Tensor] = [state["first"][k] for k in params]
        second: list[Tensor] = [state["second"][k] for k in params]
        if isinstance(lr, torch.Tensor) and _in_one_kernel(lr, weights, g, first, second):
            torch._fused_adam_(
                weights,
                g,
                first,
                second,
                [],
                [torch.as_tensor(count, device=lr.device).to(lr.dtype) + 1] * len(weights),
                lr=lr,
                beta1=self.beta1,
                beta2=self.beta2,
                weight_decay=0.0,  # it is in the gradient
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )
            return
        torch._foreach_lerp_(first, g, 1 - self.beta1)
        torch._foreach_mul_(second, self.beta2)
        torch._foreach_addcmul_(second, g, g, value=1 - self.beta2)
        root = list(torch._foreach_sqrt(second))
        torch._foreach_div_(root, _as(weights[0], (1 - _power(self.beta2, count)) ** 0.5))
        torch._foreach_add_(root, self.eps)
        rate = _as(weights[0], lr / (1 - _power(self.beta1, count)))
        _descend(weights, list(torch._foreach_div(first, root)), rate)


def _in_one_kernel(lr: Tensor, weights: list[Tensor], *lists: list[Tensor]) -> bool:
    """Whether a GPU can move all weights in one kernel: torch's own, for float32 that lies alike and without gaps (of
    stacked clients, the first few may have some), and one rate."""
    if not (lr.is_cuda and lr.dim() == 0 and lr.dtype == torch.float32):
        return False
    if not all(fills_memory(weight.shape, weight.stride()) for weight in weights):
        return False
    return all(
        value.stride() == weight.stride() and value.dtype == weight.dtype == torch.float32
        for values in lists
        for weight, value in zip(weights, values, strict=False)
    )


def _power(beta: float, count: int | Tensor) -> Any:
    """beta to the number of steps taken, in float64 also where the count is a tensor."""
    if isinstance(count, torch.Tensor):
        return torch.full((), beta, dtype=torch.float64, device=count.device) ** (count + 1)
    return beta ** (count + 1)


def _as(weight: Tensor, value: Any) -> Any:
    """A number in the type of the weights: with another type, a GPU takes one kernel for each of them."""
    return value.to(weight.dtype) if isinstance(value, torch.Tensor) else value


def _descend(weights: list[Tensor], direction: list[Tensor], lr: float | Tensor) -> None:
    """weights <- weights - lr x direction, with one rate for all or one a row."""
    if isinstance(lr, torch.Tensor) and lr.dim() == 0:
        torch._foreach_sub_(weights, torch._foreach_mul(direction, lr))
    elif isinstance(lr, torch.Tensor):
        rates = [lr.view(-1, *[1] * (w.dim() - 1)).to(w.dtype) for w in weights]
        torch._foreach_addcmul_(weights, direction, rates, value=-1)
    else:
        torch._foreach_add_(weights, direction, alpha=-lr)


OPTIMIZERS: dict[str, Callable[[Local], Optimizer]] = {"sgd": SGD, "adam": Adam}


def optimizer(local: Local) -> Optimizer:
    if local.optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer must be {' or '.join(OPTIMIZERS)}, not {local.optimizer!r}")
    return OPTIMIZERS[local.optimizer](local)


@lru_cache(4096)
def sum_of_rates(local: Local, lr: float, steps: int, pull: float = 0.0, distance: float = 0.0) -> float:
    """Where a weight that began at ``distance`` is after ``steps`` steps against a constant gradient of 1.

    This is lr ||a_i||_1 of FedNova (Wang et al., NeurIPS 2020, section 4.2) in general: lr x steps for plain
    SGD, lr (t - r (1 - r^t) / (1 - r)) / (1 - r) with momentum r, (1 - (1 - lr mu)^t) / mu with a proximal pull
    mu to 0. Adam's steps count as lr each.
    """
    if local.optimizer != "sgd" or not (local.momentum or pull):
        return distance + lr * steps
    velocity = 0.0
    for _ in range(steps):
        gradient = 1.0 - pull * distance
        velocity = local.momentum * velocity + gradient
        distance += lr * (gradient + local.momentum * velocity if local.nesterov else velocity)
    return distance


def clip(grads: Tree, largest: float) -> Tree:
    """The gradient scaled down to a whole norm of at most ``largest``."""
    first, *more = (g.square().sum() for g in grads.values())
    norm = torch.sqrt(sum(more, first))  # begun with no zero, whose type would be torch's default
    scale = (largest / norm.clamp_min(1e-12)).clamp_max(1.0)
    return {k: g * scale.to(g.dtype) for k, g in grads.items()}
