"""What golden tests share: clients whose training is plain arithmetic, updates of two weights, tiny federations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.engine import RoundInputs
from unskew.core.held import Held, Moment
from unskew.core.holdings import Holdings
from unskew.core.kept import blended
from unskew.core.ledger import Ledger
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.round import begin_parts
from unskew.core.slots import Batch, Objective, Out, Play, Prepare, Schedule, Step
from unskew.core.task import CLASSIFICATION
from unskew.core.types import Cohort, Leg, Tree, Update, moved_by
from unskew.data.dataset import Dataset, channel_moments
from unskew.data.federation import Federation
from unskew.parts.aggregate import FedAvg
from unskew.seeds import generator
from unskew.testing.toy_federation import ready


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def update(
    deltas: Sequence[Sequence[float]],
    examples: Sequence[float],
    *,
    base: Sequence[float] = (0.0, 0.0),
    clients: Sequence[int] | None = None,
    **vectors: Sequence[float],
) -> Update:
    """One row a client: its model is ``base`` plus its delta, under the name w."""
    k = len(deltas)
    start = numbers(*base).expand(k, -1)
    moved = torch.tensor(deltas, dtype=torch.float64)
    usual = {n: [1.0] * k for n in ("work", "reach", "pulled", "lr", "loss")} | vectors
    return Update(
        rows=np.arange(k),
        clients=np.arange(k) if clients is None else np.array(clients),
        base={"w": start},
        params={"w": start + moved},
        moved={"w": moved},
        examples=numbers(*examples),
        steps=torch.ones(k, dtype=torch.int64),
        samples=torch.ones(k, dtype=torch.int64),
        **{n: numbers(*v) for n, v in usual.items()},  # type: ignore[arg-type]
    )


class FakeNet:
    """A model of one tensor w of two weights, and a statistic if asked for."""

    def __init__(self, *, statistics: bool = False):
        self.initial: Tree = {"w": numbers(0.0, 0.0)} | ({"mean": numbers(0.0)} if statistics else {})
        self.trainable = ("w",)


class Lens:
    """A model that shows a sample through a factor w: features and logits are w times the sample."""

    trainable, buffers, own = ("w",), (), frozenset({"w"})
    task = CLASSIFICATION
    training = SimpleNamespace(last_layer="w")

    def __init__(self) -> None:
        self.initial: Tree = {"w": numbers(1.0, 1.0)}

    def features(self, params: Tree, x: Tensor) -> Tensor:
        return params["w"] * x

    def classify(self, params: Tree, features: Tensor) -> Tensor:
        return features

    def judge(self, model: Tree, x: Tensor, since: str | None = None, upto: str | None = None) -> Tensor:
        return model["w"] * x

    def for_rows(self, weight: Tensor) -> Lens:
        return self


def seen(
    x: Sequence[Sequence[float]],
    y: Sequence[int],
    *,
    w: Tensor | None = None,
    anchor: Tensor | None = None,
    weight: Sequence[float] | None = None,
    census: Sequence[int] = (1, 1),
    head: Tree | None = None,
    **trees: Tree,
) -> Step:
    """One step on these samples through a lens; everything counts unless ``weight`` says otherwise."""
    net, rows = Lens(), torch.tensor(x, dtype=torch.float64)
    params = {"w": torch.ones_like(rows[0]) if w is None else w} | (head or {})
    held = Batch(rows, torch.tensor(y), numbers(*([1.0] * len(y) if weight is None else weight)))
    features = net.features(params, rows)
    out = Out(net.classify(params, features), held.y, features)
    before = {"w": params["w"].detach() if anchor is None else anchor}
    return Step(net, params, before, held, torch.tensor(census), out, **trees)  # type: ignore[arg-type]


def holding(counts: Sequence[Sequence[int]], *, side: int = 6) -> Federation:
    """Clients that hold this many images of each class; a class is a bright row, the rest is noise."""
    table = np.asarray(counts)
    classes = table.shape[1]
    y = np.concatenate([np.repeat(np.arange(classes), row) for row in table])
    rng = generator(0, "holding")

    def images(labels: Any) -> Any:
        x = rng.integers(0, 120, (len(labels), 1, side, side))
        x[np.arange(len(labels)), 0, labels % side] += 120
        return x.astype(np.uint8)

    y_test = np.arange(5 * classes) % classes
    x, x_test = images(y), images(y_test)
    names = tuple(f"class {c}" for c in range(classes))
    dataset = Dataset("by hand", x, y, x_test, y_test, names, "image", {}, *channel_moments(x_test))
    return Federation(dataset, np.arange(len(y)), np.concatenate([[0], np.cumsum(table.sum(1))]))


@dataclass
class Moved:
    """Clients after a part moved raw samples between them: what the server knows, and what each holds."""

    roster: Roster
    holdings: Holdings

    def samples(self, client: int) -> Any:
        return self.holdings.federation.samples(client)


def moved(part: Prepare, federation: Federation, cohort: int, seed: int) -> Moved:
    """Carry out what a part declares, if it declares anything."""
    roster, holdings = Roster.of(federation), Holdings(federation)
    sharing = part.transfers(roster, cohort, seed)
    if sharing is None:
        return Moved(roster, holdings)
    after = holdings.transfer(part, sharing, roster, seed)
    told = after.reported(part.shared(sharing, roster, after)) if after.sharing else after
    return Moved(told, holdings)


@dataclass
class Viewed:
    """What every client has at hand with the view that a part makes of its data."""

    held: list[Held]

    def samples(self, client: int) -> Any:
        return self.held[client].places

    @property
    def sizes(self) -> Any:
        return np.array([len(one) for one in self.held])

    @property
    def counts(self) -> Any:
        return np.stack([one.counts for one in self.held])

    @property
    def budget(self) -> Any:
        return np.array([one.budget for one in self.held])

    @property
    def weigh(self) -> Any:
        return np.array([one.weigh for one in self.held])


def viewed(
    part: Prepare, federation: Federation, t: int | None = 0, seed: int = 0, memory: Tree | None = None
) -> Viewed:
    """Every client visited in round ``t``; the server expects what it finds."""
    roster, holdings, clients = Roster.of(federation), Holdings(federation), np.arange(federation.clients)
    known = memory or {}
    told = {} if t is None else {part.name: part.hand_out(clients, t, roster, known)}
    moment = Moment(t, clients=clients, told=told)
    found = Viewed([holdings.held(k, moment, roster, (part,), seed) for k in clients.tolist()])
    expected = part.expect(roster, t, known)
    for name in ("counts", "sizes", "budget", "weigh"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    return found


def before_round_0(part: Objective, federation: Federation) -> Tree:
    """What the server remembers for a part once clients sent what they send before the first round."""
    setup = ready(Method.of(part), federation)
    return begin_parts(setup.run, setup.state.server, Ledger(0))[part.name]


def round_of(job: Any, t: int, clients: Any, shared: Any, store: Any) -> RoundInputs:
    """The ground that these clients train on in round ``t``."""
    return RoundInputs(job.roster, shared, store, Moment(t, clients=np.asarray(clients)))


@dataclass
class Table:
    """A server whose clients train by a rule: ``rule(client, w, share of the budget) -> w``."""

    federation: Federation
    rule: Callable[[int, Tensor, float], Tensor]
    cohorts: Callable[[int, np.ndarray[Any, Any]], Sequence[int]]  # (how many, excluded) -> who
    cohort: int
    last: int = 10**9
    lost: Callable[[int, int], bool] = lambda leg, client: False
    late: Callable[[int, int], bool] = lambda t, client: False  # its upload lands one round later
    waiting: list[Update] = field(default_factory=list)
    legs: list[Leg] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    told: list[tuple[str, list[int], int]] = field(default_factory=list)
    uploads: list[Update] = field(default_factory=list)

    def play(self, schedule: Schedule, t: int, w: float, memory: Tree) -> tuple[float, Tree]:
        """One round from the model ``w``; the next model and memory."""
        self.legs, self.notes, self.told, self.uploads = [], {}, [], []
        play = Play(
            t=t,
            last=t == self.last,
            cohort=self.cohort,
            roster=Roster.of(self.federation),
            select=self._select,
            train=self._train,
            combine=lambda params, update: self._combine(play, params, update),
            rng=generator(0, "schedule", t),
            note=self.notes.update,
            told=lambda what, clients, numbers: self.told.append((what, clients.tolist(), numbers)),
        )
        params, memory = schedule.round(play, {"w": numbers(w)}, memory)
        return float(params["w"]), memory

    def _select(self, count: int | None = None, exclude: Any = ()) -> Cohort:
        wanted = self.cohort if count is None else count
        busy = np.concatenate([np.asarray(exclude, np.int64), *(u.clients for u in self.waiting)])
        return Cohort(np.array(self.cohorts(wanted, busy), dtype=np.int64))

    def _train(self, leg: Leg) -> Update:
        number = len(self.legs)
        leg = blended(leg) if leg.blend is not None else leg
        self.legs.append(leg)
        rows = np.array(
            [r for r, c in enumerate(leg.clients) if not self.lost(number, int(c))], dtype=np.int64
        )
        start = leg.start["w"] if leg.stacked else leg.start["w"].expand(len(leg.clients), -1)
        start = start[torch.from_numpy(rows)]
        clients = leg.clients[rows]
        ends = [self.rule(int(c), w, leg.epochs) for c, w in zip(clients, start, strict=True)]
        end = torch.stack(ends) if ends else start
        ones = torch.ones(len(rows), dtype=torch.float64)
        before = torch.zeros_like(ones) if leg.carry is None else leg.carry.work[torch.from_numpy(rows)]
        return Update(
            rows=rows,
            clients=clients,
            base={"w": start},
            params={"w": end},
            moved={"w": end - start},
            work=before + leg.epochs,
            reach=ones,
            pulled=ones,
            lr=ones,
            examples=torch.from_numpy(self.federation.weigh[clients].astype(np.float64)),
            steps=torch.ones(len(rows), dtype=torch.int64),
            samples=torch.ones(len(rows), dtype=torch.int64),
            loss=ones,
        )

    def _combine(self, play: Play, params: Tree, update: Update) -> Tree:
        self.uploads.append(update)
        late = np.array([self.late(play.t, int(c)) for c in update.clients], dtype=bool)
        landed = [u for u in (update.take(~late), *self.waiting) if len(u)]
        self.waiting = [update.take(late)] if late.any() else []
        play.landed = sum(float(u.examples.sum()) for u in landed)
        return (
            moved_by(params, FedAvg().merge(params, Update.joined(landed), {}, ("w",))[0])
            if landed
            else params
        )
