"""Metrics that somebody gives in Python: a function of the truth, the answers and the probabilities."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError
from unskew.readings import KEYS, METRICS, Reading


@dataclass(frozen=True)
class Metric:
    """A metric of your own, for ``unskew.run(..., metrics={"name": Metric(function)})``.

    ``function(y_true, y_pred, probabilities)`` is given the test set's labels and the model's answers as whole numbers
    [n], and the probability of each class [n, classes], and gives back one number. A function of two arguments is
    given the first two, so that most of scikit-learn's scores fit as they are.

    - ``larger_is_better``: False where less is better, such as a cost: ranks and targets then go the other way round.
    - ``percent``: whether it is a share of 1 that reports show in percent.
    - ``help``: what it is, in a line.
    """

    function: Callable[..., Any]
    larger_is_better: bool = True
    percent: bool = False
    help: str = ""

    def reading(self, name: str) -> Reading:
        """How it is read."""
        return Reading(
            name,
            self.help or _first_line(self.function),
            name.replace("_", " "),
            self.larger_is_better,
            self.percent,
            own=True,
        )

    def work_out(self, name: str, answers: Mapping[str, Array]) -> float:
        """Its value; NaN where it says so itself. What is no number is refused."""
        given = (answers["truth"], answers["predicted"], answers["probabilities"].astype(np.float64))
        try:
            found = self.function(*given[: _arguments(self.function)])
        except Exception as problem:
            raise InputError(
                f"the metric {name!r} failed with {type(problem).__name__}: {problem}; it is called with y_true, "
                "y_pred [n] and probabilities [n, classes]"
            ) from problem
        try:
            if isinstance(found, (str, bytes)) or np.ndim(found) or np.iscomplexobj(found):
                raise TypeError
            return float(found)
        except (TypeError, ValueError):
            what = f"an array of shape {np.shape(found)}" if np.ndim(found) else repr(found)
            raise InputError(f"the metric {name!r} gave {what}, and must give one number") from None


def own_metrics(given: Any) -> tuple[tuple[str, ...], dict[str, Metric]]:
    """The names of ``metrics`` as somebody wrote them, in their order, and those of them that are their own.

    A list holds names of unskew's own; a mapping has functions or ``Metric`` by name, and None for unskew's own.
    """
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Mapping):
        if not isinstance(given, Sequence):
            raise InputError(
                f'metrics are names such as ["macro_f1"], or {{"name": function}}, not {given!r}'
            )
        names = tuple(given)
        if strange := next((name for name in names if not isinstance(name, str)), None):
            said = getattr(strange, "__name__", repr(strange))
            raise InputError(f'a metric of your own needs a name: write metrics={{"{said}": {said}}}')
        return names, {}
    own: dict[str, Metric] = {}
    for name, value in given.items():
        if value is None:
            continue
        metric = value if isinstance(value, Metric) else Metric(value)
        _check(name, metric)
        own[name] = metric
    return tuple(given), own


def _check(name: Any, metric: Metric) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(
            f"a metric's name is a word of small letters, such as 'cost_per_patient', not {name!r}"
        )
    if name in METRICS:
        raise InputError(
            f"{name!r} is a metric of unskew's own; give yours another name, or write None for it"
        )
    if f"global_test_{name}" in KEYS.values():
        raise InputError(f"{name!r} is in every log already, as {name}; give your metric another name")
    if not callable(metric.function):
        raise InputError(
            f"the metric {name!r} must be a function of y_true, y_pred and probabilities, not {metric.function!r}"
        )


def _arguments(function: Callable[..., Any]) -> int:
    """How many of the three it is given: two where it takes no third by its place."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of C's functions do not say
        return 3
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 3
    return min(3, sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters))


def _first_line(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    return (text or "").split("\n")[0]
