"""A trained model that is made leaves, in the forms that ``export.py`` tells of."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unskew.data.intake import Intake
from unskew.errors import InputError, first_line
from unskew.files import replace_file
from unskew.models.trained import TrainedModel
from unskew.runs.export import as_exported, note

NOTE = "unskew.json"
"""What the note is called in a .pt2 file; elsewhere it is the metadata ``unskew``."""


class Exported(nn.Module):
    """A model as it is exported: raw samples as float numbers in, logits out."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: TrainedModel):
        super().__init__()
        self.net = model.net
        self.register_buffer("mean", model.mean)
        self.register_buffer("std", model.std)

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.mean) / self.std)  # type: ignore[no-any-return]


def export(model: TrainedModel, intake: Intake, place: Path, about: dict[str, Any]) -> Path:
    """Write a model to ``place``, whose ending says in which form; what stood there is replaced as a whole."""
    dtype = str(model.mean.dtype).removeprefix("torch.")
    told = note(intake, about, dtype, model.mean.flatten().tolist(), model.std.flatten().tolist())
    whole = TrainedModel(model.net, model.mean, model.std, model.by_batch).cpu().requires_grad_(False)
    with replace_file(place) as draft, _quiet():
        WRITERS[place.suffix.lower()](whole, intake, draft, told)
    return place


def _weights(model: TrainedModel, intake: Intake, place: Path, told: str) -> None:
    from safetensors.torch import save

    held = {k: v.detach().contiguous().clone() for k, v in model.state_dict().items()}
    place.write_bytes(save({as_exported(k): v for k, v in held.items()}, {"unskew": told}))


def _program(model: TrainedModel, intake: Intake, place: Path, told: str) -> None:
    with open(place, "wb") as file:
        torch.export.save(_traced(model, intake), file, extra_files={NOTE: told})


def _onnx(model: TrainedModel, intake: Intake, place: Path, told: str) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(
            f"ONNX needs the package {missing.name!r}; write pip install 'unskew[onnx]', or -o model.pt2"
        ) from None
    program = torch.onnx.export(
        _traced(model, intake), dynamo=True, external_data=False, verbose=False,
        input_names=["x"], output_names=["logits"],
    )  # fmt: skip
    assert program is not None
    program.model.metadata_props["unskew"] = told
    program.save(str(place))


WRITERS: dict[str, Callable[[TrainedModel, Intake, Path, str], None]] = {
    ".safetensors": _weights,
    ".pt2": _program,
    ".onnx": _onnx,
}
"""What writes each form."""


def _traced(model: TrainedModel, intake: Intake) -> torch.export.ExportedProgram:
    """The model as a graph that takes any number of samples."""
    samples = torch.zeros(2, *intake.shape, dtype=model.mean.dtype)
    any_number = ({0: torch.export.Dim("N")},)
    try:
        traced = torch.export.export(Exported(model), (samples,), dynamic_shapes=any_number, strict=False)
    except Exception as problem:  # a module of one's own may do what cannot be traced
        raise InputError(
            f"torch cannot export this model ({first_line(problem)}); write -o model.safetensors, "
            "which holds its weights"
        ) from problem
    for node in traced.graph.nodes:
        node.meta.pop("stack_trace", None)  # lines of our code, and where it lies on this machine
    return traced


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says about packages that nobody asked for."""
    talkers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [talker.level for talker in talkers]
    for talker in talkers:
        talker.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for talker, level in zip(talkers, levels, strict=True):
            talker.setLevel(level)
