"""What has a trained model: it predicts, and saves the model for others."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.arrays import Array
from unskew.core.types import Tree
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.runs.export import check_place, export_arrays
from unskew.runs.model_files import WEIGHTS
from unskew.runs.predict import Prediction, predict

if TYPE_CHECKING:
    from unskew.core.engine import Job
    from unskew.core.net import Net
    from unskew.models.trained import TrainedModel


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
