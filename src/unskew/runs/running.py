"""``unskew.run()`` and ``unskew.resume()``."""

from __future__ import annotations

from collections.abc import Sequence
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
from unskew.runs.changes import on_its_device, record
from unskew.runs.ended import Run
from unskew.runs.folder import RunFolder, check_folder
from unskew.runs.given import (
    Data,
    refuse_dealing,
    refuse_overruled,
    refuse_unrepeatable,
    says_of_itself,
    take_data,
)
from unskew.runs.given_model import model_fingerprints, refuse_other_model
from unskew.runs.judged_by import Metrics, check_names
from unskew.runs.loading import auto_model, is_saved
from unskew.runs.model_files import write_card
from unskew.runs.resuming import Resumption, ask_to_resume
from unskew.runs.rounds import play_rounds
from unskew.runs.settings import Renewed, Settings
from unskew.runs.setup import Setup, set_up
from unskew.runs.spec import Spec
from unskew.runs.watchers import Watch, check_watchers


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
        folder = RunFolder(path_of(out, "out", "folder's path") if out is not None else None)
        if folder.path is not None:
            check_folder(folder.path)  # before what may take minutes: to read data, to meet sites
        setup = set_up(spec, data, model, method, metrics=own)
        setup.refuse_small_budget(spec)
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
    asked = ask_to_resume(path, dataset, model, metrics, **given)
    return go_on(asked, progress, watchers)


def go_on(asked: Resumption, progress: bool | Progress, watch: Sequence[Any]) -> Run:
    """Go on with a run as is asked; it is given back as it is where nothing is left to do."""
    place, folder, began, spec, about = asked.place, asked.folder, asked.began, asked.spec, asked.about
    stopped, model = asked.stopped, asked.model

    def prepared(source: Spec) -> tuple[Setup, State]:
        if asked.moved is not None:
            source = replace(source, dataset=asked.moved)
        setup = set_up(source, asked.data, model, metrics=asked.own, known_sites=about.get("sites"))
        asked.refuse_other_data(setup.about["sha256"])
        if stopped is not None:
            setup.run.stops_after = stopped.rounds
        found = load_state(place / "state", asked.known_rounds(), setup.state.params)
        if model is not None:
            refuse_other_model(place, about, model_fingerprints(setup), found is None)
        setup.about |= about  # what runs of earlier versions lack is known from the data
        return setup, (found or setup.state).to(setup.run.device)

    with voice(progress is True), single_threaded():
        if asked.over:  # nothing is written where nothing is left to do
            setup, state = prepared(spec)
            whole = state.round >= setup.run.end and is_saved(setup.partition, place / "partition.npz")
            if whole and not asked.told_anew:
                return Run(folder, spec, state, setup.job.net, setup.partition, setup.run)
        with folder.locked(), folder.told():
            folder.check_kinds()
            folder.read()  # again, now that nobody else writes it
            setup, state = prepared(on_its_device(place, spec, about.get("device")))
            if folder.damage:
                warn(f"in {place}, {folder.damage}; it goes on after round {state.round}", stacklevel=3)
            folder.rewind(state.round)
            forget_after(place / "state", state.round)
            folder.save({"status": "running", **({"stopping": stopped.as_dict()} if stopped else {})})
            record(place, began, spec, state.round)  # not before: nothing may be left of the old plan alone
            folder.rounds = spec.rounds
            # the file is damaged, or the run was killed in its first moment
            if not is_saved(setup.partition, place / "partition.npz"):
                setup.save_partition(place / "partition.npz")
            _describe(place, spec, setup)  # which runs of earlier versions lack
            return play_rounds(spec, setup, folder, state, progress, watch, stopped)


def _describe(path: Path, spec: Spec, setup: Setup) -> None:
    """Say in the folder what the model is and takes, so that it can be used without the data."""
    model = auto_model(spec.model, setup.job.roster.dataset)
    write_card(path, spec, setup.run, model, bool(setup.about["own_model"]))
