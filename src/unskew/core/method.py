"""A method: its slots, checked; and the expression that names it, e.g. ``scaffold+sem``."""

from __future__ import annotations

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unskew import expression
from unskew.core.hook_names import refuse_old_hooks
from unskew.core.memory_names import RESERVED
from unskew.core.registry import parts as known_parts
from unskew.core.registry import presets
from unskew.core.slot_names import DECIDES, SLOTS, USUAL
from unskew.core.slots import (
    Advance,
    Aggregate,
    Calibrate,
    Exchange,
    Objective,
    Part,
    Prepare,
    Schedule,
    Select,
    Tune,
    Upload,
)
from unskew.core.types import Memory, Tree
from unskew.errors import InputError, unknown
from unskew.expression import Call, parse, refuse_absurd, render
from unskew.import_object import import_object

if TYPE_CHECKING:
    from unskew.core.net import Net


SLOT_CLASSES: dict[str, type[Part]] = {
    kind.slot: kind
    for kind in (Prepare, Select, Tune, Schedule, Objective, Upload, Aggregate, Advance, Calibrate)
}
"""Slot -> what its parts are derived from."""


def usual(slot: str) -> Any:
    """The part of a slot that decides, where nobody says which."""
    return known_parts()[USUAL[slot]]()


@dataclass(frozen=True)
class Method:
    """What happens in a round. Slots that decide hold one part, slots that add hold any number."""

    prepare: tuple[Prepare, ...] = ()
    select: Select = field(default_factory=lambda: usual("select"))
    tune: tuple[Tune, ...] = ()
    schedule: Schedule = field(default_factory=lambda: usual("schedule"))
    objective: tuple[Objective, ...] = ()
    upload: tuple[Upload, ...] = ()
    aggregate: Aggregate = field(default_factory=lambda: usual("aggregate"))
    advance: Advance = field(default_factory=lambda: usual("advance"))
    calibrate: tuple[Calibrate, ...] = ()

    @classmethod
    def of(cls, *parts: Part) -> Method:
        """A method of these parts; slots not named take what a part implies, else what is usual."""
        slots: dict[str, list[Part]] = {slot: [] for slot in SLOTS}
        for part in parts:
            if not isinstance(part, Part):
                raise InputError(f"a method is made of parts, such as FedProx(mu=0.1), not of {part!r}")
            check_part_class(type(part), type(part).__qualname__)
            refuse_absurd(part)
            slots[part.slot].append(part)
        for name, times in Counter(p.name for p in parts).items():
            if times > 1:
                raise InputError(f"{name} appears {times} times; keep one")
        for slot in DECIDES:
            if len(slots[slot]) > 1:
                names = " and ".join(p.name for p in slots[slot])
                raise InputError(f"{names} both decide {slot!r}; keep one")
        chosen: dict[str, Any] = {s: p[0] if s in DECIDES else tuple(p) for s, p in slots.items() if p}
        method = cls(**_usual(parts) | chosen)
        _refuse_contradictions(method)
        if not method.schedule.exchanges:
            _refuse_exchange(method.schedule.name, [p for p in parts if p.slot != "schedule"])
        return method

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
    def exchange(self) -> tuple[Exchange, ...]:
        """The objectives that remember, tell or are told more than models."""
        return tuple(part for part in self.objective if isinstance(part, Exchange))

    @property
    def encoders(self) -> tuple[Upload, ...]:
        """The upload parts that change anything, in order; where there are none, models travel as they are."""
        return tuple(part for part in self.upload if part.encodes)

    def hand_out(self, server: Mapping[str, Tree], t: int) -> dict[str, Tree]:
        """What goes down with the model in a round, by objective: nothing of those that exchange nothing."""
        nothing: dict[str, Tree] = {part.name: {} for part in self.objective}
        return nothing | {part.name: part.hand_out(server[part.name], t) for part in self.exchange}

    def init_client(self, net: Net, size: float) -> dict[str, Memory]:
        """What a client remembers before its first visit, by part; ``size`` is relative to the mean client's."""
        found: dict[str, Memory] = {part.name: {} for part in self.objective}
        found |= {part.name: part.init_client(net, size) for part in self.exchange}
        return found | {part.name: part.init_client(net) for part in self.encoders}

    @property
    def discloses(self) -> tuple[str, ...]:
        """What leaves a client beyond a model update, each with the part that sends it."""
        return tuple(f"{what} ({part.name})" for part in self.parts for what in part.discloses)

    def __str__(self) -> str:
        """The expression that builds this method; defaults are left out."""
        open_slots = _usual(self.parts).values()
        named = [_written(p) for p in self.parts if p not in open_slots]
        return "+".join(named) or "fedavg"


