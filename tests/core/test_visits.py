"""What the log tells of each visit of a round."""

from __future__ import annotations

import math
from pathlib import Path

import unskew

SMALL = {"dataset": "digits", "clients": 6, "cohort": 3, "rounds": 2, "engine": "loop", "seed": 1}


def test_a_plain_round_is_one_leg_with_who_trained(tmp_path: Path) -> None:
    run = unskew.run(**SMALL, out=tmp_path / "run")
    for line in run.folder.lines:
        (leg,) = line["visits"]
        assert leg["by"] == "server"
        assert len(set(leg["clients"])) == len(leg["loss"]) == len(leg["moved"]) == 3
        assert all(loss > 0 and math.isfinite(loss) for loss in leg["loss"])
        assert all(moved > 0 for moved in leg["moved"])
        assert "keeps" not in leg


def test_sem_tells_from_whom_each_model_came(tmp_path: Path) -> None:
    run = unskew.run(**SMALL | {"cohort": 4}, method="sem", epochs=4, out=tmp_path / "run")
    first, second = run.folder.lines[0]["visits"]
    assert first["keeps"]
    assert (second["by"], second["from"]) == ("peer", first["clients"])
    assert sorted(second["clients"]) == sorted(first["clients"])


def test_who_was_lost_is_named(tmp_path: Path) -> None:
    run = unskew.run(**SMALL, drop=1.0, out=tmp_path / "run")
    (leg,) = run.folder.lines[0]["visits"]
    assert leg["clients"] == []
    assert len(leg["lost"]) == 3
