"""Pieces of work over a cluster: an actor a core (or a GPU) of every node; what a lost node had is given to others.

What all pieces need lies in Ray's object store, once a node, and actors read it in place. A piece of work takes along
what only its clients need, and brings back what only they have made. So a node holds the samples and its own share of a
round, and a lost node takes nothing away that is missed. Clients' memories stay with the server, whose store puts the
oldest on disk.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unskew.engines.cluster.connect import Connection
from unskew.engines.cluster.hand import AskedPiece, Flat, Hand, Laid, kept
from unskew.engines.cluster.near import Lent, Neighbour, neighbour
from unskew.engines.cpu.pieces import Judgement, LegToPlay
from unskew.engines.cpu.workers import ATTEMPTS, Board
from unskew.errors import RunFailed, one_line
from unskew.version import __version__

log = logging.getLogger("unskew.engines.cluster")

SHARE_OF_A_CORE = 0.125
"""What an actor claims of its core. Eight runs can then be on a cluster at once: the system shares the cores fairly
among their single threads, and no run waits for another to end."""

SHARE_OF_A_GPU = 0.5
"""The same of a GPU, whose memory two runs can share."""

AHEAD = 2
"""Bundles that an actor has at once: the next is there when it has answered one."""

BUNDLES = 4
"""A bundle is this part of what an actor has left to do. So bundles are few, since each costs a message, and get
smaller, so that all actors end together."""

SMALLEST = 4
"""No bundle but the last is smaller than this part of the first."""

LARGEST_BUNDLE = 32 * 2**20
"""Bytes of models that one answer may bring."""

PATIENCE = 60.0
"""Seconds without any node that works, after which a run gives up; its last checkpoint is whole."""

STARTING = 300.0
"""The same where actors are about to start: torch may come over a network, or the node is busy with other work."""

LOOK = 2.0
"""Seconds between looks at which nodes there are."""


@dataclass
class Actor:
    """One actor, and what it was given and has not returned."""

    handle: Any
    node: str
    starting: Any  # the answer that says that it is there; None once it came
    near: Neighbour | None = None  # where it is on this machine, and writes on our boards
    sent: set[str] = field(default_factory=set)
    doing: dict[Any, list[int]] = field(default_factory=dict)  # by the answer that is awaited


class ClusterCrew:
    """A carrier over a Ray cluster.

    ``device``: the GPU engine's arguments where GPUs train; ``most``: no more actors than this.
    """

    def __init__(
        self,
        connection: Connection,
        most: int | None = None,
        device: tuple[Any, ...] | None = None,
    ):
        self.connection, self.ray = connection, connection.ray
        self.most, self.device = most, device
        self.actors: list[Actor] = []
        self.boards: dict[str, Board] = {}
        self.lent: dict[str, Lent] = {}  # those that actors on this machine write on
        self.leg: LegToPlay | None = None  # the one that is played
        self.refs: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.looked = self.worked = 0.0
        self.lost = 0  # actors that were lost
        self.failed: dict[str, int] = {}  # how often an actor could not start, by node
        self._hire()

    @property
    def places(self) -> tuple[int, int]:
        """(actors, nodes)."""
        return len(self.actors), len({actor.node for actor in self.actors})

    def tell(self, name: str, value: Any) -> None:
        if isinstance(value, Board):  # written here; what of it travels is known when there is work
            self.boards[name] = value
            if name != "models" and (lent := Lent.of(value)):
                self.lent[name] = lent
                self.versions[name] = self.versions.get(name, 0) + 1
            return
        if name == "job":
            value = self.ray.cloudpickle.dumps(value)
        elif name == "samples":
            value = replace(value, tensors={k: Laid.out(v) for k, v in value.tensors.items()})
        elif name == "lists":
            value = {k: Laid.out(v) for k, v in value.items()}
        elif name == "leg":  # it travels with its models
            self.leg = value
            return
        self._put(name, value)

    def _put(self, name: str, value: Any) -> None:
        self.refs[name] = self.ray.put(value)
        self.versions[name] = self.versions.get(name, 0) + 1

    def map(self, work: Sequence[Any], advance: Callable[[int], None] = lambda amount: None) -> list[Any]:
        if not work:
            return []
        self._show_models(isinstance(work[0], Judgement))
        answers: list[Any] = [None] * len(work)
        deaths = [0] * len(work)
        waiting = self._bundled(work)
        left = len(work)
        self.worked = time.monotonic()
        while left:
            self._look(waiting)
            self._give(waiting, work)
            watched = [ref for a in self.actors for ref in ([a.starting] if a.starting else [*a.doing])]
            if not watched:
                self._be_patient()
                continue
            ready, _ = self.ray.wait(watched, num_returns=1, timeout=LOOK)
            for ref in ready:
                actor = next((a for a in self.actors if ref is a.starting or ref in a.doing), None)
                if actor is None:  # lost with an answer that came at the same time
                    continue
                try:
                    found = self.ray.get(ref)
                except self.ray.exceptions.RayError as problem:
                    self._lose(actor, waiting, deaths, problem)
                    continue
                self.worked = time.monotonic()
                if ref is actor.starting:
                    process, machine, why_not = found
                    if why_not:
                        raise RunFailed(f"node {actor.node[:8]} of the cluster {why_not}")
                    actor.starting, actor.near = None, neighbour(process, machine)
                    continue
                done, failure = found
                if failure is not None:
                    raise failure
                del actor.doing[ref]
                for one in done:
                    answers[one.number] = kept(one.back)
                    self._write(work[one.number], one.rows)
                left -= len(done)
                advance(len(done))
            if not any(a.starting is None for a in self.actors):
                self._be_patient()
        return answers

    def close(self) -> None:
        """End every actor; a busy one is not waited for."""
        for actor in self.actors:
            with contextlib.suppress(Exception):
                self.ray.kill(actor.handle)
            if actor.near is not None:
                actor.near.close()
        self.actors, self.refs, self.boards, self.lent = [], {}, {}, {}
        self.connection.close()

    def _show_models(self, judged: bool) -> None:
        """Put the leg's models where every node can read them: what all begin with, and what drift is measured by."""
        board = self.boards["models"]
        played = None if judged else self.leg
        if played is None or played.leg.stacked:
            rows = board.flat[:1]
        elif played.leg.anchor is None:
            rows = board.flat[1:2]
        else:
            rows = board.flat[:2]
        flat = Flat(board.names, board.shapes, rows.numpy().copy())
        self._put("leg", (played, flat))

    def _bundled(self, work: Sequence[Any]) -> deque[list[int]]:
        """Pieces in the order given; small ones several at a time, so that messages do not cost more than work."""
        width = self.boards["models"].flat[0].nbytes
        rows = max(1, len(getattr(work[0], "rows", (0,))))
        most = max(1, LARGEST_BUNDLE // (width * rows))
        share = BUNDLES * max(1, len(self.actors))
        least = max(1, len(work) // share // SMALLEST)
        found: deque[list[int]] = deque()
        first = 0
        while first < len(work):
            end = first + min(most, max(least, (len(work) - first) // share))
            found.append(list(range(first, min(end, len(work)))))
            first = end
        return found

    def _give(self, waiting: deque[list[int]], work: Sequence[Any]) -> None:
        for depth in range(1, AHEAD + 1):  # everybody has something before anybody has two
            for actor in self.actors:
                if not waiting or actor.starting is not None or len(actor.doing) >= depth:
                    continue
                bundle = waiting.popleft()
                fresh = {n: [ref] for n, ref in self.refs.items() if self._is_new(n, actor)}
                lent = {n: v for n, v in self.lent.items() if actor.near and self._is_new(n, actor)}
                actor.sent |= {f"{n}:{self.versions[n]}" for n in (*fresh, *lent)}
                asked = [AskedPiece(i, work[i], self._starts(work[i])) for i in bundle]
                actor.doing[actor.handle.work.remote(fresh, lent, asked)] = bundle

    def _is_new(self, name: str, actor: Actor) -> bool:
        return f"{name}:{self.versions[name]}" not in actor.sent

    def _starts(self, piece: Any) -> Any:
        """The models that a piece's clients begin with, where each has its own."""
        if isinstance(piece, Judgement) or self.leg is None or not self.leg.leg.stacked:
            return None
        return self.boards["models"].flat.numpy()[1 + np.asarray(piece.rows)]

    def _write(self, piece: Any, rows: Any) -> None:
        """What an actor wrote down, on the boards here."""
        if rows is None:
            return
        if piece.adds is None:
            self.boards["answers"].flat.numpy()[piece.rows] = rows
        else:
            self.boards["sums"].flat.numpy()[piece.adds[0]] = rows[0]

    def _look(self, waiting: deque[list[int]]) -> None:
        """See from time to time whether there are nodes without actors: new ones, or those that lost theirs."""
        if time.monotonic() - self.looked >= LOOK:
            self._hire()

    def _hire(self) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.looked = time.monotonic()
        kind = "CPU" if self.device is None else "GPU"
        claim = {
            "num_cpus": SHARE_OF_A_CORE
        }  # said with a GPU too, or Ray would wait for a whole core that is free
        if self.device is not None:
            claim["num_gpus"] = SHARE_OF_A_GPU
        nodes = {n["NodeID"]: int(n["Resources"].get(kind, 0)) for n in self.ray.nodes() if n["Alive"]}
        for node, room in nodes.items():
            if self.failed.get(node, 0) >= ATTEMPTS:
                continue
            for _ in range(room - sum(actor.node == node for actor in self.actors)):
                if self.most is not None and len(self.actors) >= self.most:
                    return
                place = NodeAffinitySchedulingStrategy(node, soft=False)
                made = self.ray.remote(Hand).options(max_restarts=0, scheduling_strategy=place, **claim)
                handle = made.remote(__version__, self.device)
                self.actors.append(Actor(handle, node, handle.ready.remote()))

    def _lose(self, actor: Actor, waiting: deque[list[int]], deaths: list[int], problem: Exception) -> None:
        """An actor or its node is gone: what it had is given to others."""
        self.actors.remove(actor)
        self.lost += 1
        with contextlib.suppress(Exception):
            self.ray.kill(actor.handle)
        if actor.near is not None:
            actor.near.end()
        lives = any(n["NodeID"] == actor.node and n["Alive"] for n in self.ray.nodes())
        log.warning("an actor on node %s was lost; others take its clients", actor.node[:8])
        if lives and actor.starting is not None:
            self.failed[actor.node] = self.failed.get(actor.node, 0) + 1
            if self.failed[actor.node] >= ATTEMPTS and not any(a.starting is None for a in self.actors):
                said = [line.strip() for line in str(problem).splitlines() if line.strip()]
                raise RunFailed(
                    f"no actor can start on node {actor.node[:8]} ({one_line(said[-1])}); is unskew "
                    "installed there, and enough memory free?"
                )
        for bundle in reversed(actor.doing.values()):
            for number in bundle:
                deaths[number] += 1
                if deaths[number] >= 2 * ATTEMPTS:
                    raise RunFailed(
                        f"{2 * ATTEMPTS} actors died on the same clients, most likely of too little memory; use "
                        "nodes with more, or a smaller --batch"
                    )
            waiting.extendleft([number] for number in reversed(bundle))

    def _be_patient(self) -> None:
        """Wait for a node, but not for ever."""
        patience = STARTING if self.actors else PATIENCE
        if time.monotonic() - self.worked > patience:
            raise RunFailed(
                f"no node of the cluster has taken work for {patience:.0f} s; resume the run when there is one"
            )
        time.sleep(0.05)
