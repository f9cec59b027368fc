"""What may change between a stop and a resume: whatever cannot change a number, and when the run is to end.

A longer run has the bits of one that was planned so from the start. Its first rounds are those of the shorter one, but
for the last: that one is judged and calibrated, and some schedules collect what is still out. Where it is played
unlike the others it is played again, from the checkpoint before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from unskew.core.decay import decay
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.files import write_file
from unskew.runs.choose_engine import device_of
from unskew.runs.folder import UNSEALED
from unskew.runs.spec import FREE, MOVED, Spec
from unskew.sealed import seal, unseal


def find_changes(path: Path, began: Spec, given: Mapping[str, Any], played: int) -> Spec:
    """The spec to go on with; what would change a number is refused."""
    spec = Spec.of(began.as_dict() | dict(given))
    for name in (f.name for f in fields(Spec)):
        old, new = getattr(began, name), getattr(spec, name)
        if old == new:
            continue
        if name not in FREE:
            raise InputError(
                f"{name} = {_said(new)} would change the numbers of {path}, which began with {name} = {_said(old)}; "
                f"start another run for it, or leave {name} out"
            )
        if name in MOVED and not (_is_file(old) and _is_file(new)):
            raise InputError(
                f"the {name} {_said(new)} given to {path} is not what the run began with; give it the same data, or "
                f"the file where {_said(old)} lies now"
            )
    if past := [r for r in spec.keep if r not in began.keep and r <= played]:
        raise InputError(
            f"keep = {past[0]} comes too late: {path} has played {played} rounds; name rounds to come"
        )
    return spec


def on_its_device(path: Path, spec: Spec, kind: str | None) -> Spec:
    """The spec on the kind of device that the run began on: a CPU and a GPU differ in the last bits."""
    if kind is None:  # a run of a version that did not keep it
        return spec
    if spec.device == "auto" and kind == "cpu":
        return replace(spec, device="cpu")
    if device_of(spec).type == kind:
        return spec
    if spec.device == "auto":
        raise InputError(
            f"{path} began on a GPU, and this machine has none; a CPU would end it in other bits: resume it where "
            "there is one"
        )
    began = "a GPU; write device = cuda" if kind == "cuda" else "the CPU; write device = cpu"
    raise InputError(f"on device = {spec.device} {path} would end in other bits, since it began on {began}")


def common_rounds(path: Path, began: Spec, spec: Spec, played: int, stopped: int | None = None) -> int:
    """How many of the played rounds are the same in a run of ``spec.rounds`` as in the one that was begun.

    ``stopped`` is the round that was the last of one that ended early, where it is to go on.
    """
    if began.rounds == spec.rounds and stopped is None:
        return played
    if spec.rounds < played:
        raise InputError(
            f"{path} has played {played} rounds already; write rounds = {played} or more, or start another run"
        )
    falls = decay(spec.decay)
    if any(falls.factor(t, began.rounds) != falls.factor(t, spec.rounds) for t in range(played)):
        raise InputError(
            f"decay = {spec.decay} spreads over the {began.rounds} rounds that {path} was planned for, and for "
            f"{spec.rounds} it would have begun with other learning rates; start another run"
        )
    ended = began.rounds if stopped is None else stopped
    ends = [end for end in (ended, spec.rounds) if end <= played and ends_apart(spec, end)]
    return min([played, *(end - 1 for end in ends)])


def ends_apart(spec: Spec, end: int) -> bool:
    """Whether round ``end`` leaves another model or another line in the log where it is the last."""
    method = Method.parse(spec.method)
    return (
        end % spec.evaluate != 0
        or method.schedule.last_round_differs
        or any(part.due(True) != part.due(False) for part in method.calibrate)
    )


def record(path: Path, began: Spec, spec: Spec, after: int) -> None:
    """Write the new settings into the run's spec.json, with what they were and the round from which they hold."""
    file = path / "spec.json"
    about = unseal(file.read_bytes(), required=False)
    assert about is not None  # it was read before the run was locked
    differing = {
        f.name: (getattr(began, f.name), getattr(spec, f.name))
        for f in fields(Spec)
        if getattr(began, f.name) != getattr(spec, f.name)
    }
    if not differing:
        return
    told = {
        "after_round": after,
        "from": {name: old for name, (old, _) in differing.items()},
        "to": {name: new for name, (_, new) in differing.items()},
    }
    about |= {"spec": spec.as_dict(), "changes": [*about.get("changes", []), told]}
    text = json.dumps(about, indent=1) if about["format"] == UNSEALED else seal(about, indent=1)
    write_file(file, text)


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and os.sep in value.partition("(")[0]


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return "nothing" if value is None else str(value)
