"""By what rounds and settings are chosen: by samples set aside for validation, else by the test set, which is said."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unskew.readings import METRICS, Reading, validation_key

ChosenOn = Literal["validation", "test"]


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


@dataclass(frozen=True)
class Choice:
    """Settings that were chosen among several, by the mean over seeds of each run's best round."""

    of: str
    settings: str
    among: int
    on: ChosenOn
    metric: str
    value: float  # what it was chosen by
    test: float  # on the test set, in the same rounds
    seeds: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        """One sentence, with the number it was chosen by and the one to report."""
        said = f"Of {self.among} settings of {self.of}, {self.settings} is chosen on "
        if self.on == "validation":
            said += f"validation ({self.value:.4f}) and has {self.test:.4f} global test {self.metric}"
        else:
            said += (
                f"the test set ({self.test:.4f} {self.metric}), so that number is too good; set validation = 0.1 to "
                "choose without it"
            )
        return said + (f", means of {self.seeds} seeds" if self.seeds > 1 else "") + "."


def choose_settings(
    of: str, tried: Mapping[str, Sequence[Mapping[str, Any]]], reading: Reading = METRICS["accuracy"]
) -> Choice | None:
    """The best of several settings, each with the ``best`` of its runs; None where there is nothing to choose.

    Runs have validation samples or have none: where one lacks them all are chosen on the test set.
    """
    tried = {
        name: runs for name, runs in tried.items() if all(_known(best.get(reading.name)) for best in runs)
    }
    if len(tried) < 2:
        return None
    validated, every = validation_key(reading.key), [best for runs in tried.values() for best in runs]
    on: ChosenOn = "validation" if all(_known(best.get(validated)) for best in every) else "test"
    key = validated if on == "validation" else reading.name

    def mean(runs: Sequence[Mapping[str, Any]], name: str) -> float:
        return sum(float(best[name]) for best in runs) / len(runs)

    means = {name: mean(runs, key) for name, runs in tried.items()}
    top = reading.best(means.values())
    settings = next(name for name, value in means.items() if value == top)
    runs = tried[settings]
    test = mean(runs, reading.name)
    return Choice(of, settings, len(tried), on, reading.title, top, test, len(runs))


def method_family(method: str) -> str:
    """A method's parts by their names alone: fedprox(mu=0.1) and fedprox(mu=1) are settings of one."""
    while (shorter := re.sub(r"\([^()]*\)", "", method)) != method:
        method = shorter
    return method
