"""One run at a site: its method, its model and its samples, and the verbs of the engine over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unskew.core.engine import Job, RoundInputs
from unskew.core.holdings import Holdings
from unskew.core.kept import blended
from unskew.core.memory_names import KEPT_MODEL, OWN_MODEL
from unskew.core.method import Method
from unskew.core.query import answer_here
from unskew.core.questions import Query
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.store import ClientStore
from unskew.core.types import Ids, Leg, stack
from unskew.data.dataset import Dataset
from unskew.data.intake import Intake
from unskew.engines.loop import Loop
from unskew.errors import InputError
from unskew.runs.setup import make_net
from unskew.sites import wire
from unskew.sites.data import SiteData
from unskew.sites.kept import NOTHING, KeptMemories
from unskew.sites.messages import BadMessage
from unskew.sites.samples import SharedSamples

DTYPES = {"fp32": torch.float32, "fp64": torch.float64}


@dataclass(frozen=True)
class RunSettings:
    """What a site is told of a run before round 0: names and numbers. From these it makes the method and the model."""

    method: str
    model: str
    local: Mapping[str, Any]
    seed: int
    batch_norm: str
    precision: str
    rounds: int
    intake: Mapping[str, Any]
    name: str  # of the data set, where people read
    mean: Any
    std: Any
    first: int  # the number of the site's first client
    everyone: int  # how many clients the run has
    client_test: float | None = None
    validation: float | None = None
    split_seed: int = 0

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> RunSettings:
        """From a message: nothing missing, nothing more, each of its kind."""
        if set(told) != {f.name for f in fields(cls)}:
            raise BadMessage("the run's settings are not those that this version knows")
        kinds: dict[str, Any] = {
            "method": str, "model": str, "local": dict, "seed": int, "batch_norm": str, "precision": str,
            "rounds": int, "intake": dict, "name": str, "mean": np.ndarray, "std": np.ndarray, "first": int,
            "everyone": int, "client_test": float | None, "validation": float | None, "split_seed": int,
        }  # fmt: skip
        for name, kind in kinds.items():
            if not isinstance(told[name], kind):
                raise BadMessage(f"{name} of the run's settings cannot be")
        if told["precision"] not in DTYPES or told["batch_norm"] not in ("average", "local", "drop"):
            raise BadMessage("the run's settings name an arithmetic that there is not")
        if not 0 <= told["first"] <= told["everyone"] <= wire.MOST_CLIENTS:
            raise BadMessage(
                f"a run has at most {wire.MOST_CLIENTS:,} clients, and those of a site are among them"
            )
        return cls(**told)

    def as_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def about(self) -> tuple[Intake, Dataset]:
        """What samples look like, with none in it."""
        intake = Intake.read(self.intake)
        none = np.zeros((0, *intake.shape), np.dtype(intake.dtype))
        nobody = np.zeros(0, np.int64)
        scale: dict[str, Any] = {"mean": np.asarray(self.mean), "std": np.asarray(self.std)}
        return intake, Dataset(
            self.name, none, nobody, none, nobody, tuple(intake.labels), intake.kind, **scale
        )


class SiteRun:
    """A run as a site takes part in it."""

    def __init__(self, settings: RunSettings, data: SiteData, folder: Path):
        self.settings, self.folder = settings, folder
        self.method = Method.parse(settings.method)
        intake, about = settings.about()
        federation = data.deal(intake, about, settings.first, settings.everyone)
        of = "client" if settings.validation is not None else "all"
        federation = federation.set_aside(
            settings.client_test,
            settings.validation,
            of,  # type: ignore[arg-type]
            settings.split_seed,
        )
        self.holdings = Holdings(federation)
        self.loop = Loop()
        self.loop.hold(self.holdings)
        self.mine: Ids = np.flatnonzero(np.diff(federation.offsets) > 0)
        dtype = DTYPES[settings.precision]
        net = make_net(settings.model, about, settings.seed, dtype, self.method)
        roster = Roster.of(federation, counts=False)
        local = Local(**settings.local)
        self.job = Job(self.method, roster, net, local, settings.seed, settings.batch_norm, dtype)
        self.memories = KeptMemories(folder)
        self.shared = SharedSamples(self.holdings, folder.parent)

    def sizes(self) -> dict[str, Any]:
        """How many samples each of the site's clients trains on, and how many it set aside."""
        federation = self.holdings.dealt
        here = self._here()
        told: dict[str, Any] = {"sizes": federation.sizes[here]}
        for purpose, aside in federation.aside.items():
            sizes = aside.sizes
            assert sizes is not None, "what a site sets aside stays with its clients"
            told[purpose] = sizes[here]
        return told

    def counts(self) -> Any:
        """Label counts of each client that lives here."""
        return self.holdings.dealt.counts[self._here()]

    def visit(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Train, and keep what clients remember under the version that the coordinator names."""
        job = self._job(told)
        if told["commit"] is not None:
            self.commit(wire.mapping(told, "commit"))
        leg = wire.read_leg(wire.mapping(told, "leg"), job.net.initial, tuple(job.net.trainable))
        self._only_mine(leg.clients)
        moment = wire.read_moment(wire.mapping(told, "moment"))
        shared = wire.mapping(told, "shared")
        store = self._store(told)
        inputs = RoundInputs(job.roster, shared, store, moment, float(told["decay"]))
        went_on = leg.blend is not None
        leg = _from_kept(leg, store)
        update = self.loop.visit(job, leg, np.arange(len(leg.clients)), inputs)
        version, versions = int(told["version"]), {}
        for part, stacked in update.memory.items():
            if stacked:
                self.memories.put(part, leg.clients, version, stacked)
                versions[part] = version
        if leg.keeps:
            name = OWN_MODEL if leg.source == "own" else KEPT_MODEL
            self.memories.put(name, leg.clients, version, {"model": update.params, "moved": update.moved})
            versions[name] = version
        elif went_on:
            versions[KEPT_MODEL] = NOTHING  # it is uploaded, so nobody will ask for it again
        return wire.write_update(update, versions, leg.keeps)

    def models(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """The models that these clients keep for themselves."""
        store = self._store(told)
        clients = wire.ids(told, "clients")
        self._only_mine(clients)
        return {"models": [store.get(OWN_MODEL, int(client), {})["model"] for client in clients]}

    def query(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What each of these clients answers."""
        job, clients = self._job(told), wire.ids(told, "clients")
        self._only_mine(clients)
        part, question = str(told["part"]), str(told["question"])
        if part not in {p.name for p in self.method.parts}:
            raise BadMessage(f"{part} is no part of this run's method")
        model = wire.mapping(told, "model")
        if model:
            model = wire.tree_like(model, job.net.initial, None, "the model")
        moment, query = (
            wire.read_moment(wire.mapping(told, "moment")),
            Query(part, question, wire.mapping(told, "values")),
        )
        try:
            found = list(answer_here(job, self.holdings, query, clients.tolist(), model, moment))
        except TypeError as problem:
            raise BadMessage(str(problem)) from None
        return {"answers": found}

    def evaluate(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """How a model does on these clients' samples: sums, never an answer for a sample."""
        job, clients = self._job(told), wire.ids(told, "clients")
        self._only_mine(clients)
        model = wire.tree_like(told.get("model"), job.net.initial, None, "the model")
        sums = self.loop.evaluate(job, model, clients, wire.read_moment(wire.mapping(told, "moment")))
        return {"sums": wire.write_sums(sums)}

    def give(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Samples of its clients, as they are."""
        job, clients = self._job(told), wire.ids(told, "clients")
        self._only_mine(clients)
        counts = None if told["counts"] is None else wire.ids(told, "counts")
        part = next(part for part in self.method.prepare if part.name == told["part"])
        given = self.shared.give(part, clients, counts, job.roster, self.settings.seed)
        return {"given": [samples.as_dict() for samples in given]}

    def take(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Samples of others; how many its clients hold then."""
        self._only_mine(np.array([int(client) for client in wire.mapping(told, "to")], np.int64))
        self.shared.take({name: told[name] for name in ("pieces", "to")})
        here, held = self._here(), self.holdings.federation
        return {"sizes": held.sizes[here]} | ({"counts": held.counts[here]} if told["counted"] else {})

    def commit(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Uploads have landed and are in a checkpoint: forget versions that no checkpoint names."""
        needed: dict[str, dict[int, list[int]]] = {}
        for part, clients in wire.mapping(told, "needed").items():
            needed[part] = {int(c): [int(v) for v in versions] for c, versions in clients.items()}
        return {"forgotten": self.memories.keep_only(needed, int(told["before"]))}

    def _job(self, told: Mapping[str, Any]) -> Job:
        roster = wire.read_roster(wire.mapping(told, "roster"), self.job.roster.dataset)
        if roster.clients != self.settings.everyone:
            raise BadMessage("the run has another number of clients than it began with")
        return replace(self.job, roster=roster)

    def _store(self, told: Mapping[str, Any]) -> ClientStore:
        """What clients remember, of the versions that the coordinator names."""
        found: dict[str, dict[int, Any]] = {}
        for part, clients in wire.mapping(told, "memory").items():
            found[part] = {
                int(client): self.memories.get(part, int(client), int(version))
                for client, version in clients.items()
            }
        return ClientStore(found)

    def _here(self) -> Ids:
        clients = self.settings.first + np.arange(len(self.mine))
        return np.asarray(clients, np.int64)

    def _only_mine(self, clients: Ids) -> None:
        if not set(clients.tolist()) <= set(self._here().tolist()):
            raise InputError("clients are asked for that do not live at this site")


def _from_kept(leg: Leg, store: ClientStore) -> Leg:
    """The leg with the models that its clients keep here, where they go on from those."""
    who = leg.clients.tolist()
    if leg.source == "own":
        start = stack([store.get(OWN_MODEL, client, {"model": leg.start})["model"] for client in who])
        return replace(leg, start=start, stacked=True)
    if leg.blend is None:
        return leg
    if not all(store.has(KEPT_MODEL, client) for client in who) or leg.carry is None:
        raise BadMessage("a client is to go on with a model that it does not keep")
    kept = stack([store.get(KEPT_MODEL, client, {}) for client in who])
    carry = replace(leg.carry, moved=kept["moved"])
    return blended(replace(leg, start=kept["model"], stacked=True, carry=carry))
