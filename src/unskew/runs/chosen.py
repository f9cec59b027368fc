"""By what a round is chosen: by the samples set aside for validation where a run has them, else by the test set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from unskew.readings import METRICS, Reading, validation_key

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
    known = known_values(lines, reading)
    if not known:
        return lines[-1]
    top = reading.best(value for value, _ in known)
    return next(line for value, line in known if value == top)


def known_values(lines: Sequence[dict[str, Any]], reading: Reading) -> list[tuple[float, dict[str, Any]]]:
    """(value, line) of the rounds that have one to choose by."""
    if chosen_on(lines, reading) == "validation":
        key = validation_key(reading.key)
        return [(line[key], line) for line in lines if _known(line.get(key))]
    return [(value, line) for line in lines if (value := reading.of_line(line)) is not None]


def _known(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
