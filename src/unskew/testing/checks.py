"""The battery: what must hold for every part of a method, tried on a tiny federation in a few seconds.

    from unskew.testing.checks import check_part

    check_part(MyPart)                           # at its defaults
    check_part(MyPart(strength=2))
    check_part(MyPart, only=["resume", "order"])

Each check is a function of its own in ``CHECKS``. It takes a part or a whole method and fails with an
AssertionError that says in a sentence what does not hold. ``check_method`` runs those that make sense for a
method.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch

from unskew.core import slots
from unskew.core.method import Method
from unskew.core.roster import NO_COUNTS, Roster
from unskew.core.round import play_round
from unskew.core.slot_names import LABEL_COUNTS, SLOTS
from unskew.core.slots import RESERVED, Advance, Part, Schedule, Select, Upload
from unskew.core.types import clone, leaves
from unskew.data.federation import Federation
from unskew.errors import InputError, unknown
from unskew.expression import build, parse, render
from unskew.machine.threads import single_threaded
from unskew.parts import PARTS
from unskew.parts.schedule import Plain
from unskew.runs.result import params_hash
from unskew.seeds import generator
from unskew.testing.toy_federation import (
    MODEL,
    CountingLoop,
    Played,
    RefusedSetup,
    apart,
    backwards,
    deep,
    models,
    normed,
    one_step,
    other_engines,
    ready,
    remembered,
    tiny,
)
from unskew.testing.toy_federation import play as play_method

Subject = Part | Method
"""What a check takes: a part, which is tried as a method of its own, or a whole method."""

P = TypeVar("P", bound=Part)
T = TypeVar("T")

FAULTS = {"late": 0.4, "drop": 0.2, "nan": 0.2}
"""Clients that are late, lost, or send what is no number."""


def check_part(part: Part | type[Part], only: Iterable[str] | None = None) -> None:
    """Run the battery over a part, or over a class at its defaults (at its ``example`` where it has none)."""
    kind = part if isinstance(part, type) else type(part)
    if not issubclass(kind, Part):
        raise InputError(f"check_part takes a part, such as FedProx(mu=0.1), or its class, not {part!r}")
    _must(
        isinstance(getattr(kind, "name", None), str),
        f'{kind.__name__} has no `name: ClassVar[str] = "my_part"`',
    )
    _run(part if isinstance(part, Part) else example(kind), only, CHECKS)


def check_method(method: str | Method, only: Iterable[str] | None = None) -> None:
    """Run what makes sense for a whole method: all but the checks of a part's own form."""
    _run(Method.parse(method), only, BEHAVIOUR)


def _run(subject: Subject, only: Iterable[str] | None, table: dict[str, Check]) -> None:
    names = list(table if only is None else only)
    for name in names:
        if name not in table:
            raise unknown("check", name, table)
    played = _played.set({})
    try:
        for name in names:
            table[name](subject)
    finally:
        _played.reset(played)


def example(cls: type[P]) -> P:
    """A part of this class: at its defaults, or as its ``example`` writes it."""
    if cls.example is not None:
        return build(cls.example, {cls.name: cls}, "part")
    empty = dataclasses.MISSING
    fields = [f for f in dataclasses.fields(cls) if f.init]
    lacking = [f.name for f in fields if f.default is empty and f.default_factory is empty]
    _must(
        not lacking,
        f"{cls.name} cannot be made without {', '.join(lacking)}: give the fields defaults, or the class an "
        f'`example: ClassVar[str | None] = "{cls.name}(...)"`',
    )
    return cls()


# --- the form of a part: a method as a whole has none


def check_stores(part: Subject) -> None:
    """The constructor only stores: a frozen dataclass that holds its fields and nothing else."""
    if isinstance(part, Method):
        return
    kind = type(part)
    own = vars(kind).get("__dataclass_params__")
    _must(own is not None and own.frozen, f"{part.name} must be a @dataclass(frozen=True)")
    given = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}
    again = kind(**given)
    for name, value in given.items():
        _must(getattr(again, name) == value, f"{part.name} does not store {name} as it was given")
    extra = sorted(set(vars(part)) - set(given))
    _must(not extra, f"{part.name} holds {', '.join(extra)} beside its fields; memory belongs in State")


