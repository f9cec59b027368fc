"""Charts put together: in layers, beside and below one another.

Altair's own operators copy every piece of every chart again at each step, and look through all of them for parameters.
Here a chart becomes a Vega-Lite dictionary once, and dictionaries are put into one another as they are. For the same
reason reports write alt.X("x:Q", scale=alt.Scale(...)) and not alt.X("x:Q").scale(...), which writes its own manual at
every call, and alt.Tooltip("x:Q") and not a text, whose kind Altair would have to find out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

Picture = Any  # an ``Assembled``, or one of Altair's chart classes, which share no type that its own functions accept


@dataclass(frozen=True)
class Assembled:
    """A finished part of a specification, with the data that it names."""

    specification: dict[str, Any]
    datasets: Mapping[str, Any]

    def to_dict(self, validate: bool = True) -> dict[str, Any]:
        """The whole specification, by the verb that Altair's charts have."""
        if validate:
            _check(json.dumps(self.specification))
        return {**self.specification, "$schema": alt.SCHEMA_URL, "datasets": dict(self.datasets)}

    def with_name(self, name: str) -> Assembled:
        """The same with a name for its first layer, by which a parameter finds it."""
        first, *others = self.specification["layer"]
        return Assembled(self.specification | {"layer": [first | {"name": name}, *others]}, self.datasets)


def layered(*layers: Picture, **properties: Any) -> Assembled:
    """Charts on top of one another; the data that all of them draw is named once."""
    return _assembled("layer", layers, properties)


def beside(*pictures: Picture, **properties: Any) -> Assembled:
    """From left to right."""
    return _assembled("hconcat", pictures, properties)


def below(*pictures: Picture, **properties: Any) -> Assembled:
    """From top to bottom."""
    return _assembled("vconcat", pictures, properties)


def in_columns(*pictures: Picture, columns: int, **properties: Any) -> Assembled:
    """Row by row."""
    return _assembled("concat", pictures, properties | {"columns": columns})


def x_at(pixels: float) -> alt.XValue:
    """A place from the left, whatever the data is."""
    return alt.XValue(pixels)  # type: ignore[no-untyped-call]


def y_at(pixels: float) -> alt.YValue:
    """A place from the top, whatever the data is."""
    return alt.YValue(pixels)  # type: ignore[no-untyped-call]


def _assembled(how: str, pictures: Sequence[Picture], properties: Mapping[str, Any]) -> Assembled:
    datasets: dict[str, Any] = {}
    named: dict[int, Any] = {}
    parts = [_part(picture, datasets, named) for picture in pictures]
    whole: dict[str, Any] = {}
    common = parts[0].get("data")
    if common is not None and all(part.get("data") == common for part in parts):
        whole["data"] = common
        parts = [{key: value for key, value in part.items() if key != "data"} for part in parts]
    whole[how] = parts
    for name, value in properties.items():
        whole[name] = value.to_dict(validate=False) if isinstance(value, alt.SchemaBase) else value
    return Assembled(whole, datasets)


def _part(picture: Picture, datasets: dict[str, Any], named: dict[int, Any]) -> dict[str, Any]:
    """A picture as a dictionary; the data that it draws is added to ``datasets``, and its name to ``named``."""
    if isinstance(picture, Assembled):
        datasets.update(picture.datasets)
        return picture.specification
    data = picture.data
    # another layer draws it too: a name is made of all values, and to make it takes a while
    if id(data) in named:
        picture = picture.copy(deep=False)
        picture.data = named[id(data)]
    made: dict[str, Any] = picture.to_dict(validate=False, context={"top_level": False, "datasets": datasets})
    named[id(data)] = made["data"]
    return made


@functools.cache
def _check(text: str) -> None:
    """Hold a specification against Vega-Lite's schema, as Altair does with its own charts; the same one once."""
    whole = json.loads(text)
    kinds: dict[str, Any] = {
        "layer": alt.TopLevelLayerSpec,
        "hconcat": alt.TopLevelHConcatSpec,
        "vconcat": alt.TopLevelVConcatSpec,
        "concat": alt.TopLevelConcatSpec,
    }
    next(kind for how, kind in kinds.items() if how in whole).validate(whole)
