"""``unskew.run()`` and ``unskew.resume()``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import torch

from unskew.core.method import Method
from unskew.core.state import State, forget_after, load_state, save_state
from unskew.errors import InputError
from unskew.machine.threads import single_threaded
from unskew.metrics.own import Metric, own_metrics
from unskew.notices import warn
from unskew.places import path_of
from unskew.progress import Progress, voice
from unskew.renamed import accepts_old_names
from unskew.runs.changes import common_rounds, ends_apart, find_changes, on_its_device, record
from unskew.runs.early_stop import refuse_small_budget
from unskew.runs.ended import Run
from unskew.runs.folder import RunFolder, check_folder, read_folder
from unskew.runs.given import (
    Data,
    model_fingerprints,
    refuse_dealing,
    refuse_other_model,
    refuse_overruled,
    refuse_unrepeatable,
    says_of_itself,
    take_data,
)
from unskew.runs.judged_by import Metrics, check_names, refuse_other_metrics
from unskew.runs.loading import auto_model
from unskew.runs.rounds import play_rounds
from unskew.runs.saved_model import write_card
from unskew.runs.settings import Renewed, Settings
from unskew.runs.setup import Setup, set_up
from unskew.runs.spec import STOPPING, Spec
from unskew.runs.watchers import Stopped, Watch, check_watchers


@accepts_old_names(data="dataset")
def run(
    spec: Spec | None = None,
    *,
    dataset: Data | None = None,
    out: str | Path | None = None,
    model: str | torch.nn.Module | None = None,
    method: str | Method | None = None,
    metrics: Metrics | None = None,
    progress: bool | Progress = True,
    watch: Watch = (),
    **given: Unpack[Settings],
) -> Run:
    """Train and log. Settings are the fields of ``Spec``; ``dataset`` may also be a Federation or arrays.

    With ``out`` the run has a folder and can be resumed; without, it stays in memory.

    - ``spec``: settings to begin with; those that are given by name overrule them.
    - ``dataset``: a data set's name, a path to own data, a ``Dataset``, a ``Federation``, or arrays ``(x, y)`` or
      ``(x, y, x_test, y_test)``.
    - ``model``: a model's name, or a ``torch.nn.Module`` to begin with.
    - ``method``: parts joined with +, such as ``"scaffold+sem"``, or a ``Method``.
    - ``metrics``: names of what is reported, the first is what ``best``, ``target`` and leaderboards go by; or
      ``{"name": function}`` for metrics of your own, where None stands for one of unskew's (``unskew.Metric``).
    - ``progress``: a bar or lines, none where it is False, or an object of your own with ``advance(line)``.
    - ``watch``: objects that are told when the run starts, after each round, when it evaluates and when it ends
      (``Watcher``); they may ask for its end.
    """
    if spec is not None and not isinstance(spec, Spec):
        raise InputError(
            f"run takes a Spec, or settings by name such as run(dataset='digits', rounds=5), not {spec!r}"
        )
    settings: dict[str, Any] = {**given}
    watchers = check_watchers(watch)
    data = None
    if isinstance(dataset, (str, Path)):
        settings["dataset"] = str(dataset)
    elif dataset is not None:
        data = take_data(dataset)
        refuse_overruled(data, spec, settings)
        settings |= says_of_itself(data)
    if method is not None:
        settings["method"] = str(method)
        if out is not None and isinstance(method, Method):
            refuse_unrepeatable(settings["method"])
    if isinstance(model, str):
        settings["model"] = model
        model = None
    elif model is not None:
        settings["model"] = f"{type(model).__module__}:{type(model).__qualname__}"
    own: dict[str, Metric] = {}
    if metrics is not None:
        settings["metrics"], own = own_metrics(metrics)
    spec = Spec.of((spec.as_dict() if spec else {}) | settings)
    refuse_dealing(spec, settings)
    check_names(spec.metrics, own)
    with voice(progress is True), single_threaded():
        folder = RunFolder(_path(out, "out") if out is not None else None)
        if folder.path is not None:
            check_folder(folder.path)  # before what may take minutes: to read data, to meet sites
        setup = set_up(spec, data, model, method, metrics=own)
        refuse_small_budget(spec, setup.run)
        spec = setup.settle(spec)
        if model is not None:
            setup.about |= model_fingerprints(setup)
        if folder.path is not None:
            check_folder(folder.path)  # again: another run may have begun there meanwhile
        with folder.locked(), folder.told():
            folder.start(spec, setup.about)
            if folder.path is not None:
                setup.save_partition(folder.path / "partition.npz")
                _describe(folder.path, spec, setup)
                if model is not None:  # a resume cannot make its first weights again
                    save_state(setup.state, folder.path / "state")
            return play_rounds(spec, setup, folder, setup.state, progress, watchers)


@accepts_old_names(data="dataset")
def resume(
    path: str | Path,
    *,
    dataset: Data | None = None,
    model: str | torch.nn.Module | None = None,
    metrics: Metrics | None = None,
    progress: bool | Progress = True,
    watch: Watch = (),
    **given: Unpack[Renewed],
) -> Run:
    """Go on with a run that was stopped, from its last checkpoint; one that is done is returned as it is.

    ``rounds`` makes a run longer, also one that is done; ``stop``, ``patience`` and ``budget`` say anew when it ends,
    and None takes them away; the other settings cannot change a number. They are kept in the run's folder. ``dataset``
    is what was given in Python, or where its file lies now; ``metrics`` are other names to report, or the functions
    that were given in Python. A run that a watcher of yours has stopped goes on where ``rounds`` is given.
    """
    watchers = check_watchers(watch)
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
        data = take_data(dataset)
    own: dict[str, Metric] = {}
    if metrics is not None:
        named, own = own_metrics(metrics)
        if set(named) != set(own) or not about.get("own_metrics"):  # functions alone choose nothing anew
            settings["metrics"] = named
    refuse_other_metrics(path, about, own)
    spec = find_changes(place, began, settings, len(folder.lines))
    check_names(spec.metrics, own)
    stopped, undone = _stopped(folder, began, spec, "rounds" in given)
    common_rounds(place, began, spec, len(folder.lines), undone)  # refused before anything is loaded
    over = folder.is_done and undone is None and _ends_alike(began, spec)
    if not over:
        on_its_device(place, spec, about.get("device"))

    def prepared(source: Spec) -> tuple[Setup, State]:
        if about.get("given") and data is None:  # what was given in Python is in a file now
            source = replace(source, dataset=str(dataset))
        setup = set_up(source, data, model, metrics=own, known_sites=about.get("sites"))
        if setup.about["sha256"] != about.get("sha256"):
            raise InputError(f"the data of {path} is not what the run began with; give it the same data")
        known = common_rounds(place, began, spec, len(folder.lines), undone)
        if folder.damage.result and ends_apart(spec, len(folder.lines)):
            known = min(known, len(folder.lines) - 1)  # it may have ended there, and nobody knows any more
        if stopped is not None:
            setup.run.stops_after = stopped.rounds
            if not folder.is_done and ends_apart(spec, stopped.rounds):
                known = min(known, stopped.rounds - 1)  # killed at its end: who knows as what that was judged
        found = load_state(place / "state", known, setup.state.params)
        if model is not None:
            refuse_other_model(place, about, model_fingerprints(setup), found is None)
        setup.about |= about  # what runs of earlier versions lack is known from the data
        return setup, (found or setup.state).to(setup.run.device)

    with voice(progress is True), single_threaded():
        if over:  # nothing is written where nothing is left to do
            setup, state = prepared(spec)
            whole = state.round >= setup.run.end and setup.is_partition(place / "partition.npz")
            told_anew = any(
                getattr(spec, n) != getattr(began, n) for n in ("target", "metrics", "method_label")
            )
            if whole and not told_anew:
                return Run(folder, spec, state, setup.job.net, setup.partition, setup.run)
        with folder.locked(), folder.told():
            folder.check_kinds()
            folder.read()  # again, now that nobody else writes it
            setup, state = prepared(on_its_device(place, spec, about.get("device")))
            if folder.damage:
                warn(f"in {path}, {folder.damage}; it goes on after round {state.round}", stacklevel=2)
            folder.rewind(state.round)
            forget_after(place / "state", state.round)
            folder.save({"status": "running", **({"stopping": stopped.as_dict()} if stopped else {})})
            record(place, began, spec, state.round)  # not before: nothing may be left of the old plan alone
            folder.rounds = spec.rounds
            if not setup.is_partition(place / "partition.npz"):  # damaged, or killed in its first moment
                setup.save_partition(place / "partition.npz")
            _describe(place, spec, setup)  # which runs of earlier versions lack
            return play_rounds(spec, setup, folder, state, progress, watchers, stopped)


def _ends_alike(began: Spec, spec: Spec) -> bool:
    """Whether both specs end a run at the same time."""
    return all(getattr(began, name) == getattr(spec, name) for name in ("rounds", *STOPPING))


def _stopped(folder: RunFolder, began: Spec, spec: Spec, longer: bool) -> tuple[Stopped | None, int | None]:
    """(how a run was stopped early and still is, the round that was its last where it is to go on).

    It goes on where it is told otherwise: by settings that say when it ends, or, where a watcher of the user's own has
    stopped it, by a number of rounds.
    """
    found = Stopped.read(folder.result.get("stopped") or folder.result.get("stopping"))
    if found is None:
        return None, None
    asked_anew = longer and found.by not in STOPPING
    return (None, found.rounds) if asked_anew or not _ends_alike(began, spec) else (found, None)


def _describe(path: Path, spec: Spec, setup: Setup) -> None:
    """Say in the folder what the model is and takes, so that it can be used without the data."""
    model = auto_model(spec.model, setup.job.roster.dataset)
    write_card(path, spec, setup.run, model, bool(setup.about["own_model"]))


def _path(given: Any, what: str) -> Path:
    return path_of(given, what, "folder's path")
