"""Checkpoints of the version before, whose memories were flat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from unskew.core.engine import RunPlan
from unskew.core.memory import flatten
from unskew.core.method import Method
from unskew.core.old_checkpoints import PREFIXES
from unskew.core.round import play_round
from unskew.core.state import SavedTensor, State, load_state, save_state, sealed
from unskew.core.types import Memory, Tree
from unskew.runs.result import params_hash
from unskew.testing.toy_federation import ready

METHODS = [
    "fedfa",
    "fedfv",
    "moon+fedbr(group=2)",
    "feddyn+phase_shift(2)",
    "scaffold+fedbr(group=2)",
    "kld+phase_shift(2)+dynamic",
    "fedgen(start=1, steps=2, batch=8)",
    "fedgen(latent, steps=2, batch=8)",
    "flea(last, share=0.5)",
]


def flat_as_before(part: str, memory: Memory) -> Tree:
    """A memory under the names that it had: ``m:w``, ``adam:first:w``, ``memory|feddyn|gone:w``."""
    old = {tree: prefix for prefix, tree in PREFIXES.get(part, {}).items()}
    found: Tree = {}
    for name, value in memory.items():
        if not isinstance(value, dict):
            found[name] = value
        elif name in old:
            found |= {f"{old[name]}:{path.replace('/', ':')}": v for path, v in flatten(value).items()}
        elif name in ("uploads", "memory"):
            trees = ((who, flat_as_before(who, tree)) for who, tree in value.items())
            found |= {f"{name}|{who}|{k}": v for who, tree in trees for k, v in tree.items()}
        else:
            found |= {f"{name}|{k}": v for k, v in value.items()}
    return found


def write_as_before(state: State, folder: Path) -> None:
    """A checkpoint of format 1."""
    about = {"format": 1, "round": state.round, "seed": state.seed, "parts": sorted(state.server)}
    entries = [SavedTensor.of(f"params/{k}", v) for k, v in state.params.items()]
    for part, memory in state.server.items():
        entries += [SavedTensor.of(f"server/{part}/{k}", v) for k, v in flat_as_before(part, memory).items()]
    for part, rows in state.clients.rows.items():
        ids = sorted(rows)
        each = [flat_as_before(part, rows[k]) for k in ids]  # type: ignore[arg-type]
        entries.append(SavedTensor.of(f"ids/{part}", torch.tensor(ids)))
        entries += [
            SavedTensor.of(f"clients/{part}/{k}", torch.stack([row[k] for row in each])) for k in each[0]
        ]
    folder.mkdir()
    whole = b"".join(bytes(piece) for piece in sealed(entries, {"unskew": json.dumps(about)}))
    (folder / f"{state.round:06d}.safetensors").write_bytes(whole)


def played(run: RunPlan, state: State, rounds: int) -> State:
    for _ in range(rounds):
        state, _ = play_round(run, state)
    return state


@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_the_version_before_goes_on_to_the_same_bits(method: str, tmp_path: Path) -> None:
    """Two rounds with late clients, a checkpoint as it was written then, and two rounds more."""
    setup = ready(Method.parse(method), late=0.4)
    half = played(setup.run, setup.state, 2)
    write_as_before(half, tmp_path / "old")
    found = load_state(tmp_path / "old")
    assert found is not None
    whole, resumed = (played(setup.run, state, 2) for state in (half, found))
    assert params_hash(whole.params) == params_hash(resumed.params)
    save_state(found, tmp_path / "new")
    again = load_state(tmp_path / "new")
    assert again is not None
    for part, memory in found.server.items():
        one, other = flatten(memory), flatten(again.server[part])
        assert all(torch.equal(one[path], other[path]) for path in one | other)
