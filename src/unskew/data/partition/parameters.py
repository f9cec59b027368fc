"""What the parameters of a family are to a form: a slider, a choice, a switch or a text, from its fields alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unskew.data.partition.family import Family
from unskew.expression import AtMost, Usual, write_value

Widget = Literal["number", "whole", "choice", "switch", "text", "expression"]


@dataclass(frozen=True)
class Parameter:
    """One field of a family; ``low`` and ``high`` are where its slider ends, not what it could be at most."""

    name: str
    widget: Widget
    start: Any
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[str, ...] = ()
    knob: bool = False  # what an EMD is solved for

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def parameters(cls: type[Family], classes: int) -> list[Parameter]:
    """The parameters of a family on data with so many classes, in the order in which they are written."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return [_parameter(cls, f, hints[f.name], classes) for f in fields if f.init]


def _parameter(cls: type[Family], field: dataclasses.Field[Any], hint: Any, classes: int) -> Parameter:
    said = typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ()
    usual = next((note for note in said if isinstance(note, Usual)), Usual())
    most = next((note.value for note in said if isinstance(note, AtMost)), None)
    plain = typing.get_args(hint)[0] if said else hint
    options = [one for one in typing.get_args(plain) if one is not type(None)]
    if isinstance(plain, types.UnionType) and len(options) == 1:
        plain = options[0]
    start = usual.start if field.default is dataclasses.MISSING else field.default
    knob = field.name == cls.knob
    if typing.get_origin(plain) is Literal:
        choices = tuple(map(str, typing.get_args(plain)))
        return Parameter(field.name, "choice", start or choices[0], choices=choices, knob=knob)
    if plain is bool:
        return Parameter(field.name, "switch", bool(start), knob=knob)
    if plain in (int, float):
        widget: Widget = "whole" if plain is int else "number"
        low = usual.low if usual.low is not None else (1 if plain is int else 0)
        high = usual.high if usual.high is not None else (classes if plain is int else 1)
        high = high if most is None else min(high, most)
        start = low if start is None else min(max(start, low), high)
        return Parameter(field.name, widget, start, low, high, usual.log, knob=knob)
    shown = "" if start is None else start if isinstance(start, str) else write_value(start)
    return Parameter(field.name, "text" if plain is str else "expression", shown)


def expression_of(
    cls: type[Family], given: Mapping[str, str], classes: int, without: Collection[str] = ()
) -> str:
    """The expression of a family with the values of a form, which are texts; a text that is empty is left out."""
    pairs = []
    for one in parameters(cls, classes):
        text = given.get(one.name, "").strip()
        if text and one.name not in without:
            pairs.append(f"{one.name}={write_value(text) if one.widget == 'text' else text}")
    return f"{cls.name}({', '.join(pairs)})" if pairs else cls.name
