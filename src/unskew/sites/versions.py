"""What the coordinator knows of clients' memories: the name of the version that landed, and which ones are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.core.state import State
from unskew.core.store import ClientStore
from unskew.core.types import Ids
from unskew.sites.kept import NOTHING, ROUND


class Versions:
    """Names the versions of a run, leg by leg, and tells sites which of them no checkpoint needs any more."""

    def __init__(self) -> None:
        self._visits = (-1, 0)  # the round, and how many legs of it were asked for
        self._saved: list[Mapping[str, Mapping[int, int]]] = []
        self._commit: dict[str, Any] | None = None

    def next(self, t: int) -> int:
        """The name of what clients remember of the next leg of this round."""
        before, legs = self._visits
        self._visits = t, legs + 1 if before == t else 0
        return (t + 1) * ROUND + self._visits[1]

    def take_commit(self) -> dict[str, Any] | None:
        """What sites are told of versions that are needed, once for each checkpoint."""
        told, self._commit = self._commit, None
        return told

    def of(self, store: ClientStore, clients: Ids) -> dict[str, dict[str, int]]:
        """The versions of what these clients remember, by part."""
        found: dict[str, dict[str, int]] = {}
        for part in store.rows:
            for client in clients.tolist():
                row = store.get(part, client, {})
                if set(row) == {"version"} and int(row["version"]) != NOTHING:
                    found.setdefault(part, {})[str(client)] = int(row["version"])
        return found

    def checkpointed(self, state: State) -> None:
        """A checkpoint stands: the last two say what is needed; the rest can go."""
        named: dict[str, dict[int, int]] = {}
        for part, rows in state.clients.rows.items():
            for client in rows:
                row = state.clients.get(part, client, {})
                if set(row) == {"version"}:
                    named.setdefault(part, {})[client] = int(row["version"])
        self._saved = [*self._saved[-1:], named]
        if len(self._saved) == 2:
            needed: dict[str, dict[str, list[int]]] = {}
            for saved in self._saved:
                for part, clients in saved.items():
                    for client, version in clients.items():
                        needed.setdefault(part, {}).setdefault(str(client), []).append(version)
            self._commit = {"needed": needed, "before": (state.round + 1) * ROUND}
