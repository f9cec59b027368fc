"""The way back from a run's folder: ``load_run`` gives its model, labels, spec and log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.arrays import Array
from unskew.core.kept import refuse_far
from unskew.core.memory_names import OWN_MODEL
from unskew.core.method import Method
from unskew.core.state import State, load_state
from unskew.core.types import Tree
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.later import torch
from unskew.models.drawn import check_classes, drawn_for, named
from unskew.notices import warn
from unskew.places import path_of
from unskew.runs.client_names import keeper_of
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.model_files import WEIGHTS, check_weights, read_card, read_weights
from unskew.runs.snapshots import kept_rounds, read_model
from unskew.runs.spec import Spec
from unskew.runs.with_model import Predicts

if TYPE_CHECKING:
    import pandas as pd

    from unskew.models.trained import TrainedModel


def load_run(path: str | Path, *, model: torch.nn.Module | None = None) -> LoadedRun:
    """A run's folder as something to use: its model, labels, spec and log. The training data is not needed.

    A run that is done gives the model that it ended with, calibrated where its method calibrates; one that is not
    gives that of its last checkpoint, and says so. ``model`` is needed where the run was given a module in Python:
    the folder has its weights, but not its code.
    """
    place = path_of(path, "the run to load", "folder's path")
    folder, spec, data = read_folder(place)
    return LoadedRun(place, spec, folder, data, model)


@dataclass(repr=False)
class LoadedRun(Predicts):
    """A run read from its folder. ``print`` says what there is of it."""

    path: Path
    spec: Spec
    folder: RunFolder
    data: dict[str, Any]
    given: torch.nn.Module | None = field(default=None)

    @property
    def result(self) -> dict[str, Any]:
        """The numbers that came out; of an unfinished run only its status."""
        return self.folder.result

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry a round, as in rounds.jsonl."""
        return self.folder.lines

    def frame(self) -> pd.DataFrame:
        """The log as a table, one row per round."""
        import pandas as pd

        return pd.json_normalize(self.log, sep="_")

    @property
    def done(self) -> bool:
        """Whether the run played all its rounds."""
        return self.folder.is_done

    @property
    def names(self) -> tuple[str, ...] | None:
        """The clients' names, where they have any."""
        found = self.data.get("names")
        return None if found is None else tuple(found)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the model's outputs."""
        return tuple(self.data.get("labels") or self.intake.labels)

    @property
    def calibrated(self) -> bool:
        """Whether the model is a calibrated copy of the global one."""
        return self._ended[1]

    @property
    def round(self) -> int:
        """The round that the model is of."""
        return self._ended[0]

    @property
    def model(self) -> TrainedModel:
        """The model, a copy of your own, that takes raw inputs."""
        state = self._ended[2]
        if not self._exchanges:
            raise InputError(
                f"{self.spec.method} makes no global model: every client keeps its own; name a client: "
                "run.client_model(0), run.save(..., client=0), or --client 0 on the command line"
            )
        tensors = read_weights(self.path / WEIGHTS) if state is None else _prefixed(state.params)
        return self._built(tensors)

    @property
    def uncalibrated(self) -> TrainedModel:
        """The global model as it was trained, also where the run calibrates a copy of it."""
        return self.model_of(None)

    def model_of(self, round: int | None) -> TrainedModel:
        """The global model that a round ended with, of those that were kept (``keep``); None is the last."""
        try:
            frozen = read_weights(self.path / WEIGHTS)  # which are in no checkpoint
        except InputError:
            frozen = {}
        return self._built({**frozen, **_prefixed(read_model(self.path, round)[1])})

    def _told_of_model(self, client: int | str | None, round: int | None) -> dict[str, Any]:
        told = {
            "model": self._card["model"],
            "method": self.spec.method,
            "dataset": Path(self.spec.dataset).name,
        }
        if client is not None:
            return told | {"client": str(client)}
        calibrated = self.calibrated and round is None
        return told | {"round": self.round if round is None else round, "calibrated": calibrated}

    @property
    def rounds_kept(self) -> list[int]:
        """The rounds that ``model_of`` knows, beside the last."""
        return kept_rounds(self.path)

    def client_model(self, client: int | str) -> TrainedModel:
        """The model that a client keeps, by its number or its name, where clients keep their own (local_only)."""
        state = self._checkpoint
        kept = state.clients.rows.get(OWN_MODEL, {}) if state is not None else {}
        at = keeper_of(client, self.data["clients"], self.names, kept, self.spec.method, self._exchanges)
        assert state is not None
        model = state.clients.get(OWN_MODEL, at, {})
        refuse_far(client, model)
        return self._built(_prefixed(model))

    @cached_property
    def intake(self) -> Intake:  # type: ignore[override]
        """What the model takes."""
        return Intake.read(self._card["takes"])

    @cached_property
    def _exchanges(self) -> bool:
        return Method.parse(self.spec.method).schedule.exchanges

    @cached_property
    def _checkpoint(self) -> State | None:
        return load_state(self.path / "state")

    @cached_property
    def _card(self) -> dict[str, Any]:
        return read_card(self.path)

    @cached_property
    def _ended(self) -> tuple[int, bool, State | None]:
        """(round, whether calibrated) of the weights that the run ended with; else of its last checkpoint, and that."""
        if self.done and self._exchanges:
            try:
                return *check_weights(self.path / WEIGHTS), None
            except InputError as problem:
                if Method.parse(self.spec.method).calibrate:
                    raise InputError(
                        f"{problem}, and only there is the calibrated copy; with its data at hand, "
                        f"unskew.resume({str(self.path)!r}).model makes it again"
                    ) from None
                warn(f"{problem}; the last checkpoint is taken instead", stacklevel=3)
        state = self._checkpoint
        if state is None:
            raise InputError(
                f"{self.path} has no checkpoint yet, so there is no model in it; go on with `unskew resume {self.path}`"
            )
        return state.round, False, state

    def _arrays(self, place: Path) -> Mapping[str, Array] | None:
        """The numbers that the run ended with, as they are in its folder, for a file that holds them and no code."""
        if place.suffix.lower() != ".safetensors" or self.given is not None or not self._exchanges:
            return None
        card, takes = self._card, self.intake
        if self._ended[2] is not None or card["own_model"] or ":" in card["model"].partition("(")[0]:
            return None
        check_classes(len(takes.labels))
        drawn = drawn_for(named(card["model"]), takes.shape, len(takes.labels))
        wanted = {f"net.{name}": shape for name, shape in (drawn.weights | drawn.statistics).items()}
        wanted |= {name: np.shape(card[name]) for name in ("mean", "std")}
        found = read_weights(self.path / WEIGHTS, "np")
        fits = {k: v.shape for k, v in found.items()} == wanted
        return found if fits and all(v.dtype == card["dtype"] for v in found.values()) else None

    def _built(self, tensors: Tree) -> TrainedModel:
        """A module with these weights."""
        from unskew.models import build
        from unskew.models.trained import TrainedModel

        card, takes = self._card, self.intake
        if card["own_model"] and self.given is None:
            raise InputError(
                f"{self.path} was run with a module given in Python ({card['model']}); its weights are here but not "
                f"its code: write unskew.load_run({str(self.path)!r}, model=...)"
            )
        source = card["model"] if self.given is None else self.given
        dtype = getattr(torch, card["dtype"])
        net = build(source, takes.shape, len(takes.labels), card["seed"], dtype).eval()
        mean, std = (torch.tensor(card[name], dtype=torch.float64) for name in ("mean", "std"))
        model = TrainedModel(net, mean, std, card["by_batch"])
        wanted = model.state_dict()

        def known(name: str) -> str:
            # checkpoints have the names of the adapted module, which has one more level
            return name if name in wanted else name.replace("net.module.", "net.", 1)

        held = {known(k): v for k, v in tensors.items() if known(k) in wanted}
        trains = {known(f"net.{name}") for name, p in net.named_parameters() if p.requires_grad}
        odd = next(
            (k for k in sorted(trains | {*held}) if k not in held or held[k].shape != wanted[k].shape), None
        )
        if odd is not None:
            raise InputError(
                f"the weights of {self.path} do not fit {card['model'] if self.given is None else 'the model given'}: "
                f"{odd.removeprefix('net.')} is another or missing; give the model that was trained"
            )
        model.load_state_dict(held, strict=False)
        return model.requires_grad_(True)

    def __repr__(self) -> str:
        return f"LoadedRun({str(self.path)!r}: {self.told})"

    @property
    def told(self) -> str:
        """What there is of the run, in words."""
        played, of = len(self.log), self.spec.rounds
        begun = f"{self.spec.method} on {Path(self.spec.dataset).name}"
        far = f"done, {played} rounds" if self.done else f"not finished, {played} of {of} rounds"
        if self.done and "stopped" in self.result:
            far += f" (stopped: {self.result['stopped']['said']})"
        if self.result.get("status") == "failed":
            far = f"failed after {played} of {of} rounds"
        try:
            round, calibrated, _ = self._ended
        except InputError:
            return f"{begun}, {far}, no model yet"
        if not self._exchanges:
            return f"{begun}, {far}, a model a client"
        return f"{begun}, {far}, {'calibrated ' if calibrated else ''}model of round {round}"


def _prefixed(params: Tree) -> Tree:
    return {f"net.{name}": value for name, value in params.items()}
