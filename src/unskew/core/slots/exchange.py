"""What clients and the server tell each other beside models, and what each remembers: the second page for a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unskew.core.roster import Roster
from unskew.core.slots.objective import Objective
from unskew.core.types import Memory, Tree, Update

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.questions import Questions


@dataclass(frozen=True)
class Exchange(Objective):
    """An objective that remembers, tells and is told. Every method here is optional, as are those of ``Objective``.

    A round goes: ``hand_out`` at the server, steps and ``report`` at each client, then ``absorb``, ``adjust`` and
    ``renew`` at the server. ``report`` runs where local training ends; what a client remembers is kept only when its
    upload lands. What the server remembers before round 0 is ``init_server`` and what ``begin`` gathers.
    """

    # --- before round 0

    def begin(self, net: Net, roster: Roster, query: Questions, seed: int) -> Memory:
        """Once, at the server: what clients send before round 0, into its memory; its bytes count in round 0."""
        return {}

    def init_client(self, net: Net, size: float) -> Memory:
        """A client's memory before its first visit; ``size`` is its weight relative to the mean client's."""
        return {}

    # --- a round, in this order

    def hand_out(self, memory: Memory, t: int) -> Tree:
        """What the server sends along with the model: ``step.shared``."""
        return {}

    def report(self, visit: Visit) -> tuple[Tree, Memory]:
        """At a client: (what it uploads, what it remembers)."""
        return {}, visit.mine

    def absorb(self, memory: Memory, update: Update, clients: int) -> Memory:
        """The server's memory after these uploads; ``clients`` is the size of the federation."""
        return memory

    def adjust(self, change: Tree, memory: Memory) -> Tree:
        """The change that the server steps along, where the aggregation rule made this one, in float64."""
        return change

    def renew(self, memory: Memory, after: After) -> Memory:
        """The server's memory once the next model stands: what it learns from it, or asks clients under it."""
        return memory

    # --- beside parts that exchange nothing

    @property
    def exchanges(self) -> bool:
        """Whether anything travels for it beside models: read off its verbs unless it says."""
        verbs = ("begin", "hand_out", "renew")
        return any(getattr(type(self), verb) is not getattr(Exchange, verb) for verb in verbs)


@dataclass
class Visit:
    """What a part sees when a client's training ends: enough to report and to remember."""

    net: Net
    start: Tree
    end: Tree
    anchor: Tree
    moved: Tree  # sum of (end - start) over the legs of this visit, trainable parameters only
    steps: int
    work: float  # sum of the learning rates of all steps
    census: Tensor
    t: int
    shared: Tree
    mine: Memory
    gradient: Callable[[Tree], Tree]  # of the task's loss over all the client's data, at a model


@dataclass
class After:
    """What the server has at hand when a round's model stands."""

    net: Net
    judging_net: Net  # the one that judges in this run
    params: Tree  # the next global model
    landed: Update  # what it was made of
    roster: Roster
    t: int
    seed: int
    query: Questions  # query(self, "question", clients, value=...): answers from their samples under the next model
    note: Callable[..., None]  # note(key=value): into this round's log line
