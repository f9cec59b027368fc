"""The report's page on privacy: what each method sends beyond updates, how much, to whom, and what attacks found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.notices import warn
from unskew.report.page import Block, Heading, Paragraph, TableBlock
from unskew.report.results import words
from unskew.report.results.gather import Record, number
from unskew.report.results.leaderboard import Row
from unskew.runs.client_names import with_numbers

MOST_PICTURES = 4
Grid = tuple[str, bytes, str]  # its name, the PNG, and what it shows


def disclosure_section(tables: Sequence[tuple[Any, Sequence[Row]]]) -> Iterator[Block]:
    """A row a method, then a part for every attacked run, the first of each method with its pictures."""
    rows = [row for _, held in tables for row in held]
    first = {row.group.called: row.group.counted[0] for row in reversed(rows) if row.group.counted}
    records = {method: first[method] for method in dict.fromkeys(row.group.called for row in rows)}
    head = ["method", "beyond a model update", "sent by clients", "sent to clients", "exposure", "c"]
    table = [[method, *_told(record)] for method, record in records.items()]
    kept = [0, 1, *(at for at in range(2, 6) if any(row[at] != words.DASH for row in table))]
    yield TableBlock(
        [head[at] for at in kept], [[row[at] for at in kept] for row in table], frozenset(head[2:])
    )
    if len(kept) > 2:
        yield Paragraph(
            "Bytes are those of a run beyond models, of its first seed. Exposure is the share of ordered pairs of "
            "clients of which one was given something of the other's data by the last round. c is the distance "
            "correlation of what is shared with the samples behind it, in the first and the last round measured.",
            quiet=True,
        )
    yield from _attacks([record for row in rows for record in row.group.counted])


def _told(record: Record) -> list[str]:
    declared = record.discloses
    said = (
        "not known for a run that did not finish"
        if declared is None
        else "; ".join(declared)
        or ("nothing more" if record.bytes_moved else "nothing at all: no model leaves a client")
    )
    kinds = record.bytes_by_kind()
    # "model for flea" is a model that travels once more: a cost, but no disclosure
    up, down = (
        sum(n for (way, kind), n in kinds.items() if way in ways and not kind.startswith("model"))
        for ways in (("up", "peer"), ("down",))
    )
    return [said, _size(up), _size(down), _exposure(record), _correlation(record)]


def _size(count: float) -> str:
    return words.size(count) if count else words.DASH


def _exposure(record: Record) -> str:
    clients = int(record.data.get("clients") or 0)
    if not clients or not any(line.get("exchanged") or line.get("shared") for line in record.lines):
        return words.DASH  # before the laboratory is loaded, which brings torch along
    from unskew.privacy.exposure import exchanges, exposure

    lines = [with_numbers(line, record.data.get("names")) for line in record.lines]
    if not any(True for line in lines for _ in exchanges(line, clients)):
        return words.DASH
    return f"{exposure(lines, clients)[-1]:.0%}"


def _correlation(record: Record) -> str:
    found = [
        value
        for line in record.lines
        for value in (line.get("distance_correlation") or {}).values()
        if number(value) is not None
    ]
    return f"{found[0]:.2f} to {found[-1]:.2f}" if found else words.DASH


def was_attacked(run: Path | None) -> bool:
    """Whether a run's folder holds an attack's record, asked without the laboratory, which brings torch along."""
    return run is not None and (run / "attack" / "attack.json").is_file()


def _attacks(records: Sequence[Record]) -> Iterator[Block]:
    tried = [record for record in records if was_attacked(record.path)]
    attacked = list(_read_attacks(tried)) if tried else []
    if not attacked:
        yield Paragraph(
            "No run was attacked; `unskew attack RUN` tries what can be got out of it.", quiet=True
        )
        return
    from unskew.privacy.findings import findings
    from unskew.report.grids import GRIDS, Image

    yield Heading("What attacks got out of it", "attacks", 3)
    yield TableBlock(
        ["method", "attack", "what it found"],
        [
            [f"{r.called}, seed {r.spec.seed}", name, sentence]
            for r, found, _ in attacked
            for name, sentence in findings(found)
        ],
    )
    drawn: set[tuple[str, str]] = set()
    for r, _, pictures in attacked:
        for name, png, caption in pictures:
            if (r.called, name) not in drawn and len(drawn) < MOST_PICTURES:
                drawn.add((r.called, name))
                yield Image(png, f"{r.called}: {GRIDS[name].lower()}. {caption}", GRIDS[name])


def _read_attacks(records: Sequence[Record]) -> Iterator[tuple[Record, dict[str, Any], list[Grid]]]:
    """Every attacked run with what was found and the pictures of it."""
    from unskew.privacy.laboratory import read
    from unskew.report.grids import grids

    for record in records:
        try:
            found = read(record.path) if record.path is not None else None
            if record.path is not None and found is not None:
                yield record, found, list(grids(record.path, found))
        except InputError as problem:  # one spoilt attack spoils no report
            warn(f"{problem}; the report leaves it out", stacklevel=2)
