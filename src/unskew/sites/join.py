"""How a run meets its sites: who is there, what they allow, how much each has. Refusals come before round 0."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.method import Method
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Local, Part
from unskew.data.aside import Purpose
from unskew.data.dataset import Dataset
from unskew.data.far import FarFederation
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.runs.load_data import load_dataset
from unskew.runs.loading import auto_model
from unskew.runs.spec import Spec, Unnamed
from unskew.sites import wire
from unskew.sites.asking import Asking
from unskew.sites.carrier import Carrier, LocalCarrier
from unskew.sites.engine import Member, Sites
from unskew.sites.messages import BadMessage
from unskew.sites.policy import asked_by
from unskew.sites.survey import AboutSite
from unskew.sites.training import RunSettings
from unskew.sites.words import ACCURACIES

log = logging.getLogger("unskew.sites")

FIRST = 120.0
"""Seconds that sites have at least to get ready for a run, whatever the deadline of a leg is."""

SOCKETS = "sockets.json"
"""In a federation's folder without Flower: site -> where its process listens, all on this machine."""


@dataclass(frozen=True)
class Joined:
    """A run's sites, ready for round 0."""

    engine: Sites
    federation: FarFederation
    counted: bool
    about: dict[str, Any]


def open_carrier(folder: str | Path) -> tuple[Carrier, tuple[str, ...]]:
    """The way to the sites of a federation, and the names of all of them."""
    path = Path(folder)
    if (path / SOCKETS).is_file():
        sockets = {name: Path(where) for name, where in json.loads((path / SOCKETS).read_text()).items()}
        return LocalCarrier(sockets), tuple(sockets)
    from unskew.sites.flower.carrier import FlowerCarrier
    from unskew.sites.folders import FederationFolder

    federation = FederationFolder.read(path)
    return FlowerCarrier(federation), federation.sites


def ask_about(asking: Asking, names: tuple[str, ...]) -> dict[str, AboutSite]:
    """What those sites that are there tell of themselves."""
    return asking.all("about", {name: {} for name in names}, lambda site, told: AboutSite.read(told))


def join_sites(spec: Spec, method: Method, known: Mapping[str, Any] | None = None) -> Joined:
    """Meet the sites of a run. ``known``: what a run that goes on knows of them, so that one may be away."""
    assert spec.sites is not None
    _refuse_simulated(spec, method)
    dataset = _own_data(spec)
    carrier, names = open_carrier(spec.sites)
    asking = Asking(carrier, max(spec.deadline, FIRST))  # a site reads its data before it answers
    try:
        joined = _join(spec, method, dataset, asking, names, known)
    except BaseException:
        carrier.close()
        raise
    asking.deadline = spec.deadline
    return joined


def _join(
    spec: Spec,
    method: Method,
    dataset: Dataset,
    asking: Asking,
    names: tuple[str, ...],
    known: Mapping[str, Any] | None,
) -> Joined:
    began = dict(known["of"]) if known else {}
    present = asking.carrier.names()
    there = ask_about(asking, tuple(name for name in (began or names) if name in present))
    missing = [name for name in (began or names) if name not in there and name not in began]
    if missing or not there:
        away = ", ".join(missing or names)
        raise InputError(
            f"these sites are not there: {away}; start them with `unskew site start`, then run again"
        )
    model = auto_model(spec.model, dataset)
    for name, site in there.items():
        site.policy.check_run(name, asked_by(method), model, spec.rounds, site.samples, len(site.clients))
        if spec.judges_clients or spec.validation is not None:
            site.policy.check(name, "evaluate_clients", ACCURACIES)
    wanted = [part for part in method.parts if part.needs_counts or LABEL_COUNTS in part.discloses]
    for part in wanted:  # nobody is asked for what no part uses
        for name, site in there.items():
            site.policy.check(name, part.name, LABEL_COUNTS)
    counted = bool(wanted)
    members, first = [], 0
    for name in began or names:
        count = len(began[name]["sizes"]) if name in began else len(there[name].clients)
        members.append(Member(name, first, count))
        first += count
    run = str(known["run"]) if known else secrets.token_hex(8)
    requests = {
        m.site: {
            "run": run,
            "counts": counted,
            "settings": _settings(spec, method, model, dataset, m.first, first).as_dict(),
        }
        for m in members
        if m.site in there
    }
    by_name = {m.site: m for m in members}
    of = asking.all(
        "start", requests, lambda site, told: _started(told, by_name[site], counted, dataset.classes)
    )
    for name in requests:
        if name not in of and name not in began:
            raise InputError(f"site {name} {asking.lost[name]}")
    for name, told in began.items():
        now = of.get(name)
        if now is not None and now["sizes"] != told["sizes"]:
            raise InputError(f"site {name} has other samples than the run began with; give it the same data")
        of[name] = dict(told)
    for name, site in there.items():
        of[name].setdefault("clients", _names(name, site.clients))
    about = {"run": run, "counted": counted, "of": {m.site: of[m.site] for m in members}}
    asking.take_notes()
    return Joined(Sites(asking, members, run), _federation(dataset, about), counted, about)


