"""When a run ends before its last round, as it is written: ``accuracy > 0.9 and round >= 20``, ``500MB, 10min``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unskew.errors import InputError

SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
EXAMPLE = "accuracy > 0.9, or loss < 0.3 and round >= 20"


def find_number(line: Mapping[str, Any], name: str) -> tuple[str, float | None]:
    """(where a line of the log has it, the number) of a short or a whole name; None where there is none.

    A metric by its short name is that of the validation samples where a run has them, else of the test set.
    """
    base = "loss" if name == "log_loss" else name
    for key in (f"validation_{base}", f"global_test_{base}", base):
        if key in line:
            value = line[key]
            known = isinstance(value, (int, float)) and math.isfinite(value)
            return key, float(value) if known else None
    return base, None


@dataclass(frozen=True)
class Condition:
    """A number of a log line compared with another."""

    name: str
    sign: str
    value: float
    text: str

    def holds(self, line: Mapping[str, Any]) -> bool:
        """Whether it does in this line; what has no number holds nothing."""
        _, number = find_number(line, self.name)
        return number is not None and SIGNS[self.sign](number, self.value)


@dataclass(frozen=True)
class StopRule:
    """Conditions of which all in one clause must hold, in any of the clauses."""

    clauses: tuple[tuple[Condition, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it looks at."""
        return tuple(dict.fromkeys(one.name for clause in self.clauses for one in clause))

    def met(self, line: Mapping[str, Any]) -> tuple[Condition, ...]:
        """The first clause that holds in this line; nothing where none does."""
        return next((clause for clause in self.clauses if all(one.holds(line) for one in clause)), ())


def read_stop(text: str) -> StopRule:
    """The rule that a setting ``stop`` writes: ``and`` (or a comma) binds more tightly than ``or``."""
    clauses = []
    for clause in re.split(r"\s+or\s+", text.strip(), flags=re.IGNORECASE):
        parts = re.split(r"\s*,\s*|\s+and\s+", clause.strip(), flags=re.IGNORECASE)
        clauses.append(tuple(_condition(part, text) for part in parts))
    return StopRule(tuple(clauses))


def _condition(text: str, whole: str) -> Condition:
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(>=|<=|>|<)\s*(\S+)\s*", text)
    try:
        value = float(match[3]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        where = f" at {text.strip()!r}" if text.strip() != whole.strip() else ""
        raise InputError(
            f"stop cannot be read in {whole!r}{where}; write a name of the log, one of {', '.join(SIGNS)} and a "
            f"number, such as {EXAMPLE} (names: accuracy, balanced_accuracy, macro_f1, worst_class, loss, round, ...)"
        )
    return Condition(match[1], match[2], value, f"{match[1]} {match[2]} {match[3]}")


def check_stop(rule: StopRule, known: Iterable[str], shares: Iterable[str] = ()) -> None:
    """Refuse names that no line of the log will have, and what a share of 1 can never be."""
    names, shares = tuple(known), set(shares)
    for clause in rule.clauses:
        for one in clause:
            if one.name not in names:
                raise InputError(
                    f"stop names {one.name!r}, which no line of this run's log has; write one of {', '.join(names)}"
                )
            short = re.sub("^(validation|global_test)_", "", one.name)
            top = 1 if one.sign == ">" else math.nextafter(1, 2)
            if short in shares and one.sign in (">", ">=") and one.value >= top:
                instead = one.value / 100 if 1 < one.value <= 100 else 0.9
                raise InputError(
                    f"stop = {one.text} never holds, since {one.name} is a share from 0 to 1; "
                    f"write {one.name} {one.sign} {instead:g}"
                )


UNITS = {
    "bytes": {
        "b": 1.0,
        "bytes": 1.0,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2.0**10,
        "mib": 2.0**20,
        "gib": 2.0**30,
        "tib": 2.0**40,
    },
    "seconds": {
        "s": 1.0,
        "sec": 1.0,
        "second": 1.0,
        "seconds": 1.0,
        "min": 60.0,
        "minute": 60.0,
        "minutes": 60.0,
        "h": 3600.0,
        "hour": 3600.0,
        "hours": 3600.0,
        "d": 86400.0,
        "day": 86400.0,
        "days": 86400.0,
    },
}


@dataclass(frozen=True)
class Amount:
    """What a run may spend of one thing: "bytes", "seconds" or, on the air, "air"."""

    kind: str
    most: float
    text: str

    def spent(self, line: Mapping[str, Any]) -> float:
        """What a round's line spent of it."""
        if self.kind == "bytes":
            return float(sum(line.get(f"bytes_{way}") or 0 for way in ("down", "up", "peer")))
        return float(line.get("wall_s" if self.kind == "seconds" else "air_s") or 0.0)

    def say(self, spent: float) -> str:
        """An amount in the unit in which it was written."""
        unit = re.sub(r"^[\d.eE+,\s]+", "", self.text)
        size = next(
            units[unit.split()[0].lower()] for units in UNITS.values() if unit.split()[0].lower() in units
        )
        many = spent / size
        return f"{many:,.0f} {unit}" if many >= 1e4 else f"{many:.4g} {unit}"


def read_budget(text: str) -> tuple[Amount, ...]:
    """The amounts that a setting ``budget`` writes, one of each kind at most."""
    found: dict[str, Amount] = {}
    for part in re.split(r"\s*,\s*|\s+and\s+", text.strip(), flags=re.IGNORECASE):
        amount = _amount(part.strip(), text)
        if amount.kind in found:
            raise InputError(
                f"budget names {found[amount.kind].text} and {amount.text}, which limit the same; keep one"
            )
        found[amount.kind] = amount
    return tuple(found.values())


def _amount(text: str, whole: str) -> Amount:
    match = re.fullmatch(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*([A-Za-z]+)(\s+(?:on\s+the\s+)?air)?", text)
    unit = match[2].lower() if match else ""
    kind = next((kind for kind, units in UNITS.items() if unit in units), "")
    if match is None or not kind or (match[3] and kind == "bytes"):
        where = f" at {text!r}" if text != whole.strip() else ""
        raise InputError(
            f"budget cannot be read in {whole!r}{where}; write bytes (kB, MB, GB), time (s, min, h) or "
            "time on the air, such as 500MB, 10min, or 90s on the air, several joined by a comma"
        )
    most = float(match[1]) * UNITS[kind][unit]
    if not 0 < most < math.inf:
        raise InputError(f"budget must be above 0 and finite, not {text}")
    return Amount("air" if match[3] else kind, most, text)
