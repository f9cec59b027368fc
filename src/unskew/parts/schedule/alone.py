"""Every client on its own: the lower bound of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.slots import Play, Schedule
from unskew.core.types import Leg, Memory, Tree, nbytes

AT_ONCE = 64 * 2**20
"""Bytes of models that are trained together, so that thousands of clients fit in memory one group after the other."""


@dataclass(frozen=True)
class Alone(Schedule):
    """Lets every client train a model of its own and exchanges nothing: what a client has if it does not join.

    Client k starts from the run's first model and goes on with its own in each round in which it is selected. So it
    does what it would do in a federated run of the same seed and selection: the same rounds, the same batches, the
    same number of steps. No byte is sent. Every client's model is judged on the global test set; the accuracy of
    the run is the plain mean over the clients that have trained, and its spread stands beside it. Who was never
    selected, or holds no sample, has no model and is not counted.

    There is no global model: parts that need one, or that send anything, are refused. A client that is dropped in a
    round does not train in it; nothing can be late.
    """

    name: ClassVar[str] = "alone"
    paper: ClassVar[str] = "local training, the usual lower bound"
    exchanges: ClassVar[bool] = False

    @property
    def last_round_differs(self) -> bool:
        return False

    def round(self, play: Play, params: Tree, memory: Memory) -> tuple[Tree, Memory]:
        cohort = play.select()
        together = max(8, AT_ONCE // max(1, nbytes(params)))
        for first in range(0, len(cohort.clients), together):
            some = slice(first, first + together)
            play.train(
                Leg(
                    cohort.clients[some],
                    params,
                    anchor=params,
                    settings=cohort.settings.rows(some),
                    upload=False,
                    keeps=True,
                    source="own",
                )
            )
        return params, memory
