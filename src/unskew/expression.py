"""The expression language: ``limit_labels(2, f=0.9)``, ``scaffold+sem``, ``mlp(hidden=[200, 100])``.

One language names partitions, methods, data sets, models and schedules, on the command line, in TOML and in
Python. An expression is a sum of calls; a call's values are numbers, words, strings, lists or calls again.
Within a string its own quote is written twice, as in a CSV file. ``build`` turns a call into the dataclass of
that name and checks every value against the field's type; ``render`` is its inverse, so that a saved run can
name exactly what it used.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from unskew.errors import InputError, unknown

T = TypeVar("T")

MOST_WHOLE = 10**15
MOST = 1e30
"""No whole number and no other number that is written anywhere is larger, unless its field says less by ``AtMost``."""

DEEPEST = 50
"""Brackets within brackets."""


@dataclass(frozen=True)
class AtMost:
    """The largest value of a hyper-parameter: ``hops: Annotated[int, AtMost(1000)] = 2``.

    For numbers that memory or time grows with, so that an absurd one is refused before anything is allocated.
    """

    value: float


@dataclass(frozen=True)
class Usual:
    """Where a parameter is usually looked for: ``alpha: Annotated[float, Usual(0.01, 100, log=True)]``.

    It refuses nothing: it tells a slider how far to go, and an empty form what to begin with. ``high=None``: up to the
    number of classes.
    """

    low: float | None = None
    high: float | None = None
    start: Any = None
    log: bool = False


class TooLarge(InputError):
    """A number beyond what its field can be."""


@dataclass(frozen=True)
class Call:
    """A name with its arguments, as written."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        inner = [write_value(a) for a in self.args] + [f"{k}={write_value(v)}" for k, v in self.kwargs]
        return f"{self.name}({', '.join(inner)})" if inner else self.name


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_0-9]))
    | (?P<name>[A-Za-z_0-9][A-Za-z_0-9.:/-]*)
    | (?P<string>"(?:[^"]|"")*"|'(?:[^']|'')*')
    | (?P<sign>[()\[\],=+]))""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "none": None}


