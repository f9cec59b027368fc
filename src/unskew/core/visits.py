"""Who was visited in a round, leg by leg: what the log tells of each client, so that a round can be seen again."""

from __future__ import annotations

import math
from typing import Any

from unskew.core.types import Leg, Update, nbytes
from unskew.later import torch

AT_ONCE = 64 << 20
"""Bytes of models whose change is looked at together: of many large models no second copy is made."""


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
    if getattr(update, "sound", None) is not None:
        return None
    models = {k: v for k, v in update.params.items() if v.is_floating_point()}
    if not (models and len(update)):
        return [0.0] * len(update)
    step = max(1, AT_ONCE * len(update) // max(1, nbytes(models)))
    found: list[float] = []
    for start in range(0, len(update), step):
        rows = slice(start, start + step)
        norms = []
        for name, value in models.items():
            change = value[rows] - update.base[name][rows]
            norms.append(
                torch.linalg.vector_norm(
                    change.reshape(len(change), change[:1].numel()), dim=1, dtype=torch.float64
                )
            )
        found += torch.linalg.vector_norm(torch.stack(norms), dim=0).tolist()
    return found


def _short(value: float) -> float | None:
    """Four digits, which are what a picture shows; JSON has no NaN."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
