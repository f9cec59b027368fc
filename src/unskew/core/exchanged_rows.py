"""Rows that clients handed over, for others to train with: gathered, stored small, and dealt out step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.core.types import Ids, Tree
from unskew.later import torch
from unskew.models.random_words import random_words

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.slots import Objective

Store = Literal["full", "half", "byte"]
"""What a number takes: as the run computes (four bytes), two bytes, or one."""

LARGEST = 65504.0
"""The largest number that two bytes hold."""
TURN = 0x2545F4914F6CDD1D
"""Added to the key of a random order for every further pass over the buffer."""


def store_rows(rows: Tensor, store: Store) -> Tree:
    """Rows as they travel and wait; ``byte`` rounds each row to 256 steps between its least and largest number."""
    if store == "full":
        return {"rows": rows}
    if store == "half":
        return {"rows": rows.clamp(-LARGEST, LARGEST).to(torch.float16)}
    flat = rows.flatten(1).to(torch.float32)
    low, high = flat.amin(1), flat.amax(1)
    step = (high - low) / 255
    level = (flat - low[:, None]) / torch.where(step > 0, step, 1)[:, None]
    return {"rows": level.round().to(torch.uint8).reshape(rows.shape), "low": low, "step": step}


def restore_rows(held: Tree, index: Tensor, dtype: torch.dtype) -> Tensor:
    """These rows as numbers again."""
    rows = held["rows"][index].to(dtype)
    if "step" not in held:
        return rows
    low, step = (held[k][index].to(dtype).reshape(-1, *[1] * (rows.dim() - 1)) for k in ("low", "step"))
    return low + step * rows


def store_labels(labels: Tensor, classes: int) -> Tensor:
    """Class numbers in as few bytes as they need."""
    return labels.to(torch.uint8 if classes <= 256 else torch.int32)


def gather_rows(answers: Sequence[Tree], owners: Sequence[int]) -> Tree:
    """Everybody's rows, one client after the other, with their owner; nothing where nobody gave any."""
    full = [(tree, who) for tree, who in zip(answers, owners, strict=True) if tree and len(tree["rows"])]
    if not full:
        return {}
    trees = [tree for tree, _ in full]
    held = {k: torch.cat([tree[k] for tree in trees]) for k in trees[0]}
    counts = [len(tree["rows"]) for tree in trees]
    return held | {"owner": torch.from_numpy(np.repeat(np.array([who for _, who in full], np.int64), counts))}


def hand_out_rows(memory: Tree) -> Tree:
    """What clients are sent: all but who gave it."""
    return {k: v for k, v in memory.items() if k != "owner"}


def owners(memory: Tree) -> Ids:
    """Whose rows there are."""
    return np.unique(memory["owner"].cpu().numpy()) if "owner" in memory else np.zeros(0, np.int64)


def deal_rows(rng: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray[Any, Any]]:
    """What a visit draws, so that its steps can take batches of a buffer of any length (``batch_of``)."""
    key = np.full(steps, rng.integers(2**63), np.int64)
    return {"deal": key, "deal step": np.arange(steps), "deal size": np.full(steps, batch, np.int64)}


def pad_rows(held: Tree) -> Tree:
    """A buffer padded to the next power of two, with its count: steps captured over it outlast the round."""
    if "rows" not in held:
        return held
    count = len(held["rows"])
    room = max(64, 1 << (count - 1).bit_length())
    padded = {k: torch.cat([v, v.new_zeros(room - count, *v.shape[1:])]) for k, v in held.items() if v.dim()}
    return held | padded | {"count": torch.tensor(count)}


def pad_varying(objectives: Iterable[Objective], shared: Mapping[str, Tree]) -> dict[str, Tree]:
    """What was handed out, with rows padded where a part says that their number varies."""
    return {o.name: pad_rows(shared[o.name]) if o.needs.varying_sizes else shared[o.name] for o in objectives}


def batch_of(held: Tree, draws: Tree, width: int) -> tuple[Tensor, Tensor]:
    """Which rows of a buffer this step takes, as ``width`` places, and which places a loader would have filled.

    The buffer is gone through in batches, in a new random order in every pass, as by a shuffled loader. Where the last
    batch of a pass is short, its places are filled up from the beginning of the pass, and these are marked False: who
    wants short batches leaves them out.
    """
    # rows that only fill a block of stacked clients belong to nobody, and have no numbers drawn for them
    size, number, room = draws["deal size"].clamp_min(1), draws["deal step"], len(held["rows"])
    count = held.get("count", torch.full_like(size, room))
    batches = torch.div(count + size - 1, size, rounding_mode="floor")
    turn = torch.div(number, batches, rounding_mode="floor")
    words = random_words(draws["deal"] + turn * TURN, 0, room).to(torch.int64)
    there = torch.arange(room, device=words.device) < count  # a row's word does not depend on the room
    order = torch.where(there, words, 2**31).argsort(stable=True)
    at = torch.arange(width, device=size.device)
    place = (number - turn * batches) * size + at
    return order.gather(0, place % count), (place < count) & (at < size)
