"""What scarcity does to local models: one round from one global model, with ever less data a client.

FLea, section 2.3.2 and figure 3: from a global model of 40% accuracy, clients with 5000, 500 and 100 samples, and with
100 of their own and 1000 shared ones, train once; the Davies-Bouldin score of the penultimate features says how far
apart classes lie, on what was trained on and on the test set, for local models and for their average.

The clients of these groups are the laboratory's: it deals out samples of its own, and has no need to ask the run's.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.held import Moment
from unskew.core.holdings import Holdings
from unskew.core.ledger import Ledger
from unskew.core.roster import Roster
from unskew.core.round import begin_parts, told_by_all
from unskew.core.types import Ids, Leg, Tree, Update, moved_by
from unskew.core.upload import decode_update
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.files import write_file
from unskew.machine.threads import single_threaded
from unskew.metrics.clusters import davies_bouldin
from unskew.privacy.laboratory import bar, drawable
from unskew.privacy.subject import Subject, subject
from unskew.renamed import accepts_old_names
from unskew.runs.choose_engine import choose
from unskew.sealed import seal
from unskew.seeds import generator

FOLDER = "overfitting"
PICTURED = 500
"""Features of each kind that are kept for the t-SNE picture."""


@dataclass(frozen=True)
class ClientGroup:
    """Clients of one size: ``size`` samples of their own, and ``shared`` ones that all of them hold."""

    size: int
    shared: int = 0

    @classmethod
    def read(cls, text: str) -> ClientGroup:
        """``100`` or ``100+1000``."""
        own, _, shared = text.partition("+")
        if not own.strip().isdigit() or (shared and not shared.strip().isdigit()) or int(own) < 1:
            raise InputError(f"a group of clients is written as 100 or 100+1000 samples, not {text!r}")
        return cls(int(own), int(shared or 0))

    def clients(self, pool: int) -> int:
        """How many take part: a tenth of as many as the pool holds data for, and at least ten where it does."""
        all_clients = max(1, pool // self.size)
        return min(all_clients, max(10, round(all_clients / 10)))

    def work(self, pool: int) -> int:
        """Samples that its clients pass over in an epoch: what its round costs."""
        return self.clients(pool) * (self.size + self.shared)

    def __str__(self) -> str:
        return f"{self.size}+{self.shared}" if self.shared else str(self.size)


@accepts_old_names(data="dataset")
def overfitting(
    path: str | Path,
    groups: Sequence[str] = ("5000", "500", "100", "100+1000"),
    *,
    accuracy: float = 0.4,
    test: int = 2000,
    seed: int = 0,
    dataset: Any = None,
    model: Any = None,
    data_folder: str | None = None,
    device: str | None = None,
    progress: bool = True,
    pictures: bool = True,
) -> dict[str, Any]:
    """Play one round for each group from the first kept model of a run that reaches ``accuracy``.

    Local settings and the method are the run's own; every client gets as many samples of every class. ``test`` of the
    test samples judge. The result is written to the run's folder, with the pictures where they can be drawn.
    """
    wanted = [ClientGroup.read(text) for text in groups]
    began = time.perf_counter()
    with single_threaded():
        found = subject(path, dataset=dataset, model=model, data_folder=data_folder, device=device)
        round_, start = _start(found, accuracy)
        pool = len(found.dataset)
        for group in wanted:
            if group.size + group.shared > pool:
                raise InputError(f"{found.dataset.name} has {pool:,} samples, too few for a group of {group}")
        tests = generator(seed, "overfitting", "test").permutation(len(found.dataset.y_test))[:test]
        before = _scored(found, start, tests, test=True)
        kept: dict[str, Any] = {"start test": before.pictured(), "labels start test": before.some_labels()}
        rows = []
        with bar("overfitting", sum(g.work(pool) for g in wanted), progress) as advance:
            for group in wanted:
                rows.append(_played(found, start, round_, group, tests, seed, kept, advance))
        found.setup.run.engine.close()
    record = {
        "run": found.path.name,
        "method": found.spec.method,
        "dataset": found.dataset.name,
        "model": found.spec.model,
        "round": round_,
        "start": {"test_db": before.db, "test_accuracy": before.accuracy},
        "groups": rows,
        "test_samples": len(tests),
        "seed": seed,
        "wall_s": round(time.perf_counter() - began, 2),
        **found.setup.run.measuring.added_to({}),
    }
    folder = found.path / FOLDER
    folder.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **kept)
    write_file(folder / "features.npz", buffer.getvalue())
    write_file(folder / "overfitting.json", seal(record, indent=1))
    if pictures and drawable():
        from unskew.reproduce.overfitting_pictures import draw

        draw(folder)
    return record


def _start(found: Subject, accuracy: float) -> tuple[int, Tree]:
    """The first model there is that reaches the accuracy, by the run's log."""
    told = {line["round"]: line.get("global_test_accuracy") for line in found.folder.lines}
    reached = [r for r in found.rounds if (told.get(r) or 0.0) >= accuracy]
    if not reached:
        first = next((r for r, a in told.items() if (a or 0.0) >= accuracy), None)
        hint = f"run it with keep = [{first}]" if first else "let it run longer"
        raise InputError(f"no model that {found.path} keeps reaches an accuracy of {accuracy:g}; {hint}")
    return found.model(reached[0])


