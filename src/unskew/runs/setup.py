"""A spec made real: load, build, check, start. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from unskew.core.engine import Engine, Job, RunPlan
from unskew.core.faults import Faults
from unskew.core.holdings import Holdings
from unskew.core.memory_names import DIVERGENCE
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.state import State, initial_state
from unskew.core.task import Classification
from unskew.data.aside import Aside
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.engines.cluster.engine import OverRay
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError
from unskew.import_object import import_object
from unskew.metrics import skew
from unskew.metrics.own import Metric
from unskew.notices import warn
from unskew.runs.checks import check
from unskew.runs.choose_engine import choose
from unskew.runs.describe import names
from unskew.runs.early_stop import refuse_small_budget
from unskew.runs.guessing import most_frequent
from unskew.runs.judged_by import describe_metrics
from unskew.runs.loading import Loaded, auto_model, cohort_of, load, local_of, settled
from unskew.runs.preparing import prepare
from unskew.runs.spec import Spec


@dataclass
class Setup:
    """A spec made real."""

    run: RunPlan
    state: State
    partition: Any
    skew: dict[str, Any]  # of the partition, and of what parts made of it; nothing without label counts
    about: dict[str, Any]

    def settle(self, spec: Spec) -> Spec:
        """The spec with what the data decided where nobody wrote it."""
        return settled(spec, self.run.cohort)

    @property
    def job(self) -> Job:
        """What travels to wherever clients train."""
        return self.run.job

    def save_partition(self, path: Path) -> None:
        if self.partition is not None:
            self.partition.save(path)

    def refuse_small_budget(self, spec: Spec) -> None:
        """Refuse a budget of bytes that not even the first round can keep to."""
        job = self.job
        model = job.net.travelling_bytes(job.net.initial, job.batch_norm)
        refuse_small_budget(spec, job.method, job.roster, self.run.cohort, model)

    def fitted_disclosure(self) -> list[str]:
        """What scaling and filling in tell of rows that have several owners."""
        if "table" in self.about:
            told = self.about["table"]["discloses"]
        else:  # of published data the means are published too
            told = "means and deviations over all clients" if self.about.get("of_clients") else ""
        return [told] if told else []


@dataclass(frozen=True)
class Built:
    """What is made for the data: the model, the local budget, how many clients a round asks, who holds how much."""

    net: Net
    local: Local
    cohort: int
    dealt: Roster
    dtype: torch.dtype
    own_model: bool  # whether the model came from Python
    metrics: Mapping[str, Metric]  # that came from Python


def set_up(
    spec: Spec,
    data: Dataset | Federation | tuple[Any, ...] | None = None,
    model: Any = None,
    method: str | Method | None = None,
    engine: Engine | None = None,
    metrics: Mapping[str, Metric] | None = None,
    counts: bool = True,
    known_sites: Mapping[str, Any] | None = None,
) -> Setup:
    """Everything that a run needs before its first round. Nothing is written.

    ``engine``: one of your own; ``metrics``: those that were given in Python; ``counts``: whether clients give the
    server their label counts, as those of a simulation do; ``known_sites``: what a run that goes on knows of its sites.
    """
    if spec.sites is not None:
        return _set_up_sites(spec, data, model, method, metrics, known_sites)
    loaded = load(spec, data, method)
    if isinstance(engine, FastGPU):
        loaded = replace(loaded, device=str(engine.device))
    built = build(spec, loaded, model, metrics or {}, counts)
    return _checked_start(spec, loaded, built, engine)


def _checked_start(spec: Spec, loaded: Loaded, built: Built, engine: Engine | None) -> Setup:
    """Refuse what cannot be run, then start."""
    model = built.net.outline(loaded.federation.dataset.shape)
    check(spec, loaded, model, built.cohort, built.dealt, built.metrics)
    return start(spec, loaded, built, engine)


def _set_up_sites(
    spec: Spec,
    data: Any,
    model: Any,
    method: str | Method | None,
    metrics: Mapping[str, Metric] | None,
    known: Mapping[str, Any] | None,
) -> Setup:
    """The same where clients live at real sites, which are found by name as plug-ins are."""
    if data is not None or model is not None:
        raise InputError(
            "a run at real sites names its data set and its model; they cannot be given in Python, since code and "
            "samples are never sent"
        )
    if known is None and (dealing := _dealing(spec)):
        warn(f"real sites have their own samples, so {', '.join(dealing)} of the simulation deal nothing")
    joined = import_object("unskew.sites.join:join_sites", "engine")(
        spec, Method.parse(spec.method if method is None else method), known
    )
    try:
        loaded = replace(load(spec, joined.federation, method), given=False)
        built = build(spec, loaded, None, metrics or {}, joined.counted)
        setup = _checked_start(spec, loaded, built, joined.engine)
    except BaseException:
        joined.engine.close()
        raise
    setup.about["sites"] = joined.about
    return setup


def _dealing(spec: Spec) -> list[str]:
    """The settings that deal samples and were written."""
    said = spec.said()
    asked = [name for name in names(Spec, "dealing") if name in said and name != "partition_seed"]
    return [name for name in asked if said[name] != Spec.__dataclass_fields__[name].default]


def build(
    spec: Spec,
    loaded: Loaded,
    model: Any = None,
    metrics: Mapping[str, Metric] = MappingProxyType({}),
    counts: bool = True,
) -> Built:
    """The model, with what objectives add to it, and the plan of a round for this data."""
    dataset = loaded.federation.dataset
    dtype = torch.float64 if spec.precision == "fp64" else torch.float32
    chosen = model if model is not None else auto_model(spec.model, dataset)
    net = make_net(chosen, dataset, spec.seed, dtype, loaded.method, keep_probabilities=bool(metrics))
    local, cohort = local_of(spec), cohort_of(spec, loaded.federation)
    dealt = Roster.of(loaded.federation, counts)
    return Built(net, local, cohort, dealt, dtype, model is not None, metrics)


def make_net(
    model: Any,
    about: Dataset,
    seed: int,
    dtype: torch.dtype,
    method: Method,
    keep_probabilities: bool = False,
) -> Net:
    """The net for samples that look so, with what objectives add to it: the same wherever it is made."""
    from unskew.models import build as build_model

    task = Classification(keep_probabilities=keep_probabilities)
    net = Net(build_model(model, about.shape, about.classes, seed, dtype), task)
    if not net.trainable:
        raise InputError(
            "the model has no weights to train: set requires_grad on those that clients are to train"
        )
    for part in method.objective:
        if part.needs.features:
            _ = net.training.last_layer  # a model that cannot be split is refused here, not in the first step
        net.grow(part.extra(net, about.shape, seed))
    return net


def start(spec: Spec, loaded: Loaded, built: Built, engine: Engine | None = None) -> Setup:
    """An engine takes the samples, parts move what they declare, and the state of round 0 stands."""
    method, net, holdings = loaded.method, built.net, Holdings(loaded.federation)
    if engine is not None:
        engine.hold(holdings)
    device = torch.device(loaded.device)
    roster, expected = prepare(method, engine or holdings, built.dealt, built.cohort, spec.seed)
    measured = _skew(method, built.dealt, expected)
    if engine is None:
        engine = choose(spec, device, _work(spec, net, roster, built.cohort, built.local))
        engine.hold(holdings)
    run = RunPlan(
        job=Job(method, roster, net, built.local, spec.seed, spec.batch_norm, built.dtype),
        engine=engine,
        rounds=spec.rounds,
        cohort=built.cohort,
        decay=loaded.decay,
        faults=Faults(spec.drop, spec.late, spec.nan),
        device=loaded.device,
        dealt=built.dealt,
        metrics=built.metrics,
    )
    if isinstance(engine, OverRay):
        # what cannot travel, or reach its cluster, is refused before anything is written
        engine.check(run.job)
        engine.join()
    net.to(device)
    memories = {part.name: part.init_server(net) for part in method.parts}
    if "divergence" in spec.measure:
        memories[DIVERGENCE] = dict(net.initial)
    state = initial_state(dict(net.initial), memories, spec.seed)
    return Setup(run, state, loaded.partition, measured, _about(loaded, built))


def _about(loaded: Loaded, built: Built) -> dict[str, Any]:
    """What the run's folder says of data and model."""
    federation, dataset, net = loaded.federation, loaded.federation.dataset, built.net
    return {
        "name": dataset.name,
        "labels": list(dataset.labels),
        "clients": federation.clients,
        **({} if federation.names is None else {"names": list(federation.names)}),
        "samples": int(federation.sizes.sum()),
        "sha256": loaded.fingerprint,
        "given": loaded.given,
        "own_model": built.own_model,
        **({"of_clients": True} if isinstance(tests := federation.tests, Aside) and tests.in_test else {}),
        **(
            {"aside": {p: len(found.indices) for p, found in aside.items()}}
            if (aside := federation.aside)
            else {}
        ),
        "most_frequent": most_frequent(dataset),
        **describe_metrics(built.metrics, dataset),
        "device": torch.device(loaded.device).type,
        **({} if dataset.table is None else {"table": dataset.table.summary(dataset.source)}),
        "parameters": sum(net.initial[k].numel() for k in net.trainable),
    }


