"""The app that Flower runs at the coordinator: it passes bytes on, and opens none of them.

Flower starts ``server`` once a run, and it connects to the socket of the run's process. What travels as the "app" is
``PROJECT`` alone, a page of settings that names this file: no code is sent anywhere. Sites run no app at all
(``supernode.py``); ``client`` is there because Flower asks for one.
"""

from __future__ import annotations

import json
import select
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.superlink.grid import http_grid

from unskew.files import write_file
from unskew.sites.carrier import connect, receive_frame, send_frame

PROJECT = """\
[project]
name = "unskew-relay"
version = "1.0.0"
description = "Passes messages of unskew on, and opens none of them."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "unskew"

[tool.flwr.app.components]
serverapp = "unskew.sites.flower.relay_app:server"
clientapp = "unskew.sites.flower.relay_app:client"

[tool.flwr.app.config]
socket = ""
"""

RECORD, VERB, POLL = "unskew", "query.unskew", 0.05

server = ServerApp()
client = ClientApp()


def write_app(folder: Path) -> Path:
    """The app's folder, for ``flwr run``."""
    app = folder / "relay"
    app.mkdir(parents=True, exist_ok=True)
    write_file(app / "pyproject.toml", PROJECT)
    return app


@server.main()
def serve_run(grid: Grid, context: Context) -> None:
    """Bring what the run's process asks to nodes, until it hangs up."""
    # an answer is announced before its bytes are there, and Flower waits a second until it asks again
    flower: Any = http_grid
    flower.pull_objects = partial(pull_objects, initial_backoff=POLL)
    with connect(Path(str(context.run_config["socket"])), 30.0) as there:
        there.settimeout(None)
        while (frame := receive_frame(there)) is not None:
            order = json.loads(frame)
            if order["verb"] == "nodes":
                send_frame(there, json.dumps([_about(node) for node in grid.get_nodes()]).encode())
            elif not _ask(grid, there, order):
                return


def _about(node: Any) -> dict[str, Any]:
    told = {"node": str(node.node_id), "status": node.status, "until": node.online_until}
    return told | {"since": node.last_activated_at, "key": node.public_key.hex()}


def _ask(grid: Grid, there: socket.socket, order: dict[str, Any]) -> bool:
    """Send a request to each node, and each answer up as soon as it comes; False when the run is gone."""
    deadline = order["deadline"]
    ends = None if deadline is None else time.monotonic() + deadline
    messages = []
    for node in order["nodes"]:
        data = receive_frame(there)
        if data is None:
            return False
        content = RecordDict({RECORD: ConfigRecord({"data": data})})
        messages.append(Message(content, dst_node_id=int(node), message_type=VERB))
    waiting = dict(zip(grid.push_messages(messages), order["nodes"], strict=True))
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id)
            _answer(there, node, reply)
        if ends is not None and time.monotonic() > ends:
            break
        if select.select([there], [], [], POLL)[0] and not there.recv(1, socket.MSG_PEEK):
            return False
    for node in waiting.values():
        _tell(there, node, f"gave no answer within {deadline:g} s", b"")
    return True


def _answer(there: socket.socket, node: str, reply: Message) -> None:
    if reply.has_error():
        _tell(there, node, f"gave no answer ({reply.error.reason})", b"", away=True)
        return
    found: Any = reply.content.get(RECORD, {})
    data, lost, away = found.get("data", b""), found.get("lost", ""), found.get("away") is True
    if not isinstance(data, bytes) or not isinstance(lost, str):
        data, lost = b"", "answered with something that is no message"
    _tell(there, node, lost, data, away)


def _tell(there: socket.socket, node: str, lost: str, data: bytes, away: bool = False) -> None:
    send_frame(there, json.dumps({"node": node, "lost": lost, "away": away}).encode())
    send_frame(there, data)
