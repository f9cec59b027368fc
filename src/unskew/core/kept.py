"""Models that clients keep from one round to the next, and go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from unskew.core.types import Leg
from unskew.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def refuse_far(client: int | str, kept: Mapping[str, Tensor]) -> None:
    """Refuse a stand-in: of a model that a client keeps at its own site, the server has only the name of a version."""
    if set(kept) == {"version"}:
        raise InputError(f"the model of client {client!r} is on the disk of its own site; it is not here")


def blended(leg: Leg) -> Leg:
    """The leg with each client's start: its own model blended with the anchor, in float64 and rounded once."""
    assert leg.blend is not None
    assert leg.anchor is not None
    keep = leg.blend

    def blend(mine: Tensor, globally: Tensor) -> Tensor:
        share = keep.to(mine.device).view(-1, *[1] * globally.dim())
        return (share * mine.double() + (1 - share) * globally.double()).to(mine.dtype)

    anchor = leg.anchor
    start = {k: blend(v, anchor[k]) for k, v in leg.start.items()}
    return replace(leg, start=start, blend=None)
