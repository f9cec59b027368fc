"""Flower's SuperNode, which hands messages to the site's process: ``python -m unskew.sites.flower.supernode``.

Flower brings an app's code to a node and starts a process of it for each message. Here neither happens: the node
itself passes the message on and sends the answer. So whoever has the coordinator cannot run their code at a site, and a
message costs no start of a process.
"""

from __future__ import annotations

import importlib
import time
from functools import partial
from logging import ERROR
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from unskew.sites.carrier import MOST_MESSAGE, Lost, ask_socket
from unskew.sites.flower.relay_app import RECORD, VERB
from unskew.sites.flower.with_parent import end_with_parent

POLL = 0.1
"""Seconds between questions whether there is a message; Flower's own are 3."""

AGAIN = 2.0
"""Seconds at most between attempts to reach a coordinator that was stopped; Flower's own are 20."""


class PassOn:
    """Takes the place of Flower's receiving and sending of a message."""

    def __init__(self) -> None:
        self.reply: Any = None

    def receive(self, **given: Any) -> int | None:
        """Fetch a message, ask the site, and keep the answer; None where there is no message."""
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
        from flwr.supercore.run import RunNotRunningException

        found = given["receive"]()
        if found is None:
            return None
        message, tree = found
        run: int = message.metadata.run_id
        try:
            objects = [branch.object_id for branch in iterate_object_tree(tree)]
            contents = pull_objects(objects, partial(given["pull_object"], run), initial_backoff=POLL)
            given["confirm_message_received"](run, message.metadata.message_id)
            whole: Any = inflate_object_from_contents(tree.object_id, contents)
            whole.metadata.__dict__["_message_id"] = tree.object_id
            self.reply = answer(whole, Path(str(given["node_config"]["socket"])))
        # one bad message, or a run that is over, must not end the site; the latter is no Exception to Flower
        except (Exception, RunNotRunningException) as problem:
            _log("Cannot answer a message: %s", problem)
            return None
        return run

    def send(self, send: Any, push_object: Any, **given: Any) -> None:
        """Send the answer that was kept."""
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_utils import push_object_contents_from_iterable
        from flwr.supercore.run import RunNotRunningException

        reply, self.reply = self.reply, None
        try:
            with no_object_id_recompute():
                reply.metadata.__dict__["_message_id"] = reply.object_id
                wanted, session = send(reply, get_object_tree(reply), 0.0)
                objects = get_all_nested_objects(reply)
                pieces = ((name, one.deflate()) for name, one in objects.items() if name in wanted)
                push_object_contents_from_iterable(
                    pieces, partial(push_object, reply.metadata.run_id, session)
                )
        except (Exception, RunNotRunningException) as problem:
            _log("Cannot send an answer: %s", problem)


def answer(message: Any, socket: Path) -> Any:
    """What the site's process says to a message."""
    from flwr.app import ConfigRecord, Message, RecordDict

    if message.metadata.message_type != VERB or RECORD not in message.content:
        told: dict[str, Any] = {"lost": "takes no messages but unskew's"}
    else:
        asked = message.content[RECORD]
        found = ask_socket(socket, asked["data"], None, int(asked.get("most", MOST_MESSAGE)))
        told = {"lost": found.reason, "away": found.away} if isinstance(found, Lost) else {"data": found}
    return Message(RecordDict({RECORD: ConfigRecord(told)}), reply_to=message)


def _log(text: str, problem: BaseException) -> None:
    from flwr.supercore import log

    log(ERROR, text, f"{type(problem).__name__}: {problem}")


def main() -> None:
    """Flower's own command, with these two functions in the place of its own, and less patience."""
    node: Any = importlib.import_module("flwr.supernode.start_client_internal")
    command: Any = importlib.import_module("flwr.supernode.cli.flower_supernode")
    retry: Any = importlib.import_module("flwr.supercore.retry.http_retry")
    end_with_parent()
    instead = PassOn()
    node.time = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, POLL)))
    node._pull_and_store_message, node._push_messages = instead.receive, instead.send
    retry.MAX_RETRY_DELAY = AGAIN
    command.flower_supernode()


if __name__ == "__main__":
    main()
