"""The seven slots of a round. This file is the extension guide.

A method is made of parts, and a part is a frozen dataclass that stores hyper-parameters and nothing else: what
the server or a client remembers lives in ``State``, keyed by the part's name, and comes in as an argument. So a
run can be killed anywhere, and parts compose.

To add a method, write one file in the folder of its slot and one line in that folder's ``__init__.py``. The
whole of FedProx, for example:

    @dataclass(frozen=True)
    class FedProx(Objective):
        '''Pulls a client's model towards the one it started from (Li et al., MLSys 2020, eq. 2).'''

        name: ClassVar[str] = "fedprox"
        mu: float = 0.01  # mu, eq. 2

        def penalty(self, step: Step) -> Tensor:
            drift = sum(((p - step.anchor[k]) ** 2).sum() for k, p in step.params.items())
            return self.mu / 2 * drift

Its name on the command line, its listing, its docs and its checks (``unskew.testing.checks.check_part``) follow.
Slots that *decide* hold exactly one part (select, schedule, aggregate); slots that *add* hold any number, in
the order written (prepare, tune, objective, calibrate).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from unskew.core.held import Held, Numbers
from unskew.core.roster import Roster
from unskew.core.task import weighted_mean
from unskew.core.types import Cohort, Ids, Leg, PerClient, Tree, Update, moved_by

if TYPE_CHECKING:
    from unskew.core.net import Net
    from unskew.core.questions import Questions
    from unskew.core.sharing import Sharing


class Depends:
    """A declaration that depends on hyper-parameters: what it is at the defaults, and a rule for an instance."""

    def __init__(self, usually: tuple[str, ...], rule: Callable[[Any], tuple[str, ...]]):
        self.usually, self.rule = usually, rule

    def __get__(self, part: Part | None, kind: type[Part]) -> tuple[str, ...]:
        return self.usually if part is None else self.rule(part)


RESERVED = ("late", "trained", "divergence", "batch_norm", "own_model")
"""Names under which a run itself remembers things."""


@dataclass(frozen=True)
class Part:
    """Hyper-parameters with a name. ``discloses`` says what leaves a client beyond a model update.

    ``probes`` names what the part needs measured: "loss" or "accuracy" of the model that the round began with,
    on the own data of each client that answered. It is measured once for whoever asks, and comes in
    ``update.probes``. Where either depends on hyper-parameters it is a ``Depends``. ``implies`` names parts for
    deciding slots that an expression leaves open: SCAFFOLD averages uniformly unless another rule is written.

    ``questions`` names the methods by which clients answer for this part from their own samples, beside training
    (``unskew.core.query``): what crosses is the part's name, the question's and its values.

    ``neutral`` is an expression of this part that must be FedAvg to the last bit, such as ``fedprox(mu=0)``;
    ``example`` is one to try a part by that has no defaults. Both are for ``unskew.testing.checks``.
    """

    name: ClassVar[str]
    slot: ClassVar[str]
    paper: ClassVar[str] = ""
    discloses: ClassVar[tuple[str, ...]] = ()
    probes: ClassVar[tuple[str, ...]] = ()
    questions: ClassVar[tuple[str, ...]] = ()
    implies: ClassVar[str] = ""
    neutral: ClassVar[str | None] = None
    example: ClassVar[str | None] = None

    @property
    def begins(self) -> int:
        """The round, counted from 0, from which on it does something."""
        return 0

    @property
    def needs_counts(self) -> bool:
        """Whether the server must know how many samples of each class every client holds."""
        return False

    def check(self, roster: Roster, cohort: int) -> None:
        """Refuse, with an InputError of one sentence, clients that this part cannot work with."""
        return

    def init_server(self, net: Net) -> Tree:
        """What the server remembers for this part before round 0."""
        return {}

    @property
    def sends(self) -> str:
        """What others get to see of a client's data, as a view that ``unskew.privacy`` attacks.

        ``samples``, ``averages(10)`` or ``features(conv1)``, for instance; nothing by default.
        """
        return ""

    def givers(self, memory: Tree, clients: int) -> Ids:
        """Whose data is in what this part hands out in a round: the log keeps who was given whose.

        What a ``Prepare`` part gathers is in everybody's hands; what an ``Objective`` shares goes to those who are
        asked.
        """
        return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Prepare(Part):
    """Changes what data clients train on: by moving raw samples before round 0, or by a view each makes of its own.

    The server declares and expects (``transfers``, ``expect``, ``hand_out``, ``learn``); a client gives away and views
    (``give``, ``view``). A view is made where the client's samples are, when it is visited, and is a function of seed,
    round and client, so a round costs what its cohort costs. ``tells`` is how many numbers each client that answered
    tells the server for ``learn``; their bytes are counted.
    """

    slot: ClassVar[str] = "prepare"
    tells: ClassVar[int] = 0
    reweighs: ClassVar[bool] = False  # whether its view changes what an update weighs

    # --- the server

    def transfers(self, roster: Roster, cohort: int, seed: int) -> Sharing | None:
        """Which raw samples are to move before round 0, or none; the engine carries it out."""
        return None

    def shared(self, sharing: Sharing, before: Roster, after: Roster) -> Mapping[str, Any]:
        """What the log says of samples that were moved."""
        return {}

    def expect(self, roster: Roster, t: int | None, memory: Tree) -> Roster:
        """What the server expects clients to hold with their views of round ``t``, or before the first (None)."""
        return roster

    def hand_out(self, clients: Ids, t: int, roster: Roster, memory: Tree) -> Numbers:
        """What the server tells these clients for their views: by name, one number a client."""
        return {}

    def learn(self, held: Mapping[int, int], roster: Roster, memory: Tree) -> tuple[Tree, Mapping[str, Any]]:
        """What the server remembers once clients answered, and what the log says of them.

        ``held`` is how many samples each of them had at hand, ``roster`` what it was before this part's view.
        """
        return memory, {}

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        """What the first round's log line says of the data that was prepared."""
        return {}

    # --- a client

    def give(self, held: Held, samples: int, seed: int) -> Ids:
        """Which of its samples a client sends away, as positions in its own list, where it is to send so many."""
        raise TypeError(f"{self.name} does not say which samples are sent: define give()")

    def view(self, held: Held, t: int | None, seed: int, **told: float) -> Held:
        """What a client makes of its own data for round ``t`` (None: outside of rounds), by what it was told."""
        return held


