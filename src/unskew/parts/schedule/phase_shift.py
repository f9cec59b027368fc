"""Groups of clients out of phase: most go on with their own model, corrected by the others'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.core import conditions
from unskew.core.conditions import enforce, planned
from unskew.core.roster import Roster
from unskew.core.slots import Play, Schedule
from unskew.core.types import NOBODY, Cohort, Ids, Leg, Memory, PerClient, Tree, Update, expand
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PhaseShift(Schedule):
    """Keeps clients for n rounds and lets them upload once, out of phase (thesis, algorithms 2 and 3).

    The active clients form a queue of n groups, and every one of them trains each round. The newest group starts from
    the global model. The others first correct their own, w <- N/(n_k + N) w_t + n_k/(n_k + N) w (algorithm 3, line 8).
    N is the samples behind the last aggregate: of the uploads that landed, late ones of earlier rounds included. Only
    the oldest group uploads, and only its models are combined; then it leaves, and cohort/n clients join. In the last
    round every active client uploads. Every download is matched by 1/n uploads: (n + 1)/(2n) of FedAvg's traffic (eq.
    4.2).

    n: the number of phases, at most the number of clients; 1 is a plain round. The cohort counts active clients;
    where n does not divide it, the groups' sizes differ by one.
    mode: ``communication`` trains E epochs per round. ``epoch`` trains E (n + 1)/(2n) (eq. 4.3): with 2n/(n + 1) times
    as many rounds the epochs and the traffic are FedAvg's, in more frequent rounds.

    Taken where the thesis is silent: the queue starts full, and who has no model yet starts from the global one
    (section 4.5.3 has clients upload after one round). A client that is lost leaves the queue, and its group is not
    filled up. n_k and N are the samples that updates weigh. The base method measures drift from the newest global
    model. The log gives the EMD of each phase's joint data, newest first, and the mean EMD between two phases.
    """

    name: ClassVar[str] = "phase_shift"
    paper: ClassVar[str] = "the thesis, chapter 4"
    neutral: ClassVar[str | None] = "phase_shift(1)"

    n: int = 2
    mode: Literal["communication", "epoch"] = "communication"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"phase_shift needs at least 1 phase, not {self.n}")

    @property
    def last_round_differs(self) -> bool:
        return self.n > 1  # who is still out uploads then

    def check(self, roster: Roster, cohort: int) -> None:
        enforce(conditions.phase_shift(planned(roster, cohort), self.n))

    def round(self, play: Play, params: Tree, memory: Memory) -> tuple[Tree, Memory]:
        behind = memory.get("behind")
        queue = Queue.read(memory, params)
        cohort, ages = self._joining(play, queue, first=behind is None)
        groups = [Queue(ages, cohort.settings, None, cohort.clients)]
        if len(queue.clients):
            queue = _corrected(replace(queue, ages=queue.ages + 1), behind)
            groups.insert(0, queue)
        self._note(play, groups)
        landing: list[Queue] = []
        staying: list[Queue] = []
        for group in groups:
            leaves = np.ones(len(group.ages), bool) if play.last else group.ages >= self.n
            for rows, out in ((np.flatnonzero(leaves), True), (np.flatnonzero(~leaves), False)):
                if len(rows):
                    trained = self._trained(play, params, group.take(rows), out)
                    (landing if out else staying).append(trained)
        updates = [g.update for g in landing + staying if g.update is not None]
        uploaded = [g.update for g in landing if g.update is not None and len(g.update)]
        # also where nobody uploads there is something to combine: what was late in the last round lands in this one
        nothing = [u.take(NOBODY) for u in updates[:1]] or [play.train(Leg(NOBODY, params))]
        # clients far away keep to themselves how far they went
        if not all(update.moved for update in uploaded):
            uploaded = [replace(update, moved={}) for update in uploaded]
        update = Update.joined(uploaded or nothing)
        update = replace(update, base=expand(params, len(update)))
        if play.last:
            play.note(collected=sum(int(np.count_nonzero(g.ages < self.n)) for g in landing))
        kept = Queue.joined([g for g in staying if len(g.clients)])
        params = play.combine(params, update)
        samples = play.landed or (0.0 if behind is None else float(behind))
        waits = {"behind": torch.tensor(samples, dtype=torch.float64)}
        return params, waits | (kept.packed() if kept is not None else {})

    def _joining(self, play: Play, queue: Queue, first: bool) -> tuple[Cohort, Ids]:
        """Who joins, and in which phase: everybody's first in the first round, later the newest."""
        wanted = play.cohort if first else share_of_phase(play.cohort, self.n, play.t)
        cohort = play.select(wanted, exclude=queue.clients) if wanted else Cohort(np.zeros(0, np.int64))
        count = len(cohort.clients)
        if not first:
            return cohort, np.ones(count, np.int64)
        order = play.rng.permutation(count) if self.n > 1 else np.arange(count)
        sizes = [share_of_phase(count, self.n, t) for t in range(1 - self.n, 1)]
        ages = np.repeat(np.arange(self.n, 0, -1), sizes)
        return Cohort(cohort.clients[order], cohort.settings.rows(order)), ages

    def _trained(self, play: Play, params: Tree, group: Queue, out: bool) -> Queue:
        """A group after this round's training, without those who were lost."""
        kept = {} if group.update is None else group.update.params
        leg = Leg(
            group.clients,
            kept or params,
            stacked=bool(kept),
            anchor=params,
            epochs=(self.n + 1) / (2 * self.n) if self.mode == "epoch" else 1.0,
            settings=group.settings,
            carry=group.update,
            closing=out,
            upload=out,
            keeps=not out,
            blend=group.share,
        )
        update = play.train(leg)
        return replace(group.take(update.rows), update=update)

    def _note(self, play: Play, groups: list[Queue]) -> None:
        """How skewed each phase's joint data is, and how far phases are apart (thesis 4.5.2 and 4.8)."""
        clients, ages = (np.concatenate([getattr(g, n) for g in groups]) for n in ("clients", "ages"))
        play.note(active=len(clients))
        if not play.roster.counted:
            return
        phases = [play.roster.counts_of(clients[ages == age]).sum(0) for age in range(1, self.n + 1)]
        held = [p / p.sum() for p in phases if p.sum()]
        totals = play.roster.class_totals
        overall = totals / max(1, totals.sum())
        between = [float(np.abs(a - b).sum()) for i, a in enumerate(held) for b in held[:i]]
        play.note(
            phase_emd=[float(np.abs(p - overall).sum()) for p in held],
            between_phases_emd=float(np.mean(between)) if between else 0.0,
        )