def _skew(method: Method, dealt: Roster, expected: Roster) -> dict[str, Any]:
    """The skew as it was dealt, and after what parts made of it, where label counts were given."""
    if not dealt.counted:
        return {}
    found = _measured(dealt)
    after = found if expected is dealt else _measured(expected)  # parts may do nothing before round 0
    return {"skew": found, **({"skew_prepared": dict(after)} if method.prepare else {})}


def _measured(roster: Roster) -> dict[str, Any]:
    """How skewed the labels are, as one number per measure."""
    told = skew(roster.look_at_counts(), per_client=False).as_dict(per_client=False)
    scarce = told.pop("scarcity")  # under the names that `unskew diagnose --json` has
    named = {"scarcity": "at_most", "scarcity_below": "below", "scarcity_threshold": "threshold"}
    return told | {name: scarce[key] for name, key in named.items()}


def _work(spec: Spec, net: Net, roster: Roster, cohort: int, local: Local) -> float:
    """About how many multiply-adds the run takes: three passes of the model over every sample-step.

    A step costs as much as some millions of them, however small the model is.
    """
    mean = float(roster.budget.mean())
    seen = local.steps * local.batch if local.steps else (local.epochs or 1.0) * mean
    samples = spec.rounds * min(cohort, roster.clients) * seen
    return 3 * samples * net.multiply_adds(roster.dataset.shape) + 5e6 * samples / local.batch