@dataclass(frozen=True)
class Select(Part):
    """Decides who takes part."""

    slot: ClassVar[str] = "select"

    def select(
        self, count: int, exclude: Ids, roster: Roster, memory: Tree, rng: np.random.Generator
    ) -> tuple[Cohort, Tree]:
        """At most ``count`` clients that are not in ``exclude``."""
        raise TypeError(f"{self.name} does not say whom it selects: define select()")


@dataclass(frozen=True)
class Tune(Part):
    """Sets local settings client by client; later parts see and may overrule what earlier ones set."""

    slot: ClassVar[str] = "tune"

    def settings(self, t: int, cohort: Cohort, roster: Roster, local: Local) -> PerClient:
        """The settings of the cohort, a row for each client."""
        return cohort.settings


@dataclass(frozen=True)
class Schedule(Part):
    """Decides how models travel. The expensive verbs come in as functions, so any base method fits."""

    slot: ClassVar[str] = "schedule"
    exchanges: ClassVar[bool] = (
        True  # whether models reach the server; if not, clients keep theirs, and each is judged
    )

    @property
    def last_differs(self) -> bool:
        """Whether a run's last round is played unlike the others (``play.last``).

        A run that is made longer afterwards then plays that round again. One that never looks may say False.
        """
        return True

    def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
        """The next global model, and what the schedule remembers (models in flight, for instance)."""
        raise TypeError(f"{self.name} does not say how models travel: define round()")


@dataclass
class Play:
    """What a schedule is handed each round."""

    t: int
    last: bool  # whether this is the run's last round
    cohort: int  # how many clients the run asks for in a round
    roster: Roster  # who there is, and what the server knows of them
    select: Callable[..., Cohort]  # select(count=None, exclude=()) -> Cohort
    train: Callable[[Leg], Update]
    combine: Callable[[Tree, Update], Tree]  # the aggregation rule
    rng: np.random.Generator
    note: Callable[..., None]  # note(key=value): into this round's log line
    told: Callable[[str, Ids, int], None]  # what, who, numbers each: beside models, and counted in bytes
    landed: float = (
        0.0  # samples of the uploads that ``combine`` made its model of: late ones count when they come
    )


