"""An update of which only the weighted sum is kept: for cohorts whose models would not fit in memory together.

Workers add up weight x (model - start) over fixed blocks of clients, in cohort order and in float64, so their number
changes no bit. This serves where nothing but the sum is asked for: a plain round and a linear aggregation rule. A
client whose model is not finite is left out of the sum and named, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.engine import Job
from unskew.core.types import CLIENTS_AT_ONCE, TREES, VECTORS, Ids, Leg, Tree, Update, nbytes

LARGEST_STACK = 256 * 2**20
"""Bytes of models in one cohort from which only their sum is kept."""


@dataclass
class Summed(Update):
    """Rows without models, and the sum over those that are finite."""

    sums: Tree = field(default_factory=dict)  # [blocks, ...] float64: sum of raw weight x (model - start)
    raw: Tensor = field(default_factory=lambda: torch.zeros(0))  # [k] the weight each row has in ``sums``

    def weighted_delta(self, weights: Tensor, names: Iterable[str] | None = None) -> Tree:
        some = self.raw != 0  # a client without samples weighs nothing, before and after
        scale = weights[some] / self.raw[some]
        if weights[~some].any() or not torch.allclose(scale, scale[:1].expand_as(scale), rtol=1e-12, atol=0):
            raise TypeError(
                "a linear rule's weights may change by a common factor only once clients have trained"
            )
        factor = scale[0] if len(scale) else 0.0
        total: Tree = {}
        for name in names or self.sums:
            total[name] = self.sums[name][0] * factor
            for block in self.sums[name][1:]:
                total[name] = total[name] + block * factor
        return total

    def take(self, index: Any) -> Update:
        """Some rows: all, or all that are sound, since nothing else can be taken out of a sum."""
        kept = np.zeros(len(self), bool)
        kept[index] = True
        assert self.sound is not None
        if not np.array_equal(kept | ~self.sound.numpy(), np.ones(len(self), bool)):
            raise TypeError("only a sum of these models was kept; single ones cannot be left out of it")
        at = torch.from_numpy(np.flatnonzero(kept))
        return Summed.of(super().take(index), self.sums, self.raw[at], self.sound[at])

    @staticmethod
    def of(update: Update, sums: Tree, raw: Tensor, sound: Tensor) -> Summed:
        """These rows, with the sum of those that are ``sound`` in place of their models."""
        rest = {f.name: getattr(update, f.name) for f in fields(Update)}
        return Summed(**rest | {"sums": sums, "raw": raw, "sound": sound})


def only_sum(job: Job, leg: Leg) -> bool:
    """Whether a leg's models are asked for as a sum alone, and are large enough for that to matter."""
    return sum_is_all(job, leg) and len(leg.clients) * nbytes(leg.start) > LARGEST_STACK


def sum_is_all(job: Job, leg: Leg) -> bool:
    """Whether a leg's models are asked for as a sum alone."""
    rows_needed = job.batch_norm != "average"
    rows_needed = rows_needed or any(o.needs.single_models for o in job.method.objective)
    unknown = not job.roster.counted and any(part.reweighs for part in job.method.prepare)
    rows_needed = rows_needed or unknown  # then weights come with updates, and not before
    linear = job.method.aggregate.weighs_examples_only and leg.summable and not rows_needed
    if linear and any(o.needs.plain_mean for o in job.method.objective):
        one, other = raw_weights(job, torch.tensor([1.0, 2.0], dtype=torch.float64)).tolist()
        linear = one == other  # else the rule's sum is not the part's
    return linear


def raw_weights(job: Job, examples: Tensor) -> Tensor:
    """What a linear rule weighs rows by before any has trained; later only a common factor changes."""
    nobody = np.zeros(len(examples), np.int64)
    vectors: dict[str, Any] = {name: torch.zeros(len(examples), dtype=torch.float64) for name in VECTORS}
    trees: dict[str, Any] = {name: {} for name in TREES}
    return job.method.aggregate.weights(Update(nobody, nobody, **(trees | vectors | {"examples": examples})))


def blocks(rows: Ids) -> list[Ids]:
    """The rows that are summed together: fixed, in cohort order."""
    return [rows[i : i + CLIENTS_AT_ONCE] for i in range(0, len(rows), CLIENTS_AT_ONCE)]
