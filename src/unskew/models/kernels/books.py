"""What is written down of a step of all clients."""

from __future__ import annotations

from torch import Tensor

from unskew.models.kernels.loaded import step_programs

TILE = 128
"""Clients of which one program adds up the losses."""


def add_losses(losses: Tensor, value: Tensor, weight: Tensor) -> None:
    """Add each client's loss [clients] of a step to ``losses``, in place, where any of its samples [clients, samples]
    counts: padding comes last."""
    step_programs().add_losses[(-(-len(value) // TILE),)](
        losses, value, weight, len(value), value.stride(0), weight.stride(0), TILE
    )
