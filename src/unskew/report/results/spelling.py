"""Methods in their one spelling, and what they disclose, by what their parts declare: a report needs no torch.

A part's declaration (``unskew.declared``) becomes a stand-in: a dataclass with the part's name and hyper-parameters and
nothing that trains. So expressions are read, checked and written by the same code as those of the parts themselves.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unskew.core.slot_names import DECIDES, SLOTS, USUAL
from unskew.declared import SourceClass, listed_classes
from unskew.errors import InputError, unknown
from unskew.expression import Call, build, parse, render
from unskew.parts.presets import PRESETS

StandIn = Any  # an instance of a class that ``_stand_in`` made


@functools.cache
def canonical(method: str) -> str:
    """One spelling for a method: fedprox(0.01) is fedprox(mu=0.01). Unknown ones stay as written."""
    if ":" in method:
        return method  # reading somebody's numbers must not import their code
    try:
        parts = _parts_of(method)
    except InputError:
        return method
    usual = _usual(parts).values()
    return "+".join(render(part) for part in parts if part not in usual) or "fedavg"


def declared_disclosures(method: str) -> tuple[str, ...] | None:
    """What leaves a client beyond a model update, each with the part that sends it; None: not known."""
    if ":" in method:
        return None  # a part of one's own: reading numbers must not import somebody's code
    try:
        parts = _with_usual(_parts_of(method))
        if any(part.discloses_by_values and render(part) != part.name for part in parts):
            return _told_by_parts(method)
    except InputError:  # a part of another version
        return None
    return tuple(f"{what} ({part.name})" for part in parts for what in part.discloses)


def _told_by_parts(method: str) -> tuple[str, ...]:
    """The same where values decide what is disclosed: that rule is code of the parts, which load torch."""
    from unskew.core.method import Method

    return Method.parse(method).discloses


def _parts_of(method: str) -> list[StandIn]:
    """The parts that an expression names, in the order of the slots, which is that of ``unskew.core.method``.

    Whether parts may stand together is asked when a method is run, and these have been.
    """
    parts = [part for call in parse(method) for part in _resolve(call)]
    names = [part.name for part in parts]
    slots = [part.slot for part in parts if part.slot in DECIDES]
    if len(set(names)) < len(names) or len(set(slots)) < len(slots):
        raise InputError(f"{method} names a part twice, or two that decide the same")
    return _in_order(parts)


def _in_order(parts: Iterable[StandIn]) -> list[StandIn]:
    places = list(SLOTS)
    return sorted(parts, key=lambda part: places.index(part.slot))


def _with_usual(parts: Sequence[StandIn]) -> list[StandIn]:
    """All parts of a method, also those that nobody names."""
    filled = {part.slot for part in parts}
    return _in_order([*parts, *(part for slot, part in _usual(parts).items() if slot not in filled)])


def _usual(parts: Iterable[StandIn]) -> dict[str, StandIn]:
    """What the deciding slots hold where an expression leaves them open: what its first part implies, or FedAvg."""
    implied: dict[str, StandIn] = {}
    for part in (p for by in parts if by.implies for call in parse(by.implies) for p in _resolve(call)):
        implied.setdefault(part.slot, part)
    return {slot: _stand_in(name)() for slot, name in USUAL.items()} | implied


def _resolve(call: Call) -> list[StandIn]:
    """The parts that a name stands for: a part or a preset."""
    if call.name in PRESETS:
        if call.args or call.kwargs:
            raise InputError(f"{call.name} is a preset and takes no values")
        return [part for inner in parse(PRESETS[call.name][0]) for part in _resolve(inner)]
    if call.name not in _declared():
        raise unknown("method or part", call.name, [*_declared(), *PRESETS])
    return [build(call, {call.name: _stand_in(call.name)}, "part")]


@functools.cache
def _declared() -> Mapping[str, tuple[str, SourceClass]]:
    """Every part by name: its slot, and what its file says."""
    return {kind.variable("name"): (slot, kind) for slot in SLOTS for kind in listed_classes(f"parts/{slot}")}


@functools.cache
def _stand_in(name: str) -> type[StandIn]:
    """A part's hyper-parameters with what it declares of itself."""
    slot, kind = _declared()[name]
    told = {
        "name": name,
        "slot": slot,
        "implies": kind.variable("implies", ""),
        "discloses": tuple(kind.variable("discloses", ())),
        "discloses_by_values": _is_ruled(kind, "discloses"),
    }
    fields = [
        (field, type_, dataclasses.field(default=default))
        for field, (type_, default) in kind.fields().items()
    ]
    return dataclasses.make_dataclass(name, fields, namespace=told, frozen=True)


def _is_ruled(kind: SourceClass, name: str) -> bool:
    """Whether what a part declares under a name depends on its values, by ``Depends(usually, rule)``."""
    for by in kind.bases():
        for line in by.item.body:
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and line.target.id == name
            ):
                called = line.value.func if isinstance(line.value, ast.Call) else None
                return isinstance(called, ast.Name) and called.id == "Depends"
    return False
