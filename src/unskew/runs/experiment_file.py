"""Experiment files: settings in TOML, with a [sweep] table of lists and ranges."""

from __future__ import annotations

import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.expression import convert, number
from unskew.runs.spec import HINTS, Spec, no_setting, sorted_drop


def read_toml(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(settings, sweep table) of an experiment file; complaints name the file and the line."""
    if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".npz"):
        raise InputError(f"{path} holds data, and an experiment file ends in .toml; write --dataset {path}")
    try:
        text = path.read_text("utf-8-sig")  # some editors put a mark before the first line
    except FileNotFoundError:
        from unskew.data.sources import SOURCES  # numpy comes along, and a file that is there needs none

        named = str(path) in SOURCES
        hint = f"; to train on the data set of this name write --dataset {path}" if named else ""
        raise InputError(f"there is no experiment file {path}{hint}") from None
    except IsADirectoryError:
        raise InputError(
            f"{path} is a folder; name an experiment file, such as grid.toml, or write --dataset {path} to train on "
            "what is in it"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not written in UTF-8; save it in UTF-8") from None
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem}") from None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # also of numbers and brackets without end
        raise InputError(f"{path} is not valid TOML: {problem}") from None
    sweep = table.pop("sweep", {})
    if not isinstance(sweep, dict):
        raise InputError(
            f"{path}, line {_line(text, 'sweep')}: sweep must be a table: write [sweep] on its own line"
        )
    table = sorted_drop(table)
    for name, value in {**table, **sweep}.items():
        place = f"{path}, line {_line(text, name)}"
        swept = name in sweep
        if name not in HINTS:
            raise InputError(f"{place}: {no_setting(name)}")
        if swept and name in table:
            raise InputError(f"{place}: {name} is both set and swept; keep one")
        for one in grid_values(name, value, place) if swept else [value]:
            try:
                convert(_plain(one), HINTS[name], name)
            except InputError as problem:
                raise InputError(f"{place}: {problem}") from None
    try:
        Spec.of({k: _plain(v) for k, v in table.items()})
    except InputError as problem:
        culprit = next((n for n in table if re.search(rf"\b{n}\b", str(problem))), None)
        place = f"{path}, line {_line(text, culprit)}" if culprit else str(path)
        raise InputError(f"{place}: {problem}") from None
    return {k: _plain(v) for k, v in table.items()}, sweep


MOST_CELLS = 100_000
"""Runs of one sweep."""


def grid_values(name: str, value: Any, where: str) -> list[Any]:
    """The values of a swept setting: a list, or for whole numbers a range such as "0-4"."""
    if (
        isinstance(value, str)
        and (match := re.fullmatch(r"(\d+)-(\d+)", value))
        and int in _options(HINTS[name])
    ):
        first, last = (int(number(word, f"in {value!r}")) for word in match.groups())
        if last < first:
            raise InputError(f"{where}: the range {value!r} runs backwards; write {last}-{first}")
        if last - first >= MOST_CELLS:
            raise InputError(f"{where}: {value!r} are more than {MOST_CELLS:,} values; sweep fewer")
        return list(range(first, last + 1))
    if isinstance(value, (tuple, range)):  # in Python, as good as a list
        value = list(value)
    if not isinstance(value, list) or not value:
        raise InputError(
            f'{where}: a swept setting needs a list of values, or a range like "0-4" for whole numbers'
        )
    return value


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _line(text: str, name: str | None) -> int:
    for at, line in enumerate(text.splitlines(), 1):
        if name is not None and re.match(rf"\s*\[?\s*\"?{re.escape(name)}\"?\s*[\]=]", line):
            return at
    return 1
