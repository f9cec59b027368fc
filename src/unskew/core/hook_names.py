"""Hooks that parts of one's own may still have under an old name or in an old place: refused, in one sentence.

Nothing would call them any more, and a run that leaves a hook out without a word gives other numbers.
"""

from __future__ import annotations

import dataclasses

from unskew.core.slots import Exchange, Objective, Part
from unskew.errors import InputError

RENAMED = {
    "objective": {
        "wants_features": "write `needs: ClassVar[Needs] = Needs(features=True)`",
        "needs_global": "write `needs: ClassVar[Needs] = Needs(global_model=False)` where it is not needed",
        "asks_global": "write `needs: ClassVar[Needs] = Needs(global_answers=True)`",
        "needs_models": "write `needs: ClassVar[Needs] = Needs(single_models=True)`",
        "roomy": "write `needs: ClassVar[Needs] = Needs(varying_sizes=True)`",
        "pull": "name it proximal_mu",
        "stretch": "name it budget_factor",
        "settle": "name it adjust(change, memory): it is handed the change, and gives the one to step along",
    },
    "schedule": {"last_differs": "name it last_round_differs"},
    "aggregate": {
        "linear": "name it weighs_examples_only",
        "aggregate": "name it merge, and give back the change itself where it was moved_by(params, change)",
    },
}
"""Slot -> old hook -> what to write instead."""

EXCHANGES = tuple(
    name for name in vars(Exchange) if not name.startswith("_") and not hasattr(Objective, name)
)
"""What an ``Exchange`` may define and a plain ``Objective`` may not."""


def refuse_old_hooks(kind: type[Part], called: str) -> None:
    """Refuse a class with a hook that nobody calls where it is, and say what to write."""
    fields = {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()

    def defines(hook: str) -> bool:
        return hasattr(kind, hook) and hook not in fields

    told = [f"for {old} {said}" for old, said in RENAMED.get(kind.slot, {}).items() if defines(old)]
    if issubclass(kind, Objective) and not issubclass(kind, Exchange):
        verbs = [verb for verb in EXCHANGES if defines(verb)]
        if verbs:
            told.append(
                f"for {' and '.join(verbs)} derive it from Exchange, an Objective that also remembers and exchanges"
            )
    if told:
        raise InputError(
            f"{called} has hooks that nothing would call: {'; '.join(told)} (all in unskew.parts)"
        )
