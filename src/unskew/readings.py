"""Which metrics there are, and how each is read: its name, its line of help, which way is better.

Nothing heavy is loaded here, since settings, completion and reports ask for names alone; the numbers are worked out in
``metrics/scores.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unskew.errors import InputError


@dataclass(frozen=True)
class Reading:
    """How a metric is read: what it is, whether more of it is better, and whether it is a share of 1."""

    name: str
    help: str
    title: str  # in the middle of a sentence, and at the head of a column
    larger_is_better: bool = True
    percent: bool = True
    own: bool = False  # given in Python

    @property
    def key(self) -> str:
        """What it is called in a line of the log."""
        return KEYS.get(self.name, f"global_test_{self.name}")

    def of_line(self, line: Mapping[str, Any]) -> float | None:
        """Its value in a line of a log; None where that has none. Older logs tell some by the classes' accuracies."""
        value = line.get(self.key)
        if self.key not in line and self.name in BY_CLASS:
            known = [share for share in line.get("per_class_accuracy") or () if share is not None]
            value = BY_CLASS[self.name](known) if known else None
        number = isinstance(value, (int, float)) and math.isfinite(value)
        return float(value) if number and value is not None else None

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.larger_is_better else one < other

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as a target."""
        return value == target or self.better(value, target)

    def best(self, values: Any) -> float:
        """The best of some values."""
        return float(max(values) if self.larger_is_better else min(values))

    def gain(self, difference: float) -> float:
        """A difference with the sign that says what was gained."""
        return difference if self.larger_is_better else -difference

    def say(self, value: float | None) -> str:
        """0.8231; a dash where there is no number."""
        return "-" if value is None else f"{value:.4f}"

    def as_dict(self) -> dict[str, Any]:
        """What a run's folder keeps of a metric that was given in Python."""
        return {
            "help": self.help,
            "larger_is_better": self.larger_is_better,
            "percent": self.percent,
        }


BY_CLASS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "balanced_accuracy": lambda known: sum(known) / len(known),
    "worst_class": min,
}
"""Metrics of the accuracies of the classes that the test set has."""

KEYS = {"log_loss": "global_test_loss"}
"""Metrics that the log has always had under another name."""

METRICS: Mapping[str, Reading] = {
    reading.name: reading
    for reading in (
        Reading("accuracy", "The share of the test samples that is right.", "accuracy"),
        Reading(
            "balanced_accuracy",
            "The mean of the classes' accuracies: every class counts alike, however many samples it has.",
            "balanced accuracy",
        ),
        Reading(
            "macro_f1",
            "The mean of the classes' F1 scores: false alarms for a class count, too.",
            "macro F1",
        ),
        Reading("worst_class", "The accuracy of the class that is served worst.", "worst class"),
        Reading(
            "log_loss",
            "The mean cross-entropy: how much probability the truth was given; smaller is better.",
            "log-loss",
            larger_is_better=False,
            percent=False,
        ),
        Reading(
            "auc",
            "Two classes only: the chance that a sample of the second class is ranked above one of the first.",
            "AUC",
        ),
    )
}
"""Every metric there is, in the order in which they are told."""

BY_SAMPLE = ("auc",)
"""Metrics that need every answer, not counts alone: they are known of the server's own samples only."""


def number_or_none(value: float) -> float | None:
    """A number that JSON has; None for what is not finite, as all is that comes of a model that has diverged."""
    return float(value) if math.isfinite(value) else None


def validation_key(key: str) -> str:
    """What a metric of the test set is called on the samples set aside for validation."""
    return key.replace("global_test_", "validation_", 1)


def check_twice(names: Sequence[str]) -> None:
    """Refuse a metric that is named twice."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"metrics names {twice} twice; name it once")


def check_target(target: Any, names: Sequence[str] = (), example: str = "") -> None:
    """Refuse a target that the first metric cannot reach."""
    first = METRICS.get(names[0]) if names else METRICS["accuracy"]
    shown = f"{target:g}" if isinstance(target, (int, float)) else repr(target)
    is_number = isinstance(target, (int, float)) and not isinstance(target, bool)
    instead = f"; write {example}" if example else ""
    if first is not None and first.percent:
        if not is_number or not 0 <= target <= 1:
            what = "an accuracy" if first.name == "accuracy" else f"a value of {first.name}"
            such = "" if example else ", such as 0.9"
            raise InputError(f"target is {what} from 0 to 1{such}, not {shown}{instead}")
    elif not is_number or not math.isfinite(target):
        raise InputError(f"target is a finite number, a value of {names[0]}, not {shown}")