def _refuse_contradictions(method: Method) -> None:
    """Refuse parts that cannot be in one method, by name."""
    forward = [p.name for p in method.objective if type(p).forward is not Objective.forward]
    if len(forward) > 1:
        raise InputError(f"{' and '.join(forward)} both replace the forward pass; keep one")
    foreign = [p.name for p in method.objective if p.others_labels]
    for part in method.objective:
        if foreign and part.own_labels_only:
            raise InputError(
                f"{part.name} leaves out classes that a client lacks, and {foreign[0]} trains on others' labels; "
                f"write {part.own_labels_only}"
            )
    for encoder, after in itertools.pairwise(method.upload):
        if encoder.packs:
            raise InputError(
                f"{encoder.name} packs numbers into bytes, and {after.name} after it has none to encode; "
                f"write {after.name} before {encoder.name}"
            )
    sharing = [p.name for p in method.prepare if p.sends == "samples"]
    if len(sharing) > 1:  # the second would hand on what the first had entrusted to some
        raise InputError(f"{' and '.join(sharing)} both send clients' samples to others; keep one")


def _refuse_exchange(alone: str, others: Iterable[Part]) -> None:
    """Where nothing is exchanged, what needs an exchange is refused by name."""
    alone = next((preset for preset, (written, _) in presets().items() if written == alone), alone)
    for part in others:
        needs = {
            "upload": "encodes what clients upload",
            "aggregate": "combines models",
            "advance": "steps with the global model",
            "calibrate": "calibrates the global model",
        }.get(part.slot, "")
        if isinstance(part, Objective) and part.needs.global_model:
            needs = "needs the global model"
        if part.discloses or part.probes:
            needs = f"sends {part.discloses[0]}" if part.discloses else "needs the global model"
        if isinstance(part, Exchange) and part.exchanges:
            needs = needs or "exchanges more than a model"
        if needs and not (part.slot in USUAL and part == usual(part.slot)):
            raise InputError(f"{alone} exchanges nothing, and {part.name} {needs}; leave {part.name} out")


def _usual(parts: Iterable[Part]) -> dict[str, Part]:
    """What the deciding slots hold where an expression leaves them open: what its first part implies, or FedAvg."""
    implied: dict[str, Part] = {}
    for part in (p for by in parts if by.implies for call in parse(by.implies) for p in _resolve(call)):
        implied.setdefault(part.slot, part)
    return {slot: usual(slot) for slot in USUAL} | implied


def _resolve(call: Call) -> list[Part]:
    """The parts that a name stands for: a part, a preset, or a class of one's own as package.module:Class."""
    if call.name in presets():
        if call.args or call.kwargs:
            raise InputError(
                f"{call.name} is a preset and takes no values; write its parts: {presets()[call.name][0]}"
            )
        return [part for inner in parse(presets()[call.name][0]) for part in _resolve(inner)]
    if ":" in call.name:
        return [expression.build(call, {call.name: own_part(call.name)}, "part")]
    if call.name not in known_parts():
        own = f"a part of your own as the file and the class that it is in, such as mine:{call.name}"
        raise unknown("method or part", call.name, [*known_parts(), *presets()], own)
    return [expression.build(call, known_parts(), "part")]


def own_part(path: str) -> type[Part]:
    """A part of one's own, by ``package.module:Class``."""
    return check_part_class(import_object(path, "part"), repr(path))


def check_part_class(found: Any, called: str) -> type[Part]:
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
    kind = SLOT_CLASSES.get(getattr(found, "slot", ""))
    if kind is None or not issubclass(found, kind):
        raise InputError(
            f"{called} is in no slot: derive it from Objective, Aggregate or another of unskew.parts"
        )
    refuse_old_hooks(found, called)
    return found


def _written(part: Part) -> str:
    text = render(part)
    own = known_parts().get(part.name) is not type(part)
    return text.replace(part.name, f"{type(part).__module__}:{type(part).__qualname__}", 1) if own else text
