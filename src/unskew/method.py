"""A method: seven slots, checked; and the expression that names it, e.g. ``scaffold+sem``."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from unskew import aggregate, calibrate, expression, objective, prepare, schedule, select, tune
from unskew.aggregate import FedAvg
from unskew.errors import InputError, unknown
from unskew.expression import Call, parse, refuse_absurd, render
from unskew.own import imported
from unskew.parts import (
    DECIDES,
    RESERVED,
    SLOTS,
    Aggregate,
    Calibrate,
    Objective,
    Part,
    Prepare,
    Schedule,
    Select,
    Tune,
)
from unskew.schedule import Plain
from unskew.select import Uniform


def _parts(*folders: ModuleType) -> dict[str, type[Part]]:
    """Every part that a slot's folder imports."""
    found = (c for folder in folders for c in vars(folder).values())
    return {c.name: c for c in found if inspect.isclass(c) and issubclass(c, Part)}


PARTS = _parts(prepare, select, tune, schedule, objective, aggregate, calibrate)
"""Every part by name, slot after slot."""

PRESETS: dict[str, tuple[str, str]] = {
    "centralized": (
        "pooled+full",
        "All data in one place with a cohort's budget of sample-steps: the upper bound.",
    ),
    "local_only": (
        "alone",
        "Every client trains for itself, as often as it would in a federation, and sends nothing: the lower bound.",
    ),
    "seol_kim": (
        "kld+oversample+dynamic",
        "Seol & Kim's system: even cohorts, rare classes repeated, batches and rates by the data in use.",
    ),
    "2p_fedaug": (
        "phase_shift(2)+fedaug(0.8)",
        "The thesis's combination, chapter 6: two phases on data augmented to EMD 0.8.",
    ),
}
"""Papers' systems as sums of parts: name -> (expression, what it is)."""


