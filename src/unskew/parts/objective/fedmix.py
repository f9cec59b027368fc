"""Averages of others' samples mixed into one's own."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.core.conditions import warn_of_silent
from unskew.core.exchanged_rows import batch_of, deal_rows, gather_rows, hand_out_rows, owners
from unskew.core.roster import Roster
from unskew.core.slots import Batch, Depends, Exchange, Needs, Step
from unskew.core.task import soft_labels
from unskew.core.types import Ids, Memory, Tree
from unskew.errors import InputError
from unskew.later import torch
from unskew.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.core.questions import Questions

AVERAGES = "averages of its samples and of their labels to every client"


@dataclass(frozen=True)
class FedMix(Exchange):
    """Trains on samples mixed with averages that all clients exchanged beforehand (Yoon et al., ICLR 2021).

    Before round 0 every client sends the means x^, y^ of groups of its samples and of their labels. Mixing with
    another client's sample x_j, (1 - l) x + l x_j with l for lambda, is replaced by its first-order expansion in
    l x_j, averaged over a group (proposition 1), with one random mean for a whole batch:
    L = L1 + l CE((1 - l) x, y^) + l dL1/dx . x^ where L1 = (1 - l) CE((1 - l) x, y).

    group: how many samples are behind a mean; 10 as in FLea, 0 for all of a client's, as in the paper's tables.
    taylor: that loss. Without it, as FLea's code has it, a client trains on b x + (1 - b) x^ and
    b y + (1 - b) y^, with a mean for every sample and one b ~ Beta(a, a) for a batch (FLea, C.3).
    mix: lambda, with taylor; 0.05 in the paper for CIFAR-10, 0.1 for CIFAR-100, 0.2 for FEMNIST. a: without it.

    Left open, and taken: groups are random and never smaller than asked for, since the mean of one sample is that
    sample; who holds fewer than ``group`` shares nothing. CE is the loss that a client minimises, with logits and class
    weights as other parts have them (FedLC, Balanced). Averages are of normalised samples, and the server sends them
    along with every model.
    """

    name: ClassVar[str] = "fedmix"
    needs: ClassVar[Needs] = Needs(global_model=False, varying_sizes=True)
    paper: ClassVar[str] = "Yoon et al., ICLR 2021"
    neutral: ClassVar[str | None] = "fedmix(mix=0)"
    example: ClassVar[str | None] = "fedmix(group=2)"
    questions: ClassVar[tuple[str, ...]] = ("averages",)
    discloses: ClassVar[Any] = Depends((AVERAGES,), lambda part: (AVERAGES,) if part.active else ())

    group: int = 10
    taylor: bool = True
    mix: float = 0.05
    a: float = 2.0

    def __post_init__(self) -> None:
        if self.group < 2 and self.group != 0:
            raise InputError(
                f"group of fedmix is a number of samples of at least 2 (the mean of one is that sample), or 0 for all "
                f"of a client's, not {self.group}"
            )
        if not 0 <= self.mix < 1:
            raise InputError(f"mix of fedmix is a share of at least 0 and below 1, not {self.mix}")
        if self.a <= 0:
            raise InputError(f"a of fedmix must be above 0, not {self.a}")

    @property
    def active(self) -> bool:
        """Whether anything is mixed."""
        return not self.taylor or self.mix > 0

    @property
    def others_labels(self) -> bool:
        return self.active

    @property
    def sends(self) -> str:
        return f"averages({self.group})" if self.active else ""

    def check(self, roster: Roster, cohort: int) -> None:
        if self.active:
            warn_of_silent(roster, self.group or 2, "fedmix", "write a smaller group")

    # --- the server

    def begin(self, net: Net, roster: Roster, query: Questions, seed: int) -> Memory:
        if not self.active:
            return {}
        return gather_rows(query(self, "averages", roster.ids, seed=seed), range(roster.clients))

    def hand_out(self, memory: Memory, t: int) -> Tree:
        return hand_out_rows(memory)

    def givers(self, memory: Memory, clients: int) -> Ids:
        return owners(memory)

    # --- a client

    def averages(self, client: ClientView, seed: int) -> Tree:
        """The means of groups of its samples, and the shares of labels in each."""
        order = generator(seed, "fedmix", "groups", client.client).permutation(len(client))
        size = self.group or max(2, len(order))
        groups = order[: len(order) // size * size].reshape(-1, size)
        if not len(groups):
            return {}
        means, cells = client.mean_samples(groups), len(groups) * client.classes
        row = np.arange(len(groups))[:, None] * client.classes
        counts = np.bincount((row + client.held.labels[groups]).reshape(-1), minlength=cells)
        shares = counts.reshape(-1, client.classes) / size
        return {k: torch.from_numpy(v).to(client.dtype) for k, v in (("rows", means), ("labels", shares))}

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray[Any, Any]]:
        if not self.active:
            return {}
        if self.taylor:
            return deal_rows(rng, steps, 1)
        return {"beta": rng.beta(self.a, self.a, steps), **deal_rows(rng, steps, batch)}

    def inputs(self, batch: Batch, step: Step) -> Batch:
        if "rows" not in step.shared:
            return batch
        x = batch.x
        mine = soft_labels(batch.y, step.shared["labels"])
        if self.taylor:
            _, theirs = self._mean(step)
            return Batch((1 - self.mix) * x, (1 - self.mix) * mine + self.mix * theirs, batch.weight)
        index, _ = batch_of(step.shared, step.draws, len(x))
        rows, theirs = (step.shared[k][index].to(x.dtype) for k in ("rows", "labels"))
        beta = step.draws["beta"].to(x.dtype)
        return Batch(beta * x + (1 - beta) * rows, beta * mine + (1 - beta) * theirs, batch.weight)

    def _mean(self, step: Step) -> tuple[Tensor, Tensor]:
        """The mean of this step, and its labels' shares."""
        index, _ = batch_of(step.shared, step.draws, 1)
        return step.shared["rows"][index], step.shared["labels"][index]

    def penalty(self, step: Step) -> Tensor | float:
        if not self.taylor or "rows" not in step.shared:
            return 0.0
        mean, theirs = self._mean(step)
        batch = step.batch
        kernels = torch.nn.attention
        own = batch.y - self.mix * theirs  # what inputs() left of its own labels: (1 - lambda) y

        def first(x: Tensor, statistics: Tree) -> Tensor:
            # statistics come as an argument and are copied, since this pass is not to move them
            net = copy.copy(step.net)
            net.held = {k: v.clone() for k, v in statistics.items()}
            # the fused kernels of attention have no second derivative
            with kernels.sdpa_kernel(kernels.SDPBackend.MATH):
                return step.task_loss(net(step.params, x), own)

        slope: Tensor = torch.func.grad(first)(batch.x, step.net.held)
        return self.mix * (slope * mean).sum()
