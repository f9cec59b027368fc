"""All that a run is refused for before its first round, without a run: its model is drawn and not made.

So torch, which takes a second to load, is left alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.slots import Objective
from unskew.models.drawing import Shape, Stages
from unskew.models.drawn import check_classes, drawn_for, named
from unskew.models.outline import outline_of
from unskew.runs.checks import check
from unskew.runs.choose_engine import check_engine
from unskew.runs.early_stop import refuse_small_budget
from unskew.runs.loading import Loaded, auto_model, cohort_of, load, local_of, settled
from unskew.runs.preparing import prepare
from unskew.runs.spec import Spec
from unskew.runs.stop_rule import read_budget


@dataclass(frozen=True)
class Rehearsed:
    """A spec set up as far as that goes without torch: its data is read, its model is drawn."""

    spec: Spec
    loaded: Loaded
    model: Stages
    cohort: int
    dealt: Roster

    @property
    def tensors(self) -> dict[str, Shape]:
        """The shapes of what a checkpoint holds of the model, by name."""
        return self.model.weights | self.model.statistics

    def check(self) -> Roster:
        """Refuse what cannot be run; gives who holds how much once raw samples were moved."""
        spec, loaded = self.spec, self.loaded
        check(
            spec, loaded, outline_of(self.model, loaded.federation.dataset.shape), self.cohort, self.dealt, {}
        )
        moved, _ = prepare(loaded.method, Holdings(loaded.federation), self.dealt, self.cohort, spec.seed)
        check_engine(spec, on_gpu=loaded.device != "cpu")
        return moved

    def travelling_bytes(self) -> int:
        """What is sent of the model."""
        travels = self.tensors if self.spec.batch_norm == "average" else self.model.weights
        return (8 if self.spec.precision == "fp64" else 4) * sum(map(math.prod, travels.values()))


def rehearse(spec: Spec) -> Spec:
    """Refuse a spec in the sentence that its run would be refused with; gives it back as the run would keep it."""
    if must_be_made(spec):
        return _set_up(spec)
    found = draw(spec)
    roster = found.check()
    refuse_small_budget(spec, found.loaded.method, roster, found.cohort, found.travelling_bytes())
    return settled(spec, found.cohort)


def draw(spec: Spec) -> Rehearsed:
    """Read the data of a spec and draw its model; not of one that must be made."""
    loaded = load(spec)
    dataset = loaded.federation.dataset
    check_classes(dataset.classes)
    drawn = drawn_for(named(auto_model(spec.model, dataset)), dataset.shape, dataset.classes)
    local_of(spec)
    return Rehearsed(spec, loaded, drawn, cohort_of(spec, loaded.federation), Roster.of(loaded.federation))


def must_be_made(spec: Spec) -> bool:
    """Whether only the run's own set-up can tell.

    Parts and models of one's own are code, sites and clusters are asked, and what objectives add to a model has a size
    once it is made.
    """
    own = ":" in spec.method or ":" in spec.model.partition("(")[0]
    counted = spec.budget is not None and any(amount.kind == "bytes" for amount in read_budget(spec.budget))
    return own or (counted and adds_weights(spec)) or spec.sites is not None or spec.engine == "ray"


def adds_weights(spec: Spec) -> bool:
    """Whether an objective trains weights of its own beside the model's."""
    return any(type(part).extra is not Objective.extra for part in Method.parse(spec.method).objective)


def _set_up(spec: Spec) -> Spec:
    from unskew.machine.threads import single_threaded
    from unskew.runs.setup import set_up

    with single_threaded():
        setup = set_up(spec)
        setup.refuse_small_budget(spec)
        return setup.settle(spec)