def check_described(part: Subject) -> None:
    """It has a name, a slot and a docstring, and says of which paper it is and what it discloses."""
    if isinstance(part, Method):
        return
    kind = type(part)
    name = str(getattr(kind, "name", ""))
    plain = re.fullmatch(r"[a-z0-9_]*[a-z_][a-z0-9_]*", name) is not None
    _must(plain, f"{kind.__name__} needs a name of small letters, digits and _, not {name!r}")
    _must(name not in RESERVED, f"{name} is taken: the run itself remembers things under it")
    _must(kind.slot in SLOTS, f"{name} has the slot {kind.slot!r}, which is none of {', '.join(SLOTS)}")
    holder = getattr(slots, kind.slot.capitalize())
    _must(issubclass(kind, holder), f"{name} fills {kind.slot} and must derive from {holder.__name__}")
    text = (vars(kind).get("__doc__") or "").strip()
    generated = text.startswith(f"{kind.__name__}(")  # what @dataclass writes where there is none
    _must(bool(text) and not generated, f"{name} has no docstring")
    _must(isinstance(kind.paper, str), f"the paper of {name} must be a text")
    texts = isinstance(kind.discloses, tuple) and all(isinstance(d, str) for d in kind.discloses)
    _must(texts, f"{name} must list what it discloses as a tuple of texts")
    told = not part.needs_counts or LABEL_COUNTS in part.discloses
    _must(told, f"{name} needs label counts and must say {LABEL_COUNTS!r} in `discloses`")
    _must({*kind.probes} <= {"loss", "accuracy"}, f"{name} asks for a probe there is not: {kind.probes}")


