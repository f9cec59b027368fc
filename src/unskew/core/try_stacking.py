"""What a model allows, found out by trying: stacked clients, and short batches that are filled up.

Both are right for models that treat each sample by itself, as almost all do. For others they are wrong without a word:
torch's ``vmap`` gets the gradients of some layers wrong (an embedding's padding row), and a model may look across its
batch. So gradients are compared, of a few made-up samples at shaken weights.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from unskew.core.types import Tree

ROWS = (4, 1)
"""How many samples each of two models is tried with; both are filled up to ``FILLED`` rows."""

FILLED = 5

ALIKE = 1e-3
"""Relative to the largest number of a model's gradients: far above rounding, far below another rule."""


class Tried(Protocol):
    """What is asked of a net (``unskew.core.net``)."""

    initial: Tree
    trainable: tuple[str, ...]
    buffers: tuple[str, ...]

    def bound(
        self, buffers: Tree, seed: Tensor | None = None, weight: Tensor | None = None
    ) -> Callable[[Mapping[str, Tensor], Tensor], Tensor]: ...

    def judge(self, model: Mapping[str, Tensor], x: Tensor) -> Tensor: ...


def stacks(net: Tried, shape: tuple[int, ...], loops: bool = True) -> bool:
    """Whether stacked clients with short batches filled up have the gradients that each has alone; without ``loops``
    also whether ``vmap`` has a rule for all that they do."""

    def stacked(trial: _Trial) -> Sequence[list[Tensor]]:
        with contextlib.nullcontext() if loops else _no_loops():
            return trial.stacked()

    return _same_in_both(net, shape, stacked)


def mixes_rows(net: Tried, shape: tuple[int, ...]) -> bool:
    """Whether rows of weight 0 change what the model makes of the others: batches must then have their own sizes."""
    return not _same_in_both(net, shape, lambda trial: [trial.alone(i, FILLED) for i in range(len(ROWS))])


def _same_in_both(
    net: Tried, shape: tuple[int, ...], way: Callable[[_Trial], Sequence[list[Tensor]]]
) -> bool:
    """Whether a way to train gives what clients alone have, for tokens and for numbers that a model takes."""
    net = copy.deepcopy(
        net
    )  # code of a user may remember what it was shown, and stacked numbers cannot travel
    tried = 0
    for tokens in (True, False):
        trial = _Trial(net, shape, tokens)
        with _whole_numbers():
            try:
                expected = [trial.alone(i, rows) for i, rows in enumerate(ROWS)]
            except Exception:
                # it looks things up, and has none of these; or else its training says it better
                continue
            if not all(bool(v.isfinite().all()) for one in expected for v in one):
                continue  # as a logarithm of numbers below 0
            try:
                found = way(trial)
            except Exception:  # some layers cannot be stacked, nor can code that looks at numbers
                return False
        tried += 1
        if not all(map(_alike, found, expected)):
            return False
    return tried > 0


@contextlib.contextmanager
def _whole_numbers() -> Iterator[None]:
    """A GPU multiplies with all the digits that numbers have: in TF32 rounding looks like another rule."""
    products, filters = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, filters.allow_tf32
    products.allow_tf32 = filters.allow_tf32 = False
    try:
        yield
    finally:
        products.allow_tf32, filters.allow_tf32 = before


@contextlib.contextmanager
def _no_loops() -> Iterator[None]:
    """What ``vmap`` has no rule for fails here. Otherwise it is carried out for one client after the other, and the
    layers around it are laid out for many: on a CPU attention, for one, is then slower than each client by itself."""
    of_torch: Any = torch._C._functorch
    before = of_torch._is_vmap_fallback_enabled()
    of_torch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        of_torch._set_vmap_fallback_enabled(before)


class _Trial:
    """Shaken models and made-up samples: tokens of any vocabulary, zeros and ones, or numbers of both signs."""

    def __init__(self, net: Tried, shape: tuple[int, ...], tokens: bool):
        self.net = net
        like = next(v for v in net.initial.values() if v.is_floating_point())
        drawing = torch.Generator("cpu").manual_seed(0)

        def shaken(value: Tensor) -> Tensor:
            rows = value.detach().expand(len(ROWS), *value.shape).clone()
            if not value.is_floating_point():
                return rows
            return rows + 0.05 * torch.rand(rows.shape, generator=drawing, device="cpu").to(rows)

        self.models = {k: shaken(v) for k, v in net.initial.items()}
        x = torch.randn(len(ROWS), FILLED, *shape, generator=drawing, device="cpu")
        self.x = (x > 0 if tokens else x).to(like)
        counts = torch.tensor(ROWS)[:, None] > torch.arange(FILLED)
        self.weight = counts.to(like)
        self.seeds = torch.arange(1, len(ROWS) + 1, device=like.device)

    def stacked(self) -> list[list[Tensor]]:
        """Of each client, its gradients and what is judged of its samples, all trained at once."""
        params, buffers = self._parts(self.models)
        total = vmap(self._loss)(params, buffers, self.x, self.seeds, self.weight).sum()
        found = _filled(torch.autograd.grad(total, list(params.values()), allow_unused=True), params)
        judged = vmap(self._judged)(self.models, self.x)
        return [[*(g[i] for g in found), judged[i, :rows]] for i, rows in enumerate(ROWS)]

    def alone(self, client: int, rows: int) -> list[Tensor]:
        """The same of one client with this many rows."""
        model = {k: v[client].clone() for k, v in self.models.items()}
        params, buffers = self._parts(model)
        x, weight = self.x[client, :rows], self.weight[client, :rows]
        total = self._loss(params, buffers, x, self.seeds[client], weight)
        found = _filled(torch.autograd.grad(total, list(params.values()), allow_unused=True), params)
        return [*found, self._judged(model, x)[: ROWS[client]]]

    def _parts(self, model: Tree) -> tuple[Tree, Tree]:
        params = {k: model[k].clone().requires_grad_() for k in self.net.trainable}
        return params, {k: model[k].clone() for k in self.net.buffers}

    def _loss(self, params: Tree, buffers: Tree, x: Tensor, seed: Tensor, weight: Tensor) -> Tensor:
        """Something of every logit, so that no gradient is hidden by another's."""
        net = self.net.bound(buffers, seed, weight)
        logits = net(params, x.clone())
        slope = torch.arange(1, logits.shape[-1] + 1, device=x.device).to(logits)
        return ((logits * slope.sin()).sum(-1).square() * weight).sum()

    def _judged(self, model: Tree, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.net.judge({k: v.clone() for k, v in model.items()}, x.clone())


def _filled(found: tuple[Tensor | None, ...], params: Tree) -> list[Tensor]:
    """Gradients, 0 where a weight has none."""
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, params.values(), strict=True)]


def _alike(some: list[Tensor], others: list[Tensor]) -> bool:
    *grads, judged = others
    scales = [max((float(g.abs().max()) for g in grads if g.numel()), default=0.0)] * len(grads)
    scales.append(float(judged.abs().max()))
    return all(
        a.shape == b.shape and (not b.numel() or float((a - b).detach().abs().max()) <= ALIKE * scale + 1e-12)
        for a, b, scale in zip(some, others, scales, strict=True)
    )
