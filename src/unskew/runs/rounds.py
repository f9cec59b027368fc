"""Rounds, evaluation, checkpoints: ``run()`` and ``resume()``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch

from unskew.core import idle
from unskew.core.engine import Job, RunPlan
from unskew.core.evaluate import calibrate_copy, judge_round
from unskew.core.evaluate_clients import list_by_client, own_models
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.round import play_round
from unskew.core.state import State, forget_after, load_state, save_state
from unskew.core.store import OWN_MODEL
from unskew.core.types import Tree
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.import_object import drawing_of
from unskew.models.trained import TrainedModel
from unskew.notices import warn
from unskew.progress import Progress, progress_for, tell_columns, voice
from unskew.renamed import accepts_old_names
from unskew.runs import logged
from unskew.runs.changes import common_rounds, find_changes, on_its_device, record
from unskew.runs.client_names import with_names
from unskew.runs.describe import names
from unskew.runs.folder import RunFolder, read_folder, reason
from unskew.runs.guessing import balanced_accuracy, no_better, verdict
from unskew.runs.measure import centralized_twin, correlation_watch, divergence, gamma
from unskew.runs.saved_model import Predicts, intake_of, make_trained_model, write_card, write_weights
from unskew.runs.settings import Renewed, Settings
from unskew.runs.setup import Setup, auto_model, prepare
from unskew.runs.snapshots import keep_model, read_model
from unskew.runs.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from unskew.data.partition import Partition

TOTALS = (
    "bytes_down",
    "bytes_up",
    "bytes_peer",
    "sample_steps",
    "samples_used",
    "asked",
    "answered",
    "wall_s",
)
"""Costs that a result adds up over the rounds."""

Data = str | Path | Dataset | Federation | tuple[Any, ...]


@dataclass
class Run(Predicts):
    """A run that has ended: its numbers, its log, its model."""

    folder: RunFolder
    spec: Spec
    state: State
    net: Net
    partition: Partition | None
    plan: RunPlan

    @property
    def result(self) -> dict[str, Any]:
        """What came out: accuracies, costs, skew, what was disclosed; the content of ``result.json``."""
        return self.folder.result

    @property
    def job(self) -> Job:
        """What travelled to wherever clients trained."""
        return self.plan.job

    @property
    def path(self) -> Path | None:
        """The run's folder, where it has one."""
        return self.folder.path

    @property
    def intake(self) -> Intake:  # type: ignore[override]
        """What the model takes."""
        return intake_of(self.plan)

    @property
    def model(self) -> TrainedModel:
        """The final global model, a copy of your own: it takes raw inputs, normalisation is inside it.

        Where the method calibrates, it is the calibrated copy.
        """
        if not self.job.method.schedule.exchanges:
            raise InputError(
                f"{self.spec.method} makes no global model: every client keeps its own; write run.client_model(0), "
                "or a client's name"
            )
        return _ended_with(self.plan, self.state)

    def client_model(self, client: int | str) -> TrainedModel:
        """The model that a client keeps, by its number or its name, where clients keep their own (local_only)."""
        kept = self.state.clients.rows.get(OWN_MODEL, {})
        names = self.job.roster.names
        at = names.index(client) if names is not None and client in names else client
        if at not in kept:
            why = "it has not trained" if kept else f"{self.spec.method} keeps a global model alone"
            raise InputError(f"client {client!r} has no model of its own: {why}")
        return make_trained_model(self.net, self.state.clients.get(OWN_MODEL, int(at), {}), self.job)

    def model_of(self, round: int | None) -> TrainedModel:
        """The global model that a round ended with, of those that were kept (``keep``); None is the last."""
        if round is None:
            return self.model
        if self.path is None:
            raise InputError(
                "a run in memory keeps no models of earlier rounds; give it a folder (out=) and keep="
            )
        return make_trained_model(self.net, read_model(self.path, round)[1], self.job)

    def _told_of_model(self, client: int | str | None, round: int | None) -> dict[str, Any]:
        told = {
            "model": self.result["effective"].get("model", self.spec.model),
            "method": self.spec.method,
            "dataset": self.spec.dataset,
        }
        if client is not None:
            return told | {"client": str(client)}
        calibrated = bool(self.job.method.calibrate) and round is None
        return told | {"round": self.state.round if round is None else round, "calibrated": calibrated}

    def frame(self) -> pd.DataFrame:
        """The log as a table, one row a round."""
        import pandas as pd

        return pd.json_normalize(self.folder.lines, sep="_")

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report of this run and return where it is."""
        written: Path = drawing_of("unskew.report:write_report")([self], path)
        return written

    def __repr__(self) -> str:
        final = self.result.get("final") or {}
        accuracy = final.get("accuracy")
        shown = f"{accuracy:.4f}" if accuracy is not None else "-"
        return (
            f"Run({self.spec.method!r} on {self.spec.dataset}, {self.state.round} rounds, accuracy {shown})"
        )

    def _repr_html_(self) -> str:
        return str(drawing_of("unskew.report:run_card")(self))


@accepts_old_names(data="dataset")
def run(
    spec: Spec | None = None,
    *,
    dataset: Data | None = None,
    out: str | Path | None = None,
    model: str | torch.nn.Module | None = None,
    method: str | Method | None = None,
    progress: bool | Progress = True,
    **given: Unpack[Settings],
) -> Run:
    """Train and log. Settings are the fields of ``Spec``; ``dataset`` may also be a Federation or arrays.

    With ``out`` the run has a folder and can be resumed; without, it stays in memory.

    - ``spec``: settings to begin with; those that are given by name overrule them.
    - ``dataset``: a data set's name, a path to own data, a ``Dataset``, a ``Federation``, or arrays ``(x, y)`` or
      ``(x, y, x_test, y_test)``.
    - ``model``: a model's name, or a ``torch.nn.Module`` to begin with.
    - ``method``: parts joined with +, such as ``"scaffold+sem"``, or a ``Method``.
    - ``progress``: a bar or lines, none where it is False, or an object of your own with ``advance(line)``.
    """
    if spec is not None and not isinstance(spec, Spec):
        raise InputError(
            f"run takes a Spec, or settings by name such as run(dataset='digits', rounds=5), not {spec!r}"
        )
    settings: dict[str, Any] = {**given}
    data = None
    if isinstance(dataset, (str, Path)):
        settings["dataset"] = str(dataset)
    elif dataset is not None:
        data = _named(dataset)
        refuse_overruled(data, spec, settings)
        settings |= _says_of_itself(data)
    if method is not None:
        settings["method"] = str(method)
        if out is not None and isinstance(method, Method):
            _refuse_unrepeatable(settings["method"])
    if isinstance(model, str):
        settings["model"] = model
        model = None
    elif model is not None:
        settings["model"] = f"{type(model).__module__}:{type(model).__qualname__}"
    spec = Spec.of((spec.as_dict() if spec else {}) | settings)
    with voice(progress is True), single_threaded():
        setup = prepare(spec, data, model, method)
        spec = setup.settle(spec)
        if model is not None:
            setup.about |= _fingerprints(setup)
        folder = RunFolder(_path(out, "out") if out is not None else None)
        if folder.path is not None:
            check_folder(folder.path)
        with folder.locked(), folder.told():
            folder.start(spec, setup.about)
            if folder.path is not None:
                setup.save_partition(folder.path / "partition.npz")
                _describe(folder.path, spec, setup)
                if model is not None:  # a resume cannot make its first weights again
                    save_state(setup.state, folder.path / "state")
            return _rounds(spec, setup, folder, setup.state, progress)


def _ended_with(plan: RunPlan, state: State) -> TrainedModel:
    """The model after these rounds; after the last one the calibrated copy, where the method makes one."""
    params = state.params
    if state.round == plan.rounds:
        with single_threaded():
            params, _ = calibrate_copy(plan, params, state.round)
    return make_trained_model(plan.job.net, params, plan.job)


def _describe(path: Path, spec: Spec, setup: Setup) -> None:
    """Say in the folder what the model is and takes, so that it can be used without the data."""
    model = auto_model(spec.model, setup.job.roster.dataset)
    write_card(path, spec, setup.run, model, bool(setup.about["own_model"]))


def _refuse_unrepeatable(method: str) -> None:
    """A run with a folder is there to be resumed, which finds its parts by their names."""
    try:
        Method.parse(method)
    except InputError as problem:
        raise InputError(
            f"a run of {method} could not be resumed ({problem}); define its parts in a module, or leave `out` away"
        ) from None


def _path(given: Any, what: str) -> Path:
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{what} is a folder's path, not {given!r}")
    return Path(given)


@accepts_old_names(data="dataset")
def resume(
    path: str | Path,
    *,
    dataset: Data | None = None,
    model: str | torch.nn.Module | None = None,
    progress: bool | Progress = True,
    **given: Unpack[Renewed],
) -> Run:
    """Go on with a run that was stopped, from its last checkpoint; one that is done is returned as it is.

    ``rounds`` makes a run longer, also one that is done; the other settings cannot change a number. They are kept in
    the run's folder. ``dataset`` is what was given in Python, or where its file lies now.
    """
    folder, began, about = read_folder(_path(path, "the run to resume"))
    place = Path(path)
    settings: dict[str, Any] = {**given}
    if isinstance(model, str):
        settings["model"], model = model, None
    if about.get("given") and dataset is None:
        raise InputError(
            f"{path} was run on data given in Python; resume it there: unskew.resume({str(path)!r}, dataset=...)"
        )
    if about.get("own_model") and model is None:
        raise InputError(f"{path} was run with a model given in Python; resume it there with model=...")
    data = None
    if isinstance(dataset, (str, Path)):
        if began.partition == "given":
            raise InputError(
                f"{path} was run on a Federation given in Python; give it as dataset=..., not {dataset}"
            )
        if not about.get("given"):
            settings["dataset"] = str(dataset)
    elif dataset is not None:
        data = _named(dataset)
    spec = find_changes(place, began, settings, len(folder.lines))
    common_rounds(place, began, spec, len(folder.lines))  # refused before anything is loaded
    over = folder.is_done and spec.rounds == began.rounds
    if not over:
        on_its_device(place, spec, about.get("device"))

    def prepared(source: Spec) -> tuple[Setup, State]:
        if about.get("given") and data is None:  # what was given in Python is in a file now
            source = replace(source, dataset=str(dataset))
        setup = prepare(source, data, model)
        if setup.about["sha256"] != about.get("sha256"):
            raise InputError(f"the data of {path} is not what the run began with; give it the same data")
        known = common_rounds(place, began, spec, len(folder.lines))
        found = load_state(place / "state", known, setup.state.params)
        if model is not None:
            _refuse_other_model(place, about, _fingerprints(setup), found is None)
        setup.about |= about  # what runs of earlier versions lack is known from the data
        return setup, (found or setup.state).to(setup.run.device)

    with voice(progress is True), single_threaded():
        if over:  # nothing is written where nothing is left to do
            setup, state = prepared(spec)
            whole = state.round >= spec.rounds and setup.is_partition(place / "partition.npz")
            if whole and (spec.target, spec.method_label) == (began.target, began.method_label):
                return Run(folder, spec, state, setup.job.net, setup.partition, setup.run)
        with folder.locked(), folder.told():
            folder.check_kinds()
            folder.read()  # again, now that nobody else writes it
            setup, state = prepared(on_its_device(place, spec, about.get("device")))
            if folder.damage:
                warn(f"in {path}, {folder.damage}; it goes on after round {state.round}", stacklevel=2)
            folder.rewind(state.round)
            forget_after(place / "state", state.round)
            folder.save({"status": "running"})
            record(place, began, spec, state.round)  # not before: nothing may be left of the old plan alone
            folder.rounds = spec.rounds
            if not setup.is_partition(place / "partition.npz"):  # damaged, or killed in its first moment
                setup.save_partition(place / "partition.npz")
            _describe(place, spec, setup)  # which runs of earlier versions lack
            return _rounds(spec, setup, folder, state, progress)


def _named(data: Dataset | Federation | tuple[Any, ...]) -> Dataset | Federation:
    """Data given in Python."""
    from unskew.data import from_arrays

    if isinstance(data, tuple | list) and 2 <= len(data) <= 4:
        data = from_arrays(*data)
    if not isinstance(data, Dataset | Federation):
        raise InputError(
            "dataset is a data set's name, a path, a Dataset, a Federation or arrays (x, y) or (x, y, x_test, y_test), "
            f"not {type(data).__name__}"
            + ("; give unskew.from_frame(frame, label=...)" if type(data).__name__ == "DataFrame" else "")
            + (f" of {len(data)}" if isinstance(data, tuple | list) else "")
        )
    return data


def _says_of_itself(data: Dataset | Federation) -> dict[str, Any]:
    """What the spec says of data given in Python: its own name, and that it was dealt already."""
    if isinstance(data, Federation):
        return {"dataset": data.dataset.name, "partition": "given", "clients": data.clients}
    return {"dataset": data.name}


def refuse_overruled(data: Dataset | Federation, spec: Spec | None, settings: Mapping[str, Any]) -> None:
    """Refuse settings that say how to read or to deal what was read, or dealt, before it was given."""
    changed, said_at_all = (spec.changed(), spec.said()) if spec else ({}, {})
    said = {n: v for n, v in said_at_all.items() if n in changed or n == "partition"}
    said |= {n: v for n, v in settings.items() if v is not None}
    if isinstance(data, Federation):
        known = _says_of_itself(data)
        if spec is not None and spec.partition == "given":  # the spec of an earlier run on it
            said = {n: v for n, v in said.items() if n in settings or v != known.get(n)}
        for name in (*names(Spec, "dealing"), "client"):
            if name in said:
                raise InputError(
                    f"a Federation is dealt to its clients already; leave {name} out, or give its dataset, "
                    "federation.dataset, to be dealt anew"
                )
    reading = [name for name in names(Spec, "reading") if name not in ("dataset", "label", "client")]
    for name in (n for n in reading if n in said and said[n] != Spec.__dataclass_fields__[n].default):
        where = "leave it out" if name == "data_folder" else "give it to from_frame or from_clients"
        raise InputError(f"{name} comes too late for data given in Python; {where}")


def _fingerprints(setup: Setup) -> dict[str, str]:
    """Hashes of a model given in Python: of all that it begins with, and of what no checkpoint holds."""
    net = setup.job.net
    kept = set(net.trainable) | (set(net.buffers) if setup.job.batch_norm == "average" else set())
    every = (*net.judging.named_parameters(), *net.judging.named_buffers())
    return {
        "initial_sha256": params_hash(setup.state.params),
        "frozen_sha256": params_hash({name: value for name, value in every if name not in kept}),
    }


def _refuse_other_model(path: Path, began: dict[str, Any], given: dict[str, str], anew: bool) -> None:
    """Refuse a model that would give other numbers; runs of versions that took no fingerprint are trusted."""
    if began.get("frozen_sha256", given["frozen_sha256"]) != given["frozen_sha256"]:
        raise InputError(
            f"the model given to {path} has other frozen weights or statistics than the one that the run began "
            "with; give it the same model"
        )
    if anew and began.get("initial_sha256", given["initial_sha256"]) != given["initial_sha256"]:
        raise InputError(
            f"{path} has no checkpoint to go on from, and the model given has other weights than the one that the "
            "run began with; give it the same model"
        )


def check_folder(path: Path) -> None:
    """Refuse a folder that a new run cannot have."""
    try:
        if (path / "spec.json").exists():
            status = read_folder(path)[0].result.get("status", "running")
            hint = "choose another folder" if status == "done" else f"go on with it by `unskew resume {path}`"
            raise InputError(f"{path} already holds a run ({status}); {hint}")
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; name a folder for the run")
        if path.is_dir() and any(p.name != "lock" for p in path.iterdir()):
            raise InputError(f"{path} is not empty and holds no run; choose another folder")
    except OSError as problem:
        raise InputError(
            f"no run can be written to {path} ({reason(problem)}); choose another folder"
        ) from None


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One torch thread: faster for small batches, and the number of cores then cannot change a bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _rounds(spec: Spec, setup: Setup, folder: RunFolder, state: State, progress: bool | Progress) -> Run:
    """Play what is left of the run."""
    plan, job = setup.run, setup.job
    bar = progress_for(progress, spec.method, spec.seed, spec.rounds, state.round)
    if progress is True:
        tell_columns(setup.about)
    logged.log_start(spec, plan, state.round)
    checkpoints = folder.path / "state" if folder.path is not None else None
    saved_at, warned = time.monotonic(), False
    twin = centralized_twin(plan) if "divergence" in spec.measure else None
    watch = correlation_watch(plan) if "correlation" in spec.measure else None
    try:
        with voice(bar), bar:
            while state.round < spec.rounds:
                began = time.perf_counter()
                after, ledger = play_round(plan, state)
                line: dict[str, Any] = {"round": after.round}
                if after.round % spec.evaluate == 0 or after.round == spec.rounds:
                    ledger = judge_round(plan, after, ledger, spec.evaluate_clients)
                if twin is not None:
                    apart, after.server["divergence"] = divergence(twin, after, after.server["divergence"])
                    line["weight_divergence"] = apart
                if watch is not None:
                    line["distance_correlation"] = watch(after.params)
                ledger = with_names(ledger, job.roster.names)
                folder.append(line | ledger | {"wall_s": round(time.perf_counter() - began, 6)})
                state = after  # not before it is in the log: an interrupt saves the last round that is
                bar.advance(folder.lines[-1])
                logged.log_round(folder.lines[-1], spec.rounds)
                if not warned and (
                    told := idle.warning(folder.lines[-1], job.method.schedule.name, job.local)
                ):
                    warn(told, stacklevel=2)
                    warned = True
                if folder.path is not None and state.round in spec.keep:
                    keep_model(folder.path, state)
                due = time.monotonic() - saved_at >= spec.checkpoint or state.round == spec.rounds
                if checkpoints is not None and due:
                    folder.sync()  # a checkpoint never knows more rounds than the log
                    save_state(state, checkpoints)
                    saved_at = time.monotonic()
                    logged.run.info("round %d: checkpoint saved in %s", state.round, checkpoints)
            result = summary(spec, setup, folder, state)
            if "gamma" in spec.measure:
                result["gamma"] = gamma(plan, state.params)
        if folder.path is not None and job.method.schedule.exchanges:
            ended = _ended_with(plan, state)
            write_weights(folder.path, ended, state.round, calibrated=bool(job.method.calibrate))
        folder.save(result)
        logged.run.info("%s is done: accuracy %.4f", spec.method, result["final"]["accuracy"])
    except KeyboardInterrupt:
        logged.run.warning("%s was interrupted after round %d", spec.method, state.round)
        if checkpoints is not None and state.round:
            folder.rewind(state.round)  # the interrupt may have come in the middle of a line
            save_state(state, checkpoints)
        raise
    except Exception as problem:
        logged.run.error("%s failed after round %d: %s", spec.method, state.round, problem)
        if folder.complaint(problem) is None:
            with contextlib.suppress(OSError):
                folder.save(
                    {
                        "status": "failed",
                        "error": f"{type(problem).__name__}: {problem}",
                        "round": state.round,
                    }
                )
        raise
    finally:
        plan.engine.close()
        if twin is not None:
            twin.engine.close()
    return Run(folder, spec, state, job.net, setup.partition, plan)


def summary(spec: Spec, setup: Setup, folder: RunFolder, state: State) -> dict[str, Any]:
    """What came out: accuracies that say what they are, costs added up, what was disclosed."""
    judged = [line for line in folder.lines if "global_test_accuracy" in line]
    best = max(judged, key=lambda line: line["global_test_accuracy"])
    totals = {
        name: sum(line.get(name, 0) for line in folder.lines)
        for name in (*TOTALS, *(["air_s"] if spec.network is not None else []))
    }
    reached = {
        str(target): next((li["round"] for li in judged if li["global_test_accuracy"] >= target), None)
        for target in spec.target
    }
    known = setup.about["most_frequent"]
    guesses = no_better(judged[-1]["global_test_accuracy"], known)
    return {
        "status": "done",
        **({"verdict": f"{spec.method} is {verdict(known)}"} if guesses else {}),
        "method": spec.method,
        "metric": "global_test_accuracy",
        "best": {"accuracy": best["global_test_accuracy"], "round": best["round"]},
        "final": {"accuracy": judged[-1]["global_test_accuracy"], "round": judged[-1]["round"]},
        "no_better_than_most_frequent": guesses,
        "most_frequent": known,
        "balanced_accuracy": balanced_accuracy(judged[-1]["per_class_accuracy"]),
        "final_loss": judged[-1]["global_test_loss"],
        "rounds": state.round,
        "rounds_to_target": reached,
        "totals": totals,
        "distinct_clients": folder.lines[-1].get("distinct_clients"),
        "rejected": sum(len(line.get("rejected", [])) for line in folder.lines),
        "late": sum(len(line.get("late", [])) for line in folder.lines),
        **setup.skew,
        "discloses": [*setup.job.method.discloses, *setup.fitted_disclosure()],
        "data": setup.about,
        **({} if setup.job.method.schedule.exchanges else {"own_models": list_by_client(setup.run, state)}),
        "model_sha256": fingerprint(state),
        "seed": spec.seed,
        "effective": {
            "model": auto_model(spec.model, setup.job.roster.dataset),
            "engine": setup.run.engine.name,
            "runs_on": setup.run.engine.choice(setup.run),
            "cohort": setup.run.cohort,
        },
    }


def fingerprint(state: State) -> str:
    """A fingerprint of the trained model; of every client's, where each keeps its own."""
    found = [f"{client}:{params_hash(model)}" for client, model in own_models(state)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else params_hash(state.params)


def params_hash(params: Tree) -> str:
    """A fingerprint of a model: equal if and only if every bit is."""
    content = hashlib.sha256()
    for name in sorted(params):
        value = params[name].detach().cpu().contiguous()
        content.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        content.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return content.hexdigest()
