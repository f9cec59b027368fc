"""What a resume is asked for: read, and refused where it can be, before any data or torch is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.expression import path_and_options
from unskew.metrics.own import Metric, own_metrics
from unskew.places import path_of
from unskew.runs.changes import common_rounds, ends_apart, find_changes, on_its_device
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.given import Data, take_data
from unskew.runs.judged_by import Metrics, check_names, refuse_other_metrics
from unskew.runs.spec import MOVED, STOPPING, Spec
from unskew.runs.watchers import Stopped

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Resumption:
    """A run that was begun, and how it is to go on."""

    place: Path
    folder: RunFolder
    about: dict[str, Any]  # what the folder says of the data, when it began
    began: Spec
    spec: Spec
    data: Dataset | Federation | None  # given in Python
    moved: str | None  # the file that holds now what was given in Python
    model: nn.Module | None  # given in Python
    own: Mapping[str, Metric]  # given in Python
    stopped: Stopped | None  # how it was ended early, and still is
    undone: int | None  # the round that was its last, where it was ended early and is to go on

    @property
    def over(self) -> bool:
        """Whether it is done, and to end where it did."""
        return self.folder.is_done and self.undone is None and _ends_alike(self.began, self.spec)

    @property
    def told_anew(self) -> bool:
        """Whether its result would say something else."""
        names = ("target", "metrics", "method_label")
        return any(getattr(self.spec, name) != getattr(self.began, name) for name in names)

    @property
    def end(self) -> int:
        """The round that is its last, by what is known now."""
        return self.spec.rounds if self.stopped is None else self.stopped.rounds

    def known_rounds(self) -> int:
        """How many of the rounds in its log are those of the run that is asked for."""
        folder = self.folder
        known = common_rounds(self.place, self.began, self.spec, len(folder.lines), self.undone)
        if folder.damage.result and ends_apart(self.spec, len(folder.lines)):
            known = min(known, len(folder.lines) - 1)  # it may have ended there, and nobody knows any more
        if self.stopped is not None and not folder.is_done and ends_apart(self.spec, self.stopped.rounds):
            # it was killed at its end: its last round may not have been judged as the last
            known = min(known, self.stopped.rounds - 1)
        return known

    def has_data(self, fingerprint: str) -> bool:
        """Whether this is the data that the run began with."""
        return bool(fingerprint == self.about.get("sha256"))

    def refuse_other_data(self, fingerprint: str) -> None:
        if not self.has_data(fingerprint):
            raise InputError(
                f"the data of {self.place} is not what the run began with; give it the same data"
            )


def ask_to_resume(
    path: Any,
    dataset: Data | None = None,
    model: str | nn.Module | None = None,
    metrics: Metrics | None = None,
    **given: Any,
) -> Resumption:
    """What ``unskew.resume`` is asked for; what cannot be is refused."""
    place = path_of(path, "the run to resume", "folder's path")
    folder, began, about = read_folder(place)
    settings = dict(given)
    if isinstance(model, str):
        settings["model"], model = model, None
    if about.get("given") and dataset is None:
        raise InputError(
            f"{path} was run on data given in Python; resume it there: unskew.resume({str(path)!r}, dataset=...)"
        )
    if about.get("own_model") and model is None:
        raise InputError(f"{path} was run with a model given in Python; resume it there with model=...")
    data, moved = None, None
    if isinstance(dataset, (str, Path)):
        if began.partition == "given":
            raise InputError(
                f"{path} was run on a Federation given in Python; give it as dataset=..., not {dataset}"
            )
        if about.get("given"):
            moved = str(dataset)
        else:
            settings["dataset"] = str(dataset)
    elif dataset is not None:
        data = take_data(dataset)
    own: dict[str, Metric] = {}
    if metrics is not None:
        named, own = own_metrics(metrics)
        if set(named) != set(own) or not about.get("own_metrics"):  # functions alone choose nothing anew
            settings["metrics"] = named
    refuse_other_metrics(place, about, own)
    spec = find_changes(place, began, settings, len(folder.lines))
    check_names(spec.metrics, own)
    if data is None and moved is None:
        _refuse_lost_files(place, spec)
    stopped, undone = _stopped(folder, began, spec, "rounds" in given)
    common_rounds(place, began, spec, len(folder.lines), undone)
    asked = Resumption(place, folder, about, began, spec, data, moved, model, own, stopped, undone)
    if not asked.over:
        on_its_device(place, spec, about.get("device"))
    return asked


def _refuse_lost_files(place: Path, spec: Spec) -> None:
    """Refuse a file that is not there any more, with the flag that says where it lies now."""
    for name in MOVED:
        path, _ = path_and_options(getattr(spec, name))
        if os.path.isabs(path) and not os.path.exists(path):
            kept = place / "partition.npz"
            such = f", such as {kept}" if name == "partition" and kept.is_file() else ""
            raise InputError(
                f"{place} was run with {name} = {path}, which is not there any more; say where it lies now by "
                f"--{name}{such}"
            )


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