def deal_evenly(dataset: Dataset, seed: int) -> Ids:
    """All samples so ordered that every stretch holds as many of every class as can be."""
    rng = generator(seed, "overfitting", "order")
    shuffled = rng.permutation(len(dataset))
    rank = np.zeros(len(dataset), np.int64)
    for c in range(dataset.classes):
        mine = shuffled[dataset.y[shuffled] == c]
        rank[mine] = np.arange(len(mine))
    return np.asarray(shuffled[np.argsort(rank[shuffled], kind="stable")], np.int64)


def deal_to_groups(dataset: Dataset, group: ClientGroup, seed: int) -> Federation:
    """The clients of a group: stretches of the even order, and behind them what all of them share."""
    order, clients = deal_evenly(dataset, seed), group.clients(len(dataset))
    end = min(clients * group.size, len(order) - group.shared)
    own = [order[k * group.size : min((k + 1) * group.size, end)] for k in range(clients)]
    shared = order[end : end + group.shared]
    lists = [np.concatenate([mine, shared]) for mine in own]
    offsets = np.concatenate([[0], np.cumsum([len(held) for held in lists])])
    return Federation(dataset, np.concatenate(lists), offsets)


@dataclass
class Scored:
    """Features of some samples under a model: how far classes lie apart, and how many samples it gets right."""

    db: float
    accuracy: float
    features: Tensor
    labels: Ids

    def pictured(self) -> Any:
        return self.features[:PICTURED].half().cpu().numpy()

    def some_labels(self) -> Any:
        return self.labels[:PICTURED]


def _scored(found: Subject, model: Tree, places: Ids, test: bool) -> Scored:
    net, last = found.net, found.net.judging.last_layer
    labels = (found.dataset.y_test if test else found.dataset.y)[places]
    features, right = [], 0
    with torch.inference_mode():
        for start in range(0, len(places), 250):
            some = slice(start, start + 250)
            here = net.judge(model, found.groups(places[some], test), upto=last)
            guess = net.task.predict(net.judge(model, here, since=last)).cpu().numpy()
            features.append(here.float().flatten(1).cpu())
            right += int((guess == labels[some]).sum())
    held = torch.cat(features)
    return Scored(davies_bouldin(held.numpy(), labels), right / max(1, len(places)), held, labels)


def _played(
    found: Subject,
    start: Tree,
    round_: int,
    group: ClientGroup,
    tests: Ids,
    seed: int,
    kept: dict[str, Any],
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """One round of a group's clients, and the scores of their models."""
    federation = deal_to_groups(found.dataset, group, seed)
    update = _trained(found, start, round_, federation)
    advance(len(federation.indices))
    local: list[tuple[Scored, Scored]] = []
    for k in range(len(update)):
        model = {name: value[k].to(found.device) for name, value in update.params.items()}
        own = federation.samples(int(update.clients[k]))
        train, test = _scored(found, model, own[:5000], False), _scored(found, model, tests, True)
        if k == 0:
            kept |= {f"{group} train": train.pictured(), f"labels {group} train": train.some_labels()}
            kept |= {f"{group} test": test.pictured(), f"labels {group} test": test.some_labels()}
        local.append((replace(train, features=torch.zeros(0)), replace(test, features=torch.zeros(0))))
    job = found.setup.job
    rule, remembered = job.method.aggregate, found.setup.state.server
    change, _ = rule.merge(start, update, remembered[rule.name], job.net.trainable)
    average = moved_by(start, change)
    everything = np.unique(federation.indices)
    some = generator(seed, "overfitting", "train").permutation(everything)[:5000]
    train, test = _scored(found, average, some, False), _scored(found, average, tests, True)
    kept |= {f"{group} average": test.pictured(), f"labels {group} average": test.some_labels()}
    return {
        "group": str(group),
        "clients": len(update),
        "local": {
            "train_db": float(np.nanmean([a.db for a, _ in local])),
            "test_db": float(np.nanmean([b.db for _, b in local])),
            "train_accuracy": float(np.mean([a.accuracy for a, _ in local])),
            "test_accuracy": float(np.mean([b.accuracy for _, b in local])),
        },
        "average": {
            "train_db": train.db,
            "test_db": test.db,
            "train_accuracy": train.accuracy,
            "test_accuracy": test.accuracy,
        },
    }


def _trained(found: Subject, start: Tree, round_: int, federation: Federation) -> Update:
    engine = choose(found.spec, torch.device(found.device), 0.0)
    begun = Ledger(0)
    memory = begin_parts(found.setup.run, found.setup.state.server, begun)
    found.setup.run.measuring.trained("what is sent at the start", begun)
    plain = replace(found.setup.job.method, prepare=())  # a group holds what it was dealt
    job = replace(found.setup.job, method=plain, roster=Roster.of(federation))
    engine.hold(Holdings(federation))
    shared = job.method.hand_out(memory, round_)
    clients = np.arange(federation.clients)
    try:
        leg, moment = Leg(clients, start), Moment(round_)
        round_inputs = found.setup.run.inputs(job.roster, shared, found.setup.state.clients, moment)
        update = decode_update(job, leg, engine.visit(job, leg, clients, round_inputs))
        probes = {name for part in job.method.parts for name in part.probes}
        if probes:
            told = engine.evaluate(job, start, update.clients, moment)
            update = replace(update, probes=told_by_all(told, probes, update.examples.numpy()))
        return update
    finally:
        engine.close()
