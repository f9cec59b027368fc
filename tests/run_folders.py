"""Run folders written by hand, so that every number of a report can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from unskew.runs.folder import UNSEALED
from unskew.runs.spec import Spec

WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run folder below ``tmp_path``: one accuracy a round, and whatever else is asked for."""

    def write(
        name: str,
        accuracies: Sequence[float | None],
        *,
        status: str | None = "done",
        result: dict[str, Any] | None = None,
        lines: dict[str, Any] | None = None,
        data: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        spec = Spec.of({"dataset": "digits", "clients": 20, "rounds": len(accuracies) or 5, **settings})
        about = {"name": "digits", "clients": 20, "samples": 200, "sha256": "ab" * 32} | (data or {})
        (folder / "spec.json").write_text(
            json.dumps({"format": UNSEALED, "unskew": "0.1.0", "spec": spec.as_dict(), "data": about})
        )
        log = [line_of(at, accuracy) | (lines or {}) for at, accuracy in enumerate(accuracies, 1)]
        (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
        said = {"status": status, "data": about} | (result or {})
        if status == "done":
            said.setdefault("discloses", [])
        if status is not None:
            (folder / "result.json").write_text(json.dumps(said))
        return folder

    return write


def line_of(round: int, accuracy: float | None) -> dict[str, Any]:
    """A round that moves 1000 bytes each way for each of 10 clients and takes 100 sample-steps."""
    line: dict[str, Any] = {"round": round}
    if accuracy is not None:
        line |= {
            "global_test_accuracy": accuracy,
            "global_test_loss": 1 - accuracy,
            "per_class_accuracy": [accuracy, min(1.0, accuracy + 0.1), None],
        }
    return line | {
        "bytes_down": 10_000,
        "bytes_up": 10_000,
        "bytes_peer": 0,
        "bytes": {"down": {"model": 10_000}, "up": {"model": 10_000}, "peer": {}},
        "sample_steps": 100,
        "asked": 10,
        "answered": 10,
        "wall_s": 0.5,
    }


@pytest.fixture
def six_runs(write_run: WriteRun, tmp_path: Path) -> Path:
    """Two methods, three seeds.

    fedavg ends at 0.80, 0.82, 0.84: mean 0.82, sd 0.02. full ends at 0.85, 0.86, 0.90: mean 0.87, sd
    sqrt((0.02^2 + 0.01^2 + 0.03^2) / 2) = 0.0264575. On the same seeds they are 0.05, 0.04, 0.06 apart: mean
    0.05, sd 0.01.
    """
    for seed, (fedavg, full) in enumerate(((0.80, 0.85), (0.82, 0.86), (0.84, 0.90))):
        write_run(f"sweep/fedavg-{seed}", [0.5, 0.9, fedavg], method="fedavg", seed=seed)
        write_run(f"sweep/deeper/full-{seed}", [0.6, 0.7, full], method="full", seed=seed)
    return tmp_path / "sweep"
