"""Global models of chosen rounds, kept in the run's folder beside the checkpoints, which come and go."""

from __future__ import annotations

import json
from pathlib import Path

from unskew.core.checkpoint_files import SEAL, is_whole
from unskew.core.state import SavedTensor, State, load_state, sealed
from unskew.core.types import Tree
from unskew.errors import InputError
from unskew.files import write_file

FOLDER = "models"


def keep_model(run: Path, state: State) -> Path:
    """Write the model that a round ended with."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / f"{state.round:06d}.safetensors"
    entries = (SavedTensor.of(name, value) for name, value in state.params.items())
    write_file(path, sealed(entries, {"unskew": json.dumps({"round": state.round, "sealed": True})}))
    return path


def kept_rounds(run: Path) -> list[int]:
    """The rounds whose models are there, in order."""
    return sorted(int(path.stem) for path in (run / FOLDER).glob("*.safetensors") if path.stem.isdigit())


def read_model(run: Path, round: int | None = None) -> tuple[int, Tree]:
    """(round, model): the model that this round ended with, or the newest there is."""
    if round is not None and not isinstance(round, int):
        raise InputError(f"round is a whole number, not {round!r}")
    if round in kept_rounds(run):
        return int(round or 0), _read(run / FOLDER / f"{round:06d}.safetensors")
    last = load_state(run / "state")
    if last is None:
        raise InputError(f"{run} has no checkpoint yet, so there is no model to read; let it run first")
    if round is not None and round != last.round:
        there = ", ".join(map(str, sorted({*kept_rounds(run), last.round})))
        hint = f"run it with keep = [{round}]" if 1 <= round < last.round else f"name one of round {there}"
        raise InputError(f"{run} keeps the models of round {there} but not of round {round}; {hint}")
    return last.round, last.params


def _read(place: Path) -> Tree:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(place, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("unskew", "{}"))
            held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except (SafetensorError, ValueError, OSError):
        held, about = {}, {"sealed": True}
    # one without a seal is of a version that did not seal
    if ("sealed" in about or SEAL in held) and not (held.pop(SEAL, None) is not None and is_whole(place)):
        raise InputError(f"{place} is damaged; remove it, or name another round")
    return held
