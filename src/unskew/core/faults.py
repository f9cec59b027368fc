"""What goes wrong on purpose: lost clients, late ones, and updates that are not numbers.

Which clients fail is a function of the seed, the round, the leg and the client, so every method meets the
same faults, and a resumed run meets them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unskew.core.types import Ids, Memory, Tree, Update, as_table, no_rows, side_by_side
from unskew.errors import InputError
from unskew.later import torch
from unskew.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Faults:
    """Shares of clients that fail in a leg, each from 0 to 1."""

    drop: float = 0.0  # asked, never answers
    late: float = 0.0  # trains, but its update arrives one round later
    nan: float = 0.0  # answers with numbers that are not finite

    def __post_init__(self) -> None:
        for f in fields(self):
            if not 0 <= getattr(self, f.name) <= 1:
                raise InputError(f"{f.name} is a share of clients from 0 to 1, not {getattr(self, f.name)}")

    @property
    def single(self) -> bool:
        """Whether single updates go wrong, so that their sum alone would not do."""
        return bool(self.late or self.nan)

    def hits(self, fault: str, clients: Ids, seed: int, t: int, leg: int) -> npt.NDArray[np.bool_]:
        """Which of these clients have this fault in this leg."""
        share = getattr(self, fault)
        if not share:
            return np.zeros(len(clients), bool)
        return np.array([generator(seed, fault, t, leg, int(c)).random() < share for c in clients], bool)

    def spoil(self, update: Update, seed: int, t: int, leg: int) -> Update:
        """Put NaN into the models of those who answer with one."""
        hit = torch.from_numpy(self.hits("nan", update.clients, seed, t, leg))
        if not hit.any():
            return update

        def spoilt(value: Tensor) -> Tensor:
            rows = hit.to(value.device).view(-1, *[1] * (value.dim() - 1))
            return torch.where(rows, torch.nan, value) if value.is_floating_point() else value

        params = {k: spoilt(v) for k, v in update.params.items()}
        return replace(update, params=params, went=no_rows())

    def arrived(
        self, update: Update, waiting: Memory, seed: int, t: int, leg: int
    ) -> tuple[Update, Memory, list[int]]:
        """What lands now: those in time, and those that were late last round. Also who is late now, and who was."""
        late = self.hits("late", update.clients, seed, t, leg)
        held = update.take(late).packed() if late.any() else {}
        landed = [update.take(~late) if late.any() else update]
        if waiting:
            landed.append(Update.unpacked(waiting, update.memory))
        named = landed[1].clients.tolist() if waiting else []
        return Update.joined([u for u in landed if len(u)] or landed[:1]), held, named


def finite(update: Update) -> npt.NDArray[np.bool_]:
    """Which rows hold only finite numbers, in their model and in what parts report."""
    if update.sound is not None:
        return update.sound.numpy()
    models = [update.params]
    if len(update.went) == len(update) and torch.isfinite(update.went).all():
        models = []  # who went a finite way from a finite model is at one
    return finite_rows([*models, *update.uploads.values()], len(update)).numpy()


def finite_rows(trees: Iterable[Tree], count: int) -> Tensor:
    """Which of the ``count`` rows of stacked trees hold only finite numbers."""
    good = torch.ones(count, dtype=torch.bool)
    numbers = [{k: v for k, v in tree.items() if v.is_floating_point()} for tree in trees]
    groups = [(tree, names) for tree in numbers for names in side_by_side(tree)] if count else []
    if not groups:
        return good
    # what is not finite stays in a sum, which takes one pass; all sums are looked at together: a look waits for a GPU.
    # Tables are copies there, so each goes before the next comes
    sums = [as_table(*group).sum(1).to(torch.float64) for group in groups]
    sound = torch.isfinite(torch.stack([each.to(sums[0].device) for each in sums])).cpu()
    # a sum of large numbers may be infinite by itself
    for at in (~sound.all(1)).nonzero().flatten().tolist():
        sound[at] = torch.isfinite(as_table(*groups[at])).all(1).cpu()
    return sound.all(0)
