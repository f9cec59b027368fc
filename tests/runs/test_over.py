"""A run that is over is known without torch, and nothing is taken for one that is not."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

import unskew
from unskew.core.checkpoint_files import SEAL
from unskew.errors import InputError
from unskew.runs.over import is_over
from unskew.runs.resuming import ask_to_resume

SETTINGS: dict[str, Any] = {"clients": 6, "cohort": 3, "rounds": 3, "progress": False, "checkpoint": 0.0}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is done, with memories at the server and at clients, and a part that warns."""
    folder = tmp_path_factory.mktemp("over") / "run"
    with pytest.warns(UserWarning, match="does nothing before round 10"):
        unskew.run(dataset="digits", method="scaffold+ccvr+fedgen(start=9)", out=folder, **SETTINGS)
    return folder


@pytest.fixture
def copied(ended: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(ended, tmp_path / "run"))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "local_only"},
        {"precision": "fp64", "partition": "iid"},
        {"model": "thesis_fashion", "batch_norm": "local", "rounds": 1},
        {"stop": "round >= 2"},
        {"keep": [1], "evaluate": 2},
    ],
    ids=str,
)
def test_a_run_that_is_done_is_over(settings: dict[str, Any], tmp_path: Path) -> None:
    """Whatever it was, and where it ended early; what it is asked with may not matter."""
    unskew.run(dataset="digits", out=tmp_path / "run", **{**SETTINGS, **settings})
    assert is_over(ask_to_resume(tmp_path / "run"))
    assert is_over(ask_to_resume(tmp_path / "run", workers=3, dataset="digits"))


def newest(run: Path) -> Path:
    return max((run / "state").iterdir())


def changed(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def rewritten(run: Path, lacking: Callable[[str], bool]) -> None:
    """The same checkpoints as an earlier version wrote them, without a seal and some entries."""
    for path in (run / "state").iterdir():
        with safe_open(path, framework="pt") as file:
            held = {k: file.get_tensor(k) for k in file.keys() if k != SEAL and not lacking(k)}  # noqa: SIM118
            metadata = file.metadata()
        save_file(held, path, metadata)


def shortened(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit in the newest checkpoint": lambda run: changed(newest(run), -200),
    "a flipped bit in its header": lambda run: changed(newest(run), 60),
    "no newest checkpoint": lambda run: newest(run).unlink(),
    "no checkpoint": lambda run: shutil.rmtree(run / "state"),
    "no seal": lambda run: rewritten(run, lambda name: False),
    "no parameter": lambda run: rewritten(run, lambda name: name.startswith("params/")),
    "no partition": lambda run: (run / "partition.npz").unlink(),
    "a damaged partition": lambda run: changed(run / "partition.npz", 100),
    "a round less in the log": lambda run: shortened(run / "rounds.jsonl"),
    "a damaged log": lambda run: changed(run / "rounds.jsonl", 20),
    "a damaged result": lambda run: changed(run / "result.json", 20),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_run_is_not_over(what: str, copied: Path) -> None:
    """The resume looks at it, and warns of it, as if nobody had looked before."""
    DAMAGE[what](copied)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_over(ask_to_resume(copied))


@pytest.mark.parametrize(
    "asked",
    [{"rounds": 4}, {"target": (0.5,)}, {"metrics": ("macro_f1",)}, {"method_label": "mine"}],
    ids=str,
)
def test_a_run_that_is_to_say_something_else_is_not_over(asked: dict[str, Any], copied: Path) -> None:
    """It goes on, or its result is told anew."""
    assert not is_over(ask_to_resume(copied, **asked))


def test_a_run_is_warned_of_and_its_data_looked_at_as_by_a_resume(copied: Path) -> None:
    """The same warnings, and the same sentence where the data is not what it began with."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert is_over(ask_to_resume(copied))
        here = [str(one.message) for one in told]
        unskew.resume(copied, progress=False)
    assert here
    assert [str(one.message) for one in told] == 2 * here
    about = json.loads((copied / "spec.json").read_text())
    asked = ask_to_resume(copied)
    asked.about["sha256"] = about["data"]["sha256"][::-1]
    with (
        pytest.warns(UserWarning, match="does nothing before round 10"),
        pytest.raises(InputError, match=r"the data of .* is not what the run began with"),
    ):
        is_over(asked)


def test_a_run_with_weights_of_an_objective_or_a_model_given_in_python_is_left_to_torch(
    tmp_path: Path,
) -> None:
    """Nobody knows their names and shapes before they are made."""
    from torch import nn

    unskew.run(dataset="digits", method="fedbr", out=tmp_path / "heads", **SETTINGS)
    assert not is_over(ask_to_resume(tmp_path / "heads"))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    unskew.run(dataset="digits", model=model, out=tmp_path / "own", **SETTINGS)
    assert not is_over(ask_to_resume(tmp_path / "own", model=model))
