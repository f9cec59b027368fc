"""The carrier over Flower: an app of ours at the SuperLink sends what this process gives it through a socket."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.errors import InputError, RunFailed
from unskew.sites.carrier import MOST_MESSAGE, Lost, receive_frame, send_frame
from unskew.sites.flower.limits import OVERHEAD, Limit
from unskew.sites.flower.processes import ask_flower, registered, superlink_since
from unskew.sites.folders import FederationFolder

START_SECONDS = 60.0


@dataclass(frozen=True)
class Presence:
    """A site as Flower sees it: whether it is there, and since when."""

    online: bool
    since: str


class FlowerCarrier:
    """Brings requests to the sites of a federation whose SuperLink runs on this machine."""

    def __init__(self, folder: FederationFolder):
        self.folder, self._lock = folder, threading.Lock()
        self._limit = Limit(folder.flower)
        self._there: socket.socket | None = None
        self._nodes: dict[str, str] = {}

    def names(self) -> list[str]:
        """The sites that are there now."""
        return [site for site, found in self.presence().items() if found.online]

    def presence(self) -> dict[str, Presence]:
        """Every site, there or not."""
        with self._lock, self._speaking() as there:
            send_frame(there, json.dumps({"verb": "nodes"}).encode())
            found = {told["node"]: told for told in self._json(there)}
        absent: dict[str, Any] = {"status": "", "since": ""}
        told = {site: found.get(self._nodes.get(site, ""), absent) for site in self.folder.sites}
        return {site: Presence(t["status"] == "online", t["since"]) for site, t in told.items()}

    def ask(
        self, requests: Mapping[str, bytes], deadline: float | None = None, most: int = MOST_MESSAGE
    ) -> dict[str, bytes | Lost]:
        """What each of these sites answers within so many seconds."""
        found: dict[str, bytes | Lost] = {}
        if not requests:
            return found
        with self._lock, self._speaking() as there:
            nodes = {self._nodes[self.folder.known(site)]: site for site in requests}
            self._limit.set(most)
            order = {"verb": "ask", "nodes": list(nodes), "deadline": deadline, "most": most}
            send_frame(there, json.dumps(order).encode())
            for site in nodes.values():
                send_frame(there, requests[site])
            while len(found) < len(nodes):
                told = self._json(there)
                data = receive_frame(there, most + OVERHEAD)
                if data is None:
                    raise ConnectionError
                site, lost = nodes[told["node"]], told["lost"]
                found[site] = Lost(lost, bool(told["away"])) if lost else data
        return {site: found[site] for site in requests}

    def close(self) -> None:
        """Hang up: the app at the SuperLink ends; sites go on living."""
        self._limit.close()
        if self._there is not None:
            self._there.close()
            self._there = None

    def __enter__(self) -> FlowerCarrier:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    @contextmanager
    def _speaking(self) -> Iterator[socket.socket]:
        """The line to our app, opened when it is first used and again after a SuperLink came back."""
        if self._there is None:
            self._there = self._open()
        try:
            yield self._there
        except (OSError, ConnectionError):
            self.close()
            raise RunFailed(
                f"the line to federation {self.folder.name!r} broke; see {self.folder.flower}, start it again with "
                f"`unskew federation start {self.folder.path}`, then resume the run"
            ) from None
        except BaseException:
            self.close()  # in the middle of a question nobody knows what comes next
            raise

    def _open(self) -> socket.socket:
        if superlink_since(self.folder) is None:
            raise InputError(
                f"federation {self.folder.name!r} does not run; start it with "
                f"`unskew federation start {self.folder.path}`"
            )
        self._nodes = registered(self.folder)
        # short, since a socket's name may not be long; mode 700
        place = Path(tempfile.mkdtemp(prefix="unskew-"))
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
                door.bind(str(place / "run"))
                door.listen(1)
                door.settimeout(START_SECONDS)
                from unskew.sites.flower.relay_app import write_app

                where = f"socket={json.dumps(str(place / 'run'))}"
                app = str(write_app(self.folder.flower))
                ask_flower(self.folder, "run", app, self.folder.name, "--run-config", where)
                try:
                    there, _ = door.accept()
                except TimeoutError:
                    raise RunFailed(
                        f"Flower did not start the app within {START_SECONDS:g} s; see {self.folder.flower}"
                    ) from None
        finally:
            shutil.rmtree(place, ignore_errors=True)
        there.settimeout(None)
        return there

    @staticmethod
    def _json(there: socket.socket) -> Any:
        frame = receive_frame(there)
        if frame is None:
            raise ConnectionError
        return json.loads(frame)
