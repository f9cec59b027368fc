"""Who was visited in a round, leg by leg: what the log tells of each client, so that a round can be seen again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unskew.core.types import Leg, Update, as_table, side_by_side
from unskew.later import torch
from unskew.readings import number_or_none

if TYPE_CHECKING:
    from torch import Tensor

AT_ONCE = 64 << 20
"""Bytes of models whose change is looked at together: of many large models no second copy is made."""

LONG_ROW = 2**14
"""Numbers in a row from which a CPU goes through rows one by one, which is then three times as fast as along one
axis."""


def visit_told(leg: Leg, update: Update) -> dict[str, Any]:
    """One leg for the log: how models came (``by``, and from whom), who trained, with which loss and how far it moved.

    ``loss`` and ``moved`` (the norm of the change) stand in the order of ``clients``, those who answered. ``lost`` are
    those who did not. It grows with the cohort and never with the number of all clients.
    """
    answered = update.clients.tolist()
    lost = sorted(set(leg.clients.tolist()) - set(answered))
    handed = leg.carry is not None and leg.source in ("peer", "relay")
    before = leg.carry.clients[update.rows].tolist() if handed and leg.carry is not None else []
    moved = change_norms(update)
    return {
        "by": leg.source,
        "clients": answered,
        **({"from": before} if handed else {}),
        **({"lost": lost} if lost else {}),
        **({} if leg.upload else {"keeps": True}),
        "loss": [_short(value) for value in update.loss.tolist()],
        **({"moved": [_short(value) for value in moved]} if moved is not None else {}),
    }


def change_norms(update: Update) -> list[float] | None:
    """How far each client's model moved; None where an engine has kept only their sum."""
    if update.sound is not None:
        return None
    if len(update.went) == len(update):
        return update.went.tolist()
    models = {k: v for k, v in update.params.items() if v.is_floating_point()}
    if not (models and len(update)):
        return [0.0] * len(update)
    norms = [
        _row_norms(as_table(models, names), as_table(update.base, names)) for names in side_by_side(models)
    ]
    found: list[float] = torch.linalg.vector_norm(torch.stack(norms), dim=0).tolist()
    return found


def _row_norms(ends: Tensor, begins: Tensor) -> Tensor:
    """The norm of the change in each row of two tables."""
    step = max(1, AT_ONCE // max(1, ends[:1].nbytes))
    if ends.device.type == "cpu" and ends.shape[1] >= LONG_ROW:
        step = 1
    changes = (ends[at : at + step] - begins[at : at + step] for at in range(0, len(ends), step))
    return torch.cat([torch.linalg.vector_norm(c, dim=1, dtype=torch.float64) for c in changes])


def _short(value: float) -> float | None:
    """Four digits, which are what a picture shows."""
    return number_or_none(float(f"{value:.4g}"))
