"""A step of one client that is not stacked, recorded once for each common size of batch and replayed.

What convolves on a CPU mostly does so one client at a time. Python, autograd and their copies are the same in every
step, so the operations that loss and gradient end in are recorded, as those of stacked clients are (``recorded.py``),
and rewritten (``rewrite_alone.py``). The optimiser's move stays as it is, but for gradients that plain SGD adds to a
weight as they are computed. Whether a step is recorded depends on the run and its size alone, so that the number of
workers changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from unskew.arrays import Array
from unskew.core.optimisers import is_plain
from unskew.core.step import LocalStep, LocalTraining, StepInputs
from unskew.core.types import Memory, Tree
from unskew.engines.graph import alike, shaken, shapes_depend_on_numbers
from unskew.engines.rewrite_alone import rewrite_alone
from unskew.engines.traced import trace

Play = Callable[..., Any]
Known = dict[Any, dict[Any, Play | None]]
"""Recordings by all that they depend on, the size of the batch last; None where there can be none."""

KEPT = 16
"""Kinds of steps whose recordings are kept; a run whose sizes never settle makes them anew."""

COMMON = 4
"""A short batch is worth a recording where one client in so many has batches of that size."""


def common_sizes(samples: Array, batch: int) -> frozenset[int]:
    """The sizes of batches that are recorded: a whole batch, and what is left over at many clients."""
    left, clients = np.unique(samples % batch, return_counts=True)
    return frozenset({batch, *left[clients * COMMON >= len(samples)].tolist()} - {0})


class RecordedStep(LocalStep):
    """A ``LocalStep`` for one visit of one client, by recordings that outlast the visit."""

    def __init__(self, training: LocalTraining, known: Known, sizes: frozenset[int]):
        super().__init__(training)
        self.training, self.known, self.sizes = training, known, sizes
        # under plain SGD a weight's gradient that is a product may be added to it as it is computed
        self.joins = is_plain(self.rule)
        self._moves: dict[float, Tensor] = {}  # by the rate
        self._held: tuple[list[Tensor], list[Tensor]] | None = None
        self._recordings: dict[Any, Play | None] = {}

    def __call__(
        self,
        params: Tree,
        inputs: StepInputs,
        state: Memory,
        rate: float | Tensor,
        count: int | Tensor,
        losses: Tensor,
        padded: bool = False,
    ) -> Tree:
        """As ``LocalStep``; a gradient that was added to its weight as it was computed does not come back."""
        play = self._recording(params, inputs, padded) if len(inputs.y) in self.sizes else None
        if play is None or self._held is None:
            return super().__call__(params, inputs, state, rate, count, losses, padded)
        before, after = self._held
        seed = [] if inputs.seed is None else [inputs.seed]
        draws = tree_leaves(inputs.draws) if any(inputs.draws.values()) else []
        rate = float(rate)
        if rate not in self._moves:
            self._moves[rate] = torch.tensor(-rate, dtype=inputs.x.dtype)
        with torch.no_grad():
            *found, value = play(
                *before, inputs.x, inputs.y, inputs.weight, *after, *draws, *seed, self._moves[rate]
            )
            grads = {k: g for k, g in zip(params, found, strict=True) if g is not None}
            self.rule.step({k: params[k] for k in grads}, grads, state, rate, count)
            losses += value
        return grads

    def _recording(self, params: Tree, inputs: StepInputs, padded: bool) -> Play | None:
        if self._held is None:
            self._hold(params, inputs)
        key = (inputs.x.shape, inputs.x.stride(), padded)
        if key not in self._recordings:
            self._recordings[key] = self._record(params, inputs, padded)
        return self._recordings[key]

    def _hold(self, params: Tree, inputs: StepInputs) -> None:
        """Note what stays for the whole visit, tensors and forms, and look up the recordings that fit them."""
        held = self._held = (
            tree_leaves((params, inputs.buffers)),
            tree_leaves((inputs.anchor, inputs.census, inputs.shared, inputs.mine)),
        )
        training = self.training
        alike = (
            training.net,
            repr(training.objectives),
            training.local,
            tree_flatten((params, inputs))[1],
            *((v.dtype, v.shape, v.stride()) for v in [*held[0], *held[1], *tree_leaves(inputs.draws)]),
        )
        if alike not in self.known and len(self.known) >= KEPT:
            self.known.clear()
        self._recordings = self.known.setdefault(alike, {})

    def _record(self, params: Tree, inputs: StepInputs, padded: bool) -> Play | None:
        """The gradients as a function of tensors; None where the step looks at their numbers and has no one form."""
        # recording runs the step once, on copies of what it changes
        buffers = {k: v.clone() for k, v in inputs.buffers.items()}
        # a model may also write into its samples
        aside = inputs._replace(x=inputs.x.clone(), buffers=buffers)
        leaves, form = tree_flatten((params, aside))
        if not all(isinstance(v, Tensor) or v is inputs.seed for v in leaves):
            return None  # what is no tensor may be another in the next step

        def step(*given: Tensor) -> list[Tensor]:
            left = iter(given)  # all but the last, by which rewrites move weights
            weights, here = tree_unflatten([next(left) if isinstance(v, Tensor) else v for v in leaves], form)
            weights = {k: v.detach().requires_grad_() for k, v in weights.items()}
            # each sample weighs 1, and what follows from that need not be computed in every step
            if not padded:
                here = here._replace(weight=torch.ones(len(here.y), dtype=here.weight.dtype))
            grads, value = LocalStep.gradients(self, weights, here, padded)
            return [*grads.values(), value]

        try:
            traced = trace(step, [*(v for v in leaves if isinstance(v, Tensor)), inputs.x.new_zeros(())])
        except Exception:  # whatever it is, the step as it is written says it better, if it fails too
            return None
        if shapes_depend_on_numbers(traced.graph):
            return None
        play = rewrite_alone(traced, len(params) if self.joins else 0)
        values = [v for v in leaves if isinstance(v, Tensor)]
        samples = {at for at, v in enumerate(values) if v is aside.x}  # which may be tokens of a vocabulary
        return play if _does_as(step, play, values, len(params), samples) else None


def _does_as(step: Play, play: Play, values: list[Tensor], weights: int, samples: set[int]) -> bool:
    """Whether a recording does what the step does, on other numbers than it was recorded of."""
    move = values[0].new_full((), -0.5)
    mine, theirs = shaken(values, samples), shaken(values, samples)
    try:
        with torch.enable_grad():
            expected = step(*mine, move)
        with torch.no_grad():
            found = play(*theirs, move)
    except Exception:  # as written it says better what is wrong
        return False
    grads = expected[:weights]
    # a gradient that does not come back has moved its weight
    moved = [w.detach() + move * g if f is None else w for w, g, f in zip(mine, grads, found, strict=False)]
    came = [i for i, f in enumerate(found) if f is not None]
    floats = [i for i, v in enumerate(mine) if i >= weights and v.is_floating_point()]
    return alike(
        [expected[i] for i in came] + moved + [mine[i] for i in floats],
        [found[i] for i in came] + theirs[:weights] + [theirs[i] for i in floats],
    )