@dataclass
class Queue:
    """Active clients with the models they keep: who, in which phase, with which settings."""

    ages: Ids
    settings: PerClient
    update: Update | None  # None: they start from the global model; far away it is without the models
    clients: Ids
    share: Tensor | None = None  # how much of its own model each goes on with

    def take(self, rows: Ids) -> Queue:
        update = None if self.update is None else self.update.take(rows)
        share = None if self.share is None else self.share[torch.from_numpy(rows)]
        return Queue(self.ages[rows], self.settings.rows(rows), update, self.clients[rows], share)

    @staticmethod
    def joined(groups: list[Queue]) -> Queue | None:
        if not groups:
            return None
        settings = PerClient.joined([g.settings for g in groups])
        ages, clients = (np.concatenate([getattr(g, n) for g in groups]) for n in ("ages", "clients"))
        return Queue(
            ages, settings, Update.joined([g.update for g in groups if g.update is not None]), clients
        )

    def packed(self) -> Memory:
        """This queue as a memory, to wait in State until the next round."""
        assert self.update is not None
        # what a model is measured against when it lands is the global model of that round
        held = replace(self.update, base={}, uploads={}, memory={}).packed()
        settings = {n: torch.from_numpy(v) for n, v in self.settings.given().items()}
        return held | {"settings": settings, "ages": torch.from_numpy(self.ages)}

    @staticmethod
    def read(tree: Memory, params: Tree) -> Queue:
        if "ages" not in tree:
            return Queue(np.zeros(0, np.int64), PerClient(), None, np.zeros(0, np.int64))
        update = Update.unpacked(tree, ())
        update = replace(update, base=expand(params, len(update)))
        settings = {n: v.cpu().numpy() for n, v in tree.get("settings", {}).items()}
        return Queue(tree["ages"].cpu().numpy(), PerClient(**settings), update, update.clients)


def share_of_phase(whole: int, n: int, t: int) -> int:
    """How many of ``whole`` clients belong to the group that joins in round t: n groups in a row make the whole."""
    return (t + 1) * whole // n - t * whole // n


def _corrected(queue: Queue, behind: Tensor | None) -> Queue:
    """Every client's own model will be blended with the global one (algorithm 3, line 8)."""
    assert queue.update is not None
    # what its upload would weigh: with ``kld`` that is not all it holds, and N is counted in the same way
    own: Array = queue.update.examples.numpy()
    others = 0.0 if behind is None else float(behind)
    total = own + others
    keep = torch.from_numpy(np.where(total > 0, own / np.maximum(total, 1e-300), 0.0))
    update = queue.update
    update = replace(update, reach=update.reach * keep, pulled=update.pulled * keep)
    return replace(queue, update=update, share=keep)
