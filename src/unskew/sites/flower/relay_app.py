"""The app that Flower runs at the coordinator: it passes bytes on, and opens none of them.

Flower starts ``server`` once a run, and it connects to the socket of the run's process. What travels as the "app" is
``PROJECT`` alone, a page of settings that names this file: no code is sent anywhere. Sites run no app at all
(``supernode.py``); ``client`` is there because Flower asks for one.
"""

from __future__ import annotations

import json
import queue
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)

from unskew.files import write_file
from unskew.sites.carrier import connect, receive_frame, send_frame
from unskew.sites.flower.limits import OVERHEAD

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
    deadline, most = order["deadline"], int(order["most"])
    ends = None if deadline is None else time.monotonic() + deadline
    messages = []
    for node in order["nodes"]:
        data = receive_frame(there)
        if data is None:
            return False
        content = RecordDict({RECORD: ConfigRecord({"data": data, "most": most})})
        messages.append(Message(content, dst_node_id=int(node), message_type=VERB))
    waiting = dict(zip(grid.push_messages(messages), order["nodes"], strict=True))
    announced: set[str] = set()
    found: queue.SimpleQueue[tuple[str, Message | str]] = queue.SimpleQueue()
    while waiting:
        for proto, tree in _announced(grid, [name for name in waiting if name not in announced]):
            announced.add(proto.metadata.reply_to_message_id)
            left = None if ends is None else max(0.0, ends - time.monotonic())
            threading.Thread(target=_fetch, args=(grid, proto, tree, left, most, found), daemon=True).start()
        if select.select([there], [], [], POLL)[0] and not there.recv(1, socket.MSG_PEEK):
            return False
        while not found.empty():
            name, reply = found.get()
            if name in waiting:
                _answer(there, waiting.pop(name), reply)
        if ends is not None and time.monotonic() > ends:
            break
    for node in waiting.values():
        _tell(there, node, f"gave no answer within {deadline:g} s", b"")
    return True


def _announced(grid: Any, names: list[str]) -> list[tuple[Any, Any]]:
    """Answers to these requests that nodes have announced; their bytes may still be on their way."""
    if not names:
        return []
    told = grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=names))
    return list(zip(told.messages_list, told.message_object_trees, strict=True))


def _fetch(grid: Any, proto: Any, tree: Any, seconds: float | None, most: int, found: Any) -> None:
    """Wait for the bytes of one announced answer. Each waits by itself: one that never comes delays no other."""
    run, client, received = grid.run.run_id, grid._runtime_client, 0
    pull = make_pull_object_fn_protobuf(pull_object_protobuf=client.PullObject, node=grid.node, run_id=run)

    def pull_some(name: str) -> bytes:
        nonlocal received
        content = pull(name)
        received += len(content)
        if received > most + OVERHEAD:
            raise ObjectPullError(name, "it is more than was expected")
        return content

    message, name = proto.metadata.message_id, proto.metadata.reply_to_message_id
    try:
        objects = [branch.object_id for branch in iterate_object_tree(tree)]
        contents = pull_objects(
            objects,
            pull_some,
            max_time=seconds,
            max_tries_per_object=None,
            initial_backoff=POLL,
            backoff_cap=1.0,
        )
        told = ConfirmMessageReceivedRequest(node=grid.node, run_id=run, message_object_id=message)
        client.ConfirmMessageReceived(told)
        found.put((name, inflate_object_from_contents(message, contents)))
    except Exception as problem:  # whatever a strange answer runs into is the answer's fault
        found.put((name, f"gave no whole answer ({type(problem).__name__})"))


def _answer(there: socket.socket, node: str, reply: Message | str) -> None:
    if isinstance(reply, str):
        _tell(there, node, reply, b"")
        return
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
