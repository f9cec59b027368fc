"""How a setting of a run is described: once, where it is defined. Every list of settings is asked of these."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.errors import InputError

About = Literal["reading", "dealing", "holding", "training", "watching"]


@dataclass(frozen=True)
class Setting:
    """What there is to know of a setting beside its name, type and default.

    ``about`` is which data is read, how it is dealt to clients, which of it is held out, training, or watching it:
    what looks on, saves or hurries. ``changes_numbers``: whether a run with another value is another run.
    ``own_problem``: whether it is on other data, so that the two are never ranked together. ``renewable``: whether a
    resume may be given it anew; ``is_file``: whether it may name a file, which may lie elsewhere then.
    """

    help: str
    about: About
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    bounds: str = ""  # the bounds in words, where those of numbers would not do
    changes_numbers: bool = True
    own_problem: bool = False
    renewable: bool = False
    is_file: bool = False

    def check(self, name: str, value: Any) -> None:
        """Refuse a value, or one of several, that is out of bounds."""
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, (int, float)) and (bound := self._crossed(one)):
                shown = f"{one:g}" if isinstance(value, tuple) else str(one)
                raise InputError(f"{name} {self.bounds or f'must be {bound}'}, not {shown}")

    def _crossed(self, value: float) -> str:
        if self.at_least is not None and value < self.at_least:
            return f"at least {self.at_least:g}"
        if self.above is not None and not value > self.above:
            return f"above {self.above:g}"
        if self.at_most is not None and value > self.at_most:
            return f"at most {self.at_most:g}"
        if self.below is not None and not value < self.below:
            return f"below {self.below:g}"
        return ""


def setting(default: Any, about: About, help: str, **more: Any) -> Any:
    """A field of a record of settings. Watching changes no number, and other data is another problem, unless said."""
    more = {"changes_numbers": about != "watching"} | more
    more = {"own_problem": about in ("reading", "dealing", "holding") and more["changes_numbers"]} | more
    return field(default=default, metadata={"setting": Setting(help, about, **more)})


def description(settings: Any, name: str) -> Setting:
    """What is said of the setting of this name."""
    found: Setting = settings.__dataclass_fields__[name].metadata["setting"]
    return found


def names(settings: Any, *about: About, **marks: bool) -> tuple[str, ...]:
    """The settings about one of these (or any), with these marks, in the order in which they are defined."""
    described = {f.name: f.metadata["setting"] for f in dataclasses.fields(settings)}
    return tuple(
        name
        for name, one in described.items()
        if (not about or one.about in about) and all(getattr(one, m) == v for m, v in marks.items())
    )
