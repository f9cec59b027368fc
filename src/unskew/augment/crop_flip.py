"""Images moved by some pixels and mirrored: what a training step does to its batch, as tensors alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def crop_flip(x: Tensor, shift: Tensor, flip: Tensor) -> Tensor:
    """Images [b, channels, height, width], each moved by its ``shift`` [b, 2] and mirrored where ``flip`` is 1.

    Padding an image by p mirrored pixels and cropping it anywhere is moving it by -p to p, what comes in at an
    edge being mirrored there. It only looks pixels up, so scaling before or after is the same.
    """
    height, width = x.shape[-2:]
    rows = _mirrored(torch.arange(height, device=x.device) + shift[:, :1], height)
    columns = _mirrored(torch.arange(width, device=x.device) + shift[:, 1:], width)
    columns = torch.where(flip[:, None] > 0, width - 1 - columns, columns)
    moved = torch.gather(x, 2, rows[:, None, :, None].expand(x.shape))
    return torch.gather(moved, 3, columns[:, None, None, :].expand(x.shape))


def _mirrored(place: Tensor, size: int) -> Tensor:
    """Places beyond an edge, mirrored at the edge's own pixel."""
    return size - 1 - (size - 1 - place.abs()).abs()
