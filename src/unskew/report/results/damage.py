"""What a report says first where logs were damaged: its numbers are then those of the rounds that are left."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.report.results.words import Headline

MOST = 6
"""Damaged runs that a headline names."""


def with_damage(said: Headline, records: Sequence[Record]) -> Headline:
    """The headline with what is damaged or missing before it; the same where nothing is."""
    hurt = [record for record in records if record.damage]
    if not hurt:
        return said
    title = (
        f"In run {_name(hurt[0])}, {hurt[0].damage}"
        if len(hurt) == 1
        else f"{len(hurt)} of {len(records)} runs are damaged"
    )
    told = damage_told(records)
    return Headline(f"{title}. {said.title}", f"{told[0].upper()}{told[1:]}. {said.lead}")


def damage_told(records: Sequence[Record]) -> str:
    """Which rounds of which runs, and what to do about it, in one sentence; nothing where all is whole."""
    hurt = [record for record in records if record.damage]
    if not hurt:
        return ""
    told = [f"in {record.name}, {record.damage}" for record in hurt[:MOST]]
    if len(hurt) > MOST:
        told.append(f"{len(hurt) - MOST} runs more are damaged")
    again = shlex.quote(str(hurt[0].path)) if len(hurt) == 1 else "RUN"
    return f"{'; '.join(told)}; numbers are of what is left, and `unskew resume {again}` makes the rest again"


def refuse_without_numbers(records: Sequence[Record]) -> None:
    """Where damage has left no number at all, say so: nobody is to wait for a first evaluation."""
    told = damage_told(records)
    if told and not any(record.judged for record in records):
        raise InputError(told)


def _name(record: Record) -> str:
    return record.path.name if record.path is not None else record.name