class _Reader:
    """A recursive-descent reader; every complaint quotes the whole expression."""

    def __init__(self, text: str):
        self.text, self.tokens, at = text, [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise InputError(f"cannot read {text!r} at {text[at:].strip()!r}; {_remedy(text, at)}")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        self.at = self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        got = self.peek()
        if got not in wanted:
            found = repr(got) if got else "the end"
            raise InputError(f"expected {' or '.join(wanted)} but found {found} in {self.text!r}")
        self.at += 1
        return got

    def sum(self) -> list[Call]:
        calls = [self.call()]
        while self.peek() == "+":
            self.take("+")
            calls.append(self.call())
        if self.at < len(self.tokens):
            raise InputError(f"unexpected {self.peek()!r} in {self.text!r}; join parts with +")
        return calls

    def deeper(self, by: int) -> None:
        self.depth += by
        if self.depth > DEEPEST:
            raise InputError(f"there are more than {DEEPEST} brackets within brackets in {self.text!r}")

    def call(self) -> Call:
        kind, name = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")
        if kind != "name":
            raise InputError(
                f"expected a name but found {name!r} in {self.text!r}"
                if name
                else f"{self.text!r} is incomplete: a name is missing"
            )
        self.at += 1
        args: list[Any] = []
        kwargs: list[tuple[str, Any]] = []
        if self.peek() == "(":
            self.take("(")
            self.deeper(1)
            while self.peek() != ")":
                value = self.value()
                if self.peek() == "=":
                    if not isinstance(value, str):
                        raise InputError(f"the left of = must be a name, not {value!r}, in {self.text!r}")
                    self.take("=")
                    if value in dict(kwargs):
                        raise InputError(f"{value!r} is given twice in {self.text!r}")
                    kwargs.append((value, self.value()))
                elif kwargs:
                    raise InputError(f"put plain values before named ones in {self.text!r}")
                else:
                    args.append(value)
                if self.peek() != ")":
                    self.take(",")
            self.take(")")
            self.deeper(-1)
        return Call(name, tuple(args), tuple(kwargs))

    def value(self) -> Any:
        if self.at >= len(self.tokens):
            raise InputError(f"{self.text!r} is incomplete: a value or ) is missing")
        kind, word = self.tokens[self.at]
        if word == "[":
            self.take("[")
            self.deeper(1)
            items = []
            while self.peek() != "]":
                items.append(self.value())
                if self.peek() != "]":
                    self.take(",")
            self.take("]")
            self.deeper(-1)
            return tuple(items)
        if kind == "name":
            follows = self.tokens[self.at + 1][1] if self.at + 1 < len(self.tokens) else ""
            if follows == "(":
                return self.call()
            self.at += 1
            return _WORDS.get(word.lower(), word)
        if kind == "sign":
            raise InputError(f"expected a value but found {word!r} in {self.text!r}")
        self.at += 1
        if kind == "string":
            return word[1:-1].replace(word[0] * 2, word[0])
        return number(word, f"in {self.text!r}")


def number(word: str, where: str = "") -> int | float:
    """The number that a word writes."""
    value = float(word)
    if math.isinf(value):
        raise InputError(f"{word} {where} is too large a number; write one below 1e30".replace("  ", " "))
    return value if re.search(r"[.eE]", word) else int(word)


def _remedy(text: str, at: int) -> str:
    """What to write instead of a sign that no word has: mostly a column's name or a path that needs quotes."""
    if file := re.match(r"[^()\"]*?(\w+)\.py:(\w+)", text):
        return f"write {file[1]}:{file[2]}, as Python would import it from the folder of {file[1]}.py"
    sign = next(at + k for k, letter in enumerate(text[at:]) if not letter.isspace())
    begun = re.search(r"[^()\[\],=+\s\"]*$", text[:sign])
    word = (begun[0] if begun else "") + re.split(r"[()\[\],=+\"]", text[sign:])[0].rstrip()
    if "(" in text[:sign] and word and (word[0].isalpha() or word[0] in "_/~"):
        return f"put the {'path' if '/' in word else 'name'} in quotes, {write_value(word)}"
    if "(" in text[:sign] and word and text[:sign].rstrip().endswith("="):
        return f"put the value in quotes, {write_value(word)}"
    return "write it like name(1, key=2)"


def parse(text: str) -> list[Call]:
    """Read ``a(1, x=2)+b`` into calls."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"expected an expression like name(1, key=2), got {text!r}")
    return _Reader(text).sum()


def parse_one(text: str, kind: str) -> Call:
    """Read an expression that must be a single call."""
    calls = parse(text)
    if len(calls) != 1:
        raise InputError(f"{text!r} names {len(calls)} {kind}s; write one")
    return calls[0]


def path_and_options(text: str, folder: str | os.PathLike[str] = "") -> tuple[str, str]:
    """``a/b.csv(label=x)`` as the path and its options; brackets of a path that is there belong to it.

    A path that is not whole is looked for in ``folder``, else where the process is.
    """

    def exists(path: str) -> bool:
        return os.path.exists(os.path.join(folder, os.path.expanduser(path)))

    if not text.rstrip().endswith(")") or exists(text):
        return text, ""
    brackets = [match.start() for match in re.finditer(r"\(", text) if match.start()]
    if not brackets:
        return text, ""
    there = [at for at in brackets if exists(text[:at].strip())]
    at = there[-1] if there else brackets[0]
    return text[:at].strip(), text[at:]


def build(call: Call | str, known: Mapping[str, type[T]], kind: str) -> T:
    """Make the dataclass that a call names, its values checked against the fields' types."""
    if isinstance(call, str):
        call = parse_one(call, kind)
    if call.name not in known:
        raise unknown(kind, call.name, known)
    cls = known[call.name]
    hints = _hints(typing.cast(Any, cls))
    fields = [f for f in dataclasses.fields(typing.cast(Any, cls)) if f.init]
    usage = signature(cls)
    if len(call.args) > len(fields):
        raise InputError(
            f"{call} has {len(call.args)} values but {call.name} takes at most {len(fields)}: {usage}"
        )
    given = dict(zip((f.name for f in fields), call.args, strict=False))
    for key, value in call.kwargs:
        if key not in {f.name for f in fields}:
            raise InputError(f"{call.name} has no parameter {key!r}; it is {usage}")
        if key in given:
            raise InputError(f"{call} gives {key!r} twice")
        given[key] = value
    for f in fields:
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and f.name not in given:
            raise InputError(f"{call} lacks {f.name!r}; write {usage}")
    checked = {k: convert(v, hints[k], f"{k} of {call.name}") for k, v in given.items()}
    return cls(**checked)


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def render(part: object) -> str:
    """The expression that builds ``part``; values at their defaults are left out."""
    kwargs = []
    for f in dataclasses.fields(typing.cast(Any, part)):
        value = getattr(part, f.name)
        if f.init and (f.default is dataclasses.MISSING or value != f.default):
            kwargs.append((f.name, value))
    return str(Call(typing.cast(Any, part).name, (), tuple(kwargs)))


def signature(cls: type) -> str:
    """``limit_labels(t, f=1.0)``: what to write, for help and errors."""
    fields = dataclasses.fields(typing.cast(Any, cls))
    return signature_of(typing.cast(Any, cls).name, {f.name: f.default for f in fields if f.init})


def signature_of(name: str, defaults: Mapping[str, Any]) -> str:
    """The same of a name and the defaults of its values, MISSING where there is none."""
    required = dataclasses.MISSING
    shown = [n if d is required else f"{n}={write_value(d)}" for n, d in defaults.items()]
    return f"{name}({', '.join(shown)})" if shown else name


def summary(cls: type) -> str:
    """The first line of a class's docstring, for listings."""
    return (inspect.getdoc(cls) or "").split("\n", 1)[0]


def write_value(value: Any) -> str:
    """A value as an expression has it: ``none``, ``true``, ``0.1``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(write_value(v) for v in value) + "]"
    if isinstance(value, str):
        token = _TOKEN.match(value)
        plain = token is not None and token["name"] == value and value.lower() not in _WORDS
        return value if plain else '"' + value.replace('"', '""') + '"'
    if dataclasses.is_dataclass(value) and not isinstance(value, Call):
        return render(value)
    if isinstance(value, int) and value.bit_length() > 1000:
        return _shown(value)  # Python writes no more than some thousand digits
    return repr(value) if isinstance(value, float) else str(value)


def convert(value: Any, wanted: Any, where: str) -> Any:
    """Check one value against one annotation; integers pass as floats, nothing else is bent."""
    origin, options = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return value
    if origin is typing.Annotated:
        most = next((o for o in options if isinstance(o, AtMost)), None)
        try:
            found = convert(value, options[0], where)
        except TooLarge:  # beyond the bound of all numbers: its own is what to keep to
            refuse_too_large(tuple(value) if isinstance(value, list) else value, most, where)
            raise
        refuse_too_large(found, most, where)
        return found
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None  # as most settings are: no sentence need be written on what else they might have been
        problems = []
        for option in options:
            try:
                return convert(value, option, where)
            except TooLarge:
                raise
            except InputError as problem:
                problems.append(problem)
        raise (
            problems[0]
            if len(problems) == 2 and type(None) in options
            else InputError(f"{where} must be {in_words(wanted)}, not {write_value(value)}")
        )
    if origin is typing.Literal:
        if value in options:
            return value
        raise InputError(f"{where} must be {' or '.join(map(str, options))}, not {write_value(value)}")
    if origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(convert(v, options[0], where) for v in value)
        try:
            convert(value, options[0], where)
        except InputError:
            pass  # nor would it do as the only item
        else:
            raise InputError(f"{where} must be {in_words(wanted)}; write [{write_value(value)}]")
    elif wanted is type(None):
        if value is None:
            return None
    elif wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        refuse_too_large(value, AtMost(MOST), where)
        return float(value)
    elif wanted is int and isinstance(value, float) and value.is_integer():
        refuse_too_large(int(value), None, where)
        return int(value)
    elif (
        isinstance(wanted, type)
        and isinstance(value, wanted)
        and (wanted is bool or not isinstance(value, bool))
    ):
        refuse_too_large(value, None, where)
        return value
    raise InputError(f"{where} must be {in_words(wanted)}, not {write_value(value)}")


def argument(value: Any, wanted: Any, where: str) -> Any:
    """The same for an argument of a function: a number of numpy's is a number."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    return convert(value, wanted, where)


def refuse_too_large(value: Any, most: AtMost | None, where: str) -> None:
    """Refuse a number above its field's largest, or one, or several, that nothing could be."""
    if isinstance(value, tuple):
        for one in value:
            refuse_too_large(one, most, where)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < math.inf:
        return  # what is not finite has its own sentence
    limit = most.value if most is not None and value > 0 else MOST_WHOLE if isinstance(value, int) else MOST
    if abs(value) > limit:
        end = f"{limit:,}" if limit < 1e9 else f"{limit:g}"
        bound = f"most {end}" if value > 0 else f"least -{end}"
        raise TooLarge(f"{where} must be at {bound}, not {_shown(value)}")


def refuse_absurd(made: object) -> None:
    """The same for a dataclass that was made in Python, where no expression was read."""
    try:
        hints = _hints(typing.cast(Any, type(made)))
    except (NameError, TypeError):  # somebody's own class, with names that only its module knows
        hints = {}
    for f in dataclasses.fields(typing.cast(Any, made)):
        options = typing.get_args(hints.get(f.name))
        held = [o for option in (hints.get(f.name), *options) for o in typing.get_args(option)]
        most = next((o for o in held if isinstance(o, AtMost)), None)
        called = getattr(made, "name", type(made).__name__.lower())
        refuse_too_large(getattr(made, f.name), most, f"{f.name} of {called}")


def _shown(value: float) -> str:
    try:
        return f"{value:,}" if isinstance(value, int) and abs(value) < 1e9 else f"{value:g}"
    except OverflowError:  # a whole number that no float holds
        return "one of hundreds of digits"


def in_words(wanted: Any) -> str:
    """An annotation as a user would say it: ``a number or none``."""
    words = {
        int: "a whole number",
        float: "a number",
        str: "a word",
        bool: "true or false",
        Call: "a nested call",
    }
    if typing.get_origin(wanted) is typing.Literal:
        return " or ".join(map(str, typing.get_args(wanted)))
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        return " or ".join(in_words(option) for option in typing.get_args(wanted))
    if typing.get_origin(wanted) is typing.Annotated:
        return in_words(typing.get_args(wanted)[0])
    if typing.get_origin(wanted) is tuple:
        return f"a list, each item {in_words(typing.get_args(wanted)[0])}"
    return "none" if wanted is type(None) else words.get(wanted, str(wanted))
