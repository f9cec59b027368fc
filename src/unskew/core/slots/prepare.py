"""What data does each client train on?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.core.held import Held, Numbers
from unskew.core.roster import Roster
from unskew.core.slots.part import Part
from unskew.core.types import Ids, Memory

if TYPE_CHECKING:
    from unskew.core.sharing import Sharing


@dataclass(frozen=True)
class Prepare(Part):
    """Changes what data clients train on: by moving raw samples before round 0, or by a view that each makes of its
    own.

    The server declares and expects (``transfers``, ``expect``, ``hand_out``, ``learn``); a client gives away and views
    (``give``, ``view``). A view is made where the client's samples are, when the client is visited. It is a function of
    seed, round and client, so a round costs what its cohort costs. ``tells`` is how many numbers each client that
    answered tells the server for ``learn``; their bytes are counted.
    """

    slot: ClassVar[str] = "prepare"
    tells: ClassVar[int] = 0
    reweighs: ClassVar[bool] = False  # whether its view changes what an update weighs

    # --- the server

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing | None:
        """Which raw samples are to move before round 0, or none; the engine carries it out."""
        return None

    def shared(self, sharing: Sharing, before: Roster, after: Roster) -> Mapping[str, Any]:
        """What the log says of samples that were moved."""
        return {}

    def expect(self, roster: Roster, t: int | None, memory: Memory) -> Roster:
        """What the server expects clients to hold with their views of round ``t``, or before the first (None)."""
        return roster

    def hand_out(self, clients: Ids, t: int, roster: Roster, memory: Memory) -> Numbers:
        """What the server tells these clients for their views: by name, one number per client."""
        return {}

    def learn(
        self, held: Mapping[int, int], roster: Roster, memory: Memory
    ) -> tuple[Memory, Mapping[str, Any]]:
        """What the server remembers once clients answered, and what the log says of them.

        ``held`` is how many samples each of them had at hand by this part's view, ``roster`` what it was before that
        view. Where label counts were not given, ``held`` also counts what the views of other parts add: the server
        cannot tell them apart.
        """
        return memory, {}

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        """What the first round's log line says of the data that was prepared; ``roster`` is as this part leaves it."""
        return {}

    # --- a client

    def give(self, held: Held, samples: int, seed: int) -> Ids:
        """Which of its samples a client sends away, as positions in its own list, where it is to send so many."""
        raise TypeError(f"{self.name} does not say which samples are sent: define give()")

    def view(self, held: Held, t: int | None, seed: int, **told: float) -> Held:
        """What a client makes of its own data for round ``t`` (None: outside of rounds), by what it was told."""
        return held
