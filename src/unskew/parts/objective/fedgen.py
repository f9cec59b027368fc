"""Samples, or features, that a generator at the server makes up for every class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from unskew.core.optimisers import optimizer
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import After, Depends, Exchange, Local, Needs, Step, Visit
from unskew.core.types import Memory, Tree, clone
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.later import torch
from unskew.models.generator import feature_generator, generated, sample_generator, trained
from unskew.seeds import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from unskew.core.net import Net
    from unskew.models.outline import Outline

    Judge = Callable[[Tensor, Tensor], Tensor]  # (what was made, the classes it was made for) -> a loss

STARTS = {"input": 30, "latent": 1}

MOST_NOISE = 10_000
"""Numbers of noise beyond which a generator is all first layer."""


@dataclass(frozen=True)
class FedGen(Exchange):
    """Trains also on what a generator of the server makes up for every class (Zhu et al., ICML 2021; and FLea's form).

    The server trains a generator G(z, y) so that models recognise the class y in what it makes, and sends it along.
    A client adds the cross-entropy of its model on made-up rows, E over y, z of l(f(G(z, y)), y), to its own loss.

    variant ``input``, as FLea compares itself with it (appendix C.3): G makes samples, by four transposed
    convolutions, and the global model alone judges them; classes are drawn alike; the first 30 rounds are FedAvg.
    variant ``latent``, the original: G makes penultimate features, and the mean of the logits of the round's client
    models judges them, l(softmax(1/K sum of g_k(G(z, y))), y); y is drawn as often as clients that answered
    hold it, p(y), at the server and at the client; from the second round on. Clients then tell their label counts.

    start: rounds before the generator is used (30, or 1). weight: of the made-up rows' loss.
    ensemble: ``weighted`` judges by each client's own loss, weighted by its share n_ck / sum of n_ck of the class.
    match: pulls predictions of real samples to those of features made for their labels, KL(p(G(z, y)) || p(x)).
    decay: by which weight, match and lr shrink each round. rows: made up in each step (the local batch).
    steps, lr, batch: the generator's training after each round, by Adam, which goes on where it stood.
    diversity: of exp(-mean over pairs of |z - z'|^2 |G - G'|), so that other noise makes something else.
    noise: size of z. The authors' code (zhuangdizhu/FedGen) has ensemble=weighted, weight=10, match=10, decay=0.98
    and uniform noise, for which the paper and FLea have normal.

    Left open, and taken: what is made up is normalised by its own statistics in batch norm and moves no running
    average; the generator judges with evaluation-mode models. FLea does not say what it means to tell real from
    made up by a classifier: it is asked for the wanted class, as in the original.
    """

    name: ClassVar[str] = "fedgen"
    needs: ClassVar[Any] = Depends(
        Needs(global_model=False), lambda part: Needs(global_model=False, single_models=part.latent)
    )
    paper: ClassVar[str] = "Zhu et al., ICML 2021"
    neutral: ClassVar[str | None] = "fedgen(weight=0)"
    example: ClassVar[str | None] = "fedgen(start=1, steps=3, batch=8)"
    discloses: ClassVar[Any] = Depends((), lambda part: (LABEL_COUNTS,) if part.variant == "latent" else ())

    variant: Literal["input", "latent"] = "input"
    start: int | None = None
    weight: float = 1.0
    ensemble: Literal["mean", "weighted"] = "mean"
    match: float = 0.0
    decay: float = 1.0
    rows: Annotated[int, AtMost(65_536)] | None = None
    steps: Annotated[int, AtMost(100_000)] = 50
    lr: float = 3e-4
    batch: Annotated[int, AtMost(65_536)] = 128
    diversity: float = 1.0
    noise: Annotated[int, AtMost(MOST_NOISE)] = 32

    def __post_init__(self) -> None:
        least: dict[str, float] = {"start": 1, "rows": 1, "steps": 1, "batch": 2, "noise": 1}
        least |= {"weight": 0, "match": 0, "diversity": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise InputError(f"{name} of fedgen must be at least {smallest}, not {value}")
        if self.lr <= 0:
            raise InputError(f"lr of fedgen must be above 0, not {self.lr}")
        if not 0 < self.decay <= 1:
            raise InputError(f"decay of fedgen is a factor above 0 and at most 1, not {self.decay}")
        if self.variant == "input":
            for name, plain in (("match", 0.0), ("ensemble", "mean")):
                if getattr(self, name) != plain:
                    raise InputError(f"{name} of fedgen is for features; write fedgen(variant=latent, ...)")

    @property
    def latent(self) -> bool:
        return self.variant == "latent"

    @property
    def begins(self) -> int:
        """The first round whose clients get something made up."""
        return STARTS[self.variant] if self.start is None else self.start

    # --- a client

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray[Any, Any]]:
        rows = self.rows or batch
        # above 0, so that an engine's padding, which is 0, can be told from a row
        drawn = {
            "label": 1 - rng.random((steps, rows)),
            "noise": rng.standard_normal((steps, rows, self.noise)),
        }
        return drawn | ({"match": rng.standard_normal((steps, batch, self.noise))} if self.match else {})

    def penalty(self, step: Step) -> Tensor | float:
        if not step.shared or not self.weight + self.match:
            return 0.0
        assert step.out is not None
        tree, classes = step.shared, step.out.logits.shape[-1]
        counts = (step.draws["label"] > 0).to(step.draws["noise"].dtype)
        label = (step.draws["label"][:, None] > tree["labels"][:-1]).sum(1)
        aside = step.net.for_rows(counts, remember=False)
        made = generated(tree, step.draws["noise"], _one_hot(label, classes), self._shape(step))
        logits = self._judged(aside, step.params, made)
        total: Tensor = tree["weight"] * step.net.task.loss(logits, label, counts)
        if self.match:
            y = step.batch.y if step.batch.y.dim() == 2 else _one_hot(step.batch.y, classes)
            noise = step.draws["match"][: len(y)]
            aside = step.net.for_rows(step.batch.weight, remember=False)
            wanted = self._judged(aside, step.params, generated(tree, noise, y, self._shape(step))).detach()
            wanted = wanted.log_softmax(-1)
            apart = wanted.exp() * (wanted - step.out.logits.log_softmax(-1))
            total = total + tree["match"] * step.batch.mean(apart.sum(-1))
        return total

    def _judged(self, net: Net, params: Tree, made: Tensor) -> Tensor:
        return net.classify(params, made) if self.latent else net(params, made)

    def _shape(self, step: Step) -> tuple[int, ...]:
        """Of what is made: a sample's, or a feature's as wide as the generator's last layer."""
        if not self.latent:
            return tuple(step.batch.x.shape[1:])
        return (len(step.shared["1.shift"]),)

    def report(self, visit: Visit) -> tuple[Tree, Memory]:
        return {"counts": visit.census.int()} if self.latent else {}, visit.mine

    # --- the server

    def check_model(self, model: Outline) -> None:
        if self.latent:
            _ = model.cuts.last_layer  # a model that cannot be split is refused before a run starts

    def hand_out(self, memory: Memory, t: int) -> Tree:
        made: Tree = memory.get("net", {})
        if t < self.begins or not made:
            return {}
        like = made["0.weight"]
        shrunk = self.decay**t
        factors = {"weight": self.weight * shrunk, "match": self.match * shrunk}
        known = memory["labels"]
        return made | {
            "labels": (known.cumsum(0) / known.sum()).to(like.dtype),
            **{k: torch.tensor(v, dtype=like.dtype, device=like.device) for k, v in factors.items()},
        }

    def renew(self, memory: Memory, after: After) -> Memory:
        classes = after.roster.dataset.classes
        like = after.params[after.net.trainable[0]]
        known = memory.get("labels", torch.zeros(classes, dtype=torch.float64, device=like.device))
        if self.latent:
            memory = memory | {"labels": known + _counts(after, self.name).sum(0).to(known)}
        else:
            memory = memory | {"labels": torch.ones_like(known)}
        if after.t + 1 < self.begins or not memory["labels"].sum() or not self.weight + self.match:
            return memory
        if "count" not in memory:
            memory = memory | self._begun(after, like)
        return self._trained(memory, after, like)

    def _begun(self, after: After, like: Tensor) -> Memory:
        """A new generator and its optimiser's memory."""
        rng = generator(after.seed, "fedgen", "weights")
        data = after.roster.dataset
        if self.latent:
            layer = after.net.judging.last_layer
            one = torch.zeros(1, *data.shape, dtype=like.dtype, device=like.device)
            width = after.net.judge(after.params, one, upto=layer).flatten(1).shape[1]
            tree = feature_generator(width, data.classes, self.noise, rng)
        else:
            tree = sample_generator(data.kind, data.shape, data.classes, self.noise, rng)
        tree = {k: v.to(like.device, like.dtype) for k, v in tree.items()}
        learns = optimizer(Local(optimizer="adam")).init({k: tree[k] for k in trained(tree)})
        return {"net": tree, "adam": learns, "count": torch.zeros((), dtype=torch.int64)}

    def _trained(self, memory: Memory, after: After, like: Tensor) -> Memory:
        """The memory after some more steps of the generator, against the models that stand now."""
        tree, state, count = clone(memory["net"]), clone(memory["adam"]), int(memory["count"])
        names = trained(tree)
        rule, rate = optimizer(Local(optimizer="adam")), self.lr * self.decay**after.t
        rng = generator(after.seed, "fedgen", after.t)
        chances = (memory["labels"] / memory["labels"].sum()).cpu().numpy()
        judge = self.ensemble_judge(after) if self.latent else self._global(after)
        shape = (len(tree["1.shift"]),) if self.latent else after.roster.dataset.shape
        for s in range(count, count + self.steps):
            label = torch.from_numpy(rng.choice(len(chances), self.batch, p=chances)).to(like.device)
            noise = torch.from_numpy(rng.standard_normal((self.batch, self.noise))).to(
                like.device, like.dtype
            )
            own = {k: tree[k].detach().requires_grad_() for k in names}
            statistics: Tree = {}
            made = generated(tree | own, noise, _one_hot(label, len(chances)), shape, statistics)
            loss = judge(made, label) + self.diversity * alike(noise, made)
            grads = dict(zip(names, torch.autograd.grad(loss, list(own.values())), strict=True))
            with torch.no_grad():
                rule.step({k: tree[k] for k in names}, grads, state, rate, s)
            tree |= statistics
        return memory | {"net": tree, "adam": state, "count": torch.tensor(count + self.steps)}

    def _global(self, after: After) -> Judge:
        """How far the global model is from seeing the wanted class."""
        net = after.judging_net

        def judge(made: Tensor, label: Tensor) -> Tensor:
            return net.task.loss(net.judge(after.params, made), label)

        return judge

    def ensemble_judge(self, after: After) -> Judge:
        """How far the round's client models are from seeing the wanted class, in the order of clients."""
        net, layer = after.judging_net, after.net.judging.last_layer
        order = np.argsort(after.landed.clients, kind="stable")
        models = [{k: v[i] for k, v in after.landed.params.items()} for i in order]
        counts = _counts(after, self.name)[torch.from_numpy(order)]
        share = counts / counts.sum(0).clamp_min(1)

        def judge(made: Tensor, label: Tensor) -> Tensor:
            logits = [net.judge(model, made, since=layer) for model in models]
            if self.ensemble == "mean":
                return net.task.loss(torch.stack(logits).mean(0), label)
            weigh = share.to(made.device, made.dtype)[:, label]
            losses = torch.stack([net.task.losses(z, label) for z in logits])
            return (weigh * losses).sum(0).mean()

        return judge


def alike(noise: Tensor, made: Tensor) -> Tensor:
    """exp(-mean over pairs of |z - z'|^2 |G(z) - G(z')|), each distance a mean over numbers: 1 where all is one."""
    rows = made.flatten(1)
    near = (noise[:, None] - noise[None]).square().mean(2)
    return (-(near * torch.cdist(rows, rows, p=1) / rows.shape[1]).mean()).exp()


def _counts(after: After, name: str) -> Tensor:
    """[k, classes] what the clients behind this round's model hold, float64 on the host."""
    return after.landed.uploads[name]["counts"].cpu().to(torch.float64)


def _one_hot(label: Tensor, classes: int) -> Tensor:
    return label[:, None] == torch.arange(classes, device=label.device)
