"""What a line of results tells of its run's settings, and which of them are other than the exhibit's.

A run that a flag made shorter says nothing of a paper's claim, and nothing beside a whole one: lines are paired only
where what was changed is the same. Where it was computed, device and precision, may differ; that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from unskew.reproduce.exhibit import Group, exhibit_of
from unskew.runs.spec import Spec

KEPT = (
    "dataset",
    "partition",
    "partition_seed",
    "fraction",
    "min_samples",
    "clients",
    "cohort",
    "model",
    "epochs",
    "steps",
    "batch",
    "lr",
    "optimizer",
    "momentum",
    "weight_decay",
    "decay",
    "crop",
    "flip",
    "pixels",
    "rounds",
    "evaluate",
    "network",
    "precision",
    "compile",
)
"""The settings that a line of results tells, where they differ from the defaults."""

HOW_COMPUTED = ("precision", "compile")
"""Those of them that may differ between lines that are compared."""


def changed_settings(line: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """The settings of a run that are not the exhibit's, by name; a line that tells none has the exhibit's.

    Of a row: what was changed when it was made.
    """
    told = line.get("setting")
    if told is None or "row" in line:
        return dict(told or {})
    whole = _exhibits_own(group.exhibit, group.name, line["method"])
    run = Spec.of(told)
    return {
        name: value
        for name in KEPT
        if name not in HOW_COMPUTED and (value := getattr(run, name)) != getattr(whole, name)
    }


def say_changed(changed: Mapping[str, Any], group: Group, method: str) -> str:
    """Changed settings in words: "2 of 40 rounds"."""
    whole = _exhibits_own(group.exhibit, group.name, method)
    said = []
    for name, value in changed.items():
        own = getattr(whole, name)
        fewer = name == "rounds" and value < own
        said.append(f"{value} of {own} rounds" if fewer else f"{name} = {value}, not {own}")
    return ", ".join(said)


def computed_on(line: Mapping[str, Any]) -> str:
    """The kind of machine a line comes from, with its precision where that was chosen: "one H200 in tf32"."""
    device = str(line.get("device", "")).partition(",")[0]  # what follows is how busy it was
    if "cpu" in device.lower():
        device = "cpu"
    precision = (line.get("setting") or {}).get("precision")
    return f"{device} in {precision}" if precision and precision not in device else device


@cache
def _exhibits_own(exhibit: str, group: str, method: str) -> Spec:
    """The settings that an exhibit runs a method with."""
    own = next(one for one in exhibit_of(exhibit).groups if one.name == group)
    return Spec.of(own.settings_of(method))