def _started(told: Mapping[str, Any], member: Member, counted: bool, classes: int) -> dict[str, Any]:
    """What a site has for a run, as the run's folder keeps it."""
    found: dict[str, Any] = {}
    for name in ("sizes", "test", "validation"):
        if name in told:
            held = wire.ids(told, name)
            if len(held) != member.clients or held.min() < 0:
                raise BadMessage(f"its {name} are not one a client")
            found[name] = held.tolist()
    if "sizes" not in found:
        raise BadMessage("it does not tell how many samples it has")
    if counted:
        counts = told.get("counts")
        if not isinstance(counts, np.ndarray) or counts.shape != (member.clients, classes):
            raise BadMessage("its label counts are not one row a client")
        if counts.dtype != np.int64 or counts.min() < 0 or counts.sum(1).tolist() != found["sizes"]:
            raise BadMessage("its label counts do not add up")
        found["counts"] = counts.tolist()
    return found


def _federation(dataset: Dataset, about: Mapping[str, Any]) -> FarFederation:
    of = about["of"].values()
    names = tuple(name for site in of for name in site["clients"])
    aside: dict[Purpose, Array] = {}
    purposes: tuple[Purpose, ...] = ("test", "validation")
    for purpose in purposes:
        if all(purpose in site for site in of):
            aside[purpose] = np.array([n for site in of for n in site[purpose]], np.int64)
    counts = np.array([row for site in of for row in site["counts"]], np.int64) if about["counted"] else None
    sizes = np.array([n for site in of for n in site["sizes"]], np.int64)
    from unskew.core.roster import without_pool

    return FarFederation.of(without_pool(dataset), sizes, names, counts, aside)


def _names(site: str, clients: tuple[str, ...]) -> list[str]:
    """A site with one client is called by its own name, the clients of others by both."""
    return [site] if clients == ("",) else [f"{site}/{client}" for client in clients]


def _own_data(spec: Spec) -> Dataset:
    """The coordinator's data set: what samples look like, and a test set to judge by."""
    if isinstance(spec.dataset, Unnamed):
        raise InputError(
            "a run at real sites is judged by samples of the coordinator's own, which also say what samples look like; "
            "name them, such as dataset = coordinator.csv"
        )
    dataset = load_dataset(spec)
    if not len(dataset.y_test):
        raise InputError(
            f"{dataset.name} has no test samples, and a run at real sites is judged by the coordinator's own; name a "
            "data set that has some"
        )
    return dataset


def _settings(
    spec: Spec, method: Method, model: str, dataset: Dataset, first: int, everyone: int
) -> RunSettings:
    local = Local(
        epochs=spec.epochs if spec.epochs is not None or spec.steps is not None else 1.0,
        **{k: getattr(spec, k) for k in Local.__dataclass_fields__ if k != "epochs"},
    )
    drawn_by = spec.seed if spec.partition_seed is None else spec.partition_seed
    return RunSettings(
        str(method), model, asdict(local), spec.seed, spec.batch_norm, spec.precision, spec.rounds,
        Intake.of(dataset).as_dict(), dataset.name, np.asarray(dataset.mean), np.asarray(dataset.std),
        first, everyone, spec.client_test, spec.validation, drawn_by,
    )  # fmt: skip


def _refuse_simulated(spec: Spec, method: Method) -> None:
    """What only a simulation can do, refused by name."""
    for name in ("drop", "late", "nan"):
        if getattr(spec, name):
            raise InputError(
                f"{name} makes clients fail on purpose, which real sites do by themselves; leave it out"
            )
    if spec.measure:
        raise InputError(
            f"{spec.measure[0]} is measured in simulations, where samples can be pooled; leave measure out"
        )
    if spec.validation is not None and spec.validation_of != "client":
        raise InputError("samples of real sites stay there; write validation_of = client")
    if spec.precision not in ("fp32", "fp64"):
        raise InputError(f"precision {spec.precision} is not one that sites compute in; write fp32 or fp64")
    if spec.network is not None:
        raise InputError("network counts seconds on the air of a simulation; leave it out at real sites")
    for part in method.parts:
        if reason := why_not(part):
            raise InputError(f"{part.name} {reason}")


def why_not(part: Part) -> str:
    """Why a part does not work at real sites, or nothing."""
    if getattr(part, "via", None) == "peer":
        return (
            "hands models from client to client, and sites reach nobody but the coordinator; write "
            f"{part.name}(via=relay)"
        )
    return ""
