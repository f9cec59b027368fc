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

from collections.abc import Callable, Iterable

from unskew.core.method import Method
from unskew.core.slots import Part
from unskew.errors import InputError, unknown
from unskew.testing.behaviour import (
    check_batch_norm,
    check_costs,
    check_counts,
    check_engines,
    check_expression,
    check_few,
    check_finite,
    check_global_random,
    check_late,
    check_lost,
    check_order,
    check_padding,
    check_resume,
    check_schedules,
    check_seed,
    check_untouched,
    check_vanished,
    check_walled,
)
from unskew.testing.form import (
    check_advance,
    check_described,
    check_neutral,
    check_select,
    check_stores,
    check_upload,
)
from unskew.testing.plays import Subject, example, must, one_battery
from unskew.testing.verbs import check_verbs

Check = Callable[[Subject], None]


def _table(*checks: Check) -> dict[str, Check]:
    return {check.__name__.removeprefix("check_"): check for check in checks}


FORM = _table(
    check_stores, check_described, check_verbs, check_neutral, check_select, check_upload, check_advance
)
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


def check_part(part: Part | type[Part], only: Iterable[str] | None = None) -> None:
    """Run the battery over a part, or over a class at its defaults (at its ``example`` where it has none)."""
    kind = part if isinstance(part, type) else type(part)
    if not issubclass(kind, Part):
        raise InputError(f"check_part takes a part, such as FedProx(mu=0.1), or its class, not {part!r}")
    must(
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
    with one_battery():
        for name in names:
            table[name](subject)
