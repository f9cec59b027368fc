"""A spec made real: data loaded and dealt, model built, parts checked; nothing is written."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unskew.core.decay import decay
from unskew.core.engine import Engine, Job, RunPlan
from unskew.core.faults import Faults
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import NO_COUNTS, Roster
from unskew.core.slots import Local
from unskew.core.state import State, initial_state
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.expression import path_and_options
from unskew.metrics import skew
from unskew.network import network_of
from unskew.notices import warn
from unskew.runs.choose_engine import choose, device_of
from unskew.runs.describe import names
from unskew.runs.guessing import most_frequent
from unskew.runs.measure import check_measures
from unskew.runs.spec import Spec, UnsaidNumber


@dataclass
class Setup:
    """A spec made real."""

    run: RunPlan
    state: State
    partition: Any
    skew: dict[str, Any]  # of the partition, and where parts prepare data, of what they made of it
    about: dict[str, Any]

    def settle(self, spec: Spec) -> Spec:
        """The spec with what the data decided where nobody wrote it."""
        return replace(spec, cohort=self.run.cohort) if self.run.cohort < spec.cohort else spec

    @property
    def job(self) -> Job:
        """What travels to wherever clients train."""
        return self.run.job

    def save_partition(self, path: Path) -> None:
        if self.partition is not None:
            self.partition.save(path)

    def fitted_disclosure(self) -> list[str]:
        """What scaling and filling in tell of rows that have several owners."""
        if "table" in self.about:
            told = self.about["table"]["discloses"]
        else:  # of published data the means are published too
            told = "means and deviations over all clients" if self.about.get("of_clients") else ""
        return [told] if told else []

    def is_partition(self, path: Path) -> bool:
        """Whether what was saved there is whole and is this partition."""
        from unskew.data.partition import Partition

        if self.partition is None:
            return True
        try:
            return bool(Partition.load(path).record["sha256"] == self.partition.record["sha256"])
        except InputError:
            return False


def check_words(spec: Spec) -> None:
    """Refuse what can be refused without data: names that there are not, and what this machine lacks."""
    from unskew.data import load
    from unskew.data.partition.family import build_family
    from unskew.data.sources import SOURCES
    from unskew.expression import build
    from unskew.models import MODELS

    check_measures(spec.measure, Method.parse(spec.method))
    decay(spec.decay)
    device = device_of(spec)
    if device.type == "cpu":
        choose(spec, device, work=0.0)
    if spec.emd is None and not spec.partition.endswith(".npz"):
        build_family(spec.partition)
    if spec.model != "auto" and ":" not in spec.model.partition("(")[0]:
        build(spec.model, MODELS, "model")
    data = spec.dataset.partition("(")[0].strip()
    if data not in SOURCES and not Path(data).expanduser().exists():
        load(spec.dataset, data_folder=spec.data_folder)  # which says what is wrong with it


def prepare(
    spec: Spec,
    data: Dataset | Federation | tuple[Any, ...] | None = None,
    model: Any = None,
    method: str | Method | None = None,
    engine: Engine | None = None,
) -> Setup:
    """Load, partition, build and check everything, before anything is written; ``engine``: one of your own."""
    from unskew.models import build

    method = Method.parse(spec.method if method is None else method)
    falls = decay(spec.decay)
    check_measures(spec.measure, method)
    if spec.keep and not method.schedule.exchanges:
        raise InputError(f"keep keeps global models, and {method} makes none; leave keep out")
    device = device_of(spec)
    federation, partition = _federation(spec, data)
    if spec.network is not None:
        network = network_of(spec.network)
        network.check(federation.clients)
        federation = replace(federation, network=network)
    cohort, dealt = _cohort(spec, federation), Roster.of(federation)
    for part in method.parts:
        if part.needs_counts and not dealt.counted:
            raise InputError(f"{part.name} {NO_COUNTS}")
        part.check(dealt, cohort)
        if part.begins >= spec.rounds:
            warn(
                f"{part.name} does nothing before round {part.begins + 1}, and the run ends after {spec.rounds}; "
                "let it start sooner or the run last longer",
                stacklevel=2,
            )
    dtype = torch.float64 if spec.precision == "fp64" else torch.float32
    dataset = federation.dataset
    if not len(dataset.y_test):
        raise InputError(f"{dataset.name} has no test samples to judge a model by; hold some out")
    net = Net(
        build(
            model if model is not None else auto_model(spec.model, dataset),
            dataset.shape,
            dataset.classes,
            spec.seed,
            dtype,
        )
    )
    if not net.trainable:
        raise InputError(
            "the model has no weights to train: set requires_grad on those that clients are to train"
        )
    for part in method.objective:
        if part.needs.global_answers and spec.batch_norm == "drop" and net.buffers:
            warn(
                f"{part.name} asks the global model for answers, and with batch_norm = drop that gives them by the "
                "statistics of a model never trained (mean 0, variance 1); write batch_norm = average or local",
                stacklevel=2,
            )
        if part.needs.features:
            _ = net.training.last_layer  # a model that cannot be split is refused here, not in the first step
        net.grow(part.extra(net, dataset.shape, spec.seed))
    local = Local(
        epochs=spec.epochs if spec.epochs is not None or spec.steps is not None else 1.0,
        **{k: getattr(spec, k) for k in Local.__dataclass_fields__ if k != "epochs"},
    )
    holdings = Holdings(federation)
    if engine is not None:
        engine.hold(holdings)
    roster, measured = _prepared(method, engine or holdings, dealt, cohort, spec.seed)
    if engine is None:
        engine = choose(spec, device, _work(spec, net, roster, cohort, local))
        engine.hold(holdings)
    run = RunPlan(
        job=Job(method, roster, net, local, spec.seed, spec.batch_norm, dtype),
        engine=engine,
        rounds=spec.rounds,
        cohort=cohort,
        decay=falls,
        faults=Faults(spec.drop, spec.late, spec.nan),
        device=str(device),
        dealt=dealt,
    )
    net.to(device)
    memories = {part.name: part.init_server(net) for part in method.parts}
    if "divergence" in spec.measure:
        memories["divergence"] = dict(net.initial)
    content = hashlib.sha256()
    arrays = (dataset.x, dataset.y, dataset.x_test, dataset.y_test, federation.indices, federation.offsets)
    for array in arrays:
        content.update(np.ascontiguousarray(array).data)
    about = {
        "name": dataset.name,
        "labels": list(dataset.labels),
        "clients": federation.clients,
        **({} if federation.names is None else {"names": list(federation.names)}),
        "samples": len(federation.indices),
        "sha256": content.hexdigest(),
        "given": data is not None,
        "own_model": model is not None,
        **({"of_clients": True} if federation.tests is not None else {}),
        "most_frequent": most_frequent(dataset),
        "device": device.type,
        **({} if dataset.table is None else {"table": dataset.table.summary(dataset.source)}),
        "parameters": sum(net.initial[k].numel() for k in net.trainable),
    }
    return Setup(run, initial_state(dict(net.initial), memories, spec.seed), partition, measured, about)


def _prepared(
    method: Method, clients: Engine | Holdings, dealt: Roster, cohort: int, seed: int
) -> tuple[Roster, dict[str, Any]]:
    """What parts make of the data before round 0: raw samples are moved, and the skew is measured before and after."""
    roster, measured = dealt, {"skew": _measured(dealt)}
    for part in method.prepare:
        sharing = part.transfers(roster, cohort, seed)
        if sharing is not None:
            before = roster
            roster = clients.transfer(part, sharing, before, seed)
            if roster.sharing != before.sharing:
                roster = roster.reported(part.shared(sharing, before, roster))
    expected = roster
    for part in method.prepare:
        expected = part.expect(expected, None, {})
        measured["skew_prepared"] = _measured(expected)
    return roster, measured


def _measured(roster: Roster) -> dict[str, Any]:
    """How skewed the labels are, as one number a measure."""
    told = skew(roster.counts).as_dict(per_client=False)
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


def auto_model(name: str, dataset: Dataset) -> str:
    """``auto``: a small convolutional network for images of 28 pixels and more, else one hidden layer."""
    if name != "auto":
        return name
    return "small_cnn" if dataset.kind == "image" and min(dataset.shape[1:]) >= 28 else "mlp"


def _federation(spec: Spec, data: Dataset | Federation | tuple[Any, ...] | None) -> tuple[Federation, Any]:
    from unskew.data import from_arrays, load
    from unskew.data.partition import PRESETS, Partition, partition
    from unskew.data.sources import SOURCES

    if spec.label is not None and (data is not None or spec.dataset.partition("(")[0] in SOURCES):
        raise InputError(
            f"label names the label column of an own table, which {spec.dataset} is not; leave it out "
            "(what reports call the method is method_label)"
        )
    if isinstance(data, Federation):
        return data, None
    if isinstance(data, Dataset):
        dataset = data
    elif data is not None:
        dataset = from_arrays(*data)
    else:
        dataset = load(spec.dataset, data_folder=spec.data_folder, **table_options(spec))
    if spec.partition.endswith(".npz"):
        held = Partition.load(Path(spec.partition), dataset)
        _refuse_dealing(spec, len(held.offsets) - 1)
    else:
        brings_clients = spec.partition.startswith("by(") or spec.partition in PRESETS
        held = partition(
            dataset,
            spec.partition,
            clients=100 if spec.clients is None and not brings_clients else spec.clients,
            seed=spec.seed if spec.partition_seed is None else spec.partition_seed,
            fraction=spec.fraction,
            samples_per_client=spec.samples_per_client,
            min_samples=spec.min_samples,
            emd=spec.emd,
        )
    return held.federation(dataset), held


def table_options(spec: Spec) -> dict[str, Any]:
    """What a spec says of a table, by the names of its reader: the columns, and the rules for their values."""
    from unskew.data.load import TABLES
    from unskew.data.partition.by import column_of

    given = {
        "label": spec.label,
        "client": spec.client,
        "features": spec.features,
        "drop": spec.drop_columns,
        "impute": spec.impute,
        "fit": None if spec.fit == "all" else spec.fit,
    }
    options = {name: value for name, value in given.items() if value not in (None, ())}
    path, inner = path_and_options(spec.dataset)
    if path.strip().lower().endswith(TABLES):
        # whose a row is, is no feature of it; and a column must be known to be split by
        told = "client" in options or re.search(r"\bclient\s*=", inner)
        if not told and (column := column_of(spec.partition)) is not None:
            options["client"] = column
    elif strange := next((name for name in options if name not in ("label", "client")), None):
        name = "drop_columns" if strange == "drop" else strange
        raise InputError(
            f"{name} is about the columns of a table (.csv, .parquet), and {spec.dataset} is none"
        )
    return options


def _refuse_dealing(spec: Spec, clients: int) -> None:
    """A saved partition has its clients and samples: settings that would deal them otherwise are refused."""
    for name in set(names(Spec, "dealing")) - {"partition", "by"}:
        value = getattr(spec, name)
        if value != Spec.__dataclass_fields__[name].default and (name, value) != ("clients", clients):
            raise InputError(
                f"{spec.partition} is a saved partition of {clients} clients, so {name} = {value} comes too "
                f"late; leave {name} out, or deal samples out anew"
            )


def _cohort(spec: Spec, federation: Federation) -> int:
    """How many clients a round asks; of clients that are what they are at most all of them.

    What nobody wrote gives way to the data without a word.
    """
    clients = federation.clients
    count = max(1, round(spec.cohort * clients)) if spec.cohort < 1 else int(spec.cohort)
    if count <= clients or isinstance(spec.cohort, UnsaidNumber):
        return min(count, clients)
    if federation.names is None and not spec.partition.startswith("by("):
        raise InputError(
            f"the cohort of {count} is larger than the {clients} clients; write cohort = {clients} or less"
        )
    warn(
        f"a cohort of {count} is more than the {clients} clients there are, so all of them take part every round"
    )
    return clients
