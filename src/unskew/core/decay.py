"""How the learning rate falls over rounds: ``constant``, ``exponential(0.98, floor=0.01)``, ..."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.expression import build


@dataclass(frozen=True)
class Constant:
    """The same in every round."""

    name: ClassVar[str] = "constant"

    def factor(self, t: int, rounds: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Exponential:
    """Multiplied by ``gamma`` each round, never below ``floor`` times the first."""

    name: ClassVar[str] = "exponential"
    gamma: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        _within("gamma of exponential", self.gamma, above=0)
        _within("floor of exponential", self.floor)

    def factor(self, t: int, rounds: int) -> float:
        return max(self.gamma**t, self.floor)


@dataclass(frozen=True)
class LinearDecay:
    """From 1 in the first round straight down to ``end`` in the last, or in the last of the first ``over`` ones."""

    name: ClassVar[str] = "linear"
    end: float = 0.0
    over: int | None = None

    def __post_init__(self) -> None:
        _within("end of linear", self.end)
        if self.over is not None and self.over < 2:
            raise InputError(f"over of linear must be at least 2 rounds, not {self.over}")

    def factor(self, t: int, rounds: int) -> float:
        last = max(1, (self.over or rounds) - 1)
        return 1.0 + (self.end - 1.0) * min(t, last) / last


@dataclass(frozen=True)
class StepDecay:
    """Multiplied by ``gamma`` every ``every`` rounds."""

    name: ClassVar[str] = "step"
    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        _within("gamma of step", self.gamma, above=0)
        if self.every < 1:
            raise InputError(f"every of step must be at least 1, not {self.every}")

    def factor(self, t: int, rounds: int) -> float:
        return self.gamma ** (t // self.every)


@dataclass(frozen=True)
class Milestones:
    """Multiplied by ``gamma`` after each of the rounds ``at``."""

    name: ClassVar[str] = "milestones"
    at: tuple[int, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        _within("gamma of milestones", self.gamma, above=0)
        if not self.at or min(self.at) < 1 or len({*self.at}) < len(self.at):
            raise InputError(
                "at of milestones is a list of different rounds, 1 or later, such as [50, 75], not "
                f"{list(self.at)}"
            )

    def factor(self, t: int, rounds: int) -> float:
        return self.gamma ** sum(t >= passed for passed in self.at)


def _within(what: str, value: float, above: float | None = None) -> None:
    low = value > above if above is not None else value >= 0
    if not (low and value <= 1):
        raise InputError(
            f"{what} must be {'above 0' if above is not None else 'at least 0'} and at most 1, not {value}"
        )


Decay = Constant | Exponential | LinearDecay | StepDecay | Milestones
DECAYS: dict[str, type[Decay]] = {
    c.name: c for c in (Constant, Exponential, LinearDecay, StepDecay, Milestones)
}


def decay(expression: str) -> Decay:
    return build(expression, DECAYS, "learning-rate decay")
