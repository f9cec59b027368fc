"""Runs compared: what every format of a report is written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from unskew.errors import InputError, unknown
from unskew.report.results.baseline import baseline_method, baseline_note
from unskew.report.results.choice import choices
from unskew.report.results.damage import refuse_without_numbers, with_damage
from unskew.report.results.gather import ACCURACY, Record, look_into, with_metrics
from unskew.report.results.groups import Problem, problems, uncounted
from unskew.report.results.leaderboard import Row, leaderboard
from unskew.report.results.reach import check_targets, cost_until
from unskew.report.results.search import LeftOut
from unskew.report.results.spelling import canonical
from unskew.report.results.statistics import Spread
from unskew.report.results.stops import stopped_note
from unskew.report.results.words import Headline, headline

if TYPE_CHECKING:
    from unskew.report.results.gather import Runs


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every problem with its leaderboard, and what they say together.

    ``notes`` are what must be said of each problem's baseline, mostly nothing, and ``stops`` of runs that ended early;
    ``spread`` is what ± means;
    ``left_out`` is what was found, or named, and is in no number.
    """

    records: tuple[Record, ...]
    tables: tuple[tuple[Problem, tuple[Row, ...]], ...]
    headline: Headline
    notes: tuple[str, ...] = ()
    spread: Spread = "ci"
    left_out: tuple[LeftOut, ...] = ()
    stops: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """All that must be said of each problem."""
        return [" ".join(filter(None, said)) for said in zip(self.notes, self.stops, strict=True)]

    @property
    def unfinished(self) -> list[Record]:
        return [record for record in self.records if record.status != "done"]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        goals = {r.name: r.target for _, rows in self.tables for row in rows for r in row.reached}
        return {
            "headline": f"{self.headline.title}. {self.headline.lead}",
            "metric": self.records[0].metric.key,
            "metrics": [metric.name for metric in self.records[0].metrics],
            "spread": self.spread,
            "problems": [
                {
                    "name": problem.name,
                    "baseline_note": note or None,
                    "stopped_note": stopped or None,
                    "leaderboard": [row.as_dict() for row in rows],
                    "chosen": [choice.as_dict() for choice in choices(rows)],
                }
                for (problem, rows), note, stopped in zip(self.tables, self.notes, self.stops, strict=True)
            ],
            "runs": [_said(record, goals) for record in self.records],
            "left_out": [{"folder": left.name, "why": left.why} for left in self.left_out],
        }


def compare(
    runs: Runs,
    baseline: str | None = None,
    *,
    target: float | Sequence[float] = (),
    spread: Spread = "ci",
    labels: Mapping[str, str] | None = None,
    metrics: str | Sequence[str] = (),
) -> Comparison:
    """Read and compare runs, run folders or folders of them; ``baseline`` names a method.

    ``target`` names accuracies whose cost is told, in place of those the runs watched for; ``spread`` says what ± is;
    ``labels`` says what methods are called; ``metrics`` what is told, and by the first of which it is ranked, in place
    of those that the runs name.
    """
    if spread not in get_args(Spread):
        raise unknown("spread", spread, get_args(Spread))
    read, left_out = look_into(runs)
    return compare_records(
        read, left_out, baseline, target=target, spread=spread, labels=labels, metrics=metrics
    )


def compare_records(
    read: Sequence[Record],
    left_out: Sequence[LeftOut] = (),
    baseline: str | None = None,
    *,
    target: float | Sequence[float] = (),
    spread: Spread = "ci",
    labels: Mapping[str, str] | None = None,
    metrics: str | Sequence[str] = (),
) -> Comparison:
    """The same of runs that are read already."""
    asked = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    records = labelled(with_metrics(read, asked), labels or {})
    goals = check_targets(target, [records[0].metric.name])
    refuse_without_numbers(records)
    found = problems(records)
    method = baseline_method(found, baseline)
    tables = tuple((problem, tuple(leaderboard(problem, method, goals, spread))) for problem in found)
    notes = tuple(baseline_note(problem, method) for problem in found)
    every = (group for problem in found for group in problem.groups)
    stops = tuple(map(stopped_note, found))
    said = with_damage(headline(tables, notes, stops), records)
    return Comparison(
        tuple(records), tables, said, notes, spread, (*left_out, *uncounted(records, every)), stops
    )


def labelled(records: Sequence[Record], labels: Mapping[str, str]) -> list[Record]:
    """The records with labels of their own for methods; keys are methods in any spelling."""
    wanted = {}
    for method, label in labels.items():
        if not isinstance(label, str) or not label.strip() or "\n" in label:
            raise InputError(f"the label of {method} must be a short text, not {label!r}")
        wanted[canonical(method)] = label.strip()
    methods = {canonical(record.spec.method): record.spec.method for record in records}
    for name, method in zip(wanted, labels, strict=True):
        if name not in methods:
            raise unknown("method among these runs called", method, set(methods.values()))
    return [replace(record, label=wanted.get(canonical(record.spec.method))) for record in records]


def _said(record: Record, goals: Mapping[str, float]) -> dict[str, Any]:
    judged = bool(record.judged)
    return {
        "folder": str(record.path) if record.path else None,
        "method": record.spec.method,
        "label": record.called,
        "seed": record.spec.seed,
        "status": record.status,
        "error": record.result.get("error"),
        "damage": str(record.damage) or None,
        "diverged": record.diverged,
        "round": record.round,
        "rounds": record.spec.rounds,
        "stopped": str(record.stopped) if record.stopped else None,
        "final": _numbers(record, record.final) if judged else None,
        "best": _numbers(record, record.best) | {"chosen_on": record.chosen_on} if judged else None,
        "cost_to_target": {name: cost_until(record, target) for name, target in goals.items()},
    }


def _numbers(record: Record, line: Mapping[str, Any]) -> dict[str, Any]:
    """What the report tells of a round, with its accuracy."""
    told = {metric.name: metric.of_line(line) for metric in record.metrics}
    return {"accuracy": line[ACCURACY], "round": line["round"]} | told
