"""What sites answered, as one: what answers look like, so that a strange one is found, and updates joined in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from unskew.core.dispatch import gather_results
from unskew.core.engine import Job
from unskew.core.types import Leg, Tree, Update


def join_updates(job: Job, leg: Leg, found: Mapping[str, Update]) -> Update:
    """One update with its rows in the order of the leg, as a simulation has them: sums depend on it."""
    if not found:
        return gather_results(job, leg, np.zeros(0, np.int64), [])
    single = []
    for update in found.values():
        for i in range(len(update)):
            more = {n: getattr(update, n) for n in ("held", "drawn", "sent")}
            kept = {n: v[i : i + 1] if len(v) else v for n, v in more.items()}
            single.append(replace(update.take(np.array([i])), **kept))
    single.sort(key=lambda one: int(one.rows[0]))
    vectors: dict[str, Any] = {
        n: torch.cat([getattr(u, n) for u in single]) for n in ("held", "drawn", "sent")
    }
    return replace(Update.joined(single), **vectors)


def _looks(tree: Mapping[str, Any]) -> Any:
    """Names and types of a tree's tensors, and the shape of a row of each."""
    return {
        k: _looks(v) if isinstance(v, dict) else (str(v.dtype), list(v.shape[1:]))
        for k, v in sorted(tree.items())
    }


def look_of_update(update: Update) -> set[str]:
    """What an update looks like, beside its model: reports, and names of memories."""
    return {repr((_looks(update.uploads), _looks(update.memory), len(update.sent) > 0))}


def look_of_answers(answers: list[Tree]) -> set[str]:
    return {repr(_looks(tree)) for tree in answers if tree}  # who has nothing to say says nothing