def check_neutral(part: Subject) -> None:
    """At its neutral values, where it declares some, it is FedAvg to the last bit."""
    if isinstance(part, Method) or part.neutral is None:
        return
    known = {**PARTS, part.name: type(part)}
    neutral = play(Method.of(*(build(call, known, "part") for call in parse(part.neutral))))
    plain = _fedavg()
    _must(neutral.hash == plain.hash, f"{part.neutral} should be FedAvg to the last bit, and is not")
    judged = [[line["global_test_loss"] for line in played.lines] for played in (neutral, plain)]
    _must(judged[0] == judged[1], f"{part.neutral} is not judged as FedAvg is")


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
        _must(len({*chosen}) == len(chosen), f"{part.name} selects a client twice: {chosen}")
        _must({*chosen} <= {*range(federation.clients)}, f"{part.name} selects strangers: {chosen}")
        _must(not {*chosen} & {1, 4}, f"{part.name} selects clients that were excluded: {chosen}")
        most = part.largest_cohort(count, federation.clients)
        _must(len(chosen) <= most, f"{part.name} selects {len(chosen)} clients, more than its largest_cohort")
        foreseen = part.foresee(count, roster, generator(0, "check"))
        known = foreseen is None or {*foreseen.tolist()} <= {*range(federation.clients)}
        _must(known, f"{part.name} foresees clients that there are not")


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
        _must(not missing, f"{part.name} leaves {', '.join(missing)} out of its message")
        _untouched(part, handed, (change, memory))
        decoded = part.decode(message, {k: tuple(v.shape) for k, v in change.items()})
        _must(_alike(decoded, change), f"{part.name} must decode every weight, in its type and shape")
        _must(_alike(kept, memory), f"{part.name} must remember what it began with, in its types and shapes")
        again, _ = part.encode(change, memory, generator(0, "check"))
        same = all(torch.equal(a, b) for a, b in zip(leaves(message), leaves(again), strict=True))
        _must(same, f"{part.name} encodes the same change to another message")
    engine, played = counted_rounds(part)
    counted = _bytes(played, "up", "model")
    _must(
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
        _must(
            _alike(stepped, params),
            f"{part.name} must give every weight it was handed, in its type and shape",
        )
        _untouched(part, handed, (params, change, memory))
        _must(_alike(kept, memory), f"{part.name} must remember what it began with, in its types and shapes")


# --- how a method behaves


def check_expression(subject: Subject) -> None:
    """Written as an expression and read again it is the same, alone and in a method."""
    if isinstance(subject, Part):
        text = render(subject)
        again = build(text, {subject.name: type(subject)}, "part")
        _must(again == subject, f"{text} reads as {again}, not as {subject}")
        if PARTS.get(subject.name) is not type(subject):
            return  # one's own class can be read only where it can be imported
    method = _method(subject)
    _must(Method.parse(str(method)) == method, f"{method} is another method when it is read again")


def check_finite(subject: Subject) -> None:
    """A few rounds change the model and leave it finite."""
    played = rounds_of(subject)
    _finite(played, subject, "after three rounds")
    _must(played.hash != played.started, f"{_name(subject)} does not change the model in three rounds")


def check_seed(subject: Subject) -> None:
    """The same seed gives the same numbers, another seed others."""
    first, (_, again), other = rounds_of(subject), counted_rounds(subject), play(subject, seed=2, rounds=1)
    _must(first == again, f"{_name(subject)} gives other numbers from the same seed")
    _must(first.hash != other.hash, f"{_name(subject)} gives the same model from another seed")


def check_global_random(subject: Subject) -> None:
    """No global generator is touched."""

    # a second time, where one moved: a library that is loaded on the way may draw once
    for module in rounds_of(subject).drew_from and play(subject).drew_from:
        _must(False, f"{_name(subject)} draws from {module}'s global generator; draw from unskew.seeds")


def check_untouched(subject: Subject) -> None:
    """What it is handed it leaves as it was: the data, and the model that a round begins with."""
    federation = tiny()
    data = federation.dataset
    arrays = [data.x, data.y, data.x_test, data.y_test, federation.indices, federation.offsets]
    before = [a.copy() for a in arrays]
    setup = ready(_method(subject), federation)
    state = setup.state
    for _ in range(2):
        handed, old = state.params, params_hash(state.params)
        with single_threaded():
            state, _ = play_round(setup.run, state)
        _must(params_hash(handed) == old, f"{_name(subject)} writes into the model it was handed")
    same = all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    _must(same, f"{_name(subject)} writes into the federation it was handed")


def check_schedules(subject: Subject) -> None:
    """It runs under every schedule there is, unless it decides the schedule itself."""
    method = _method(subject)
    own = isinstance(subject, Schedule) or method.schedule != Plain()
    every = [c for c in PARTS.values() if issubclass(c, Schedule) and c.exchanges]
    known = [method.schedule] if own else [example(c) for c in every]
    for schedule in known:
        plain = schedule == method.schedule == Plain()
        played = rounds_of(subject) if plain else play(replace(method, schedule=schedule), rounds=4)
        _finite(played, subject, f"under {render(schedule)}")
        changed = played.hash != played.started
        _must(changed, f"{_name(subject)} changes nothing under {render(schedule)}")


def check_few(subject: Subject) -> None:
    """One client, one sample a client, a class nobody holds, clients that hold nothing.

    It may also refuse them beforehand, in a sentence.
    """
    few = {
        "with one client": tiny(sizes=[7]),
        "with one sample a client": tiny(sizes=[1] * 5),
        "with a class that nobody holds": tiny(missing=2),
        "with clients that hold nothing": tiny(sizes=[0, 4, 0, 5, 0, 3]),
    }
    for situation, federation in few.items():
        if (played := play_unless_refused(subject, federation, rounds=2)) is not None:
            _finite(played, subject, situation)
    empty = tiny(sizes=[0, 0, 0, 5, 0, 0])
    if (played := play_unless_refused(subject, empty, cohort=1, rounds=4)) is not None:
        _finite(played, subject, "with cohorts that hold nothing")


def check_batch_norm(subject: Subject) -> None:
    """A model with batch norm and dropout trains under every policy, on one sample too."""
    for policy in ("average", "local", "drop"):
        played = rounds_of(subject, model=normed, batch_norm=policy, rounds=2)
        _finite(played, subject, f"with batch norm {policy}")
    single = tiny(sizes=[1] * 4)
    if (alone := play_unless_refused(subject, single, model=normed, rounds=2)) is not None:
        _finite(alone, subject, "with batch norm of one sample")


def check_vanished(subject: Subject) -> None:
    """A cohort that vanishes leaves the model as it was."""
    played = play(subject, drop=1.0)
    _must(played.hash == played.started, f"{_name(subject)} changes the model although nobody answered")
    _must(not _total(played, "answered"), f"{_name(subject)} counts answers of clients that are lost")


def check_lost(subject: Subject) -> None:
    """Three in ten clients lost, some answers not finite: the rest go on, and the lost are not counted."""
    played = play(subject, drop=0.3, nan=0.3)
    _finite(played, subject, "with clients lost")
    asked, answered = _total(played, "asked"), _total(played, "answered")
    _must(
        answered < asked, f"{_name(subject)} has {answered} answers of {asked} asked although some are lost"
    )


def check_late(subject: Subject) -> None:
    """Updates that come a round late are taken then, and named."""
    if not _method(subject).schedule.exchanges:
        return
    played = play(subject, late=1.0, rounds=4)
    _finite(played, subject, "with late updates")
    _must(not played.lines[0]["answered"], f"{_name(subject)} takes updates before they arrive")
    named = any(line.get("late") for line in played.lines)
    _must(named, f"{_name(subject)} never takes an update that was late")


def check_order(subject: Subject) -> None:
    """The order of the clients in a cohort changes nothing beyond rounding."""
    method = _method(subject)
    if method.schedule == Plain():
        turned = replace(method, select=backwards(method.select, "select"))
    else:  # a schedule may hand models on by place; the server may still hear the answers in any order
        told = tuple(backwards(o, "absorb") for o in method.objective)
        turned = replace(method, aggregate=backwards(method.aggregate, "merge"), objective=told)
    off = apart(models(rounds_of(subject).state), models(play(turned).state))
    _must(off <= 1e-12, f"{_name(subject)} depends on the order of clients: models differ by {off:.1e}")


def check_padding(subject: Subject) -> None:
    """Padding never leaks: rows of weight 0 change neither loss, gradient nor batch statistics."""
    method = _method(subject)
    for model in (MODEL, normed) if method.objective else ():
        setup = ready(method, model=model)
        off = apart(one_step(setup, padding=0), one_step(setup, padding=3))
        _must(off <= 1e-9, f"{_name(subject)} lets padding leak: a step differs by {off:.1e}")


def check_engines(subject: Subject) -> None:
    """Every engine agrees with the loop engine: 1e-9 in float64 after two or three rounds, and byte by byte."""
    settings: list[dict[str, Any]] = [
        FAULTS,
        {"model": normed, "batch_norm": "average", "rounds": 2},
        {"steps": 3, "epochs": None, "rounds": 2, "sizes": (0, 4, 0, 5, 0, 3)},
    ]
    for given in settings:
        if (expected := play_unless_refused(subject, **given)) is None:
            continue
        for engine in other_engines():
            found, name = play(subject, engine=engine, **given), type(engine).__name__
            off = apart(models(expected.state), models(found.state))
            _must(off <= 1e-9, f"{_name(subject)} differs by {off:.1e} between the loop engine and {name}")
            bytes_of = [[line["bytes"] for line in played.lines] for played in (expected, found)]
            _must(
                bytes_of[0] == bytes_of[1],
                f"{_name(subject)} costs other bytes on {name} than on the loop engine",
            )


def check_counts(subject: Subject) -> None:
    """Label counts are used by those alone who say so: where none were given, others end in the same model.

    A part that needs them is refused in a sentence; one that tells of them in ``discloses`` may do better with them.
    """
    method = _method(subject)
    needing = next((part.name for part in method.parts if part.needs_counts), None)
    try:
        found = play(subject, counts=False)
    except InputError as refused:
        lacking = NO_COUNTS in str(refused)
        _must(lacking, f"{_name(subject)} is refused where no label counts were given: {refused}")
        _must(
            needing is not None and isinstance(refused, RefusedSetup),
            f"{_name(subject)} reads label counts and does not say so: let `needs_counts` be True, and `discloses` "
            f"name {LABEL_COUNTS!r}; or ask `roster.counted` first",
        )
        return
    _must(needing is None, f"{needing} needs label counts, and plays where none were given")
    if any(LABEL_COUNTS in part.discloses for part in method.parts):
        return
    off = apart(models(rounds_of(subject).state), models(found.state))
    _must(
        off <= 1e-12,
        f"{_name(subject)} uses label counts where they are given (models differ by {off:.1e}) and must say "
        f"{LABEL_COUNTS!r} in `discloses`",
    )


def check_walled(subject: Subject) -> None:
    """It needs nothing but the engine's verbs: with every client behind a wall, and no sample at the server, the same.

    Models, bytes, and what server and clients remember are compared. So what reads a client's samples in the server's
    process, or another client's in a client's, and makes any use of them, fails here.
    """
    from unskew.testing.walled import Walled

    few: dict[str, Any] = {"sizes": (5, 3, 9, 4, 7), "cohort": 3, "rounds": 2, "evaluate_clients": True}
    expected, engine = _within_reach(subject, **few), Walled(_method(subject), clients=5)
    try:
        found = _within_reach(subject, engine=engine, **few)
    finally:
        engine.close()
    off = apart(models(expected.state), models(found.state))
    _must(off <= 1e-9, f"{_name(subject)} differs by {off:.1e} where every client is behind a wall")
    for one, other in zip(expected.lines, found.lines, strict=True):
        for kind in ("bytes", "told_for_views", "measuring"):
            _must(
                one.get(kind) == other.get(kind), f"{_name(subject)} costs other bytes behind walls ({kind})"
            )
        for what in ("global_test_loss", "mean_client_train_accuracy"):
            close = np.isclose(one[what], other[what], rtol=1e-9, atol=1e-9)
            _must(bool(close), f"{what} of {_name(subject)} is another behind walls")
    here, there = remembered(expected.state), remembered(found.state)
    for what in sorted({*here, *there}):
        same = what in here and what in there and _close(here[what], there[what])
        _must(
            same,
            f"{_name(subject)} remembers another {what} where every client is behind a wall: it reads what is not its "
            "own",
        )


def _within_reach(subject: Subject, **settings: Any) -> Played:
    """Play; whoever reaches for what neither the server nor one client has is told so."""
    try:
        return play(subject, **settings)
    except (AttributeError, LookupError, TypeError, InputError) as problem:
        raise AssertionError(
            f"{_name(subject)} cannot play with what the server knows and each client has alone: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def check_resume(subject: Subject) -> None:
    """Stopped after every round and read back from disk, it ends in the same bits and the same log."""
    # an engine lays out filters in its own way, and a checkpoint does not know
    laid_out: list[dict[str, Any]] = [{"model": deep, "engine": e, "rounds": 2} for e in other_engines()]
    usual: list[dict[str, Any]] = [{}, FAULTS, {"model": normed, "batch_norm": "local", "rounds": 2}]
    for settings in usual + laid_out:
        if (whole := play_unless_refused(subject, **settings)) is None:
            continue
        stopped = play(subject, stopped=True, **settings)
        _must(whole.hash == stopped.hash, f"{_name(subject)} ends in another model when it is resumed")
        _must(whole.lines == stopped.lines, f"{_name(subject)} logs other numbers when it is resumed")


def check_costs(subject: Subject) -> None:
    """Every byte is counted, by part, and what a part sends beyond the model it declares."""
    method, (ledger, played) = _method(subject), counted_rounds(subject)
    for line in played.lines:
        for way, kinds in line["bytes"].items():
            _must(line[f"bytes_{way}"] == sum(kinds.values()), f"bytes_{way} is not the sum of its kinds")
    for way in ("up", "down"):
        sends = method.schedule.exchanges
        right = _bytes(played, way, "model") > 0 if sends else not _total(played, f"bytes_{way}")
        _must(right, f"{_name(subject)} sends {'no model' if sends else 'something'} {way}")
    for part in method.parts:
        sent, shared = _bytes(played, "up", part.name), _bytes(played, "down", part.name)
        _must(sent == ledger.up[part.name], f"the uploads of {part.name} are not counted as they are")
        _must(shared == ledger.down[part.name], f"what {part.name} shares is not counted as it is")
        answers = sum(_bytes(played, "up", f"{part.name} {kind}") for kind in ("answers", "numbers"))
        silent = bool(sent or answers or part.probes) and not part.discloses
        _must(not silent, f"{part.name} must say in `discloses` what leaves a client")
    _must(_total(played, "sample_steps") > 0, f"{_name(subject)} counts no sample-steps")


Check = Callable[[Subject], None]


def _table(*checks: Check) -> dict[str, Check]:
    return {check.__name__.removeprefix("check_"): check for check in checks}


FORM = _table(check_stores, check_described, check_neutral, check_select, check_upload, check_advance)
BEHAVIOUR = _table(
    check_expression,
    check_finite,
    check_seed,
    check_global_random,
    check_untouched,
    check_schedules,
    check_few,
    check_batch_norm,
    check_vanished,
    check_lost,
    check_late,
    check_order,
    check_padding,
    check_engines,
    check_counts,
    check_walled,
    check_resume,
    check_costs,
)
CHECKS = FORM | BEHAVIOUR
"""Every check by name: those of a part's form, then those of how a method behaves."""


_played: ContextVar[dict[str, Any] | None] = ContextVar("played", default=None)
"""What one battery has played already, by settings: several checks compare with the same rounds."""


def rounds_of(subject: Subject, **settings: Any) -> Played:
    """The same rounds as ``play`` gives, played once for all checks of a battery."""
    return _once(repr(sorted(settings.items())), lambda: play(subject, **settings))


def counted_rounds(subject: Subject) -> tuple[CountingLoop, Played]:
    """The usual rounds once more, by an engine that keeps books, and its books; once for all checks of a battery."""
    engine = CountingLoop()
    return _once("counted", lambda: (engine, play(subject, engine=engine)))


def _once(key: str, made: Callable[[], T]) -> T:
    known = _played.get()
    if known is None:
        return made()
    if key not in known:
        known[key] = made()
    found: T = known[key]
    return found


def play(subject: Subject, *given: Any, **settings: Any) -> Played:
    """A few rounds of a part or a method (see ``unskew.testing.toy_federation``)."""
    return play_method(_method(subject), *given, **settings)


def _method(subject: Subject) -> Method:
    return subject if isinstance(subject, Method) else Method.of(subject)


def _name(subject: Subject) -> str:
    return str(subject) if isinstance(subject, Method) else subject.name


@cache
def _fedavg() -> Played:
    """FedAvg's rounds, which every part's neutral values are held against."""
    return play(Method())


def play_unless_refused(
    subject: Subject, federation: Federation | None = None, **settings: Any
) -> Played | None:
    """The rounds, or None where the method refuses such clients or such a model beforehand, in a sentence."""
    told = federation is None and "engine" not in settings  # by words alone, so that they can be known again
    try:
        return rounds_of(subject, **settings) if told else play(subject, federation, **settings)
    except RefusedSetup:
        return None


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same but for rounding."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.allclose(one.double(), other.double(), rtol=1e-9, atol=1e-9, equal_nan=True)


def _alike(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two trees have the same names, and tensors of the same types and shapes."""

    def form(tree: Mapping[str, Any]) -> Any:
        return {k: form(v) if isinstance(v, dict) else (v.dtype, v.shape) for k, v in tree.items()}

    return bool(form(found) == form(wanted))


def _untouched(part: Part, before: Iterable[Any], after: Iterable[Any]) -> None:
    """What a part was handed is as it was."""
    old, new = ([v for tree in trees for v in leaves(tree)] for trees in (before, after))
    same = all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    _must(same, f"{part.name} writes into what it was handed")


def _must(holds: bool, sentence: str) -> None:
    """``assert``, but also under ``python -O``."""
    if not holds:
        raise AssertionError(sentence)


def _finite(played: Played, subject: Subject, situation: str) -> None:
    good = all(bool(torch.isfinite(v).all()) for v in played.state.params.values())
    judged = all(line["global_test_loss"] is not None for line in played.lines)
    _must(good and judged, f"{_name(subject)} ends in numbers that are not finite {situation}")


def _total(played: Played, what: str) -> int:
    return sum(line[what] for line in played.lines)


def _bytes(played: Played, way: str, kind: str) -> int:
    return sum(line["bytes"][way].get(kind, 0) for line in played.lines)