@dataclass(frozen=True)
class Local:
    """How a client trains, the same for all unless a Tune part says otherwise."""

    epochs: float | None = 1.0  # passes over the client's data a round; fractions allowed
    steps: int | None = None  # or a number of steps; exactly one of the two is set
    batch: int = 32
    lr: float = 0.01
    optimizer: str = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip: float | None = None  # largest norm of a step's whole gradient
    last: str = "keep"  # the last, partial batch: keep | drop | wrap


@dataclass
class Batch:
    """One mini-batch of one client; ``weight`` is 0 on padding, and every statistic must honour it."""

    x: Tensor
    y: Tensor  # [B] whole numbers, or [B, classes] soft labels
    weight: Tensor  # [B]

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean of one value a sample."""
        return weighted_mean(values, self.weight)


@dataclass
class Out:
    """What the model said: logits, the target they are judged by, and features where a part asked for them.

    ``given`` is what entered the model ``since`` a layer, where that was not the batch at its beginning.
    """

    logits: Tensor
    target: Tensor
    features: Tensor | None = None
    given: Tensor | None = None
    since: str | None = None


@dataclass
class Step:
    """What an objective sees: one client, one batch. ``shared``, ``mine`` and ``draws`` are the part's own.

    What changes with the round comes in ``shared``, from ``hand_out(memory, t)``: a step may be captured once and
    replayed in later rounds, so it holds tensors only.
    """

    net: Net
    params: Tree  # trainable, being differentiated
    anchor: (
        Tree  # what drift is measured against, with its statistics: net.judge(step.anchor, x) is its opinion
    )
    batch: Batch
    census: Tensor  # [classes] the client's label counts
    out: Out | None = None
    shared: Tree = field(default_factory=dict)  # from the server
    mine: Tree = field(default_factory=dict)  # the client's own memory
    draws: Tree = field(default_factory=dict)  # randomness, drawn before the step

    def features(self) -> Tensor:
        """The batch's penultimate features, one flat row a sample; passed anew where ``forward`` left them out."""
        found = None if self.out is None else self.out.features
        if found is None:
            found = self.net.without_statistics().features(self.params, self.batch.x)
        return found.flatten(1)

    def teacher(self) -> Tensor:
        """The global model's logits for what the local model was given."""
        if self.out is None or self.out.given is None:
            return self.net.judge(self.anchor, self.batch.x)
        return self.net.judge(self.anchor, self.out.given.detach(), since=self.out.since)


@dataclass
class Visit:
    """What an objective sees when a client's training ends: enough to report and to remember."""

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
    mine: Tree
    gradient: Callable[[Tree], Tree]  # the task's gradient over all the client's data at a model


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


