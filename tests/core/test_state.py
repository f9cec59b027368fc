"""Checkpoints: everything a resume reads, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from unskew.core.state import ClientStore, State, load_state, save_state
from unskew.errors import InputError
from unskew.runs.result import params_hash
from unskew.version import __version__


def state(round: int = 1, value: float = 1.0) -> State:
    """A model, a server's memory (one part has none), and what two of many clients remember."""
    weights = {"w": torch.full((2, 3), value), "bias.of/odd name": torch.tensor(value)}
    server = {"part": {"c": torch.arange(3), "empty": torch.zeros(0, 2)}, "bare": {}}
    kept = {"m": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "n": torch.tensor([7, 8])}
    return State(round, weights, server, ClientStore().put("part", np.array([900, 3]), kept), 5)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """Models, memories of every type and shape, the round and the seed."""
    save_state(state(), tmp_path)
    found = load_state(tmp_path)
    assert found is not None
    assert (found.round, found.seed, sorted(found.server)) == (1, 5, ["bare", "part"])
    assert params_hash(found.params) == params_hash(state().params)
    assert found.server["part"]["c"].dtype == torch.int64
    assert found.server["part"]["empty"].shape == (0, 2)
    assert found.server["bare"] == {}
    assert found.clients.rows["part"][900]["m"].tolist() == [1, 2]
    assert found.clients.rows["part"][3]["n"].tolist() == 8


def test_every_type_that_a_part_may_remember_is_saved(tmp_path: Path) -> None:
    kinds = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    kept = state()
    kept.server["part"] = {kind: torch.tensor([0, 1, 1]).to(getattr(torch, kind)) for kind in kinds}
    save_state(kept, tmp_path)
    found = load_state(tmp_path)
    assert found is not None
    for kind, value in kept.server["part"].items():
        assert found.server["part"][kind].dtype == value.dtype
        assert torch.equal(found.server["part"][kind], value)


def test_one_number_of_one_client_is_saved(tmp_path: Path) -> None:
    """As the update waits of the only client that is late, where a weight of the model is one number."""
    late = torch.tensor(2.5).expand(1)
    save_state(State(1, {"w": torch.ones(2)}, {"late": {"warmth": late}}, ClientStore(), 0), tmp_path)
    found = load_state(tmp_path)
    assert found is not None
    assert found.server["late"]["warmth"].tolist() == [2.5]


def test_memory_that_is_the_model_itself_is_saved_too(tmp_path: Path) -> None:
    """A part may remember the model it was handed, which is then one tensor under two names."""
    same = state()
    same.server["part"] = {
        "before": same.params["w"],
        "row": same.params["w"][:1],
        "twice": same.params["w"].T,
    }
    save_state(same, tmp_path)
    found = load_state(tmp_path)
    assert found is not None
    assert torch.equal(found.server["part"]["before"], same.params["w"])
    assert found.server["part"]["row"].shape == (1, 3)
    assert found.server["part"]["twice"].shape == (3, 2)


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for round in range(1, 6):
        save_state(state(round), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000004.safetensors", "000005.safetensors"]


def test_the_newest_is_the_one_of_the_highest_number(tmp_path: Path) -> None:
    """Names of a million rounds and more are longer, and as text they come before those of fewer."""
    for round in (999_998, 999_999, 1_000_000):
        save_state(state(round), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"999999.safetensors", "1000000.safetensors"}
    found = load_state(tmp_path)
    assert found is not None
    assert found.round == 1_000_000


def test_a_checkpoint_ends_with_a_hash_of_all_before(tmp_path: Path) -> None:
    """Any byte that is changed is noticed, and the library of the format reads the file as before."""
    path = save_state(state(1), tmp_path)
    whole = path.read_bytes()
    assert hashlib.blake2b(whole[:-32], digest_size=32).digest() == whole[-32:]
    with safe_open(path, framework="pt") as file:
        assert file.get_tensor("params/w").tolist() == [[1, 1, 1], [1, 1, 1]]
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = load_state(tmp_path)
        assert found is None or params_hash(found.params) == params_hash(state().params)
        assert found is None or (found.round, found.seed) == (1, 5)


def test_a_resume_is_given_what_its_log_and_its_model_know(tmp_path: Path) -> None:
    """A round that the log lacks, or a model of other tensors, is no checkpoint of the run."""
    save_state(state(3), tmp_path)
    save_state(state(5), tmp_path)
    rounds = [found and found.round for found in (load_state(tmp_path, known) for known in (5, 4, 3, 2))]
    assert rounds == [5, 3, 3, None]
    other = {"w": torch.zeros(2, 3), "more": torch.zeros(1)}
    assert load_state(tmp_path, like={"w": torch.zeros(2, 3)}) is not None
    assert load_state(tmp_path, like=other) is None
    assert load_state(tmp_path, like={"w": torch.zeros(3, 2)}) is None


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    assert load_state(tmp_path / "missing") is None


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "foreign"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, damage: str) -> None:
    """Cut off, empty, not a checkpoint at all, or one of another program."""
    save_state(state(1, value=1.0), tmp_path)
    newest = save_state(state(2, value=2.0), tmp_path)
    whole = newest.read_bytes()
    if damage == "foreign":
        save_file({"w": torch.zeros(1)}, newest)
    else:
        newest.write_bytes({"cut": whole[:-5], "empty": b"", "garbage": b"x" * 400}[damage])
    found = load_state(tmp_path)
    assert found is not None
    assert (found.round, float(found.params["w"][0, 0])) == (1, 1.0)


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    """It is whole, but cannot be guessed at; falling back would silently lose rounds."""
    path = save_state(state(3), tmp_path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["unskew"])
    for writer, said in (({"unskew": "9.0"}, "unskew 9.0"), ({"unskew": None}, "another version of unskew")):
        told = {k: v for k, v in (about | {"format": 9} | writer).items() if v is not None}
        save_file({"params/w": torch.zeros(1)}, path, {"unskew": json.dumps(told)})
        with pytest.raises(InputError) as problem:
            load_state(tmp_path)
        assert str(problem.value) == (
            f"000003.safetensors was written by {said}, in checkpoint format 9, and unskew {__version__} reads "
            "formats up to 2; resume it with the version that wrote it"
        )


def test_what_a_kill_left_half_written_is_not_read(tmp_path: Path) -> None:
    """A temporary file beside the checkpoints has another ending."""
    save_state(state(1), tmp_path)
    (tmp_path / ".000002.safetensors.123.tmp").write_bytes(b"half")
    found = load_state(tmp_path)
    assert found is not None
    assert found.round == 1


def test_a_store_with_new_memories_leaves_the_old_one_alone() -> None:
    """State is a value: a round that fails half way has changed nothing."""
    before = ClientStore().put("p", np.array([1]), {"m": torch.tensor([1.0])})
    after = before.put("p", np.array([1, 2]), {"m": torch.tensor([5.0, 6.0])})
    assert float(before.get("p", 1, {})["m"]) == 1
    assert float(after.get("p", 1, {})["m"]) == 5
    assert before.get("p", 2, {"m": torch.tensor(0.0)})["m"] == 0
    assert after.put("p", np.array([1]), {}) is after
