"""A run's model in its folder, with all that raw inputs need, and the way back: ``load_run``.

model.json         what the model is and what it takes: its name, shape, classes, a table's columns and fills
model.safetensors  the weights that the run ended with, normalisation too; of the calibrated copy where there is one

The first is written when the run begins, so that the checkpoint of one that was stopped can be used too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.arrays import Array
from unskew.core.checkpoint_files import SEAL, is_whole
from unskew.core.kept import refuse_far
from unskew.core.memory_names import OWN_MODEL
from unskew.core.method import Method
from unskew.core.state import SavedTensor, State, load_state, sealed
from unskew.core.types import Tree
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.files import write_file
from unskew.later import load, torch
from unskew.models.drawn import check_classes, drawn_for, named
from unskew.notices import warn
from unskew.places import path_of
from unskew.runs.client_names import keeper_of
from unskew.runs.export import check_place, export_arrays
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.predict import Prediction, predict
from unskew.runs.snapshots import kept_rounds, read_model
from unskew.runs.spec import Spec
from unskew.sealed import seal as sealed_json
from unskew.sealed import unseal

if TYPE_CHECKING:
    import pandas as pd

    from unskew.core.engine import Job, RunPlan
    from unskew.core.net import Net
    from unskew.models.trained import TrainedModel

CARD, WEIGHTS = "model.json", "model.safetensors"
FORMAT = 1
"""Version of what model.json holds."""


class Predicts:
    """Something that holds a trained model and knows what it takes."""

    intake: Intake

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the model's outputs."""
        return self.intake.labels

    @property
    def model(self) -> TrainedModel:
        """The model, a copy of your own."""
        raise TypeError(f"{type(self).__name__} does not say what its model is: define model")

    def client_model(self, client: int | str) -> TrainedModel:
        """The model that a client keeps."""
        raise TypeError(
            f"{type(self).__name__} does not say what its clients' models are: define client_model"
        )

    def predict(self, x: Any, *, resize: bool = False, client: int | str | None = None) -> Prediction:
        """Labels and probabilities of raw inputs: ``labels, probabilities = run.predict(x)``.

        ``x`` is what the run was trained on, not normalised, filled or encoded: rows of the table (a DataFrame or a
        .csv, .tsv or .parquet file), pictures (paths, or a folder of them), arrays or tensors (or an .npz or .npy
        file), one sample or many. ``resize`` scales pictures of other sizes. ``client`` asks the model that this
        client keeps, where clients keep their own (local_only).
        """
        inputs = self.intake.inputs(x, resize)
        model = self._asked if client is None else self.client_model(client)
        return predict(model, inputs, self.intake.labels)

    @cached_property
    def _asked(self) -> TrainedModel:
        return self.model

    def save(self, path: str | Path, *, client: int | str | None = None, round: int | None = None) -> Path:
        """Write the model to a file that others use without unskew: .safetensors, .pt2 (``torch.export``) or .onnx.

        ``client`` takes the model that this client keeps (local_only), ``round`` that of a round that was kept.
        """
        if client is not None and round is not None:
            raise InputError("client and round name two models; write one of them")
        place, told = check_place(path), self._told_of_model
        if place.name == WEIGHTS and (place.parent / "spec.json").exists():
            raise InputError(
                f"{place} is what the run itself keeps, in a form of its own; write to another file, such as "
                f"{place.with_name('exported.safetensors')}"
            )
        if client is None and round is None and (arrays := self._arrays(place)) is not None:
            return export_arrays(arrays, self.intake, place, told(client, round))
        from unskew.runs.export_model import export

        model = self.model if client is None else self.client_model(client)
        if round is not None:
            model = self.model_of(round)
        return export(model, self.intake, place, told(client, round))

    def _arrays(self, place: Path) -> Mapping[str, Array] | None:
        """The model's numbers, where no module need be made of them to write them to this file."""
        return None

    def model_of(self, round: int | None) -> TrainedModel:
        """The global model that a round ended with."""
        raise TypeError(f"{type(self).__name__} does not say what its models of rounds are: define model_of")

    def _told_of_model(self, client: int | str | None, round: int | None) -> dict[str, Any]:
        """What the note in an exported file says of where the model comes from."""
        raise TypeError(
            f"{type(self).__name__} does not say where its model comes from: define _told_of_model"
        )


