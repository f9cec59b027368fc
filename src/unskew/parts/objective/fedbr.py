"""Averages of samples as a common ground: no opinion on them, and features that agree with the global model's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.core.roster import Roster
from unskew.core.slots import Depends, Exchange, Needs, Step
from unskew.core.task import soft_labels
from unskew.core.types import Ids, Memory, Tree
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.later import torch
from unskew.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.core.questions import Questions
    from unskew.models.outline import Outline

MOST_PSEUDO = 10_000
"""Averages in every step beyond which nobody waits for a run."""

MOST_HEAD_WEIGHTS = 50_000_000
"""Weights of a projection head that nobody can want: more than the largest model here has."""


@dataclass(frozen=True)
class FedBR(Exchange):
    """Reduces the bias of local classifiers and features with pseudo-data (Guo et al., ICML 2023).

    Before round 0, ``pseudo`` averages are gathered, each of a ``group`` of one client's samples, without labels, and
    sent to everyone. A step mixes each with ``mix`` samples of the batch, x~ = (x_p + sum of x_k) / (mix + 1), with
    the target y~ = (1/C + sum of y_k) / (mix + 1). A client then plays two sides (eqs. 2 and 3):
    the model minimises CE(x, y) + lam CE(x~, y~) + mu l_con,
    a projection head P maximises gamma l_con, with
    l_con = -log(f_1 / (f_1 + f_2)), f_1 = exp(sim(P(phi(x~)), P(phi_g(x~))) / tau1),
    f_2 = exp(sim(P(phi(x~)), P(phi(x))) / tau2), phi and phi_g the features under the local and the global model.

    mu, lam, gamma, tau1, tau2, pseudo, group, mix: the authors' values; FLea has lam 0.8. mix=0 leaves pseudo-data
    unmixed, with the uniform target (the paper's RSM instead of its Mixture).
    width: of the head's two hidden layers, twice the features' where it is not given (FLea: 256). out: of its output,
    the features' own where it is not given (FLea: 512). collect: how many clients averages come from, all where it
    is not given (FLea: 10).

    Left open, and taken: a group holds no sample twice, and who holds fewer than ``group`` sends nothing, since the
    mean of few is nearly those few (the code draws with replacement); both sides move in the same step, where the
    authors' code moves the head first; the head is averaged with the model, as there. The code also multiplies by tau1
    and tau2 instead of dividing (write 0.5 for its 2), mixes local samples by Beta(0.2, 0.2), keeps phi_g of a round's
    first mixture and adds 0.1 FedDecorr (write ``fedbr+feddecorr``): none of it is in the paper's equations.
    """

    name: ClassVar[str] = "fedbr"
    paper: ClassVar[str] = "Guo et al., ICML 2023"
    neutral: ClassVar[str | None] = "fedbr(mu=0, lam=0)"
    example: ClassVar[str | None] = "fedbr(group=2)"
    needs: ClassVar[Needs] = Needs(features=True, global_answers=True)
    questions: ClassVar[tuple[str, ...]] = ("averages",)
    discloses: ClassVar[Any] = Depends(
        ("averages of its samples to every client",),
        lambda part: ("averages of its samples to every client",) if part.active else (),
    )

    mu: float = 0.5
    lam: float = 1.0
    gamma: float = 1.0
    tau1: float = 2.0
    tau2: float = 2.0
    pseudo: Annotated[int, AtMost(MOST_PSEUDO)] = 32
    group: int = 10
    mix: int = 1
    width: Annotated[int, AtMost(65_536)] | None = None
    out: Annotated[int, AtMost(65_536)] | None = None
    collect: int | None = None

    def __post_init__(self) -> None:
        for name in ("mu", "lam", "gamma", "mix"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} of fedbr must be at least 0, not {getattr(self, name)}")
        for name in ("tau1", "tau2"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} of fedbr is a temperature above 0, not {getattr(self, name)}")
        if self.group < 2:
            raise InputError(
                f"group of fedbr must be at least 2, since the mean of one sample is that sample, not {self.group}"
            )
        for name in ("pseudo", "width", "out", "collect"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{name} of fedbr must be at least 1, not {getattr(self, name)}")

    @property
    def active(self) -> bool:
        """Whether pseudo-data is used at all."""
        return bool(self.mu or self.lam)

    @property
    def sends(self) -> str:
        return f"averages({self.group})" if self.active else ""

    def givers(self, memory: Memory, clients: int) -> Ids:
        return memory["owner"].cpu().numpy() if self.active else np.zeros(0, np.int64)

    def check(self, roster: Roster, cohort: int) -> None:
        largest, able = int(roster.sizes.max()), int((roster.sizes >= self.group).sum())
        if self.active and not able:
            hint = f"write group={largest} or less" if largest > 1 else "leave fedbr out"
            raise InputError(
                f"fedbr averages {self.group} samples of a client, and the largest client holds {largest}; {hint}"
            )
        if self.active and self.collect is not None and self.collect > able:
            raise InputError(
                f"fedbr is to collect from {self.collect} clients, and {able} hold the {self.group} samples of an "
                f"average; write collect={able} or less"
            )

    def check_model(self, model: Outline) -> None:
        if self.mu:
            self._head_sizes(model.count_features())

    def _head_sizes(self, features: int) -> tuple[int, ...]:
        """How wide the head's layers are on so many features."""
        width = self.width or 2 * features
        sizes = (features, width, width, self.out or features)
        weights = sum(inputs * outputs for inputs, outputs in pairwise(sizes))
        if weights > MOST_HEAD_WEIGHTS:
            raise InputError(
                f"the head of fedbr would have {weights:,} weights on {features:,} features; "
                "write a width and an output, such as fedbr(width=256, out=512)"
            )
        return sizes

    def extra(self, net: Net, shape: tuple[int, ...], seed: int) -> Tree:
        if not self.mu:
            return {}
        first, sizes = net.initial[net.trainable[0]], self._head_sizes(net.outline(shape).count_features())
        rng, head = generator(seed, "fedbr", "head"), {}
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            bound = inputs**-0.5
            for kind, of in (("weight", (outputs, inputs)), ("bias", (outputs,))):
                head[f"fedbr:{i}.{kind}"] = torch.from_numpy(rng.uniform(-bound, bound, of)).to(first)
        return head

    def begin(self, net: Net, roster: Roster, query: Questions, seed: int) -> Memory:
        if not self.active:
            return {}
        rng = generator(seed, "fedbr", "begin")
        able = np.flatnonzero(roster.sizes >= self.group)
        if self.collect is not None:
            able = rng.choice(able, min(self.collect, len(able)), replace=False)
        senders = rng.choice(able, self.pseudo)
        groups = np.stack([rng.choice(roster.sizes[k], self.group, replace=False) for k in senders])
        like = net.initial[net.trainable[0]]
        x = like.new_empty(self.pseudo, *roster.dataset.shape)
        for sender in np.unique(senders):
            mine = senders == sender
            (answer,) = query(self, "averages", [sender], groups=groups[mine])
            x[torch.from_numpy(mine)] = answer["x"].to(like)
        return {"x": x, "owner": torch.from_numpy(senders)}

    def averages(self, client: ClientView, groups: Array) -> Tree:
        """A client's: the means of its samples at these positions of its own list, group by group. It looks itself
        that a group is one: the mean of one sample is that sample."""
        if groups.shape[1:] != (self.group,) or any(len(np.unique(group)) < self.group for group in groups):
            raise InputError(
                f"fedbr was asked for a mean of other than {self.group} samples, which it does not give"
            )
        means = client.mean_samples(groups)
        return {"x": torch.from_numpy(means).to(client.dtype)}

    def hand_out(self, memory: Memory, t: int) -> Tree:
        return {"x": memory["x"]} if self.active else {}

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> Mapping[str, np.ndarray[Any, Any]]:
        return {"mix": rng.random((steps, self.pseudo, self.mix))} if self.active and self.mix else {}

    def penalty(self, step: Step) -> Tensor | float:
        if not self.active:
            return 0.0
        assert step.out is not None
        x, target = self.mixed(step)
        # a client that only waits for others to finish must not move its statistics either
        awake = (step.batch.weight.sum() > 0).to(x.dtype)
        net = step.net.for_rows(awake.expand(len(x)))
        there = net.features(step.params, x)
        loss: Tensor | float = self.lam * net.task.loss(net.classify(step.params, there), target)
        if self.mu:
            known = step.net.judge(step.anchor, x, upto=step.net.training.last_layer).flatten(1)
            paired = torch.arange(len(x), device=x.device) % _count(step)
            sides = there.flatten(1), known, step.features()[paired]
            fixed = {k: v.detach() for k, v in step.params.items()}
            against = self.gamma * self.contrast(step.params, *(s.detach() for s in sides))
            # the head climbs what the model descends; its side is worth 0 in the loss that is logged
            loss = loss + self.mu * self.contrast(fixed, *sides) + against.detach() - against
        return loss

    def mixed(self, step: Step) -> tuple[Tensor, Tensor]:
        """The pseudo-data of this step and what is to be said of it."""
        assert step.out is not None
        x = step.shared["x"]
        logits = step.out.logits
        target = logits.new_full((len(x), logits.shape[1]), 1 / logits.shape[1])
        if self.mix:
            count = _count(step)
            at = torch.minimum((step.draws["mix"] * count).long(), count - 1)
            labels = soft_labels(step.batch.y, logits)
            x = (x + step.batch.x[at].sum(1)) / (self.mix + 1)
            target = (target + labels[at].sum(1)) / (self.mix + 1)
        return x, target

    def contrast(self, params: Tree, here: Tensor, known: Tensor, own: Tensor) -> Tensor:
        """l_con through the head that ``params`` hold."""
        here, known, own = (_projected(params, f) for f in (here, known, own))
        near = torch.cosine_similarity(here, known, dim=1) / self.tau1
        far = torch.cosine_similarity(here, own, dim=1) / self.tau2
        return torch.nn.functional.softplus(far - near).mean()


def _projected(params: Tree, features: Tensor) -> Tensor:
    linear = torch.nn.functional.linear
    for i in (0, 1):
        features = torch.relu(linear(features, params[f"fedbr:{i}.weight"], params[f"fedbr:{i}.bias"]))
    return linear(features, params["fedbr:2.weight"], params["fedbr:2.bias"])


def _count(step: Step) -> Tensor:
    """How many rows of the batch are samples; padding comes last."""
    return step.batch.weight.sum().clamp_min(1).long()
