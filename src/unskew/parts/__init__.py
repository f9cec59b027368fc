"""The parts that methods are made of, one folder per slot, one file per part; and all that a part's author imports.

    from unskew.parts import Objective, Step

Names are looked up when first used: a part needs torch, and what parts declare (``unskew.parts.catalogue``) does not.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unskew.core.slot_names import DECIDES as DECIDES
from unskew.core.slot_names import SLOTS as SLOTS
from unskew.parts.presets import PRESETS as PRESETS

if TYPE_CHECKING:
    from unskew.core.held import Held as Held
    from unskew.core.net import Net as Net
    from unskew.core.query import ClientView as ClientView
    from unskew.core.questions import Questions as Questions
    from unskew.core.roster import Roster as Roster
    from unskew.core.sharing import Sharing as Sharing
    from unskew.core.sharing import Transfer as Transfer
    from unskew.core.slots import Advance as Advance
    from unskew.core.slots import After as After
    from unskew.core.slots import Aggregate as Aggregate
    from unskew.core.slots import Batch as Batch
    from unskew.core.slots import Calibrate as Calibrate
    from unskew.core.slots import Depends as Depends
    from unskew.core.slots import Exchange as Exchange
    from unskew.core.slots import Local as Local
    from unskew.core.slots import Needs as Needs
    from unskew.core.slots import Objective as Objective
    from unskew.core.slots import Out as Out
    from unskew.core.slots import Part as Part
    from unskew.core.slots import Play as Play
    from unskew.core.slots import Prepare as Prepare
    from unskew.core.slots import Schedule as Schedule
    from unskew.core.slots import Select as Select
    from unskew.core.slots import Step as Step
    from unskew.core.slots import Tune as Tune
    from unskew.core.slots import Upload as Upload
    from unskew.core.slots import Visit as Visit
    from unskew.core.task import Task as Task
    from unskew.core.task import soft_labels as soft_labels
    from unskew.core.types import Cohort as Cohort
    from unskew.core.types import Ids as Ids
    from unskew.core.types import Leg as Leg
    from unskew.core.types import Memory as Memory
    from unskew.core.types import PerClient as PerClient
    from unskew.core.types import Tree as Tree
    from unskew.core.types import Update as Update
    from unskew.core.types import moved_by as moved_by
    from unskew.core.types import stack as stack
    from unskew.core.types import weighted_sum as weighted_sum

    PARTS: Mapping[str, type[Part]]

_AUTHORS = {
    "Held": "core.held",
    "Net": "core.net",
    "ClientView": "core.query",
    "Questions": "core.questions",
    "Roster": "core.roster",
    "Sharing": "core.sharing",
    "Transfer": "core.sharing",
    "Advance": "core.slots",
    "After": "core.slots",
    "Aggregate": "core.slots",
    "Batch": "core.slots",
    "Calibrate": "core.slots",
    "Depends": "core.slots",
    "Exchange": "core.slots",
    "Local": "core.slots",
    "Needs": "core.slots",
    "Objective": "core.slots",
    "Out": "core.slots",
    "Part": "core.slots",
    "Play": "core.slots",
    "Prepare": "core.slots",
    "Schedule": "core.slots",
    "Select": "core.slots",
    "Step": "core.slots",
    "Tune": "core.slots",
    "Upload": "core.slots",
    "Visit": "core.slots",
    "Task": "core.task",
    "soft_labels": "core.task",
    "Cohort": "core.types",
    "Ids": "core.types",
    "Leg": "core.types",
    "Memory": "core.types",
    "PerClient": "core.types",
    "Tree": "core.types",
    "Update": "core.types",
    "moved_by": "core.types",
    "stack": "core.types",
    "weighted_sum": "core.types",
}
"""What the author of a part needs: name -> where it is defined."""

__all__ = ["DECIDES", "PARTS", "PRESETS", "SLOTS", *_AUTHORS]


def __getattr__(name: str) -> Any:
    if name == "PARTS":
        found: Any = _every_part()
    elif name in _AUTHORS:
        found = getattr(importlib.import_module(f"unskew.{_AUTHORS[name]}"), name)
    else:
        raise AttributeError(f"module 'unskew.parts' has no attribute {name!r}")
    globals()[name] = found
    return found


def _every_part() -> Mapping[str, type[Part]]:
    """Every part that a slot's folder imports, by name, slot after slot."""
    from unskew.core.slots import Part

    folders = (importlib.import_module(f"unskew.parts.{slot}") for slot in SLOTS)
    found = (value for folder in folders for value in vars(folder).values())
    return {c.name: c for c in found if inspect.isclass(c) and issubclass(c, Part)}
