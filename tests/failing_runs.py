"""Runs that fail once so many rounds are in their log, before these are saved: as a kill would leave them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from unskew.runs.keeping import Keeper


@contextmanager
def fails_after(rounds: int) -> Iterator[None]:
    """Within, a run ends by a ZeroDivisionError, which a test waits for."""
    plain = Keeper.save_if_due

    def fail(self: Keeper) -> None:
        if self.state.round == rounds:
            raise ZeroDivisionError("stopped")
        plain(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, "save_if_due", fail)
        with pytest.raises(ZeroDivisionError):
            yield
