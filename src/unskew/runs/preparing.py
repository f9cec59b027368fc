"""What parts make of the data before round 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.roster import Roster

if TYPE_CHECKING:
    from unskew.core.engine import Engine


def prepare(
    method: Method, clients: Engine | Holdings, dealt: Roster, cohort: int, seed: int
) -> tuple[Roster, Roster]:
    """Raw samples are moved: who holds how much then, and with what clients are expected to make of their own."""
    roster = dealt
    for part in method.prepare:
        sharing = part.transfers(roster, cohort, seed)
        if sharing is not None:
            before = roster
            roster = clients.transfer(part, sharing, before, seed)
            if roster.sharing != before.sharing:
                roster = roster.reported(part.shared(sharing, before, roster))
    expected = roster
    for part in method.prepare:
        expected = part.expect(expected, None, {})
    return roster, expected
