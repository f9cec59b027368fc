"""What measuring costs, apart from what a method costs: bytes to clients and from them, by what was measured.

No method needs these bytes. They are in no ``bytes_down`` or ``bytes_up``, by which methods are compared, and they
take no time on the air. They are counted where they happen, as a method's are: a model that goes to a client to be
tried there, and what comes back of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from unskew.core.ledger import NUMBER_BYTES, Ledger
from unskew.core.sharing import Sharing
from unskew.core.task import Sums

WAYS = ("down", "up")


@dataclass
class Measuring:
    """The account of what was measured and is not in a line of the log yet."""

    down: Counter[str] = field(default_factory=Counter)
    up: Counter[str] = field(default_factory=Counter)

    def asked(self, what: str, model: int, answer: int) -> None:
        """A client was asked: so many bytes of a model came down to it, and an answer of so many bytes up."""
        self._count(what, model, answer)

    def evaluated(self, what: str, model: int, sums: Sums) -> None:
        """A model of so many bytes was tried on the data of each of these clients, and its sums came up."""
        clients = len(sums.count)
        self._count(what, clients * model, clients * sums.numbers * NUMBER_BYTES)

    def gathered(self, what: str, samples: list[int], bits: int) -> None:
        """Each of these clients sent so many raw samples to where all are pooled."""
        self._count(what, 0, sum(Sharing("", bits=bits).bytes_for(count) for count in samples))

    def trained(self, what: str, ledger: Ledger) -> None:
        """Clients did a method's work only to be watched: this is what it cost."""
        self._count(what, ledger.down.total(), ledger.up.total() + ledger.peer.total())

    def _count(self, what: str, down: int, up: int) -> None:
        for counted, size in ((self.down, down), (self.up, up)):
            if size:
                counted[what] += size

    def take(self) -> dict[str, dict[str, int]]:
        """The bytes by direction and by what was measured, nothing where nothing was; the account begins anew."""
        found = {"down": dict(sorted(self.down.items())), "up": dict(sorted(self.up.items()))}
        self.down.clear()
        self.up.clear()
        return found if any(found.values()) else {}

    def added_to(self, line: dict[str, Any]) -> dict[str, Any]:
        """A round's line with what was measured in it; the account begins anew."""
        found = self.take()
        if not found:
            return line
        there = line.get("measuring", {})
        both = {way: Counter(there.get(way, {})) + Counter(found[way]) for way in WAYS}
        return line | {"measuring": {way: dict(sorted(counted.items())) for way, counted in both.items()}}


def measuring_bytes(told: dict[str, Any]) -> dict[str, int]:
    """What a line, or a result, says of measuring, added up: direction -> bytes."""
    return {way: sum(told.get("measuring", {}).get(way, {}).values()) for way in WAYS}
