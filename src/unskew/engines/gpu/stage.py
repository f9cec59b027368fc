"""What a leg on a GPU is played on: tensors that stay where they are, and the steps captured over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unskew.core.step import LocalTraining
from unskew.core.types import Memory, clone, map_tensors
from unskew.engines.client_stack import ClientStack, tensors
from unskew.engines.device_data import DeviceData
from unskew.engines.gpu.grouping import Way
from unskew.engines.gpu.stacked_graphs import StackedGraphs
from unskew.engines.gpu.stream_graphs import StreamGraphs


@dataclass(frozen=True)
class Room:
    """How large the tensors of a stage are. A function of the leg alone: a run that was stopped pads as one that was
    not."""

    clients: int
    steps: int
    batch: int  # samples in a batch
    exact: bool  # whether short batches get graphs of their own instead of padding
    way: Way


def padded_to(room: Room, block: ClientStack) -> ClientStack:
    """The block with room for more clients, steps and samples: all of it padding, with learning rate 0."""

    def grown(value: Tensor, *sizes: int) -> Tensor:
        if value.shape[: len(sizes)] == sizes:
            return value
        fresh = value.new_zeros(*sizes, *value.shape[len(sizes) :])
        fresh[tuple(slice(n) for n in value.shape[: len(sizes)])] = value
        return fresh

    def clients(tree: Memory) -> Memory:
        return map_tensors(lambda v: grown(v, room.clients), tree)

    draws = {
        part: {k: grown(v, room.steps, room.clients) for k, v in tree.items()}
        for part, tree in block.draws.items()
    }
    grew = replace(
        block,
        index=grown(block.index, room.steps, room.clients, room.batch),
        weight=grown(block.weight, room.steps, room.clients, room.batch),
        rate=grown(block.rate, room.steps, room.clients),
        seeds=None if block.seeds is None else grown(block.seeds, room.steps, room.clients),
        draws=draws,
        params=clients(block.params),
        buffers=clients(block.buffers),
        census=grown(block.census, room.clients),
        anchor=clients(block.anchor) if block.own_anchor else block.anchor,
        mine={part: clients(tree) for part, tree in block.mine.items()},
        padded=[True] * block.steps if room.batch > block.index.shape[2] else block.padded,
    )
    grew.losses = grown(grew.losses, room.clients)
    return grew


class Stage:
    """Tensors that stay where they are, and the steps captured over them."""

    def __init__(
        self,
        training: LocalTraining,
        device_data: DeviceData,
        room: Room,
        block: ClientStack,
        capture: bool,
        compile: bool,
        precision: str,
    ):
        self.training, self.room, way = training, room, room.way
        # the anchor and what parts share are the run's own tensors, and later legs are copied into these
        shared = {part: clone(tree) for part, tree in block.shared.items()}
        last = device_data.channels_last or way is Way.KERNELS
        params = {k: _laid_out(v) for k, v in block.params.items()} if last else block.params
        self.block = replace(block, params=params, anchor=clone(block.anchor), shared=shared)
        self.block.losses = block.losses.clone()
        self.signature = _signature(block)
        net = training.net
        if way is Way.KERNELS:
            net, compile = net.with_kernels(seen=training.shows_steps), False
        elif way is Way.STACKED and net.convolves:
            net = net.patched()
        inner = replace(training, net=net.halved() if precision == "bf16" else net)
        graphs = StackedGraphs if way.stacks else StreamGraphs
        self.graphs: StackedGraphs | StreamGraphs = graphs(
            inner, device_data.pool, self.block, room.exact, compile, capture
        )

    def fits(self, training: LocalTraining, room: Room, block: ClientStack) -> bool:
        """Whether this stage can play that block as it is."""
        same = (training.net, training.objectives, training.local) == (
            self.training.net,
            self.training.objectives,
            self.training.local,
        )
        return room == self.room and same and _signature(block) == self.signature

    def play(self, block: ClientStack) -> None:
        """Train a block: copy it in, replay its steps, and leave the models in it."""
        mine, theirs = tensors(self.block), tensors(block)
        _copied(list(mine.values()), [theirs[name] for name in mine])
        self.block.client_jobs[:] = block.client_jobs
        self.block.losses.zero_()
        self.graphs.play(block)
        trained = self.block.params | self.block.buffers
        returning = block.params | block.buffers
        _copied(list(returning.values()), [trained[name] for name in returning])
        block.losses.copy_(self.block.losses)


def _laid_out(stacked: Tensor) -> Tensor:
    """A copy whose rows are channels-last, as their gradients will be: optimisers are slow across layouts."""
    if stacked.dim() != 5:
        return stacked
    like = torch.empty(stacked.shape[1:], memory_format=torch.channels_last, device="meta").stride()
    fresh = torch.empty_strided(
        stacked.shape, (stacked[0].numel(), *like), dtype=stacked.dtype, device=stacked.device
    )
    return fresh.copy_(stacked)


def _copied(here: list[Tensor], there: list[Tensor]) -> None:
    """Copy tensor by tensor, those of a kind together: a GPU starts some kernels then instead of one for each."""
    kinds: dict[torch.dtype, list[int]] = {}
    for at, value in enumerate(here):
        kinds.setdefault(value.dtype, []).append(at)
    for places in kinds.values():
        torch._foreach_copy_([here[at] for at in places], [there[at] for at in places])


def _signature(block: ClientStack) -> tuple[Any, ...]:
    """Shapes and types of a block: what a captured step depends on."""
    shapes = tuple((n, v.shape, v.dtype) for n, v in sorted(tensors(block).items()))
    return (*shapes, block.own_anchor)
