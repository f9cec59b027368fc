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
        several = self.momentum or self.decay  # passes over memory, one after the other
        if (several and _in_one_pass(lr, weights, buffers)) or _in_one_kernel(lr, weights, d, buffers):
            torch._fused_sgd_(
                weights,
                _laid_out(d, weights),
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
        first: list[Tensor] = [state["first"][k] for k in params]
        second: list[Tensor] = [state["second"][k] for k in params]
        one_pass = _in_one_pass(lr, weights, first, second)
        if self.decay and not one_pass:
            g = list(torch._foreach_add(g, weights, alpha=self.decay))
        if one_pass or _in_one_kernel(lr, weights, g, first, second):
            steps = torch.as_tensor(count, device=weights[0].device).to(weights[0].dtype) + 1
            torch._fused_adam_(
                weights,
                _laid_out(g, weights),
                first,
                second,
                [],
                [steps] * len(weights),
                lr=lr,
                beta1=self.beta1,
                beta2=self.beta2,
                weight_decay=self.decay if one_pass else 0.0,  # or it is in the gradient
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


def _in_one_pass(lr: float | Tensor, weights: list[Tensor], *states: list[Tensor]) -> bool:
    """Whether a CPU can move each weight in one pass over memory, and not one for each term of its rule: by torch's own
    loop, which looks at no strides, and at one rate."""
    if isinstance(lr, torch.Tensor) and lr.dim():
        return False
    first = weights[0]
    if first.device.type != "cpu" or first.dtype not in (torch.float32, torch.float64):
        return False
    for w in weights:
        if w.dtype != first.dtype or not (w.is_contiguous() or fills_memory(w.shape, w.stride())):
            return False
    return all(_lie_alike(v, w) for values in states if values for v, w in zip(values, weights, strict=True))


def _lie_alike(value: Tensor, other: Tensor) -> bool:
    """Whether the same numbers of both come one after the other in memory."""
    if value.stride() == other.stride():
        return True
    pairs = zip(value.stride(), other.stride(), value.shape, strict=True)
    return all(a == b for a, b, size in pairs if size > 1)


def _laid_out(values: list[Tensor], like: list[Tensor]) -> list[Tensor]:
    """These numbers in the order in which others lie in memory."""

    def one(value: Tensor, weight: Tensor) -> Tensor:
        if _lie_alike(value, weight):
            return value
        return value.contiguous() if weight.is_contiguous() else torch.empty_like(weight).copy_(value)

    return [one(value, weight) for value, weight in zip(values, like, strict=True)]


def _in_one_kernel(lr: float | Tensor, weights: list[Tensor], *lists: list[Tensor]) -> bool:
    """Whether a GPU can move all weights in one kernel: torch's own, for float32 that lies alike and without gaps (of
    stacked clients, the first few may have some), and one rate."""
    if not (isinstance(lr, torch.Tensor) and lr.is_cuda and lr.dim() == 0 and lr.dtype == torch.float32):
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


def is_plain(rule: Optimizer) -> bool:
    """Whether a rule moves weights by their gradients and nothing else."""
    return isinstance(rule, SGD) and not (rule.momentum or rule.decay)


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
