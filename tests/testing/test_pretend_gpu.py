"""The GPU that is none: every part runs on it with the loop engine's numbers, and it finds what only a GPU would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unskew.parts import PARTS, PRESETS

BROKEN = '''
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from unskew.parts import Objective, Step


@dataclass(frozen=True)
class StaysBehind(Objective):
    """Makes a tensor on the CPU, whatever device it runs on."""

    name: ClassVar[str] = "stays_behind"

    def penalty(self, step: Step):
        logits = step.out.logits
        return 1e-3 * (logits * torch.ones(logits.shape[-1], dtype=logits.dtype)).mean()


@dataclass(frozen=True)
class Reads(Objective):
    """Reads a number of the device in every step, which its capture cannot wait for."""

    name: ClassVar[str] = "reads"

    def penalty(self, step: Step):
        total = sum(p.detach().square().sum() for p in step.params.values())
        return 1e-3 * float(total) * step.out.logits.square().mean()


@dataclass(frozen=True)
class Counts(Objective):
    """Counts steps in Python, where a replay does not come by."""

    name: ClassVar[str] = "counts"
    seen: ClassVar[list] = []

    def penalty(self, step: Step):
        self.seen.append(1)
        return 1e-3 * len(self.seen) * step.out.logits.square().mean()


@dataclass(frozen=True)
class Moves(Objective):
    """Brings a number to the device in every step."""

    name: ClassVar[str] = "moves"

    def penalty(self, step: Step):
        logits = step.out.logits
        return torch.tensor(1e-3, dtype=logits.dtype).to(logits.device) * logits.square().mean()
'''


def said_of(methods: list[str], folder: Path) -> tuple[dict[str, str], int]:
    """What the command says of each method, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "unskew.testing.pretend_gpu", *methods],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    assert len(lines) == len(methods or [*PARTS, *PRESETS]), done.stderr
    return {method: said for method, _, said in lines}, done.returncode


def test_every_part_and_preset_has_the_loops_numbers_on_it(tmp_path: Path) -> None:
    """Stacked and side by side, with captured steps, read back from disk, judged by clients' own samples."""
    said, status = said_of([], tmp_path)
    assert {k: v for k, v in said.items() if not v.startswith("the loop engine's numbers to")} == {}
    assert status == 0


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of parts that a CPU forgives."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "mine.py").write_text(BROKEN, "utf-8")
    said, status = said_of([f"mine:{name}" for name in ("StaysBehind", "Reads", "Counts", "Moves")], folder)
    assert status == 1
    return said


def test_a_tensor_that_stays_on_the_cpu_is_found(broken: dict[str, str]) -> None:
    assert broken["mine:StaysBehind"].startswith(
        "fails: aten.mul.Tensor has a tensor on the CPU (3) beside one"
    )


def test_a_number_that_is_read_in_a_step_is_found(broken: dict[str, str]) -> None:
    assert broken["mine:Reads"].startswith("fails: ")


def test_a_number_of_python_that_a_replay_goes_on_with_is_found(broken: dict[str, str]) -> None:
    assert broken["mine:Counts"].startswith("differs by ")


def test_a_number_that_comes_from_the_cpu_in_a_captured_step_is_found(broken: dict[str, str]) -> None:
    assert "(one number) beside one on the GPU while a step is captured" in broken["mine:Moves"]


FORKS = """
import torch
import unskew
from unskew.machine.processes import can_fork
from unskew.testing.pretend_gpu import pretend_device

assert can_fork()
pretend_device()  # as on a machine with a GPU
assert not can_fork()
weight = torch.ones(2, requires_grad=True)
weight.square().sum().backward()  # by the CPU, and yet autograd has threads for the GPU from here on
ended = unskew.run(dataset="digits", clients=20, rounds=2, engine="fast", workers=2, model="linear", progress=False)
print("rounds", ended.result["rounds"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are never forked")
def test_workers_train_beside_a_gpu_after_a_gradient_of_the_cpu(tmp_path: Path) -> None:
    """They are spawned then, and do not run the script again: it needs no guard."""
    (tmp_path / "mine.py").write_text(FORKS, "utf-8")
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "rounds 2\n", done.stderr
