"""What a site's clients remember, and the models that they keep, on the site's own disk.

Both lie by run, client, part and version. A version is named by the coordinator, which keeps the names of those that
landed in its own checkpoints. So a memory counts only once the upload beside it has landed, and a run that goes on from
an older checkpoint finds the memories of its round. ``keep_only`` is the coordinator's word that others are not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unskew.core.types import Ids, Memory, map_tensors
from unskew.errors import InputError
from unskew.files import write_file
from unskew.sites.messages import BadMessage, Message

ROUND = 1_000_000
"""Versions of a round: round t has those from (t + 1) * ROUND on."""

NOTHING = 0
"""The version of what was kept before and is not needed any more."""


class KeptMemories:
    """The memories of one run's clients that live here."""

    def __init__(self, folder: Path):
        self.folder = folder

    def put(self, part: str, clients: Ids, version: int, stacked: Memory) -> None:
        """Write each client's memory under this version; it counts once the coordinator names it."""
        for i, client in enumerate(clients.tolist()):
            row = map_tensors(lambda v, i=i: v[i].detach().cpu().contiguous(), stacked)
            path = self._path(part, client, version)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, Message("memory", {"row": row}).encode())

    def get(self, part: str, client: int, version: int) -> Memory:
        path = self._path(part, client, version)
        try:
            found: Memory = Message.decode(path.read_bytes()).values["row"]
        except FileNotFoundError:
            raise InputError(
                f"what {part} remembers of client {client} after round {version // ROUND} is not on this site's disk "
                "any more"
            ) from None
        except BadMessage as problem:
            raise InputError(f"{path} is damaged: {problem}") from None
        return found

    def keep_only(self, needed: Mapping[str, Mapping[int, Iterable[int]]], before: int) -> int:
        """Delete versions below ``before`` that nobody needs; how many."""
        gone = 0
        for path in self.folder.glob("*/*.memory"):
            client, (part, _, version) = path.parent.name, path.stem.rpartition("-")
            if not client.isdecimal() or not version.isdecimal() or int(version) >= before:
                continue
            if int(version) not in needed.get(part, {}).get(int(client), ()):
                path.unlink(missing_ok=True)
                gone += 1
        return gone

    def _path(self, part: str, client: int, version: int) -> Path:
        if not part.replace("_", "").isalnum():
            raise InputError(f"{part!r} cannot be the name of a part")
        return self.folder / str(int(client)) / f"{part}-{int(version)}.memory"
