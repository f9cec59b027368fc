"""A sweep over a Ray cluster: the runs of one here, in the same folders, wherever a node writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ray_cluster import three_nodes
from unskew.engines.cluster import connect
from unskew.runs.on_ray import OnRay
from unskew.runs.running import run
from unskew.runs.sweep import Cell, sweep

SETTINGS: dict[str, Any] = {"dataset": "digits", "clients": 10, "rounds": 2}


def test_cells_run_on_the_cluster_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are skipped when done, fail alone, and are fetched as they run from nodes that do not see the folder."""
    free: list[float] = []
    with three_nodes(1) as cluster:
        cluster.add(num_gpus=1)
        ray = connect.load_ray()

        def tell(cells: list[Cell]) -> None:
            free.append(ray.available_resources().get("GPU", 0.0))

        near: dict[str, Any] = {"on": "ray", "device": "cpu", **SETTINGS}
        done = sweep({"cohort": [10, 50]}, tmp_path / "a", tell=tell, **near)
        assert [cell.status for cell in done] == ["done", "failed"]
        assert done[1].error.startswith("error: ")
        assert [p.name for p in (tmp_path / "a").iterdir()] == ["cohort=10"]
        assert set(free) == {1.0}  # who may not use a GPU is given none
        again = sweep({"cohort": [10]}, tmp_path / "a", **near)
        assert [cell.status for cell in again] == ["done"]
        begin = OnRay.__init__

        def unseen(self: OnRay, *given: Any) -> None:
            begin(self, *given)
            self.mark.unlink()

        monkeypatch.setattr(OnRay, "__init__", unseen)
        far: dict[str, Any] = {"on": "ray", **SETTINGS, "rounds": 200}
        seen: list[int] = []

        def interrupt(cells: list[Cell]) -> None:
            tell(cells)
            seen.extend(cell.played for cell in cells if cell.status == "running")
            if seen and seen[-1]:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):  # once it is seen that rounds were played there
            sweep({"cohort": [10]}, tmp_path / "b", tell=interrupt, **far)
        assert 0.0 in free  # it had the GPU that there is
        saved = len((tmp_path / "b" / "cohort=10" / "rounds.jsonl").read_text().splitlines())
        assert saved >= seen[-1] > 0
        cells = sweep({"cohort": [10]}, tmp_path / "b", **far)
    assert cells[0].status == "done"
    assert cells[0].known == saved  # it went on from there
    for cell in (done[0], cells[0]):
        here = run(progress=False, **SETTINGS | {"rounds": cell.spec.rounds})
        assert cell.result["model_sha256"] == here.result["model_sha256"]
