"""A run at a glance, for a notebook: a few numbers and the shape of its curve, in plain HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.readings import Reading
from unskew.report.rendering import piece
from unskew.report.results import words
from unskew.report.results.gather import ACCURACY, record_of

if TYPE_CHECKING:
    from unskew.runs.ended import Run

WIDTH, HEIGHT = 220, 48


def run_card(run: Run) -> str:
    """What a notebook shows for a run; its colours follow the notebook's own, light or dark."""
    record = record_of(run)
    numbers: list[tuple[str, str]] = []
    if record.judged:
        metric = record.metric
        by = "" if metric.name == "accuracy" else f" {metric.title}"
        numbers.append((f"final{by}", _shown(record.value(record.final), metric)))
        on = " by validation" if record.chosen_on == "validation" else ""
        numbers.append(
            (f"best{by}{on}, round {record.best['round']}", _shown(record.value(record.best), metric))
        )
        others = ((m, m.of_line(record.final)) for m in record.metrics[1:])
        numbers += [(m.title, _shown(value, m)) for m, value in others if value is not None]
    numbers += [
        ("rounds", f"{record.round} of {record.spec.rounds}"),
        ("traffic", words.size(record.bytes_moved)),
        ("sample-steps", words.amount(record.total("sample_steps"))),
        ("time", words.duration(record.total("wall_s"))),
    ]
    skew = record.result.get("skew") or {}
    if "emd" in skew:
        numbers.append(("EMD", f"{skew['emd']:.2f}"))
    state = "" if record.status == "done" else f" · {record.status}"
    state += f" · stopped: {record.stopped.reason}" if record.stopped else ""
    data = record.data.get("name", record.spec.dataset)
    about = f"{data} · {record.spec.partition} · seed {record.spec.seed}{state}"
    return piece("card.html", "card")(
        record.called,
        about,
        record.result.get("verdict"),
        numbers,
        _points([line[ACCURACY] for line in record.evaluated]),
        WIDTH,
        HEIGHT,
    )


def _shown(value: float, metric: Reading) -> str:
    return f"{value:.2%}" if metric.percent else words.plain(value, metric)


def _points(values: list[float]) -> str:
    """Accuracy over rounds from 0 to 1, as points of a line; one value makes none."""
    if len(values) < 2:
        return ""
    step = WIDTH / (len(values) - 1)
    return " ".join(f"{at * step:.1f},{(1 - v) * (HEIGHT - 4) + 2:.1f}" for at, v in enumerate(values))
