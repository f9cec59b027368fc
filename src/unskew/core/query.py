"""Questions to clients beside training: each answers from its own samples, and every byte is counted.

What crosses to a client is data: the name of a part, of one of its questions, and values (``Query``). The client, who
has the same method, calls the part's method of that name with its ``ClientView``; the answer is all that leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import NUMBERS_AT_ONCE, Array
from unskew.core.client import Pool
from unskew.core.engine import Job, RunPlan
from unskew.core.held import BEFORE, Held, Moment
from unskew.core.holdings import Holdings
from unskew.core.ledger import Ledger
from unskew.core.net import Net
from unskew.core.questions import Answerer, Query, find_answerer
from unskew.core.slots import Local
from unskew.core.types import Ids, Tree, nbytes
from unskew.progress import working


@dataclass
class ClientView:
    """What a client sees when it is asked: its own samples, the model that came with the question (if one did), and how
    it would train. Nothing of other clients."""

    held: Held
    net: Net  # the one that judges in this run
    model: Tree
    trained: Net = field(repr=False)  # the one that clients train
    local: Local = field(repr=False)
    seed: int
    dtype: torch.dtype  # the type that the run computes in

    @classmethod
    def of(cls, job: Job, held: Held, model: Tree) -> ClientView:
        """What the client that holds this may know of a job."""
        return cls(held, job.judging_net, model, job.net, job.local, job.seed, job.dtype)

    @property
    def client(self) -> int:
        """Its number."""
        return self.held.client

    def __len__(self) -> int:
        """How many samples it holds."""
        return len(self.held)

    @property
    def device(self) -> torch.device:
        """Where the model is; samples are moved there as they are looked at."""
        return next((v.device for v in self.model.values()), torch.device("cpu"))

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.held.dataset.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""
        return self.held.dataset.shape

    @property
    def labels(self) -> Tensor:
        """The class of each of its samples."""
        return torch.from_numpy(self.held.labels).to(self.device)

    def samples(self, index: Tensor | None = None) -> Tensor:
        """All its samples as the model takes them, or those at these positions of its own list."""
        x = torch.from_numpy(self.held.x(None if index is None else index.cpu().numpy()))
        return self.held.dataset.normalise(x.to(self.dtype)).to(self.device)

    def pool(self) -> Pool:
        """Its samples to train on, where the model is."""
        scale = self.held.dataset.scale_like(torch.empty(0, dtype=self.dtype, device=self.device))
        return Pool(torch.from_numpy(self.held.x()).to(self.device), self.labels, *scale)

    def losses(self, net: Net, model: Tree) -> Tensor:
        """The loss of each of its samples under a model."""
        found, pool = torch.zeros(len(self), dtype=self.dtype), self.pool()
        with torch.inference_mode():
            for block in net.blocks(len(self)) if len(self) else ():
                x, y = pool.take(torch.from_numpy(block))
                found[block] = net.task.losses(net.judge(model, x), y).cpu()
        return found

    def mean_samples(self, groups: Array) -> Array:
        """The mean of the samples of each group, a row of positions each, normalised, in float64."""
        found = np.empty((len(groups), *self.shape))
        # some at a time: of all together there would be many copies
        step = max(1, NUMBERS_AT_ONCE // max(1, groups.shape[1] * math.prod(self.shape)))
        for first in range(0, len(groups), step):
            some = groups[first : first + step]
            samples = self.held.x(some.reshape(-1)).astype(np.float64)
            found[first : first + step] = samples.reshape(*some.shape, *self.shape).mean(1)
        return self.held.dataset.normalise(found)

    def embed(self, layer: str | None = None, index: Tensor | None = None) -> Tensor:
        """The model's activations at a layer, or its penultimate feature, in evaluation mode.

        A net that judges by the statistics of the samples at hand takes those of all samples that the client holds.
        """
        upto = self.net.training.last_layer if layer is None else layer
        at = torch.arange(len(self)) if index is None or self.net.by_batch else index.cpu()
        if not len(at):  # no row, of the shape that a sample's would have
            with torch.no_grad():
                one = torch.zeros(1, *self.shape, dtype=self.dtype, device=self.device)
                return self.net.judge(self.model, one, upto=upto)[:0]
        blocks = [torch.from_numpy(block) for block in self.net.blocks(len(at))]
        with torch.no_grad():
            found = torch.cat([self.net.judge(self.model, self.samples(at[b]), upto=upto) for b in blocks])
        found = found[torch.argsort(torch.cat(blocks)).to(found.device)]
        return found[index.to(found.device)] if index is not None and self.net.by_batch else found


def answer_here(
    job: Job, holdings: Holdings, query: Query, clients: Iterable[int], model: Tree, moment: Moment
) -> Iterator[Tree]:
    """What these clients, who live here, answer, one after the other."""
    who = find_answerer(query.part, job.method.parts)
    if who is None or query.question not in who.questions:
        raise TypeError(f"{query.part} has no question {query.question!r}: name it in `questions`")
    for client in clients:
        held = holdings.held(int(client), moment, job.roster, job.method.prepare, job.seed)
        answer = getattr(who, query.question)(ClientView.of(job, held, model), **query.values)
        yield {k: v.detach() for k, v in answer.items()}


class RunQuestions:
    """The questions of a run, carried by its engine, at one moment and under one model, or under none."""

    def __init__(
        self,
        run: RunPlan,
        ledger: Ledger,
        model: Tree | None = None,
        moment: Callable[[Ids], Moment] = lambda clients: BEFORE,
    ):
        self.run, self.ledger, self.model, self.moment = run, ledger, model, moment

    def __call__(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> list[Tree]:
        """The answers of these clients, in this order; the model went down to each, and its answer came up."""
        return list(self.each(part, question, clients, **values))

    def each(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> Iterator[Tree]:
        """The same, one after the other: for answers that are too large to keep all of."""
        asked = np.array([int(c) for c in clients], np.int64)
        query, model = Query(part.name, question, values), self.model or {}
        answers = self.run.engine.query(self.run.job, query, asked, model, self.moment(asked))
        with working(f"clients that {part.name} asks", len(asked)) as advance:
            for client, answer in zip(asked.tolist(), answers, strict=True):
                self.ledger.questioned(part.name, client, nbytes(answer), model=self.model is not None)
                yield answer
                advance(1)