@dataclass(frozen=True)
class Objective(Part):
    """Changes what a client minimises. Every method here is optional.

    ``inputs``, ``logits`` and ``correct`` chain in the order written; class weights multiply, penalties add; at most
    one part of a method may replace ``forward``. ``report`` runs on closing legs; a client's memory is committed only
    when its upload lands. ``hand_out``, ``absorb``, ``settle`` and ``renew`` are the server's half, in this order.
    """

    slot: ClassVar[str] = "objective"
    wants_features: ClassVar[bool] = False
    needs_global: ClassVar[bool] = True  # whether clients need the model the round began with, beside theirs
    asks_global: ClassVar[bool] = False  # whether they ask it for answers: net.judge(step.anchor, x)

    @property
    def exchanges(self) -> bool:
        """Whether clients and server exchange anything for it beside models: read off its verbs unless it says."""
        verbs = ("begin", "hand_out", "renew")
        return any(getattr(type(self), verb) is not getattr(Objective, verb) for verb in verbs)

    @property
    def others_labels(self) -> bool:
        """Whether clients train on labels of others, so on classes that they may lack."""
        return False

    @property
    def own_labels_only(self) -> str:
        """What to write instead, where the loss cannot bear a class that the client lacks; else nothing."""
        return ""

    @property
    def needs_models(self) -> bool:
        """Whether ``absorb`` or ``renew`` looks at single clients' models, so that no engine may only sum them."""
        return False

    def extra(self, net: Net, shape: tuple[int, ...], seed: int) -> Tree:
        """Once, before round 0: initial weights of heads to train and average with the model.

        A step finds them in ``params``; their names start with the part's and a colon. ``shape`` is a sample's.
        """
        return {}

    def begin(self, net: Net, roster: Roster, query: Questions, seed: int) -> Tree:
        """Once: what clients send before round 0, into the server's memory; its bytes count in round 0."""
        return {}

    def init_client(self, net: Net, size: float) -> Tree:
        """A client's memory before its first visit; ``size`` is its weight relative to the mean client's."""
        return {}

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> Mapping[str, np.ndarray[Any, Any]]:
        """Random numbers for every step of a visit, with a leading axis of ``steps``."""
        return {}

    def inputs(self, batch: Batch, step: Step) -> Batch:
        """The batch to train on, where it is not the client's as it is."""
        return batch

    def forward(self, step: Step) -> Out | None:
        """Replace the forward pass; None leaves the plain one."""
        return None

    def logits(self, logits: Tensor, step: Step) -> Tensor:
        """The logits that the loss is taken of."""
        return logits

    def class_weights(self, step: Step) -> Tensor | None:
        """[classes] what each class counts in the task's loss; factors of several parts multiply. None: the same."""
        return None

    def penalty(self, step: Step) -> Tensor | float:
        """What is added to the loss of a step."""
        return 0.0

    def correct(self, grads: Tree, step: Step) -> Tree:
        """The gradients that the optimiser steps along."""
        return grads

    def pull(self, shared: Tree, mine: Tree) -> float:
        """mu, where the penalty holds mu/2 ||w - anchor||^2: FedNova counts how much shorter it makes a visit."""
        return 0.0

    def report(self, visit: Visit) -> tuple[Tree, Tree]:
        """(what is uploaded, what the client remembers)."""
        return {}, visit.mine

    def stretch(self, t: int) -> float:
        """How many times the usual local budget a visit in round ``t`` spends."""
        return 1.0

    def hand_out(self, memory: Tree, t: int) -> Tree:
        """What the server sends along with the model."""
        return {}

    def roomy(self, shared: Tree) -> Tree:
        """What was handed out, padded to a size that lasts: an engine captures a step anew where a size changes."""
        return shared

    def absorb(self, memory: Tree, update: Update, clients: int) -> Tree:
        """The server's memory after these uploads; ``clients`` is the size of the federation."""
        return memory

    def settle(self, params: Tree, before: Tree, memory: Tree) -> Tree:
        """The next model, where the aggregation rule made ``params`` of ``before``."""
        return params

    def renew(self, memory: Tree, after: After) -> Tree:
        """The server's memory once the next model stands: what it learns from it, or asks clients under it."""
        return memory


@dataclass(frozen=True)
class Aggregate(Part):
    """Decides how updates become the next model. Linear rules only give weights; others override aggregate.

    ``linear`` promises more: a row's weight is known before it trains, up to a factor common to all rows (it
    depends on ``examples`` alone). Then an engine may add models up as they come and keep none.
    """

    slot: ClassVar[str] = "aggregate"
    linear: ClassVar[bool] = False

    def weights(self, update: Update) -> Tensor:
        """One weight a row, float64; the next model is params + sum of weight x (params_i - base_i)."""
        raise TypeError(f"{self.name} does not say what updates weigh: define weights() or aggregate()")

    def statistics(self, update: Update) -> Tensor:
        """One weight a row for what is measured, not trained (batch norm's averages); they must sum to 1."""
        return self.weights(update)

    def aggregate(
        self, params: Tree, update: Update, memory: Tree, trainable: tuple[str, ...]
    ) -> tuple[Tree, Tree]:
        """The next model, and what the server remembers of this rule."""
        measured = [k for k in params if k not in trainable]
        step = update.weighted_delta(self.weights(update), trainable)
        if measured:
            step |= update.weighted_delta(self.statistics(update), measured)
        return moved_by(params, step), memory


@dataclass(frozen=True)
class Calibrate(Part):
    """Changes a copy of the model before it is judged."""

    slot: ClassVar[str] = "calibrate"

    def due(self, last: bool) -> bool:
        """Whether it works at this evaluation: only at the run's last, unless it says otherwise."""
        return last

    def calibrate(self, params: Tree, net: Net, roster: Roster, query: Questions, t: int, seed: int) -> Tree:
        """The changed copy; ``query`` is answered under ``params``, which ``t`` rounds have made."""
        return params
