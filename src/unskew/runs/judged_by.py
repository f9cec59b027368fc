"""What a run is judged by: the metrics that were chosen, and what is said where one has no number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset
from unskew.errors import InputError, unknown
from unskew.metrics.own import Metric
from unskew.readings import METRICS, Reading, validation_key
from unskew.runs.chosen import best_line, chosen_on

Metrics = str | Sequence[str] | Mapping[str, Metric | Callable[..., Any] | None]
"""Metrics as they are given in Python: names, or functions by their names."""


def refuse_other_metrics(path: Any, about: Mapping[str, Any], given: Mapping[str, Metric]) -> None:
    """A run that was given metrics in Python goes on with the same: no line of its log may lack one."""
    began = about.get("own_metrics") or {}
    if missing := [name for name in began if name not in given]:
        raise InputError(
            f"{path} was run with a metric given in Python, {missing[0]!r}; resume it there: "
            f"unskew.resume({str(path)!r}, metrics={{{missing[0]!r}: function}})"
        )
    if more := [name for name in given if name not in began]:
        raise InputError(
            f"the metric {more[0]!r} comes too late: the rounds that {path} has played were not judged by it; "
            "start another run for it"
        )
    for name, metric in given.items():
        if metric.larger_is_better != began[name].get("larger_is_better", True):
            way = "larger" if began[name].get("larger_is_better", True) else "smaller"
            raise InputError(
                f"{path} began with a metric {name!r} of which {way} is better; give it the same"
            )


def check_names(names: Iterable[str], own: Mapping[str, Metric] | None = None) -> None:
    """Refuse metrics that there are not."""
    known = {**METRICS, **(own or {})}
    for name in names:
        if name not in known:
            raise InputError(
                f"{unknown('metric', name, known)}; one of your own is given in Python: "
                f"unskew.run(..., metrics={{{name!r}: function}})"
            )


def check_on_data(names: Sequence[str], own: Mapping[str, Metric], dataset: Dataset) -> None:
    """Refuse what this data has no number of, and own metrics that give none; before anything is written."""
    if "auc" in names and dataset.classes != 2:
        raise InputError(
            f"auc is for two classes, and {dataset.name} has {dataset.classes}; choose among "
            f"{', '.join(name for name in METRICS if name != 'auc')}"
        )
    if names and (why := why_blank(METRICS.get(names[0]), dataset.y_test, dataset.labels)):
        raise InputError(f"a run cannot go by {names[0]}, since {why}; name another metric first")
    truth = np.asarray(dataset.y_test)
    sure = np.full((len(truth), dataset.classes), 0.1 / max(1, dataset.classes - 1))
    sure[np.arange(len(truth)), truth] = 0.9 if dataset.classes > 1 else 1.0
    answers = {"truth": truth, "predicted": truth.copy(), "probabilities": sure}
    for name, metric in own.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that nobody gets to see
            metric.work_out(name, answers)


def chosen(names: Sequence[str], data: Mapping[str, Any]) -> tuple[Reading, ...]:
    """How the metrics of a run are read, by its setting and by what its folder says of its data.

    Where nothing was chosen they are all that fit the data.
    """
    if names:
        return tuple(reading_of(name, data) for name in names)
    fit = [reading for name, reading in METRICS.items() if name != "auc" or len(data.get("labels", ())) == 2]
    return (*fit, *(reading_of(name, data) for name in data.get("own_metrics") or {}))


def reading_of(name: str, data: Mapping[str, Any]) -> Reading:
    """How a metric is read: unskew's own, or one that a run was given in Python."""
    if name in METRICS:
        return METRICS[name]
    told = (data.get("own_metrics") or {}).get(name) or {}
    return Reading(
        name,
        str(told.get("help", "")),
        name.replace("_", " "),
        bool(told.get("larger_is_better", True)),
        bool(told.get("percent", False)),
        own=True,
    )


def why_blank(reading: Reading | None, truth: Array | None = None, labels: Sequence[str] = ()) -> str:
    """Why a metric has no number on a test set, whatever the model; nothing where it has."""
    if reading is None or reading.name != "auc" or truth is None:
        return ""
    if len(labels) != 2:
        return f"AUC is for two classes, and there are {len(labels)}"
    missing = [str(labels[k]) for k in (0, 1) if not (np.asarray(truth) == k).any()]
    return f"the test set has no sample of {missing[0]!r}" if missing else ""


def describe_metrics(own: Mapping[str, Metric], dataset: Dataset) -> dict[str, Any]:
    """What a run's folder says of metrics given in Python, and of those that fit the data but not its test set."""
    told: dict[str, Any] = {}
    why = why_blank(METRICS["auc"], dataset.y_test, dataset.labels)
    if why and dataset.classes == 2:
        told["blanks"] = {"auc": why}
    if own:
        told["own_metrics"] = {name: metric.reading(name).as_dict() for name, metric in own.items()}
    return told


def explain_blank(reading: Reading, line: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Why a metric has no number in a line of the log, where ``data`` is what the run's folder says of its data."""
    if on_data := (data.get("blanks") or {}).get(reading.name):
        return str(on_data)
    classes = len(data.get("labels", ()))
    if reading.name == "auc" and classes and classes != 2:
        return f"AUC is for two classes, and there are {classes}"
    if reading.key not in line:
        return (
            "the log is of a version that did not measure it" if not reading.own else "it was not given then"
        )
    return "it gave no finite number" if reading.own else "the model's outputs are not finite"


def summarise(
    names: Sequence[str],
    targets: Sequence[float],
    data: Mapping[str, Any],
    lines: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """What a run's log says of its metrics: all of them at the best round, by the first, and at the last one.

    Of the best there may be several; the first of them is meant.
    """
    readings = chosen(names, data)
    told = {
        r.name: r for r in (METRICS["accuracy"], *readings, *chosen((), data))
    }  # a result always has them all
    first = readings[0]
    judged = [line for line in lines if "global_test_accuracy" in line]
    scored = [(value, line) for line in judged if (value := first.of_line(line)) is not None]
    best = best_line(judged, first)
    ends = {
        which: {"accuracy": None, "round": line["round"]} | {n: r.of_line(line) for n, r in told.items()}
        for which, line in (("best", best), ("final", judged[-1]))
    }
    blanks = {
        name: explain_blank(told[name], judged[-1], data)
        for name, value in ends["final"].items()
        if value is None
    }
    chosen_by = validation_key(first.key)
    ends["best"] |= {"chosen_on": chosen_on(judged, first)}
    ends["best"] |= {chosen_by: best[chosen_by]} if best.get(chosen_by) is not None else {}
    reached = {
        str(target): next((line["round"] for value, line in scored if first.reaches(value, target)), None)
        for target in targets
    }
    return {
        "metric": first.key,
        "metrics": [reading.name for reading in readings],
        **ends,
        **({"blanks": blanks} if blanks else {}),
        "rounds_to_target": reached,
    }
