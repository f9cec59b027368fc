"""Every metric of a leaderboard: who leads by each, and why one has no number."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.readings import Reading
from unskew.report.results import words
from unskew.report.results.leaderboard import Row


def leads(row: Row, rows: Sequence[Row], metric: Reading) -> bool:
    """Whether a row has the best mean of a metric, bounds aside; who stands alone leads nobody."""
    running = [other for other in words.contenders(rows) if metric.name in other.scores]
    if row not in running or len(running) < 2:
        return False
    best = metric.best(other.scores[metric.name].mean for other in running)
    return row.scores[metric.name].mean == best


def blanks_told(rows: Sequence[Row]) -> list[str]:
    """What has no number and why, a line a metric and reason."""
    told: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for metric in row.metrics:
            if why := row.blanks.get(metric.name):
                told.setdefault((metric.title, why), []).append(row.group.label)
    return [
        f"no {title}{'' if len(who) == len(rows) else ' of ' + ', '.join(who)}: {why}"
        for (title, why), who in told.items()
    ]
