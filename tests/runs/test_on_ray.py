"""A sweep over a Ray cluster: the runs of one here, in the same folders, wherever a node writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ray_cluster import three_nodes
from unskew.runs.on_ray import OnRay
from unskew.runs.running import run
from unskew.runs.sweep import sweep

SETTINGS: dict[str, Any] = {"dataset": "digits", "clients": 10, "rounds": 2, "device": "cpu"}


def test_cells_run_on_the_cluster_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are skipped when done, fetched from nodes that do not see the folder, and fail alone."""
    told: list[str] = []
    with three_nodes(2):
        done = sweep({"seed": [0, 1]}, tmp_path / "a", on="ray", **SETTINGS)
        assert [cell.status for cell in done] == ["done", "done"]
        assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["seed=0", "seed=1"]
        again = sweep({"seed": [0, 1]}, tmp_path / "a", on="ray", **SETTINGS)
        assert [cell.status for cell in again] == ["done", "done"]
        begin = OnRay.__init__

        def unseen(self: OnRay, *given: Any) -> None:
            begin(self, *given)
            self.mark.unlink()

        monkeypatch.setattr(OnRay, "__init__", unseen)
        far = sweep(
            {"seed": [1], "cohort": [10, 50]},
            tmp_path / "b",
            on="ray",
            tell=lambda cells: told.extend(c.status for c in cells),
            **SETTINGS,
        )
    assert [cell.status for cell in far] == ["done", "failed"]
    assert far[1].error.startswith("error: ")
    assert "running" in told
    here = run(progress=False, seed=1, **SETTINGS)
    for cell in (done[1], far[0]):
        assert cell.result["model_sha256"] == here.result["model_sha256"]
