"""What every part of a method has: a name, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from unskew.core.roster import Roster
from unskew.core.types import Ids, Memory

if TYPE_CHECKING:
    from unskew.core.net import Net
    from unskew.models.outline import Outline


Declared = TypeVar("Declared")


class Depends(Generic[Declared]):
    """A declaration that depends on hyper-parameters: what it is at the defaults, and a rule for an instance."""

    def __init__(self, usually: Declared, rule: Callable[[Any], Declared]):
        self.usually, self.rule = usually, rule

    def __get__(self, part: Part | None, kind: type[Part]) -> Declared:
        return self.usually if part is None else self.rule(part)


@dataclass(frozen=True)
class Part:
    """Hyper-parameters with a name. What a part declares of itself:

    - ``discloses``: what leaves a client beyond a model update.
    - ``probes``: what the part needs measured, "loss" or "accuracy" of the model that the round began with, on the own
      data of each client that answered. It is measured once for all parts, and comes in ``update.probes``. A client
      that tells none (it holds no sample, or its site is away) stands there with the mean of the others.
    - ``questions``: the methods by which clients answer for this part from their own samples, beside training
      (``unskew.core.query``). What crosses is the part's name, the question's and its values.
    - ``implies``: parts for deciding slots that an expression leaves open. SCAFFOLD averages uniformly unless another
      rule is written.
    - ``neutral``: an expression of this part that must be FedAvg to the last bit, such as ``fedprox(mu=0)``.
    - ``example``: an expression to try a part by that has no defaults. The last two are for ``unskew.testing.checks``.

    What depends on hyper-parameters is a ``Depends``.
    """

    name: ClassVar[str]
    slot: ClassVar[str]
    paper: ClassVar[str] = ""
    discloses: ClassVar[tuple[str, ...]] = ()
    probes: ClassVar[tuple[str, ...]] = ()
    questions: ClassVar[tuple[str, ...]] = ()
    implies: ClassVar[str] = ""
    neutral: ClassVar[str | None] = None
    example: ClassVar[str | None] = None

    @property
    def begins(self) -> int:
        """The round, counted from 0, from which on it does something."""
        return 0

    @property
    def needs_counts(self) -> bool:
        """Whether the server must know how many samples of each class every client holds."""
        return False

    def check(self, roster: Roster, cohort: int) -> None:
        """Refuse, with an InputError of one sentence, clients that this part cannot work with."""
        return

    def check_model(self, model: Outline) -> None:
        """Refuse, with an InputError of one sentence, a model that this part cannot work with."""
        return

    def init_server(self, net: Net) -> Memory:
        """What the server remembers for this part before round 0."""
        return {}

    @property
    def sends(self) -> str:
        """What others get to see of a client's data, as a view that ``unskew.privacy`` attacks.

        ``samples``, ``averages(10)`` or ``features(conv1)``, for instance; nothing by default.
        """
        return ""

    def givers(self, memory: Memory, clients: int) -> Ids:
        """Whose data is in what this part hands out in a round: the log keeps who was given whose.

        What a ``Prepare`` part gathers is in everybody's hands; what an ``Objective`` shares goes to those who are
        asked.
        """
        return np.zeros(0, np.int64)
