"""By what a round is chosen: by the samples set aside for validation where a run has them, else by the test set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from unskew.metrics.scores import METRICS, Reading, validation_key

ChosenOn = Literal["validation", "test"]

IN_WORDS: dict[ChosenOn, str] = {
    "validation": "chosen on validation samples, never on the test set",
    "test": "chosen on the test set itself, so it is higher than a choice made without it",
}
"""What has to be said of the best round."""


def chosen_on(lines: Sequence[dict[str, Any]], reading: Reading = METRICS["accuracy"]) -> ChosenOn:
    """What the rounds of a log are chosen on."""
    key = validation_key(reading.key)
    return "validation" if any(_known(line.get(key)) for line in lines) else "test"


def best_line(lines: Sequence[dict[str, Any]], reading: Reading = METRICS["accuracy"]) -> dict[str, Any]:
    """The first of the rounds that are best, of those that were judged."""
    key = validation_key(reading.key) if chosen_on(lines, reading) == "validation" else reading.key
    known = [line for line in lines if _known(line.get(key))] or list(lines)
    best = known[0]
    for line in known[1:]:
        if _known(line.get(key)) and reading.better(line[key], best[key]):
            best = line
    return best


def _known(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
