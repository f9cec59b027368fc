"""The watcher that keeps: the run's log, its checkpoints, the models of chosen rounds, its result."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from unskew.core.engine import Remote
from unskew.core.state import State, save_state
from unskew.runs import logged
from unskew.runs.folder import RunFolder
from unskew.runs.snapshots import keep_model
from unskew.runs.spec import Spec
from unskew.runs.watchers import Ended, RoundEnded, Stopped


class Keeper:
    """Writes a round before anybody else hears of it, and is the run's own: if it cannot write, the run fails."""

    def __init__(self, spec: Spec, folder: RunFolder, state: State, engine: object = None):
        self.spec, self.folder, self.engine = spec, folder, engine
        self.state = state  # of the last round that is in the log
        self.checkpoints = folder.path / "state" if folder.path is not None else None
        self.saved_at, self.saved = time.monotonic(), state.round
        self.writable = True

    def round_ended(self, round: RoundEnded) -> None:
        self.folder.append(dict(round.line))
        self.state = round._state  # not before it is in the log: an interrupt saves the last round that is

    def save_if_due(self) -> None:
        """Once a round is told: its model, where it is to be kept, and a checkpoint, where it is time for one."""
        if self.folder.path is not None and self.state.round in self.spec.keep:
            keep_model(self.folder.path, self.state)
        if time.monotonic() - self.saved_at >= self.spec.checkpoint or self.state.round == self.spec.rounds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Save the state, unless it is saved."""
        if self.checkpoints is None or self.saved == self.state.round:
            return
        self.folder.sync()  # a checkpoint never knows more rounds than the log
        save_state(self.state, self.checkpoints)
        self.saved_at, self.saved = time.monotonic(), self.state.round
        if isinstance(self.engine, Remote):
            self.engine.checkpointed(self.state)
        logged.run.info("round %d: checkpoint saved in %s", self.state.round, self.checkpoints)

    def stopping(self, stopped: Stopped) -> None:
        """Write that the run is to end, and where: a kill from here on does not undo it."""
        self.folder.save({"status": "running", "stopping": stopped.as_dict()})

    def ended(self, end: Ended) -> None:
        if end.status == "done":
            self.folder.save(dict(end.result))
        elif end.status == "interrupted":
            if self.checkpoints is not None and self.state.round:
                self.folder.rewind(self.state.round)  # the interrupt may have come in the middle of a line
                save_state(self.state, self.checkpoints)
        elif self.writable:
            failed: dict[str, Any] = {"status": "failed", "error": end.error, "round": end.rounds}
            if stopping := self.folder.result.get("stopping"):
                failed["stopping"] = stopping
            with contextlib.suppress(OSError):
                self.folder.save(failed)
