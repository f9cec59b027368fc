"""Checks of a part's own form: what it says of itself, and what each slot must give. A whole method has none."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re

import numpy as np
import torch

from unskew.core import slots
from unskew.core.memory_names import RESERVED
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.slot_names import LABEL_COUNTS, SLOTS
from unskew.core.slots import Advance, Needs, Select, Upload
from unskew.core.types import clone, leaves
from unskew.expression import build, parse
from unskew.parts import PARTS
from unskew.seeds import generator
from unskew.testing.plays import (
    Subject,
    are_alike,
    counted_rounds,
    fedavg_rounds,
    moved_bytes,
    must,
    must_be_untouched,
    play,
)
from unskew.testing.toy_federation import (
    ready,
    tiny,
)


def check_stores(part: Subject) -> None:
    """The constructor only stores: a frozen dataclass that holds its fields and nothing else."""
    if isinstance(part, Method):
        return
    kind = type(part)
    own = vars(kind).get("__dataclass_params__")
    must(own is not None and own.frozen, f"{part.name} must be a @dataclass(frozen=True)")
    given = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}
    again = kind(**given)
    for name, value in given.items():
        must(getattr(again, name) == value, f"{part.name} does not store {name} as it was given")
    extra = sorted(set(vars(part)) - set(given))
    must(not extra, f"{part.name} holds {', '.join(extra)} beside its fields; memory belongs in State")


def check_described(part: Subject) -> None:
    """It has a name, a slot and a docstring, and says of which paper it is and what it discloses."""
    if isinstance(part, Method):
        return
    kind = type(part)
    name = str(getattr(kind, "name", ""))
    plain = re.fullmatch(r"[a-z0-9_]*[a-z_][a-z0-9_]*", name) is not None
    must(plain, f"{kind.__name__} needs a name of small letters, digits and _, not {name!r}")
    must(name not in RESERVED, f"{name} is taken: the run itself remembers things under it")
    must(kind.slot in SLOTS, f"{name} has the slot {kind.slot!r}, which is none of {', '.join(SLOTS)}")
    holder = getattr(slots, kind.slot.capitalize())
    must(issubclass(kind, holder), f"{name} fills {kind.slot} and must derive from {holder.__name__}")
    taken = name in PARTS and PARTS[name] is not kind
    must(not taken, f"{name} is a part of unskew's own; give yours another name")
    lacking = [asked for asked in kind.questions if not callable(getattr(kind, asked, None))]
    must(not lacking, f"{name} names a question that it has no method for: {', '.join(lacking)}")
    needs = getattr(part, "needs", None)
    must(needs is None or isinstance(needs, Needs), f"needs of {name} must be a Needs(...), not {needs!r}")
    _must_be_spelt(kind, holder)
    text = (vars(kind).get("__doc__") or "").strip()
    generated = text.startswith(f"{kind.__name__}(")  # what @dataclass writes where there is none
    must(bool(text) and not generated, f"{name} has no docstring")
    must(isinstance(kind.paper, str), f"the paper of {name} must be a text")
    texts = isinstance(kind.discloses, tuple) and all(isinstance(d, str) for d in kind.discloses)
    must(texts, f"{name} must list what it discloses as a tuple of texts")
    told = not part.needs_counts or LABEL_COUNTS in part.discloses
    must(told, f"{name} needs label counts and must say {LABEL_COUNTS!r} in `discloses`")
    must({*kind.probes} <= {"loss", "accuracy"}, f"{name} asks for a probe there is not: {kind.probes}")


def _must_be_spelt(kind: type[slots.Part], holder: type[slots.Part]) -> None:
    """No method is named almost as a verb that the class lacks: nothing would call it."""
    base = slots.Exchange if issubclass(kind, slots.Exchange) else holder
    verbs = [verb for verb in dir(base) if not verb.startswith("_") and callable(getattr(base, verb))]
    free = [verb for verb in verbs if getattr(kind, verb) is getattr(base, verb)]
    for name, value in vars(kind).items():
        if name.startswith("_") or name in verbs or name in kind.questions or not inspect.isfunction(value):
            continue
        meant = difflib.get_close_matches(name, free, 1, cutoff=0.8)
        must(
            not meant, f"{kind.name} has a method {name}, which nothing calls; did you mean {''.join(meant)}?"
        )


def check_neutral(part: Subject) -> None:
    """At its neutral values, where it declares some, it is FedAvg to the last bit."""
    if isinstance(part, Method) or part.neutral is None:
        return
    known = {**PARTS, part.name: type(part)}
    neutral = play(Method.of(*(build(call, known, "part") for call in parse(part.neutral))))
    plain = fedavg_rounds()
    must(neutral.hash == plain.hash, f"{part.neutral} should be FedAvg to the last bit, and is not")
    judged = [[line["global_test_loss"] for line in played.lines] for played in (neutral, plain)]
    must(judged[0] == judged[1], f"{part.neutral} is not judged as FedAvg is")


def check_select(part: Subject) -> None:
    """Who is selected: each once, nobody who is excluded, no stranger, and no more than it said beforehand."""
    if not isinstance(part, Select):
        return
    federation, taken = tiny(), np.array([1, 4], np.int64)
    roster = Roster.of(federation)
    memory = ready(Method.of(part), federation).state.server[part.name]
    for count in (1, 3):
        cohort, _ = part.select(count, taken, roster, memory, generator(0, "check"))
        chosen = cohort.clients.tolist()
        must(len({*chosen}) == len(chosen), f"{part.name} selects a client twice: {chosen}")
        must({*chosen} <= {*range(federation.clients)}, f"{part.name} selects strangers: {chosen}")
        must(not {*chosen} & {1, 4}, f"{part.name} selects clients that were excluded: {chosen}")
        most = part.largest_cohort(count, federation.clients)
        must(len(chosen) <= most, f"{part.name} selects {len(chosen)} clients, more than its largest_cohort")
        foreseen = part.foresee(count, roster, generator(0, "check"))
        known = foreseen is None or {*foreseen.tolist()} <= {*range(federation.clients)}
        must(known, f"{part.name} foresees clients that there are not")


def check_upload(part: Subject) -> None:
    """An upload: a change is decoded in its types and shapes, its bytes are counted, and a memory keeps its form."""
    if not isinstance(part, Upload) or not part.encodes:
        return
    for precision in ("fp32", "float64"):
        job = ready(Method.of(part), precision=precision).job
        memory = part.init_client(job.net)
        change = {k: 0.1 * job.net.initial[k] for k in job.net.trainable}
        handed = [clone(tree) for tree in (change, memory)]
        message, kept = part.encode(change, memory, generator(0, "check"))
        missing = [k for k in change if k not in message and not part.packs]
        must(not missing, f"{part.name} leaves {', '.join(missing)} out of its message")
        must_be_untouched(part, handed, (change, memory))
        decoded = part.decode(message, {k: tuple(v.shape) for k, v in change.items()})
        must(are_alike(decoded, change), f"{part.name} must decode every weight, in its type and shape")
        must(
            are_alike(kept, memory), f"{part.name} must remember what it began with, in its types and shapes"
        )
        again, _ = part.encode(change, memory, generator(0, "check"))
        same = all(torch.equal(a, b) for a, b in zip(leaves(message), leaves(again), strict=True))
        must(same, f"{part.name} encodes the same change to another message")
    engine, played = counted_rounds(part)
    counted = moved_bytes(played, "up", "model")
    must(
        counted == engine.messages, f"{part.name} uploads {engine.messages} bytes, and {counted} are counted"
    )


def check_advance(part: Subject) -> None:
    """A server's step: every weight in its own type, and nothing that it was handed written to."""
    if not isinstance(part, Advance):
        return
    for precision in ("fp32", "float64"):
        state = ready(Method.of(part), precision=precision).state
        params, memory = state.params, state.server[part.name]
        change = {k: 0.1 * v.double() for k, v in params.items()}
        handed = [clone(tree) for tree in (params, change, memory)]
        stepped, kept = part.step(params, change, memory)
        must(
            are_alike(stepped, params),
            f"{part.name} must give every weight it was handed, in its type and shape",
        )
        must_be_untouched(part, handed, (params, change, memory))
        must(
            are_alike(kept, memory), f"{part.name} must remember what it began with, in its types and shapes"
        )