def make_trained_model(net: Net, params: Tree, job: Job) -> TrainedModel:
    """These weights as a module that takes raw inputs."""
    from unskew.models.trained import TrainedModel

    judging = job.judging_net
    module = copy.deepcopy(judging.judging)
    held = {k: v for k, v in params.items() if k in net.own or k in net.buffers}
    module.load_state_dict(held, strict=False)  # what is frozen is in the module already
    scale = job.roster.dataset.scale_like(next(module.parameters()))
    return TrainedModel(module, *scale, by_batch=judging.by_batch).requires_grad_(True)


def intake_of(run: RunPlan) -> Intake:
    """What the run's model takes: samples as they were dealt, before parts of the method changed them."""
    return Intake.of(run.as_dealt.dataset)


def write_card(folder: Path, spec: Spec, run: RunPlan, model: str, own: bool) -> None:
    """Say in a run's folder what its model is and takes."""
    job, dataset = run.job, run.job.roster.dataset
    scale = dataset.scale_like(torch.empty(0, dtype=torch.float64))
    told = {
        "format": FORMAT,
        "model": model,
        "own_model": own,
        "seed": spec.seed,
        "dtype": str(job.dtype).removeprefix("torch."),
        "by_batch": job.judging_net.by_batch,
        "mean": scale[0].tolist(),
        "std": scale[1].tolist(),
        "takes": intake_of(run).as_dict(),
    }
    write_file(folder / CARD, sealed_json(told, indent=1))


def write_weights(folder: Path, model: TrainedModel, round: int, calibrated: bool) -> None:
    """Keep what a run ended with."""
    about = {"round": round, "calibrated": calibrated, "sealed": True}
    entries = [
        SavedTensor.of(name, value.detach().cpu().contiguous()) for name, value in model.state_dict().items()
    ]
    write_file(folder / WEIGHTS, sealed(entries, {"unskew": json.dumps(about)}))


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
        tensors = _read_weights(self.path / WEIGHTS) if state is None else _prefixed(state.params)
        return self._built(tensors)

    @property
    def uncalibrated(self) -> TrainedModel:
        """The global model as it was trained, also where the run calibrates a copy of it."""
        return self.model_of(None)

    def model_of(self, round: int | None) -> TrainedModel:
        """The global model that a round ended with, of those that were kept (``keep``); None is the last."""
        try:
            frozen = _read_weights(self.path / WEIGHTS)  # which are in no checkpoint
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
        file = self.path / CARD
        if not file.is_file():
            raise InputError(
                f"{self.path} has no {CARD}: an earlier unskew wrote it, or it was stopped in its first moment; with "
                f"its data at hand, unskew.resume({str(self.path)!r}).model gives its model"
            )
        found = unseal(file.read_bytes(), required=True)
        if found is None or found.get("format") != FORMAT:
            why = (
                "is damaged"
                if found is None
                else f"has format {found.get('format')}, this version reads {FORMAT}"
            )
            raise InputError(
                f"{file} {why}; with its data at hand, unskew.resume({str(self.path)!r}).model gives its model"
            )
        return found

    @cached_property
    def _ended(self) -> tuple[int, bool, State | None]:
        """(round, whether calibrated) of the weights that the run ended with; else of its last checkpoint, and that."""
        if self.done and self._exchanges:
            try:
                return *_check_weights(self.path / WEIGHTS), None
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
        found = _read_weights(self.path / WEIGHTS, "np")
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

        def known(
            name: str,
        ) -> str:  # checkpoints have the names of the adapted module, which has one more level
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


def _check_weights(file: Path) -> tuple[int, bool]:
    """(round, whether calibrated) of weights that are whole."""
    about, _ = _opened(file, "np", tensors=False)
    return int(about["round"]), bool(about["calibrated"])


def _read_weights(file: Path, framework: str = "pt") -> Any:
    """Weights by name: torch's tensors, or numpy's arrays ("np")."""
    return _opened(file, framework, tensors=True)[1]


def _opened(file: Path, framework: str, tensors: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file of weights says of itself, and those if they are asked for."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise InputError(f"{file} is not there")
    if framework == "pt":
        load("torch")  # which safetensors would load
    try:
        with safe_open(file, framework=framework) as held:
            about = json.loads(held.metadata()["unskew"])
            names = set(held.keys())
            if SEAL not in names or not is_whole(file):
                raise ValueError
            about = {"round": int(about["round"]), "calibrated": bool(about["calibrated"])}
            return about, {name: held.get_tensor(name) for name in sorted(names - {SEAL}) if tensors}
    except (SafetensorError, KeyError, TypeError, ValueError, OSError):
        raise InputError(f"{file} is damaged") from None
