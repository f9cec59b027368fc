"""What an actor of the cluster does: pieces of work by the fast engine's own code, on one core or on one GPU."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.client import ClientResult
from unskew.core.types import Ids
from unskew.data.mapped import Mapped
from unskew.engines.cluster.near import Lent, Rows, this_machine
from unskew.engines.cpu.pieces import (
    Judgement,
    LegToPlay,
    SharedPool,
    WorkPiece,
    answer,
    carried_out,
    client_jobs_of,
    converted,
    holdings_of,
    leg_of,
    once,
)
from unskew.engines.cpu.workers import Board, keep_memory
from unskew.engines.device_data import tensor_of
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError
from unskew.version import __version__


@dataclass
class Flat:
    """Models as they travel: an array of rows, which nodes keep once and all actors on them read in place."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    rows: Array  # [rows, numbers]


@dataclass
class AskedPiece:
    """A piece of work, with the models that its clients begin with where each has its own."""

    number: int
    piece: Any
    starts: Array | None = None


@dataclass
class AnsweredPiece:
    """What came of it; ``rows`` is what is to be written on boards, if it was not written there already."""

    number: int
    back: Any
    rows: Array | None = None


@dataclass
class Laid:
    """A tensor as an array that travels without a copy, whatever its layout."""

    array: Array
    channels_last: bool = False

    @staticmethod
    def out(value: Any) -> Any:
        if isinstance(value, Mapped):
            return value
        last = value.dim() == 4 and not value.is_contiguous()
        return Laid(np.ascontiguousarray((value.permute(0, 2, 3, 1) if last else value).numpy()), last)

    def tensor(self) -> torch.Tensor:
        value = tensor_of(self.array)
        return value.permute(0, 3, 1, 2) if self.channels_last else value


class Hand:
    """One actor. It holds the job and the samples of its node, and answers pieces of work until nobody asks."""

    def __init__(self, version: str, device: tuple[Any, ...] | None):
        self.version = version
        self.setup: dict[str, Any] = {}
        self.near: dict[str, Board] = {}  # boards of the server that can be written on from here
        self.gpu = None if device is None else FastGPU(*device)
        if self.gpu is None:
            torch.set_num_threads(1)
            keep_memory()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle

    def ready(self) -> tuple[int, str, str]:
        """(process, on which machine, why it cannot work here)."""
        problem = ""
        if self.version != __version__:
            problem = (
                f"has unskew {__version__} and not {self.version}; install the same version on every node"
            )
        return os.getpid(), this_machine(), problem

    def work(
        self, fresh: dict[str, Any], lent: dict[str, Lent], asked: list[AskedPiece]
    ) -> tuple[list[AnsweredPiece], Exception | None]:
        """The answers to these pieces of work, or what went wrong."""
        import ray

        done: list[AnsweredPiece] = []
        try:
            for name, board in lent.items():
                self.near.pop(name, None)
                with contextlib.suppress(OSError):  # another user's: then what was trained travels
                    self.near[name] = board.opened()
            for name, (ref,) in fresh.items():
                found = _read(name, ray.get(ref))
                self.setup |= (
                    dict(zip(("leg", "flat"), found, strict=True)) if name == "leg" else {name: found}
                )
            done.extend(self._answered(one) for one in asked)
        except Exception as problem:
            return [], problem
        return done, None

    def _answered(self, asked: AskedPiece) -> AnsweredPiece:
        if isinstance(asked.piece, Judgement):
            flat: Flat = self.setup["flat"]
            self.setup["models"] = Board(flat.names, flat.shapes, tensor_of(flat.rows))
            return AnsweredPiece(asked.number, self._answer(self.setup, asked.piece))
        here, work, board = _alone(self.setup, self.near, asked)
        back = self._answer(here, work)
        self.setup.update({k: v for k, v in here.items() if k.startswith("made of ")})
        rows = asked.piece.rows
        written = work.adds is not None or back[0].message is None
        found = {int(rows[i]): one for i, one in back.items()}
        travels = written and not isinstance(board, Rows)
        return AnsweredPiece(asked.number, found, board.flat.numpy() if travels else None)

    def _answer(self, setup: dict[str, Any], work: Any) -> Any:
        return answer(setup, work) if self.gpu is None else _answer_on_gpu(self.gpu, setup, work)


