"""Which settings of a method runs speak for, where several were tried, and on what they were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.readings import validation_key
from unskew.report.results.gather import Record, number
from unskew.report.results.leaderboard import Row
from unskew.report.results.spelling import canonical
from unskew.runs.chosen import Choice, choose_settings, method_family


def choices(rows: Sequence[Row]) -> list[Choice]:
    """For each method that was run with several settings, all with as many seeds: those that are chosen."""
    families: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        if row.group.complete:
            best = [_best(record) for record in row.group.counted]
            families.setdefault(method_family(canonical(row.group.method)), {})[row.group.label] = best
    found = []
    for family, tried in families.items():
        most = max(map(len, tried.values()))
        whole = {label: runs for label, runs in tried.items() if len(runs) == most}
        choice = choose_settings(family, whole, rows[0].metric)
        if choice is not None:
            found.append(choice)
    return found


def _best(record: Record) -> dict[str, Any]:
    line = record.best
    by, validated = record.metric, validation_key(record.metric.key)
    return {by.name: by.of_line(line), validated: number(line.get(validated))}
