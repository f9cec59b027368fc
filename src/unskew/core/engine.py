"""The seam: what a run hands an engine, and the verbs an engine has. Nothing else crosses to the clients' side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import torch

from unskew.core.decay import Constant, Decay
from unskew.core.faults import Faults
from unskew.core.held import OWN, Moment
from unskew.core.holdings import Holdings
from unskew.core.measuring import Measuring
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.questions import Query
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Local, Prepare
from unskew.core.state import State
from unskew.core.store import ClientStore
from unskew.core.task import Sums
from unskew.core.types import Ids, Leg, Tree, Update
from unskew.metrics.own import Metric


@dataclass
class Job:
    """What travels to wherever clients train, and stays the same over a run. It pickles as it is.

    It holds no client's sample: those are the engine's to hold.
    """

    method: Method
    roster: Roster  # after raw samples were moved, before round 0
    net: Net
    local: Local
    seed: int
    batch_norm: str = "average"
    dtype: torch.dtype = torch.float32

    @property
    def judging_net(self) -> Net:
        """The net that judges: by the statistics of the test batch where clients keep or drop their own."""
        return self.net if self.batch_norm == "average" else self.net.by_batch_statistics()


@dataclass
class RunPlan:
    """A run as the server plays it: the job, and what stays at the server. That is who carries the job out, for how
    long, and what goes wrong on purpose."""

    job: Job
    engine: Engine
    rounds: int
    cohort: int
    decay: Decay = field(default_factory=Constant)
    faults: Faults = field(default_factory=Faults)
    device: str = "cpu"
    dealt: Roster | None = None  # before raw samples were moved, where that is known
    # given in Python: they never leave the server
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    # bytes of what is measured, until they are logged
    measuring: Measuring = field(default_factory=Measuring)

    stops_after: int | None = None  # where a run is stopped early; decays keep to what was planned

    @property
    def end(self) -> int:
        """How many rounds are played: all that are planned, or fewer where the run is stopped early."""
        return self.rounds if self.stops_after is None else self.stops_after

    @property
    def as_dealt(self) -> Roster:
        """Who held what before any raw samples were moved: the clients' own."""
        return self.dealt or self.job.roster

    def inputs(
        self, roster: Roster, shared: Mapping[str, Tree], store: ClientStore, moment: Moment
    ) -> RoundInputs:
        """What a leg of the moment's round is played on."""
        t = moment.t or 0
        decay, last = self.decay.factor(t, self.rounds), t == self.end - 1
        return RoundInputs(roster, shared, store, moment, decay, self.cohort, last)


@dataclass(frozen=True)
class RoundInputs:
    """What a leg is played on: what parts hand out, what clients remember, and at which moment clients' data is looked
    at.

    ``roster`` is what the server expects clients to hold in this round.
    """

    roster: Roster
    shared: Mapping[str, Tree]
    store: ClientStore
    moment: Moment
    decay: float = 1.0  # what the learning rate is multiplied by in this round
    cohort: int = 0  # how many clients a round asks, for an engine to make room
    last: bool = False  # whether no round follows

    @property
    def t(self) -> int:
        """The round's number."""
        return self.moment.t or 0


class Engine(Protocol):
    """Runs the clients' side. An algorithm never knows which engine answers."""

    name: str

    def hold(self, holdings: Holdings) -> None:
        """Take the clients' samples: from here on they are reached by the verbs below and by nothing else."""
        ...

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        ...

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        """Train the clients at these rows of the leg and bring back their update."""
        ...

    def query(self, job: Job, query: Query, clients: Ids, model: Tree, moment: Moment) -> Iterator[Tree]:
        """These clients' answers to a question, one after the other; ``model`` goes down to each."""
        ...

    def evaluate(self, job: Job, model: Tree, clients: Ids | None = None, moment: Moment = OWN) -> Sums:
        """How the model does on the server's test set, or on the data of each of these clients.

        The ``moment`` says which of their data. Without clients, but with ``moment.aside``, it is the server's
        validation set. Of clients' samples only what ``net.task.sums`` makes of them comes back; of the server's own
        samples every answer does.
        """
        ...

    def transfer(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Roster:
        """Move raw samples as a part declares; the roster says who holds how many then."""
        ...

    def again(self) -> Self:
        """Another engine of this kind over the same clients, to measure with: samples that it moves, it moves for
        itself."""
        ...

    def close(self) -> None:
        """Give back processes and memory; samples held in this process stay, and a later verb starts anew."""
        ...


@runtime_checkable
class Remote(Protocol):
    """What an engine has besides, where its clients live on other machines."""

    def take_notes(self) -> dict[str, Any]:
        """What a round's line says of those machines; the account begins anew."""
        ...

    def kept_models(self, job: Job, clients: Ids, store: ClientStore) -> Iterator[Tree]:
        """Copies of the models that these clients keep for themselves, to judge them; of a few at a time."""
        ...

    def checkpointed(self, state: State) -> None:
        """A checkpoint of this state stands: what clients remember elsewhere may be forgotten up to it."""
        ...
