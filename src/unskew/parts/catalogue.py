"""What parts declare of themselves: what listings, diagnoses and completions say of a part, without torch.

Parts are read from their files (``unskew.declared``), presets are sums of them, and a part of one's own is asked
itself. Whoever trains asks ``unskew.core.method``; a test sees to it that both say the same of every part.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unskew.core.slot_names import SLOTS, USUAL
from unskew.declared import SourceClass, listed_classes
from unskew.errors import InputError
from unskew.expression import in_words, parse, signature_of
from unskew.parts.presets import PRESETS

REQUIRED = "required"


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter: its type in words, and its default or ``required``."""

    type: str
    default: Any

    @staticmethod
    def of(kind: Any, default: Any) -> Parameter:
        return Parameter(in_words(kind), REQUIRED if default is dataclasses.MISSING else default)


@dataclass(frozen=True)
class CatalogueEntry:
    """All that a listing says of a part or a preset."""

    write: str
    slot: str
    text: str
    paper: str
    discloses: tuple[str, ...]
    parameters: Mapping[str, Parameter] | None = None

    @property
    def summary(self) -> str:
        return self.text.partition("\n")[0]

    def as_dict(self) -> dict[str, Any]:
        told = dataclasses.asdict(self) | {"discloses": list(self.discloses)}
        return {key: value for key, value in told.items() if value is not None}


@functools.cache
def parts() -> Mapping[str, CatalogueEntry]:
    """Every part by name, slot after slot, as its slot's folder lists it; disclosures are those of its defaults."""
    kinds = ((slot, kind) for slot in SLOTS for kind in listed_classes(f"parts/{slot}"))
    return {kind.variable("name"): _entry_of(kind, slot) for slot, kind in kinds}


@functools.cache
def presets() -> Mapping[str, CatalogueEntry]:
    """Every preset by name: the papers and disclosures of its parts."""
    return {name: _preset(name, written, text) for name, (written, text) in PRESETS.items()}


def disclosures() -> Mapping[str, tuple[str, ...]]:
    """Part -> what leaves a client beyond a model update, at the part's defaults."""
    return {name: entry.discloses for name, entry in parts().items()}


def disclosed_by(expression: str) -> tuple[str, ...]:
    """What a method's parts declare to leave a client, at their defaults and with presets opened."""
    told: dict[str, None] = {}
    for call in parse(expression):
        if call.name in presets():
            told |= dict.fromkeys(presets()[call.name].discloses)
        elif call.name in parts():
            told |= dict.fromkeys(f"{what} ({call.name})" for what in parts()[call.name].discloses)
        else:  # of one's own, or of another version
            told[f"not known before the run has ended ({call.name})"] = None
    return tuple(told)


def entry_of_class(kind: type[Any], written: str) -> CatalogueEntry:
    """The entry of a part's class, which is written so in an expression: for parts of one's own."""
    if not dataclasses.is_dataclass(kind):
        raise InputError(f"{written} must be a @dataclass(frozen=True), whose fields are its parameters")
    hints = typing.get_type_hints(kind)
    fields = {f.name: (hints[f.name], f.default) for f in dataclasses.fields(kind)}
    told: Any = kind
    return _entry(written, told.slot, inspect.getdoc(kind) or "", told.paper, told.discloses, fields)


def _entry_of(kind: SourceClass, slot: str) -> CatalogueEntry:
    said = kind.variable
    return _entry(said("name"), slot, kind.text(), said("paper", ""), said("discloses", ()), kind.fields())


def _entry(
    name: str,
    slot: str,
    text: str,
    paper: str,
    discloses: tuple[str, ...],
    fields: Mapping[str, tuple[Any, Any]],
) -> CatalogueEntry:
    write = signature_of(name, {field: default for field, (_, default) in fields.items()})
    parameters = {field: Parameter.of(*declared) for field, declared in fields.items()}
    return CatalogueEntry(write, slot, text, paper, tuple(discloses), parameters)


def _preset(name: str, written: str, text: str) -> CatalogueEntry:
    named = {call.name: parts()[call.name] for call in parse(written)}
    filled = {entry.slot for entry in named.values()}
    usual = {part: parts()[part] for slot, part in USUAL.items() if slot not in filled}
    held = sorted((named | usual).items(), key=lambda part: list(SLOTS).index(part[1].slot))
    papers = dict.fromkeys(entry.paper for _, entry in held if entry.paper)
    told = tuple(f"{what} ({part})" for part, entry in held for what in entry.discloses)
    return CatalogueEntry(name, f"preset: {written}", text, "; ".join(papers), told)