@dataclass(frozen=True)
class Method:
    """What happens in a round. Slots that decide hold one part, slots that add hold any number."""

    prepare: tuple[Prepare, ...] = ()
    select: Select = field(default_factory=Uniform)
    tune: tuple[Tune, ...] = ()
    schedule: Schedule = field(default_factory=Plain)
    objective: tuple[Objective, ...] = ()
    aggregate: Aggregate = field(default_factory=FedAvg)
    calibrate: tuple[Calibrate, ...] = ()

    @classmethod
    def of(cls, *parts: Part) -> Method:
        """A method of these parts; slots not named take what a part implies, else uniform, plain and FedAvg."""
        slots: dict[str, list[Part]] = {slot: [] for slot in SLOTS}
        for part in parts:
            if not isinstance(part, Part):
                raise InputError(f"a method is made of parts, such as FedProx(mu=0.1), not of {part!r}")
            checked_part(type(part), type(part).__qualname__)
            refuse_absurd(part)
            slots[part.slot].append(part)
        for name, times in Counter(p.name for p in parts).items():
            if times > 1:
                raise InputError(f"{name} appears {times} times; keep one")
        for slot in DECIDES:
            if len(slots[slot]) > 1:
                names = " and ".join(p.name for p in slots[slot])
                raise InputError(f"{names} both decide {slot!r}; keep one")
        forward = [p.name for p in slots["objective"] if type(p).forward is not Objective.forward]  # type: ignore[attr-defined]
        if len(forward) > 1:
            raise InputError(f"{' and '.join(forward)} both replace the forward pass; keep one")
        objectives = [p for p in slots["objective"] if isinstance(p, Objective)]
        foreign = [p.name for p in objectives if p.others_labels]
        for part in objectives:
            if foreign and part.own_labels_only:
                raise InputError(
                    f"{part.name} leaves out classes that a client lacks, and {foreign[0]} trains on others' labels; "
                    f"write {part.own_labels_only}"
                )
        sharing = [p.name for p in slots["prepare"] if p.sends == "samples"]
        if len(sharing) > 1:  # the second would hand on what the first had entrusted to some
            raise InputError(f"{' and '.join(sharing)} both send clients' samples to others; keep one")
        schedules = [p for p in slots["schedule"] if isinstance(p, Schedule)]
        if any(not p.exchanges for p in schedules):
            _refuse_exchange(schedules[0].name, [p for p in parts if p.slot != "schedule"])
        chosen: dict[str, Any] = {s: p[0] if s in DECIDES else tuple(p) for s, p in slots.items() if p}
        return cls(**_usual(parts) | chosen)

    @classmethod
    def parse(cls, text: str | Method) -> Method:
        """Read ``fedprox(mu=0.01)+sem`` or a preset's name."""
        if isinstance(text, Method):
            return text
        return cls.of(*(part for call in parse(text) for part in _resolve(call)))

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in the order of the slots."""
        slots = (getattr(self, slot) for slot in SLOTS)
        return tuple(p for held in slots for p in (held if isinstance(held, tuple) else (held,)))

    @property
    def discloses(self) -> tuple[str, ...]:
        """What leaves a client beyond a model update, each with the part that sends it."""
        return tuple(f"{what} ({part.name})" for part in self.parts for what in part.discloses)

    def __str__(self) -> str:
        """The expression that builds this method; defaults are left out."""
        usual = _usual(self.parts).values()
        named = [_written(p) for p in self.parts if p not in usual]
        return "+".join(named) or "fedavg"


def _refuse_exchange(alone: str, others: Iterable[Part]) -> None:
    """Where nothing is exchanged, what needs an exchange is refused by name."""
    alone = next((preset for preset, (written, _) in PRESETS.items() if written == alone), alone)
    for part in others:
        needs = {
            "aggregate": "combines models",
            "calibrate": "calibrates the global model",
        }.get(part.slot, "")
        if isinstance(part, Objective) and part.needs_global:
            needs = "needs the global model"
        if part.discloses or part.probes:
            needs = f"sends {part.discloses[0]}" if part.discloses else "needs the global model"
        if isinstance(part, Objective) and part.exchanges:
            needs = needs or "exchanges more than a model"
        if needs and part != FedAvg():
            raise InputError(f"{alone} exchanges nothing, and {part.name} {needs}; leave {part.name} out")


def _usual(parts: Iterable[Part]) -> dict[str, Part]:
    """What the deciding slots hold where an expression leaves them open: what its first part implies, or FedAvg."""
    usual: dict[str, Part] = {}
    for part in (p for by in parts if by.implies for call in parse(by.implies) for p in _resolve(call)):
        usual.setdefault(part.slot, part)
    return {"select": Uniform(), "schedule": Plain(), "aggregate": FedAvg()} | usual


def _resolve(call: Call) -> list[Part]:
    """The parts that a name stands for: a part, a preset, or a class of one's own as package.module:Class."""
    if call.name in PRESETS:
        if call.args or call.kwargs:
            raise InputError(
                f"{call.name} is a preset and takes no values; write its parts: {PRESETS[call.name][0]}"
            )
        return [part for inner in parse(PRESETS[call.name][0]) for part in _resolve(inner)]
    if ":" in call.name:
        return [expression.build(call, {call.name: own_part(call.name)}, "part")]
    if call.name not in PARTS:
        raise unknown("method or part", call.name, [*PARTS, *PRESETS])
    return [expression.build(call, PARTS, "part")]


def own_part(path: str) -> type[Part]:
    """A part of one's own, by ``package.module:Class``."""
    return checked_part(imported(path, "part"), repr(path))


def checked_part(found: Any, called: str) -> type[Part]:
    """A class that can be a part: derived from a slot's, with a name that nothing else goes by."""
    if not (inspect.isclass(found) and issubclass(found, Part)):
        raise InputError(f"{called} is not a part: derive it from a slot class of unskew.parts")
    name = getattr(found, "name", None)
    if (
        not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_]*[A-Za-z_][A-Za-z0-9_]*", name))
        or name in RESERVED
    ):
        problem = "has no name" if name is None else f"is named {name!r}, which a run cannot use"
        raise InputError(f'{called} {problem}: give it a `name: ClassVar[str] = "my_part"`')
    if getattr(found, "slot", None) not in SLOTS:
        raise InputError(
            f"{called} is in no slot: derive it from Objective, Aggregate or another of unskew.parts"
        )
    return found


def _written(part: Part) -> str:
    text = render(part)
    own = PARTS.get(part.name) is not type(part)
    return text.replace(part.name, f"{type(part).__module__}:{type(part).__qualname__}", 1) if own else text
