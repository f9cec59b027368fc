"""What the screen of one run shows: its curves in few points, costs by kind, faults, clients, and rounds to replay."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unskew.data.federation import shown_name
from unskew.errors import InputError
from unskew.parts.catalogue import disclosed_by
from unskew.report.results.gather import Record, gather, number
from unskew.studio.tail import short_line

MOST_POINTS = 600
"""Of a curve: a screen has no more columns."""

MOST_CLIENTS = 200
"""Rows of the table of clients: those who took part most often."""

MOST_PLAYED = 40
"""Rounds of a replay that are sent at a time."""

WAYS = {"down": "server to clients", "up": "clients to server", "peer": "client to client"}


def record_of_folder(path: Path) -> Record:
    return gather([path])[0]


def thinned(lines: Sequence[dict[str, Any]], most: int = MOST_POINTS) -> list[dict[str, Any]]:
    """At most so many rounds at even distances, the first and the last among them."""
    if len(lines) <= most:
        return list(lines)
    step = (len(lines) - 1) / (most - 1)
    return [lines[round(at * step)] for at in range(most)]


def overview(record: Record) -> dict[str, Any]:
    """Everything but the rounds of the replay."""
    evaluated = record.evaluated
    return {
        "points": [short_line(line) for line in thinned(record.lines)],
        "rounds": record.spec.rounds,
        "metrics": [
            {"name": m.name, "key": m.key, "title": m.title, "percent": m.percent} for m in metrics(record)
        ],
        "labels": [str(label) for label in record.data.get("labels", ())],
        "classes": [number(share) for share in evaluated[-1].get("per_class_accuracy", ())]
        if evaluated
        else [],
        **sums(record),
    }


def metrics(record: Record) -> list[Any]:
    from unskew.runs.judged_by import chosen

    return list(chosen(record.spec.metrics, record.data))


def sums(record: Record) -> dict[str, Any]:
    """What is counted over rounds: costs by kind, faults, disclosures, clients."""
    costs = [
        {"way": WAYS[way], "kind": kind, "bytes": count}
        for (way, kind), count in sorted(record.bytes_by_kind().items(), key=lambda item: -item[1])
        if count
    ]
    return {
        "costs": costs,
        "sample_steps": record.total("sample_steps"),
        "seconds": record.total("wall_s"),
        "air": record.total("air_s"),
        "faults": faults(record),
        "discloses": disclosed(record),
        "clients": clients(record),
    }


def faults(record: Record) -> list[dict[str, Any]]:
    """What went wrong in which rounds: clients who were lost, late, or refused."""
    found = []
    for kind, said in (("rejected", "answers that were no numbers"), ("late", "answers that came late")):
        named = record.named(kind)
        if named:
            count = sum(len(who) for _, who in named)
            found.append({"said": said, "count": count, "rounds": [at for at, _ in named][:12]})
    lost = [
        (int(line["round"]), sum(len(leg.get("lost", ())) for leg in legs_of(line))) for line in record.lines
    ]
    lost = [(at, count) for at, count in lost if count]
    if lost:
        found.append(
            {
                "said": "clients that did not answer",
                "count": sum(count for _, count in lost),
                "rounds": [at for at, _ in lost][:12],
            }
        )
    return found


def disclosed(record: Record) -> list[str]:
    """What leaves a client beyond a model update: as logged, else as its parts declare."""
    if "discloses" in record.result:
        return [str(said) for said in record.result["discloses"]]
    try:
        return list(disclosed_by(record.spec.method))
    except InputError:
        return []


def legs_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The visits of a round, where its log has them and they are what they should be."""
    visits = line.get("visits")
    return [leg for leg in visits if isinstance(leg, dict)] if isinstance(visits, list) else []


def clients(record: Record) -> dict[str, Any]:
    """The clients: how often each took part, with which loss and change at last, and what it holds."""
    times: Counter[int] = Counter()
    last: dict[int, dict[str, Any]] = defaultdict(dict)
    for line in record.lines:
        seen = set()
        for leg in legs_of(line):
            for at, client in enumerate(leg.get("clients", ())):
                seen.add(client)
                for name in ("loss", "moved"):
                    values = leg.get(name) or ()
                    if at < len(values) and (value := number(values[at])) is not None:
                        last[client][name] = value
                last[client]["round"] = line["round"]
        times.update(seen)
    held = record.partition
    labels = [str(label) for label in record.data.get("labels", ())]
    names = held.names if held is not None else None
    rows = []
    for client, count in times.most_common(MOST_CLIENTS):
        row: dict[str, Any] = {"client": client, "times": count, **last[client]}
        if names is not None and client < len(names):
            row["name"] = shown_name(names, client)
        if held is not None and client < len(held.counts):
            row |= _holding(held.counts[client].tolist(), labels)
        rows.append(row)
    total = len(held.counts) if held is not None else record.data.get("clients")
    return {"rows": sorted(rows, key=lambda row: row["client"]), "seen": len(times), "of": total}


def _holding(counts: list[int], labels: list[str]) -> dict[str, Any]:
    total = sum(counts)
    most = sorted(range(len(counts)), key=lambda c: -counts[c])[:3]
    shares = [
        f"{labels[c] if c < len(labels) else c} {counts[c] / total:.0%}" for c in most if total and counts[c]
    ]
    return {"samples": total, "classes": sum(1 for n in counts if n), "mostly": ", ".join(shares)}


def stage(record: Record) -> dict[str, Any]:
    """Who stands where in the replay: every client where there are few, with what it holds of each class."""
    held = record.partition
    counts = held.counts if held is not None else None
    number_of = len(counts) if counts is not None else int(record.data.get("clients") or 0)
    shares: dict[str, list[float]] = {}
    if counts is not None and counts.shape[1] <= 20 and number_of <= 2000:
        shares = {
            str(k): [round(n / max(1, sum(row)), 3) for n in row] for k, row in enumerate(counts.tolist())
        }
    return {
        "clients": number_of,
        "rounds": record.round,
        "sizes": [int(n) for n in counts.sum(1).tolist()] if counts is not None and number_of <= 2000 else [],
        "shares": shares,
        "labels": [str(label) for label in record.data.get("labels", ())][:20],
        "has_visits": any(legs_of(line) for line in record.lines[:1]),
    }


def played(record: Record, first: int) -> list[dict[str, Any]]:
    """Some rounds of the replay from ``first`` on: who trained in each leg, what else travelled, how it was judged."""
    if first < 1:
        raise InputError("a replay starts at round 1")
    metric = metrics(record)[0]
    found = []
    waiting: list[int] = []
    for line in record.lines:
        at = int(line["round"])
        had, waiting = waiting, kept(legs_of(line))
        if first <= at < first + MOST_PLAYED:
            found.append(
                {
                    "round": at,
                    "value": metric.of_line(line),
                    "legs": [_without_nan(leg) for leg in legs_of(line)],
                    "waiting": had,
                    "shared": line.get("shared") or [],
                    "exchanged": line.get("exchanged") or {},
                    "late": line.get("late") or [],
                    "rejected": line.get("rejected") or [],
                }
            )
    return found


def kept(legs: Sequence[dict[str, Any]]) -> list[int]:
    """Who ends a round with a model of its own that goes on in a later one, as in Phase-shift."""
    holding: set[int] = set()
    for leg in legs:
        holding -= {*leg.get("from", ()), *leg.get("clients", ())}
        if leg.get("keeps"):
            holding |= {*leg.get("clients", ())}
    return sorted(holding)


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
