"""Runs that are going on, written by hand, for tests of the studio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run_folders import line_of


def add_rounds(folder: Path, first: int, accuracies: list[float]) -> None:
    """A run goes on: some lines more in its log, with who trained."""
    with (folder / "rounds.jsonl").open("a") as log:
        for at, accuracy in enumerate(accuracies, first):
            log.write(json.dumps(line_of(at, accuracy) | {"visits": visits(at)}) + "\n")


def visits(round: int) -> list[dict[str, Any]]:
    """Two clients that train by halves and hand their models over, as SEM's do."""
    one, other = round % 5, 5 + round % 5
    return [
        {"by": "server", "clients": [one, other], "keeps": True, "loss": [1.0, 2.0], "moved": [0.1, 0.2]},
        {
            "by": "peer",
            "clients": [other, one],
            "from": [one, other],
            "loss": [0.5, 1.5],
            "moved": [0.3, 0.4],
        },
    ]
