"""What a run's folder keeps of its model.

model.json         what the model is and what it takes: its name, shape, classes, a table's columns and fills
model.safetensors  the weights that the run ended with, normalisation too; of the calibrated copy where there is one

The first is written when the run begins, so that the checkpoint of one that was stopped can be used too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.core.checkpoint_files import SEAL, is_whole
from unskew.core.state import SavedTensor, sealed
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.files import write_file
from unskew.later import load, torch
from unskew.runs.spec import Spec
from unskew.sealed import seal as sealed_json
from unskew.sealed import unseal

if TYPE_CHECKING:
    from unskew.core.engine import RunPlan
    from unskew.models.trained import TrainedModel

CARD, WEIGHTS = "model.json", "model.safetensors"
FORMAT = 1
"""Version of what model.json holds."""


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


def read_card(folder: Path) -> dict[str, Any]:
    """What a run's folder says of its model."""
    file = folder / CARD
    instead = f"with its data at hand, unskew.resume({str(folder)!r}).model gives its model"
    if not file.is_file():
        raise InputError(
            f"{folder} has no {CARD}: an earlier unskew wrote it, or it was stopped in its first moment; {instead}"
        )
    found = unseal(file.read_bytes(), required=True)
    if found is None:
        raise InputError(f"{file} is damaged; {instead}")
    if found.get("format") != FORMAT:
        raise InputError(f"{file} has format {found.get('format')}, this version reads {FORMAT}; {instead}")
    return found


def write_weights(folder: Path, model: TrainedModel, round: int, calibrated: bool) -> None:
    """Keep what a run ended with."""
    about = {"round": round, "calibrated": calibrated, "sealed": True}
    entries = [
        SavedTensor.of(name, value.detach().cpu().contiguous()) for name, value in model.state_dict().items()
    ]
    write_file(folder / WEIGHTS, sealed(entries, {"unskew": json.dumps(about)}))


def check_weights(file: Path) -> tuple[int, bool]:
    """(round, whether calibrated) of weights that are whole."""
    about, _ = _opened(file, "np", tensors=False)
    return int(about["round"]), bool(about["calibrated"])


def read_weights(file: Path, framework: str = "pt") -> Any:
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