def _alone(
    setup: dict[str, Any], near: dict[str, Board], asked: AskedPiece
) -> tuple[dict[str, Any], WorkPiece, Board]:
    """The leg as if it had no other rows: so an actor needs no room for models that others train.

    Trained models go on a board of the actor's own, which travels; or, where the server is near, into their rows of its
    board.
    """
    told: LegToPlay = setup["leg"]
    flat: Flat = setup["flat"]
    leg = told.leg
    piece: WorkPiece = asked.piece
    rows, shown = piece.rows, tensor_of(flat.rows)
    if asked.starts is not None:
        shown = torch.cat([shown[:1], tensor_of(asked.starts)])
    elif len(shown) == 1:  # the model that drift is measured against is the one that all begin with
        shown = shown.expand(2, -1)
    model = Board(flat.names, flat.shapes, shown)
    work = replace(piece, rows=np.arange(len(rows)))
    name = "answers" if piece.adds is None else "sums"
    at: Ids = rows if piece.adds is None else np.array([piece.adds[0]])
    if name in near:
        board: Board = Rows.of(near[name], at)
    else:
        kind = model.row(0)
        wide = kind if piece.adds is None else {k: v.to(torch.float64) for k, v in kind.items()}
        board = Board.like(wide, len(at), shared=False)
    if piece.adds is not None:
        work.adds = 0, piece.adds[1]
    cut = replace(leg, clients=leg.clients[rows], settings=leg.settings.rows(rows))
    return setup | {"leg": told._replace(leg=cut), "models": model, name: board}, work, board


def _answer_on_gpu(engine: FastGPU, setup: dict[str, Any], work: Any) -> Any:
    """The same by the GPU engine."""
    job = setup["job"]
    dataset = once(setup, "samples", lambda s: s.dataset())
    engine.hold(holdings_of(setup, dataset))
    device_data = engine.device_data(job)
    if isinstance(work, Judgement):
        model = {k: v.to(engine.device) for k, v in setup["models"].row(0).items()}
        return device_data.judge(job.judging_net, model, work.places, work.test, details=work.details)
    leg, round_inputs, holdings = leg_of(setup, dataset, work, engine.device)
    round_inputs = engine.padded(job, round_inputs)
    client_jobs = client_jobs_of(job, leg, round_inputs, holdings, work)
    return carried_out(
        setup,
        work,
        client_jobs,
        lambda some: engine.trained(job, leg, some, round_inputs).returns,
        len(client_jobs),
    )


def _read(name: str, value: Any) -> Any:
    """A piece of set-up as it was told, of what travelled."""
    if name == "job":
        import ray

        try:
            return ray.cloudpickle.loads(value)
        except ImportError as problem:
            raise InputError(
                f"a node of the cluster cannot load the model or a part of the method ({problem}); install that "
                "module on every node"
            ) from None
    if name == "samples":
        samples: SharedPool = value
        for lies in samples.tensors.values():
            if isinstance(lies, Mapped) and not os.path.exists(lies.file):
                raise InputError(
                    f"a node of the cluster does not see {lies.file}; put it on a file system that all nodes share"
                )
        return replace(
            samples, tensors={k: v.tensor() if isinstance(v, Laid) else v for k, v in samples.tensors.items()}
        )
    if name == "lists":
        return {k: v.tensor() for k, v in value.items()}
    return value


def kept(back: Any) -> Any:
    """An answer to keep: its arrays lie in Ray's object store, which would be full of clients' memories soon."""
    return {
        row: converted(done, _copied) if isinstance(done, ClientResult) else done
        for row, done in back.items()
    }


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _copied(value) for name, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree
