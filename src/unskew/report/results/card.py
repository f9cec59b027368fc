"""A run at a glance, for a notebook: a few numbers and the shape of its curve, in plain HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from unskew.report.results import words
from unskew.report.results.gather import ACCURACY, record_of

if TYPE_CHECKING:
    from unskew.runs.rounds import Run

WIDTH, HEIGHT = 220, 48


def run_card(run: Run) -> str:
    """What a notebook shows for a run; its colours follow the notebook's own, light or dark."""
    record = record_of(run)
    numbers: list[tuple[str, str]] = []
    if record.judged:
        numbers.append(("final", f"{record.final[ACCURACY]:.2%}"))
        numbers.append((f"best, round {record.best['round']}", f"{record.best[ACCURACY]:.2%}"))
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
    data = record.data.get("name", record.spec.dataset)
    about = f"{data} · {record.spec.partition} · seed {record.spec.seed}{state}"
    cells = "".join(
        f'<div><div style="font-size:11px;opacity:.65">{escape(name)}</div>'
        f'<div style="font-variant-numeric:tabular-nums">{escape(value)}</div></div>'
        for name, value in numbers
    )
    return (
        '<div style="font:13px/1.5 sans-serif;border:1px solid rgba(128,128,128,.35);border-radius:6px;'
        'padding:10px 14px;display:inline-block">'
        f"<div><b>{escape(record.called)}</b> <span style='opacity:.65'>{escape(about)}</span></div>"
        f"{_verdict(record.result)}"
        f'<div style="display:flex;gap:18px;align-items:center;flex-wrap:wrap;margin-top:4px">'
        f"{_curve([line[ACCURACY] for line in record.judged])}{cells}</div>"
        '<div style="font-size:11px;opacity:.65">accuracies are global test accuracies of the global model</div>'
        "</div>"
    )


def _verdict(result: Mapping[str, Any]) -> str:
    said = result.get("verdict")
    return f"<div style='color:#D55E00'>{escape(str(said))}</div>" if said else ""


def _curve(values: list[float]) -> str:
    """Accuracy over rounds from 0 to 1, without axes."""
    if len(values) < 2:
        return ""
    step = WIDTH / (len(values) - 1)
    points = " ".join(f"{at * step:.1f},{(1 - v) * (HEIGHT - 4) + 2:.1f}" for at, v in enumerate(values))
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="accuracy over rounds">'
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT - 2}" y2="{HEIGHT - 2}" stroke="rgba(128,128,128,.4)"/>'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="2"/></svg>'
    )
