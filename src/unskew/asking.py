"""Questions to clients beside training: each answers from its own samples, and every byte is counted.

What a part needs to know of clients' data under a model, such as their features or the moments of them, it asks
for here. An answer is all that leaves a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unskew.client import Pool
from unskew.costs import Costs
from unskew.data.federation import Federation
from unskew.engines.site import tensor_of
from unskew.net import Net
from unskew.parts import Part
from unskew.types import Tree, nbytes

if TYPE_CHECKING:
    from unskew.engines.engine import Job


@dataclass
class Asked:
    """One client with a question before it: its own samples, and the model that came along."""

    client: int
    net: Net
    model: Tree
    pool: Pool
    places: Tensor  # in the pool
    device: torch.device

    @property
    def labels(self) -> Tensor:
        return self.pool.y[self.places].to(self.device)

    def samples(self, index: Tensor | None = None) -> Tensor:
        """All its samples as the model takes them, or those at these positions of its own list."""
        at = self.places if index is None else self.places[index.cpu()]
        return self.pool.take(at)[0].to(self.device)

    def embed(self, layer: str | None = None, index: Tensor | None = None) -> Tensor:
        """The model's activations at a layer, or its penultimate feature, in evaluation mode.

        A net that judges by statistics of the samples at hand takes those of all that the client holds.
        """
        upto = self.net.training.last_layer if layer is None else layer
        at = torch.arange(len(self.places)) if index is None or self.net.by_batch else index.cpu()
        # an empty client goes through once, so that its answer has the shape of the others'
        blocks = [torch.from_numpy(block) for block in self.net.blocks(len(at))]
        with torch.no_grad():
            found = torch.cat([self.net.judge(self.model, self.samples(at[b]), upto=upto) for b in blocks])
        found = found[torch.argsort(torch.cat(blocks)).to(found.device)]
        return found[index.to(found.device)] if index is not None and self.net.by_batch else found


Question = Callable[[Asked], Tree]


class Ask:
    """Asks clients of a federation about their samples under one model."""

    def __init__(self, job: Job, federation: Federation, model: Tree, costs: Costs):
        self.job, self.federation, self.model, self.costs = job, federation, model, costs

    def __call__(self, part: Part, clients: Iterable[int], question: Question) -> list[Tree]:
        """The answers of these clients, in this order; the model went down to each, and its answer came up."""
        return list(self.each(part, clients, question))

    def each(self, part: Part, clients: Iterable[int], question: Question) -> Iterator[Tree]:
        """The same, one after the other: for answers that are too large to keep all of."""
        net, pool = self.net, self._pool()
        device = next(iter(self.model.values())).device
        for client in clients:
            places = torch.from_numpy(self.federation.samples(int(client)))
            asked = Asked(int(client), net, self.model, pool, places, device)
            answer = {k: v.detach() for k, v in question(asked).items()}
            self.costs.questioned(part.name, int(client), nbytes(answer))
            yield answer

    @property
    def net(self) -> Net:
        """The net that judges in this run."""
        return self.job.judging_net

    def _pool(self) -> Pool:
        """The samples where they are: only what a question looks at is moved to the model's device."""
        data = self.federation.dataset
        return Pool(
            tensor_of(data.x), tensor_of(data.y), *data.scale_like(torch.empty(0, dtype=self.job.dtype))
        )
