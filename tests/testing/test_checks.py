"""The battery over every part and preset; and a broken part for every check, which it must catch."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from unskew.core.method import Method
from unskew.core.slots import Advance, Aggregate, Exchange, Objective, Part, Play, Select, Step, Upload, Visit
from unskew.core.types import Cohort, Tree, Update
from unskew.errors import InputError
from unskew.parts import PARTS, PRESETS
from unskew.parts.aggregate import FedAvg
from unskew.parts.schedule import Plain
from unskew.testing.checks import BEHAVIOUR, CHECKS, check_method, check_part
from unskew.testing.plays import example
from unskew.testing.toy_federation import play, tiny


@pytest.mark.parametrize("name", PARTS)
def test_every_part_holds(name: str) -> None:
    """The whole battery at once: its checks share the rounds that several of them look at."""
    check_part(PARTS[name])


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_holds(preset: str) -> None:
    check_method(preset)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_names_its_paper(name: str) -> None:
    assert PARTS[name].paper


# --- parts that break one rule each


@dataclass(frozen=True)
class Remembers(Objective):
    """Counts its own steps, in an object that a kill would lose."""

    name: ClassVar[str] = "remembers"
    seen: dict[str, int] = field(default_factory=dict)

    def penalty(self, step: Step) -> Any:
        self.seen["steps"] = self.seen.get("steps", 0) + 1
        return 1e-3 * self.seen["steps"] * sum(p.square().sum() for p in step.params.values())


@dataclass(frozen=True)
class Derives(Objective):
    """Keeps something beside its fields."""

    name: ClassVar[str] = "derives"
    mu: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "half", self.mu / 2)


class Bare(FedAvg):
    """Lacks the decorator, so that its field is none."""

    name: ClassVar[str] = "bare"
    twist: float = 1.0


@dataclass(frozen=True)
class Rounds(Objective):
    """Changes what it is given."""

    name: ClassVar[str] = "rounds"
    mu: float = 0.15

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", round(self.mu + 0.1, 1))


@dataclass(frozen=True)
class Silent(Objective):
    name: ClassVar[str] = "silent"


@dataclass(frozen=True)
class Nameless(Objective):
    """Has no name."""


@dataclass(frozen=True)
class Loud(Objective):
    """Has a name that is no word."""

    name: ClassVar[str] = "Loud Part"


@dataclass(frozen=True)
class Counting(Objective):
    """Needs label counts and does not say that clients disclose them."""

    name: ClassVar[str] = "counting"

    @property
    def needs_counts(self) -> bool:
        return True


@dataclass(frozen=True)
class ReadsCounts(Select):
    """Asks those who hold the most classes, and does not say that it needs label counts."""

    name: ClassVar[str] = "reads_counts"

    def select(self, count: int, exclude: Any, roster: Any, memory: Tree, rng: Any) -> Any:
        many = np.argsort(-(roster.counts > 0).sum(1), kind="stable")
        return Cohort(many[~np.isin(many, exclude)][:count]), memory


@dataclass(frozen=True)
class WhereGiven(Select):
    """Uses label counts where there are some, and does not say so."""

    name: ClassVar[str] = "where_given"

    def select(self, count: int, exclude: Any, roster: Any, memory: Tree, rng: Any) -> Any:
        by = roster.counts[:, 0] if roster.counted else roster.ids
        order = np.argsort(-by, kind="stable")
        return Cohort(order[~np.isin(order, exclude)][:count]), memory


@dataclass(frozen=True)
class Taken(Objective):
    """Has the name of something else."""

    name: ClassVar[str] = "late"


@dataclass(frozen=True)
class NotNeutral(Objective):
    """Is not FedAvg where it says so."""

    name: ClassVar[str] = "not_neutral"
    neutral: ClassVar[str | None] = "not_neutral(mu=0)"
    mu: float = 0.1

    def penalty(self, step: Step) -> Any:
        return (self.mu + 1e-9) * sum(p.square().sum() for p in step.params.values())


@dataclass(frozen=True)
class Forgetful(Select):
    """Selects whom it must not."""

    name: ClassVar[str] = "forgetful"

    def select(self, count: int, exclude: Any, federation: Any, memory: Tree, rng: Any) -> Any:
        return Cohort(rng.permutation(federation.clients)[:count]), memory


@dataclass(frozen=True)
class Dice(Objective):
    """Draws from a global generator."""

    name: ClassVar[str] = "dice"
    which: str = "torch"

    def penalty(self, step: Step) -> Any:
        draw = {
            "torch": lambda: float(torch.rand(())),
            "numpy": lambda: float(np.random.rand()),  # noqa: NPY002
            "random": random.random,
        }[self.which]()
        return draw * 1e-3 * sum(p.square().sum() for p in step.params.values())


@dataclass(frozen=True)
class InPlace(Aggregate):
    """Writes the new model over the old one."""

    name: ClassVar[str] = "in_place"

    def merge(self, params: Tree, update: Update, memory: Tree, trainable: Any) -> Any:
        for name, value in params.items():
            value.copy_(update.params[name].mean(0))
        return params, memory


@dataclass(frozen=True)
class Piles(Advance):
    """Adds the change to the memory it was handed."""

    name: ClassVar[str] = "piles"

    def init_server(self, net: Any) -> Tree:
        return {k: torch.zeros_like(net.initial[k]) for k in net.trainable}

    def step(self, params: Tree, change: Tree, memory: Tree) -> tuple[Tree, Tree]:
        for name, value in memory.items():
            value += change[name]
        return {k: v + memory[k] for k, v in params.items()}, memory


@dataclass(frozen=True)
class Widens(Advance):
    """Gives weights back in another type."""

    name: ClassVar[str] = "widens"

    def step(self, params: Tree, change: Tree, memory: Tree) -> tuple[Tree, Tree]:
        return {k: v + change[k] for k, v in params.items()}, memory


@dataclass(frozen=True)
class Halves(Upload):
    """Sends numbers in half precision and forgets to widen them again."""

    name: ClassVar[str] = "halves"

    def encode(self, change: Tree, memory: Tree, rng: Any) -> tuple[Tree, Tree]:
        return {k: v.half() for k, v in change.items()}, memory


@dataclass(frozen=True)
class Grows(Upload):
    """Remembers what it did not begin with."""

    name: ClassVar[str] = "grows"

    def encode(self, change: Tree, memory: Tree, rng: Any) -> tuple[Tree, Tree]:
        return change, {"last": torch.zeros(3)}


@dataclass(frozen=True)
class Swallows(Upload):
    """Leaves weights out."""

    name: ClassVar[str] = "swallows"

    def encode(self, change: Tree, memory: Tree, rng: Any) -> tuple[Tree, Tree]:
        return {k: v for k, v in change.items() if "bias" not in k}, memory


@dataclass(frozen=True)
class Still(Aggregate):
    """Never moves."""

    name: ClassVar[str] = "still"

    def weights(self, update: Update) -> torch.Tensor:
        return torch.zeros_like(update.examples)


@dataclass(frozen=True)
class Divides(Aggregate):
    """Divides by the samples of those who answered, also where they have none."""

    name: ClassVar[str] = "divides"

    def weights(self, update: Update) -> torch.Tensor:
        return update.examples / update.examples.sum()


@dataclass(frozen=True)
class Shrinks(Plain):
    """Changes the model although nobody answered."""

    name: ClassVar[str] = "shrinks"

    def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
        params, memory = super().round(play, params, memory)
        return {k: v * 0.99 for k, v in params.items()}, memory


@dataclass(frozen=True)
class FirstCounts(Aggregate):
    """Gives the first client of a cohort more weight."""

    name: ClassVar[str] = "first_counts"

    def weights(self, update: Update) -> torch.Tensor:
        n = update.examples.clone()
        n[0] *= 2
        return n / n.sum().clamp_min(1)


@dataclass(frozen=True)
class Pads(Objective):
    """Averages over a batch with its padding."""

    name: ClassVar[str] = "pads"

    def penalty(self, step: Step) -> Any:
        assert step.out is not None
        return step.out.logits.square().mean()


@dataclass(frozen=True)
class Whispers(Exchange):
    """Uploads a number and does not say so."""

    name: ClassVar[str] = "whispers"

    def report(self, visit: Visit) -> tuple[Tree, Tree]:
        return {"norm": sum((v.norm() for v in visit.moved.values()), torch.zeros(()))}, visit.mine


@dataclass(frozen=True)
class NoDefault(FedAvg):
    """Cannot be made without a value."""

    name: ClassVar[str] = "no_default"
    strength: float = field(kw_only=True)


BROKEN: list[tuple[Part, str, str]] = [
    (Derives(), "stores", "derives holds half beside its fields; memory belongs in State"),
    (Bare(), "stores", "bare must be a @dataclass(frozen=True)"),
    (Rounds(), "stores", "rounds does not store mu as it was given"),
    (Silent(), "described", "silent has no docstring"),
    (Loud(), "described", "Loud needs a name of small letters, digits and _, not 'Loud Part'"),
    (Counting(), "described", "counting needs label counts and must say 'label counts' in `discloses`"),
    (Taken(), "described", "late is taken: the run itself remembers things under it"),
    (NotNeutral(), "neutral", "not_neutral(mu=0) should be FedAvg to the last bit, and is not"),
    (Forgetful(), "select", "forgetful selects clients that were excluded"),
    (Halves(), "upload", "halves must decode every weight, in its type and shape"),
    (Grows(), "upload", "grows must remember what it began with, in its types and shapes"),
    (Swallows(), "upload", "swallows leaves "),
    (Piles(), "advance", "piles writes into what it was handed"),
    (Widens(), "advance", "widens must give every weight it was handed, in its type and shape"),
    (Rounds(), "expression", "rounds(mu=0.2) reads as "),
    (Dice(), "seed", "dice gives other numbers from the same seed"),
    (Dice("torch"), "global_random", "dice draws from torch's global generator; draw from unskew.seeds"),
    (Dice("numpy"), "global_random", "dice draws from numpy's global generator; draw from unskew.seeds"),
    (Dice("random"), "global_random", "dice draws from random's global generator; draw from unskew.seeds"),
    (InPlace(), "untouched", "in_place writes into the model it was handed"),
    (Still(), "finite", "still does not change the model in three rounds"),
    (Still(), "schedules", "still changes nothing under "),
    (Divides(), "few", "divides ends in numbers that are not finite with cohorts that hold nothing"),
    (Shrinks(), "vanished", "shrinks changes the model although nobody answered"),
    (FirstCounts(), "order", "first_counts depends on the order of clients: models differ by "),
    (Pads(), "padding", "pads lets padding leak: a step differs by "),
    (ReadsCounts(), "counts", "reads_counts reads label counts and does not say so: let `needs_counts` be"),
    (WhereGiven(), "counts", "where_given uses label counts where they are given (models differ by "),
    (Remembers(), "resume", "remembers ends in another model when it is resumed"),
    (Whispers(), "costs", "whispers must say in `discloses` what leaves a client"),
]


@pytest.mark.parametrize(("part", "check", "sentence"), BROKEN, ids=lambda v: getattr(v, "name", str(v)[:20]))
def test_a_part_that_breaks_a_rule_is_told_so(part: Part, check: str, sentence: str) -> None:
    with pytest.raises(AssertionError) as problem:
        check_part(part, only=[check])
    assert str(problem.value).startswith(sentence)


def test_a_part_without_defaults_needs_an_example() -> None:
    """A class is tried at its defaults; where it has none it says by which expression to try it."""
    with pytest.raises(AssertionError, match="no_default cannot be made without strength"):
        check_part(NoDefault)
    shown = type("Shown", (NoDefault,), {"example": "no_default(strength=2)"})
    assert example(shown) == shown(strength=2.0)


def test_the_battery_can_be_run_in_parts() -> None:
    """Single checks are asked for by name, and a name that does not exist is refused."""
    check_part(FedAvg, only=["finite"])
    check_method("fedavg", only=["finite"])
    with pytest.raises(InputError, match="there is no check 'finit'; did you mean 'finite'"):
        check_part(FedAvg, only=["finit"])
    with pytest.raises(InputError, match="there is no check 'stores'"):
        check_method("fedavg", only=["stores"])
    assert set(BEHAVIOUR) < set(CHECKS)


def test_a_part_that_asks_for_a_probe_is_handed_it() -> None:
    """``probes`` are measured on the data of each client that answered, with the model the round began with."""
    heard: list[dict[str, Any]] = []

    @dataclass(frozen=True)
    class Listens(FedAvg):
        """Writes down what it is told."""

        name: ClassVar[str] = "listens"
        probes: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

        def weights(self, update: Update) -> torch.Tensor:
            heard.append({k: v.clone() for k, v in update.probes.items()} | {"clients": update.clients})
            return super().weights(update)

    from unskew.core.method import Method

    federation = tiny()
    play(replace(Method(), aggregate=Listens()), federation, rounds=1)
    told = heard[0]
    assert set(told) == {"loss", "accuracy", "clients"}
    assert told["loss"].shape == told["accuracy"].shape == (4,)
    assert bool(((told["accuracy"] >= 0) & (told["accuracy"] <= 1)).all())
    # shares of each client's own samples
    for share, client in zip(told["accuracy"].tolist(), told["clients"], strict=True):
        held = len(federation.samples(int(client)))
        assert share * held == pytest.approx(round(share * held))


@pytest.mark.parametrize("kind", [Nameless, Loud, Taken])
def test_no_method_has_a_part_without_a_name_of_its_own(kind: type[Objective]) -> None:
    """Neither one made in Python nor one named by its path, and the battery does not let it pass."""
    with pytest.raises(InputError, match="give it a `name: ClassVar"):
        Method.of(kind())
    with pytest.raises(InputError, match="give it a `name: ClassVar"):
        Method.parse(f"{__name__}:{kind.__name__}")
    with pytest.raises(AssertionError):
        check_part(kind)
