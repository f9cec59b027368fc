"""A model as a function of its trees: what objectives and engines call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from unskew.arrays import Array
from unskew.core.stacked_task import with_kernels
from unskew.core.task import CLASSIFICATION, Task
from unskew.core.try_stacking import mixes_rows, stacks
from unskew.core.types import Tree, nbytes
from unskew.models.batch_last import lay_batch_last
from unskew.models.functional import call, context, copied, trees
from unskew.models.in_half import looks_up, stays_wide, take_any_type
from unskew.models.layers import BatchNorm
from unskew.models.outline import Outline
from unskew.models.patches import can_be_patched, patch
from unskew.models.pool_first import pool_first
from unskew.models.split import SplitModel
from unskew.models.stacked_layers import fits_kernels, use_kernels
from unskew.seeds import generator

ANOTHER = 0x2545F491 << 32
"""What the seed of a second pass differs by: in the half that keys the masks."""

JUDGED_AT_ONCE = 500
"""Samples in one forward pass of an evaluation; fixed, so that the number of workers changes nothing."""


def blocks(count: int, by_batch: bool) -> list[Array]:
    """Which of ``count`` samples are judged in one pass.

    Where a sample is judged by the statistics of its block, blocks are of one size and drawn by chance, the same each
    time. Otherwise a test set sorted by class would be judged class by class.
    """
    number = max(1, -(-count // JUDGED_AT_ONCE))
    if not by_batch or number == 1:
        return [np.arange(i * JUDGED_AT_ONCE, min(count, (i + 1) * JUDGED_AT_ONCE)) for i in range(number)]
    mixed: list[Array] = np.array_split(generator(0, "judged together", count).permutation(count), number)
    return mixed


class Net:
    """The model's code without its numbers: parameters and statistics always come in as arguments.

    ``net(params, x)`` is the forward pass of training, with the statistics and dropout masks that ``bound``
    fixed for this step. ``net.judge(model, x)`` is the forward pass of evaluation, for a teacher or a test, with
    the statistics of that model.
    """

    def __init__(self, module: SplitModel, task: Task = CLASSIFICATION):
        self.task = task  # what its outputs are held against
        self.training: SplitModel = copied(module).train()
        self.judging: SplitModel = copied(module).eval()
        for frozen in (self.training, self.judging):
            frozen.requires_grad_(False)
            pool_first(frozen)
        parameters, buffers = trees(module)
        self.initial: Tree = parameters | buffers
        self.own = frozenset(parameters)  # what the module itself has; objectives may add heads beside it
        self.trainable: tuple[str, ...] = tuple(parameters)
        self.buffers: tuple[str, ...] = tuple(buffers)
        # looked up once here, and so remembered: a compiled step cannot look it up
        self.draws_masks = bool(self.training.fed[0])
        self.convolves = any(isinstance(m, nn.modules.conv._ConvNd) for m in module.modules())
        self.filters_by_channel = any(
            isinstance(m, nn.modules.conv._ConvNd) and m.groups > 1 for m in module.modules()
        )
        self.fits_kernels = fits_kernels(module)
        self.norms = any(isinstance(m, BatchNorm) for m in module.modules())
        # whether a tensor has two names; where none has, torch need not look for them at every call
        self.tied = any(
            len([*found()]) < len([*found(remove_duplicate=False)])
            for found in (module.named_parameters, module.named_buffers)
        )
        # what was found out by trying, by shape of a sample
        self._tried: dict[tuple[str, tuple[int, ...]], bool] = {}
        self.held: Tree = {}  # statistics and context of one step
        self.looks_up = looks_up(module)
        self.half = False
        self.half_outputs = False  # whether what comes out of it stays in bf16, too
        self.by_batch = False  # whether it judges by the statistics of the samples at hand
        self.wide: frozenset[str] = frozenset()
        self.rounded: frozenset[str] = frozenset()  # weights that layers themselves round to bf16

    def __call__(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Logits, in training mode."""
        return self._run(self.training, params, x)

    def embed(self, params: Mapping[str, Tensor], x: Tensor, layer: str) -> Tensor:
        """The activation at a layer, in training mode."""
        return self._run(self.training, params, x, upto=layer)

    def head(self, params: Mapping[str, Tensor], f: Tensor, layer: str) -> Tensor:
        """Logits from the activation at a layer, in training mode."""
        return self._run(self.training, params, f, since=layer)

    def features(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The penultimate feature, in training mode: what the classifier is given."""
        return self.embed(params, x, self.training.last_layer)

    def classify(self, params: Mapping[str, Tensor], features: Tensor) -> Tensor:
        """Logits from the penultimate feature, in training mode."""
        return self.head(params, features, self.training.last_layer)

    def judge(
        self, model: Mapping[str, Tensor], x: Tensor, since: str | None = None, upto: str | None = None
    ) -> Tensor:
        """Logits (or what lies between two layers) in evaluation mode: no masks, statistics untouched."""
        held = {k: v for k, v in model.items() if k in self.own or k in self.buffers}
        return call(self.judging, held, x, self.tied, since=since, upto=upto)

    def blocks(self, count: int) -> list[Array]:
        """Which of ``count`` samples are judged in one pass."""
        return blocks(count, self.by_batch)

    def bound(self, buffers: Tree, seed: Tensor | None = None, weight: Tensor | None = None) -> Net:
        """This net for one step: training updates ``buffers`` in place."""
        here = copy.copy(self)
        here.held = buffers | context(self.training, seed, weight)
        return here

    def for_rows(self, weight: Tensor, remember: bool = True) -> Net:
        """This net for one more pass in the same step, over other rows: masks of their own, and their weights.

        Unless it is to ``remember`` them, these rows leave no trace in the running statistics.
        """
        seeds, weights = self.training.fed
        here = copy.copy(self)
        other = {k: self.held[k] ^ ANOTHER for k in seeds if k in self.held}
        here.held = self.held | other | {k: weight for k in weights if k in self.held}
        return here if remember else here.without_statistics()

    def without_statistics(self) -> Net:
        """This net for one more pass over the same rows, which leaves no trace in the running statistics."""
        here = copy.copy(self)
        here.held = self.held | {k: self.held[k].clone() for k in self.buffers if k in self.held}
        return here

    def grow(self, heads: Tree) -> None:
        """Train these beside the model's own parameters: heads that objectives bring along."""
        statistics = {k: self.initial[k] for k in self.buffers}
        self.initial = {k: self.initial[k] for k in self.trainable} | heads | statistics
        self.trainable += tuple(heads)

    def weighing(self, weight: Tensor) -> Net:
        """This net for other rows than the batch's own: batch norm counts each by its weight."""
        here = copy.copy(self)
        here.held = self.held | context(self.training, None, weight)
        return here

    def to(self, device: torch.device) -> None:
        """Move the model's code and its initial numbers to a device."""
        for module in (self.training, self.judging):
            module.to(device)
        self.initial = {k: v.to(device) for k, v in self.initial.items()}

    def multiply_adds(self, shape: tuple[int, ...]) -> float:
        """About how many multiply-adds one forward pass of one sample takes: those of its dense layers and filters.

        Not by torch's own counter, which takes a second to load.
        """
        heavy = [m for m in self.judging.modules() if isinstance(m, (nn.Linear, nn.modules.conv._ConvNd))]
        return float(sum(out.numel() * _inputs(layer) for layer, out in self._seen(heavy, shape)))

    def patch_values(self, shape: tuple[int, ...]) -> float:
        """How many numbers the patches under all filters are, for one sample; inf where a filter has none such."""
        filters = [m for m in self.judging.modules() if isinstance(m, nn.modules.conv._ConvNd)]
        if not all(can_be_patched(layer) for layer in filters):
            return float("inf")
        return float(sum(out[0, 0].numel() * _inputs(layer) for layer, out in self._seen(filters, shape)))

    def layer_values(self, shape: tuple[int, ...]) -> float:
        """How many numbers all layers put out for one sample: about what a backward pass needs kept."""
        innermost = [m for m in self.judging.modules() if not any(True for _ in m.children())]
        return float(sum(out.numel() for _, out in self._seen(innermost, shape) if isinstance(out, Tensor)))

    def _seen(self, layers: Sequence[nn.Module], shape: tuple[int, ...]) -> list[tuple[nn.Module, Tensor]]:
        """What each of these layers puts out for one sample of zeros."""
        found: list[tuple[nn.Module, Tensor]] = []
        hooks = [layer.register_forward_hook(lambda m, _, out: found.append((m, out))) for layer in layers]
        weight = next(iter(self.initial.values()))
        try:
            with torch.inference_mode():
                self.judge(self.initial, torch.zeros(1, *shape, dtype=weight.dtype, device=weight.device))
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def outline(self, shape: tuple[int, ...]) -> Outline:
        """What parts refuse a model by, for samples of this shape."""

        def count_features() -> int:
            zeros = self.initial[self.trainable[0]].new_zeros(1, *shape)
            return self.judge(self.initial, zeros, upto=self.training.last_layer).numel()

        dense = tuple(m.in_features for m in self.judging.modules() if isinstance(m, nn.Linear))
        return Outline(self.training, dense, bool(self.buffers), count_features)

    def statistics(self, model: Mapping[str, Tensor]) -> Tree:
        """The part of a model that is measured, not trained: batch norm's running averages."""
        return {k: model[k] for k in self.buffers}

    def halved(self) -> Net:
        """This net computing in bfloat16 from float32 numbers; what normalises stays in float32."""
        here = copy.copy(self)
        here.half = True
        norms = [n for n, m in self.training.named_modules() if isinstance(m, BatchNorm)]
        here.wide = here.rounded.union(f"{n}.{p}" for n in norms for p in ("weight", "bias"))
        if self.looks_up or stays_wide(self.training, self.own):
            here.training = copied(self.training)
            take_any_type(here.training, here.wide)
        return here

    @property
    def rounds_samples(self) -> bool:
        """Whether samples are rounded to bf16 before all else."""
        return self.half and not self.looks_up

    def patched(self) -> Net:
        """This net, convolving by products over patches: for clients that are stacked."""
        here = self._untried()
        here.training, here.judging = copied(self.training), copied(self.judging)
        patch(here.training)
        patch(here.judging)
        return here

    def with_kernels(self, seen: bool = True) -> Net:
        """This net with layers and loss that are one kernel each, for all stacked clients on a GPU.

        If only the loss reads the outputs (they are not ``seen`` by parts), it reads them as they come, in bf16 too.
        """
        here = self._untried()
        here.training, here.judging = copy.deepcopy(self.training), copy.deepcopy(self.judging)
        here.task = with_kernels(self.task)
        here.half_outputs = not seen and here.task is not self.task
        here.rounded = use_kernels(here.training)
        use_kernels(here.judging)
        return here

    @cached_property
    def batch_last(self) -> Net:
        """This net, training with the batch as the innermost axis: for stacked clients with small filters on a CPU."""
        here = self._untried()
        here.training = copied(self.training)
        lay_batch_last(here.training)
        return here

    def runs_channels_last(self, shape: tuple[int, ...]) -> bool:
        """Whether this model takes images channels-last, the layout in which a CPU convolves fastest. A ``view`` in it
        may not."""
        if not (self.convolves and len(shape) == 3):
            return False
        return self._found_out("channels last", shape, self._try_channels_last)

    def _try_channels_last(self, shape: tuple[int, ...]) -> bool:
        weight = next(iter(self.initial.values()))
        x = torch.zeros(2, *shape, dtype=weight.dtype, device=weight.device)

        def laid_out(value: Tensor) -> Tensor:  # clone, for contiguous() leaves one channel as it is
            return value.clone(memory_format=torch.channels_last) if value.dim() == 4 else value

        try:
            with torch.no_grad():
                self.judge({k: laid_out(v) for k, v in self.initial.items()}, laid_out(x))
        except RuntimeError:
            return False
        return True

    def runs_with_kernels(self, shape: tuple[int, ...], half: bool) -> bool:
        """Whether this model can train with the kernels. What they put out has its channels side by side, which a
        ``view`` may not take. In bf16 filters stay in float32 and only their own layers round them, so a model may not
        use a filter by itself."""
        if not self.runs_channels_last(shape):
            return False
        if not half:
            return True
        params = {k: self.initial[k] for k in self.trainable}
        bound = self.with_kernels().halved().bound({k: self.initial[k].clone() for k in self.buffers})
        x = torch.zeros(2, *shape, device=next(iter(params.values())).device)
        try:
            with torch.no_grad():
                bound(params, x)
        except RuntimeError:
            return False
        return True

    def stackable(self, shape: tuple[int, ...], loops: bool = True) -> bool:
        """Whether stacked clients train this model as each alone does, by trying; ``loops`` over clients included, or
        not, which are slow on a CPU."""
        question = "stacks" if loops else "stacks without loops"
        return self._found_out(question, shape, lambda shape: stacks(self, shape, loops))

    def mixes_rows(self, shape: tuple[int, ...]) -> bool:
        """Whether padding would change what this model makes of a batch, by trying."""
        return self._found_out("mixes rows", shape, lambda shape: mixes_rows(self, shape))

    def _found_out(
        self, question: str, shape: tuple[int, ...], by_trying: Callable[[tuple[int, ...]], bool]
    ) -> bool:
        """The answer to a question that takes a trial, which is made once."""
        if (question, shape) not in self._tried:
            self._tried[question, shape] = by_trying(shape)
        return self._tried[question, shape]

    def _untried(self) -> Net:
        """This net, to be given other layers: what was found out by trying these says nothing of them."""
        here = copy.copy(self)
        here._tried = {}
        return here

    def by_batch_statistics(self) -> Net:
        """This net, judging with the statistics of the batch at hand, for models that have none of their own."""
        here = copy.copy(self)
        here.by_batch = bool(self.buffers)
        here.judging = copied(self.judging)
        for module in here.judging.modules():
            if isinstance(module, BatchNorm):
                module.train()
                module.momentum = 0.0
        return here

    def travelling_bytes(self, model: Mapping[str, Tensor], batch_norm: str) -> int:
        """What is sent of a model: everything, or all but the statistics where these stay at home."""
        stays = set() if batch_norm == "average" else set(self.buffers)
        return nbytes({k: v for k, v in model.items() if k not in stays})

    def _run(
        self,
        module: SplitModel,
        params: Mapping[str, Tensor],
        x: Tensor,
        since: str | None = None,
        upto: str | None = None,
    ) -> Tensor:
        held = {k: v for k, v in params.items() if k in self.own}
        if self.half:
            held = {k: v if k in self.wide else v.to(torch.bfloat16) for k, v in held.items()}
            x = x.to(torch.bfloat16) if self.rounds_samples or since is not None else x
        cut = {"since": since, "upto": upto} if since or upto else {}
        found = call(module, held | self.held, x, self.tied, **cut)
        return found.to(torch.float32) if self.half and not self.half_outputs else found


def _inputs(layer: nn.Module) -> int:
    """Numbers that one output of a dense layer or a filter is made of."""
    return cast(Tensor, layer.weight)[0].numel()
