"""A trained model leaves: as weights, as a program of torch, or as ONNX; what it needs to be used goes with it.

FILE.safetensors   the weights by the names of the module, and ``input_mean`` and ``input_std``
FILE.pt2           the whole model (``torch.export``): it runs where torch is, without this package
FILE.onnx          the whole model for other runtimes (the extra ``unskew[onnx]`` writes it)

Each holds a note in JSON: what the model is, the labels in the order of its outputs, and what a sample is. Weights need
no torch to be written; ``export_model.py`` writes the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unskew.arrays import Array
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.files import replace_file
from unskew.places import path_of
from unskew.version import __version__

FORMS = (".safetensors", ".pt2", ".onnx")
"""In which forms a model leaves: the file's ending says it."""


def check_place(path: str | Path) -> Path:
    """The file to write to; one that cannot be is refused before any work."""
    place = path_of(path, "what a model is written to", "file's path").expanduser()
    if place.suffix.lower() not in FORMS:
        raise InputError(
            f"a model is written as {', '.join(FORMS)}, not as {place.name!r}; write -o model.safetensors"
        )
    if place.is_dir():
        raise InputError(f"{place} is a folder; name a file in it, such as {place / 'model.safetensors'}")
    if not place.parent.is_dir():
        raise InputError(f"there is no folder {place.parent} to write {place.name} in; make it first")
    return place


def export_arrays(numbers: Mapping[str, Array], intake: Intake, place: Path, about: dict[str, Any]) -> Path:
    """Write a model's numbers, by the names that its state dict has."""
    from safetensors.numpy import save

    mean, std = numbers["mean"], numbers["std"]
    told = note(intake, about, str(mean.dtype), mean.ravel().tolist(), std.ravel().tolist())
    with replace_file(place) as draft:
        draft.write_bytes(save({as_exported(k): v for k, v in numbers.items()}, {"unskew": told}))
    return place


def as_exported(name: str) -> str:
    """What a tensor of a trained model is called in the file: as in the module that was trained."""
    return f"input_{name}" if name in ("mean", "std") else name.removeprefix("net.")


def note(intake: Intake, about: dict[str, Any], dtype: str, mean: list[float], std: list[float]) -> str:
    """What goes with the model."""
    told = about | {
        "unskew": __version__,
        "labels": list(intake.labels),
        "input": {"dtype": dtype, "shape": ["N", *intake.shape]},
        "output": "logits, one a class: softmax makes probabilities",
        "mean": mean,
        "std": std,
        "takes": intake.as_dict(),
    }
    return json.dumps(told, indent=1)
