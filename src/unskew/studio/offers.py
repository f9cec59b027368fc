"""The form for a new run: which settings it has, and which names it offers; all without torch."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Any

from unskew.data.partition import FAMILIES, PRESETS
from unskew.data.sources import SOURCES
from unskew.errors import InputError
from unskew.parts.catalogue import parts, presets
from unskew.runs.describe import description
from unskew.runs.spec import HINTS, Spec, toml_value

FIRST = ("method", "dataset", "partition", "clients", "cohort", "rounds", "lr", "batch", "epochs", "seed")
"""Settings that the form shows at once; the others are folded away."""


@functools.cache
def offered() -> dict[str, Any]:
    """Every setting of a run with its help and its default, and the names that fields suggest."""
    fields = []
    order = [*FIRST, *(f.name for f in dataclasses.fields(Spec) if f.name not in FIRST)]
    defaults = Spec().as_dict()
    for name in order:
        about = description(Spec, name)
        choices = [value for value in typing.get_args(HINTS[name]) if isinstance(value, str)]
        default = defaults[name]
        fields.append(
            {
                "name": name,
                "help": about.help,
                "default": "" if default is None or default == () else str(default),
                "choices": choices,
                "switch": HINTS[name] is bool,
                "first": name in FIRST,
            }
        )
    listed = {**presets(), **parts()}
    return {
        "fields": fields,
        "names": {
            "method": [[name, entry.summary] for name, entry in listed.items()],
            "dataset": [[name, ""] for name in SOURCES],
            "partition": [[name, ""] for name in {**PRESETS, **FAMILIES}],
        },
    }


def written(settings: Any) -> str:
    """An experiment file of the form's fields: texts, each read as its setting is."""
    if not isinstance(settings, dict):
        raise InputError("a request lacks settings or toml")
    given = {str(name): value for name, value in settings.items() if value not in ("", None)}
    values = {name: _value(name, value) for name, value in given.items()}
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())


def _value(name: str, value: Any) -> Any:
    """A number where the setting takes one and the text is one; else the text as it is."""
    if not isinstance(value, str):
        return value
    kinds = typing.get_args(HINTS.get(name)) or (HINTS.get(name),)
    if tuple in {typing.get_origin(kind) or kind for kind in (HINTS.get(name), *kinds)}:
        inner = typing.get_args(HINTS[name])[0]
        return [_number(piece.strip(), (inner,)) for piece in value.split(",") if piece.strip()]
    return _number(value.strip(), kinds)


def _number(text: str, kinds: tuple[Any, ...]) -> Any:
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    return text
