"""Runs compared: what every format of a report is written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.report.results.damage import refuse_without_numbers, with_damage
from unskew.report.results.gather import ACCURACY, Record, gather
from unskew.report.results.groups import Problem, baseline_method, problems
from unskew.report.results.leaderboard import Row, leaderboard
from unskew.report.results.words import Headline, headline

if TYPE_CHECKING:
    from unskew.report.results.gather import Runs


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every problem with its leaderboard, and what they say together."""

    records: tuple[Record, ...]
    tables: tuple[tuple[Problem, tuple[Row, ...]], ...]
    headline: Headline

    @property
    def unfinished(self) -> list[Record]:
        return [record for record in self.records if record.status != "done"]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        return {
            "headline": f"{self.headline.title}. {self.headline.lead}",
            "metric": ACCURACY,
            "problems": [
                {"name": problem.name, "leaderboard": [row.as_dict() for row in rows]}
                for problem, rows in self.tables
            ],
            "runs": [_said(record) for record in self.records],
        }


def compare(runs: Runs, baseline: str | None = None) -> Comparison:
    """Read and compare runs, run folders or folders of them; ``baseline`` names a method."""
    records = gather(runs)
    refuse_without_numbers(records)
    found = problems(records)
    method = baseline_method(found, baseline)
    tables = tuple((problem, tuple(leaderboard(problem, method))) for problem in found)
    return Comparison(tuple(records), tables, with_damage(headline(tables), records))


def _said(record: Record) -> dict[str, Any]:
    judged = bool(record.judged)
    return {
        "folder": str(record.path) if record.path else None,
        "method": record.spec.method,
        "seed": record.spec.seed,
        "status": record.status,
        "error": record.result.get("error"),
        "damage": str(record.damage) or None,
        "round": record.round,
        "rounds": record.spec.rounds,
        "final": {"accuracy": record.final[ACCURACY], "round": record.final["round"]} if judged else None,
        "best": {"accuracy": record.best[ACCURACY], "round": record.best["round"]} if judged else None,
    }
