"""Every field of Spec as a flag: written once there, shown and read here."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from unskew.cli import completion
from unskew.errors import InputError
from unskew.expression import convert, number
from unskew.readings import METRICS
from unskew.runs.describe import description
from unskew.runs.experiment_file import read_toml
from unskew.runs.spec import HINTS, Spec

PANELS = {
    "dataset": "Data",
    "method": "Method",
    "rounds": "Training",
    "network": "Network",
    "drop": "Faults",
    "evaluate": "Evaluation",
    "seed": "How it runs",
}
"""The headings of a help text, each with the field that it begins with."""


WORDS = {
    "metrics": tuple(METRICS),
    "measure": ("divergence", "gamma", "correlation"),
    "decay": ("constant", "exponential", "linear", "step", "milestones"),
    "network": ("wireless",),
    "device": ("auto", "cpu", "cuda"),
    "impute": ("median", "most_frequent", "drop"),
}
"""What other settings may begin with, for completion."""


def with_settings(command: Callable[..., Any], shown: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """Give a command that takes ``**settings`` one option a field of Spec; ``shown`` names those of the help text.

    A command that shows some takes the others too, since it can say why it refuses them.
    """
    own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    hints = typing.get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
    panel, flags = "", []
    for field in dataclasses.fields(Spec):
        panel = PANELS.get(field.name, panel)
        if field.name not in hints:
            flags.append(_flag(field, panel, shown))

    def wrapped(**given: Any) -> Any:
        return command(**given)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    wrapped.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in wrapped.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return wrapped


COLUMNS = ("label", "client", "by", "features", "drop_columns", "test_column")
"""Settings whose words are columns of a table."""


def _flag(field: dataclasses.Field[Any], panel: str, some: Mapping[str, str] | None) -> inspect.Parameter:
    name = "--" + field.name.replace("_", "-")
    hint = HINTS[field.name]
    default = "" if field.default in (None, ()) else f" [default: {field.default}]"
    shown = description(Spec, field.name).help + default.replace("[", r"\[")
    hidden = some is not None and field.name not in some
    if some is not None:
        shown, panel = some.get(field.name, ""), "What may change"
    # words of drop are columns, perhaps several
    many = typing.get_origin(hint) is tuple or field.name == "drop"
    kind: Any = bool | None if hint is bool else list[str] | None if many else str | None
    flag = f"{name}/--no-{name[2:]}" if hint is bool else name
    metavar = None if hint is bool else "COLUMN" if field.name in COLUMNS else _metavar(hint)
    option = typer.Option(
        flag,
        help=shown,
        show_default=False,
        metavar=metavar,
        rich_help_panel=panel,
        autocompletion=_completion(field.name, hint),
        hidden=hidden,
    )
    annotation = typing.Annotated[kind, option]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _completion(name: str, hint: Any) -> Callable[[str], Any] | None:
    """What a shell offers for a setting: names, or the words that it may be."""
    words = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else WORDS.get(name, ())
    return completion.SETTINGS.get(name) or (completion.one_of(*words) if words else None)


def _metavar(hint: Any) -> str:
    options = [o for o in (typing.get_args(hint) or (hint,)) if o not in (type(None), ...)]
    if len(options) == 1 and typing.get_origin(options[0]) is typing.Literal:
        return _metavar(options[0])
    if typing.get_origin(hint) is typing.Literal:
        words = "|".join(map(str, options))
        return words if len(words) <= 20 else "RULE"  # the help text says which there are
    return {int: "N", float: "X", str: "TEXT"}.get(options[-1], "X")


def effective(experiment: Path | None, given: dict[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """The spec of a file with every given flag laid over it, and the file's sweep table."""
    values, sweep = read_toml(experiment) if experiment is not None else ({}, {})
    values |= written(given)
    if "steps" in given and given["steps"] is not None and given.get("epochs") is None:
        values.pop("epochs", None)  # a flag for the one budget overrules the file's other
    if given.get("epochs") is not None and given.get("steps") is None:
        values.pop("steps", None)
    return Spec.of(values), sweep


def written(given: dict[str, Any]) -> dict[str, Any]:
    """The settings whose flags were written, as values."""
    return {
        name: _read_drop(value) if name == "drop" else _read(name, value)
        for name, value in given.items()
        if value is not None and value != []
    }


def _read_drop(given: list[str]) -> Any:
    """The share of clients that never answer, or columns to leave out: ``Spec.of`` tells them apart."""
    return _read("drop", given[0]) if len(given) == 1 and isinstance(_word(given[0]), (int, float)) else given


LISTS_OF_WORDS = ("metrics", "measure", "target", "keep")
"""Settings whose values hold no comma of their own; columns of a table may."""


def _read(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    hint = HINTS[name]
    options = typing.get_args(hint)
    if isinstance(value, list):
        if name in LISTS_OF_WORDS:  # a,b is the flag twice
            value = [one for word in value for one in word.split(",")]
        items = value if options[0] is str else map(_word, value)
        return convert(tuple(items), hint, name)
    literal = any(typing.get_origin(o) is typing.Literal for o in (hint, *options))
    plain = hint is str or str in options or (literal and value.lower() != "none")
    return convert(value if plain else _word(value), hint, name)


def _word(text: str) -> Any:
    """A flag's text as the number it writes, if it writes one."""
    try:
        return number(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except InputError:
        raise
    except ValueError:
        return None if text.lower() == "none" else text


def setting_flags(settings: Mapping[str, Any]) -> list[str]:
    """The command-line flags of these settings."""
    words: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            words += [w for v in value for w in (flag, str(v))]
        else:
            words += [flag, str(value)]
    return words
