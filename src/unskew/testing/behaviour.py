"""Checks of how a part or a whole method behaves on a tiny federation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unskew.core.method import Method
from unskew.core.roster import NO_COUNTS
from unskew.core.round import play_round
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Part, Schedule
from unskew.errors import InputError
from unskew.expression import build, render
from unskew.machine.threads import single_threaded
from unskew.parts import PARTS
from unskew.parts.schedule import Plain
from unskew.runs.result import params_hash
from unskew.testing.plays import (
    FAULTS,
    Subject,
    counted_rounds,
    example,
    is_close,
    method_of,
    moved_bytes,
    must,
    must_be_finite,
    name_of,
    play,
    play_unless_refused,
    rounds_of,
    total_of,
)
from unskew.testing.toy_federation import (
    MODEL,
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


def check_expression(subject: Subject) -> None:
    """Written as an expression and read again it is the same, alone and in a method."""
    if isinstance(subject, Part):
        text = render(subject)
        again = build(text, {subject.name: type(subject)}, "part")
        must(again == subject, f"{text} reads as {again}, not as {subject}")
        if PARTS.get(subject.name) is not type(subject):
            return  # one's own class can be read only where it can be imported
    method = method_of(subject)
    must(Method.parse(str(method)) == method, f"{method} is another method when it is read again")


def check_finite(subject: Subject) -> None:
    """A few rounds change the model and leave it finite."""
    played = rounds_of(subject)
    must_be_finite(played, subject, "after three rounds")
    must(played.hash != played.started, f"{name_of(subject)} does not change the model in three rounds")


def check_seed(subject: Subject) -> None:
    """The same seed gives the same numbers, another seed others."""
    first, (_, again), other = rounds_of(subject), counted_rounds(subject), play(subject, seed=2, rounds=1)
    must(first == again, f"{name_of(subject)} gives other numbers from the same seed")
    must(first.hash != other.hash, f"{name_of(subject)} gives the same model from another seed")


def check_global_random(subject: Subject) -> None:
    """No global generator is touched."""

    # a second time, where one moved: a library that is loaded on the way may draw once
    for module in rounds_of(subject).drew_from and play(subject).drew_from:
        must(False, f"{name_of(subject)} draws from {module}'s global generator; draw from unskew.seeds")


def check_untouched(subject: Subject) -> None:
    """What it is handed it leaves as it was: the data, and the model that a round begins with."""
    federation = tiny()
    data = federation.dataset
    arrays = [data.x, data.y, data.x_test, data.y_test, federation.indices, federation.offsets]
    before = [a.copy() for a in arrays]
    setup = ready(method_of(subject), federation)
    state = setup.state
    for _ in range(2):
        handed, old = state.params, params_hash(state.params)
        with single_threaded():
            state, _ = play_round(setup.run, state)
        must(params_hash(handed) == old, f"{name_of(subject)} writes into the model it was handed")
    same = all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    must(same, f"{name_of(subject)} writes into the federation it was handed")


def check_schedules(subject: Subject) -> None:
    """It runs under every schedule there is, unless it decides the schedule itself."""
    method = method_of(subject)
    own = isinstance(subject, Schedule) or method.schedule != Plain()
    every = [c for c in PARTS.values() if issubclass(c, Schedule) and c.exchanges]
    known = [method.schedule] if own else [example(c) for c in every]
    for schedule in known:
        plain = schedule == method.schedule == Plain()
        played = rounds_of(subject) if plain else play(replace(method, schedule=schedule))
        must_be_finite(played, subject, f"under {render(schedule)}")
        changed = played.hash != played.started
        must(changed, f"{name_of(subject)} changes nothing under {render(schedule)}")


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
            must_be_finite(played, subject, situation)
    empty = tiny(sizes=[0, 0, 0, 5, 0, 0])
    if (played := play_unless_refused(subject, empty, cohort=1, rounds=4)) is not None:
        must_be_finite(played, subject, "with cohorts that hold nothing")


def check_batch_norm(subject: Subject) -> None:
    """A model with batch norm and dropout trains under every policy, on one sample too."""
    for policy in ("average", "local", "drop"):
        played = rounds_of(subject, model=normed, batch_norm=policy, rounds=2)
        must_be_finite(played, subject, f"with batch norm {policy}")
    single = tiny(sizes=[1] * 4)
    if (alone := play_unless_refused(subject, single, model=normed, rounds=2)) is not None:
        must_be_finite(alone, subject, "with batch norm of one sample")


def check_vanished(subject: Subject) -> None:
    """A cohort that vanishes leaves the model as it was."""
    played = play(subject, drop=1.0)
    must(played.hash == played.started, f"{name_of(subject)} changes the model although nobody answered")
    must(not total_of(played, "answered"), f"{name_of(subject)} counts answers of clients that are lost")


def check_lost(subject: Subject) -> None:
    """Three in ten clients lost, some answers not finite: the rest go on, and the lost are not counted."""
    played = play(subject, drop=0.3, nan=0.3)
    must_be_finite(played, subject, "with clients lost")
    asked, answered = total_of(played, "asked"), total_of(played, "answered")
    must(
        answered < asked, f"{name_of(subject)} has {answered} answers of {asked} asked although some are lost"
    )


def check_late(subject: Subject) -> None:
    """Updates that come a round late are taken then, and named."""
    if not method_of(subject).schedule.exchanges:
        return
    played = play(subject, late=1.0)
    must_be_finite(played, subject, "with late updates")
    must(not played.lines[0]["answered"], f"{name_of(subject)} takes updates before they arrive")
    named = any(line.get("late") for line in played.lines)
    must(named, f"{name_of(subject)} never takes an update that was late")


def check_order(subject: Subject) -> None:
    """The order of the clients in a cohort changes nothing beyond rounding."""
    method = method_of(subject)
    if method.schedule == Plain():
        turned = replace(method, select=backwards(method.select, "select"))
    else:  # a schedule may hand models on by place; the server may still hear the answers in any order
        told = tuple(backwards(o, "absorb") for o in method.objective)
        turned = replace(method, aggregate=backwards(method.aggregate, "merge"), objective=told)
    off = apart(models(rounds_of(subject).state), models(play(turned).state))
    must(off <= 1e-12, f"{name_of(subject)} depends on the order of clients: models differ by {off:.1e}")


def check_padding(subject: Subject) -> None:
    """Padding never leaks: rows of weight 0 change neither loss, gradient nor batch statistics."""
    method = method_of(subject)
    for model in (MODEL, normed) if method.objective else ():
        setup = ready(method, model=model)
        off = apart(one_step(setup, padding=0), one_step(setup, padding=3))
        must(off <= 1e-9, f"{name_of(subject)} lets padding leak: a step differs by {off:.1e}")


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
            must(off <= 1e-9, f"{name_of(subject)} differs by {off:.1e} between the loop engine and {name}")
            bytes_of = [[line["bytes"] for line in played.lines] for played in (expected, found)]
            must(
                bytes_of[0] == bytes_of[1],
                f"{name_of(subject)} costs other bytes on {name} than on the loop engine",
            )


def check_counts(subject: Subject) -> None:
    """Label counts are used by those alone who say so: where none were given, others end in the same model.

    A part that needs them is refused in a sentence; one that tells of them in ``discloses`` may do better with them.
    """
    method = method_of(subject)
    needing = next((part.name for part in method.parts if part.needs_counts), None)
    try:
        found = play(subject, counts=False)
    except InputError as refused:
        lacking = NO_COUNTS in str(refused)
        must(lacking, f"{name_of(subject)} is refused where no label counts were given: {refused}")
        must(
            needing is not None and isinstance(refused, RefusedSetup),
            f"{name_of(subject)} reads label counts and does not say so: let `needs_counts` be True, and `discloses` "
            f"name {LABEL_COUNTS!r}; or ask `roster.counted` first",
        )
        return
    must(needing is None, f"{needing} needs label counts, and plays where none were given")
    if any(LABEL_COUNTS in part.discloses for part in method.parts):
        return
    off = apart(models(rounds_of(subject).state), models(found.state))
    must(
        off <= 1e-12,
        f"{name_of(subject)} uses label counts where they are given (models differ by {off:.1e}) and must say "
        f"{LABEL_COUNTS!r} in `discloses`",
    )


def check_walled(subject: Subject) -> None:
    """It needs nothing but the engine's verbs: with every client behind a wall, and no sample at the server, the same.

    Models, bytes, and what server and clients remember are compared. So what reads a client's samples in the server's
    process, or another client's in a client's, and makes any use of them, fails here.
    """
    from unskew.testing.walled import Walled

    few: dict[str, Any] = {"sizes": (5, 3, 9, 4, 7), "cohort": 3, "rounds": 2, "evaluate_clients": True}
    expected, engine = _within_reach(subject, **few), Walled(method_of(subject), clients=5)
    try:
        found = _within_reach(subject, engine=engine, **few)
    finally:
        engine.close()
    off = apart(models(expected.state), models(found.state))
    must(off <= 1e-9, f"{name_of(subject)} differs by {off:.1e} where every client is behind a wall")
    for one, other in zip(expected.lines, found.lines, strict=True):
        for kind in ("bytes", "told_for_views", "measuring"):
            must(
                one.get(kind) == other.get(kind),
                f"{name_of(subject)} costs other bytes behind walls ({kind})",
            )
        for what in ("global_test_loss", "mean_client_train_accuracy"):
            close = np.isclose(one[what], other[what], rtol=1e-9, atol=1e-9)
            must(bool(close), f"{what} of {name_of(subject)} is another behind walls")
    here, there = remembered(expected.state), remembered(found.state)
    for what in sorted({*here, *there}):
        same = what in here and what in there and is_close(here[what], there[what])
        must(
            same,
            f"{name_of(subject)} remembers another {what} where every client is behind a wall: it reads what is not "
            "its own",
        )


def _within_reach(subject: Subject, **settings: Any) -> Played:
    """Play; whoever reaches for what neither the server nor one client has is told so."""
    try:
        return play(subject, **settings)
    except (AttributeError, LookupError, TypeError, InputError) as problem:
        raise AssertionError(
            f"{name_of(subject)} cannot play with what the server knows and each client has alone: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def check_resume(subject: Subject) -> None:
    """Stopped after every round and read back from disk, it ends in the same bits and the same log.

    What is stopped after its first round is the run that was not: it need not be played again.
    """
    # an engine lays out filters in its own way, and a checkpoint does not know
    laid_out: list[dict[str, Any]] = [{"model": deep, "engine": e, "rounds": 2} for e in other_engines()]
    usual: list[dict[str, Any]] = [{}, FAULTS, {"model": normed, "batch_norm": "local", "rounds": 2}]
    for settings in usual + laid_out:
        if (whole := play_unless_refused(subject, **settings)) is None:
            continue
        stopped = play(subject, stopped=True, whole=whole, **settings)
        must(whole.hash == stopped.hash, f"{name_of(subject)} ends in another model when it is resumed")
        must(whole.lines == stopped.lines, f"{name_of(subject)} logs other numbers when it is resumed")


def check_costs(subject: Subject) -> None:
    """Every byte is counted, by part, and what a part sends beyond the model it declares."""
    method, (ledger, played) = method_of(subject), counted_rounds(subject)
    for line in played.lines:
        for way, kinds in line["bytes"].items():
            must(line[f"bytes_{way}"] == sum(kinds.values()), f"bytes_{way} is not the sum of its kinds")
    for way in ("up", "down"):
        sends = method.schedule.exchanges
        right = moved_bytes(played, way, "model") > 0 if sends else not total_of(played, f"bytes_{way}")
        must(right, f"{name_of(subject)} sends {'no model' if sends else 'something'} {way}")
    for part in method.parts:
        sent, shared = moved_bytes(played, "up", part.name), moved_bytes(played, "down", part.name)
        must(sent == ledger.up[part.name], f"the uploads of {part.name} are not counted as they are")
        must(shared == ledger.down[part.name], f"what {part.name} shares is not counted as it is")
        answers = sum(
            moved_bytes(played, "up", f"{part.name} {kind}")
            for kind in ("answers", "at the start", "numbers")
        )
        silent = bool(sent or answers or part.probes) and not part.discloses
        must(not silent, f"{part.name} must say in `discloses` what leaves a client")
