"""All that a run is refused for before its first round, without a run: its model is drawn and not made.

So torch, which takes a second to load, is left alone.
"""

from __future__ import annotations

from unskew.core.holdings import Holdings
from unskew.core.roster import Roster
from unskew.models.drawn import check_classes, drawn_for, named
from unskew.models.outline import outline_of
from unskew.runs.checks import check
from unskew.runs.choose_engine import check_engine
from unskew.runs.loading import auto_model, cohort_of, load, local_of, settled
from unskew.runs.preparing import prepare
from unskew.runs.spec import Spec
from unskew.runs.stop_rule import read_budget


def rehearse(spec: Spec) -> Spec:
    """Refuse a spec in the sentence that its run would be refused with; gives it back as the run would keep it."""
    if _must_be_made(spec):
        return _set_up(spec)
    loaded = load(spec)
    dataset = loaded.federation.dataset
    check_classes(dataset.classes)
    drawn = drawn_for(named(auto_model(spec.model, dataset)), dataset.shape, dataset.classes)
    model = outline_of(drawn, dataset.shape)
    local_of(spec)
    cohort, dealt = cohort_of(spec, loaded.federation), Roster.of(loaded.federation)
    check(spec, loaded, model, cohort, dealt, {})
    prepare(loaded.method, Holdings(loaded.federation), dealt, cohort, spec.seed)
    check_engine(spec, on_gpu=loaded.device != "cpu")
    return settled(spec, cohort)


def _must_be_made(spec: Spec) -> bool:
    """Whether only the run's own set-up can tell.

    Parts and models of one's own are code, sites and clusters are asked, and bytes are counted of a model that is made.
    """
    own = ":" in spec.method or ":" in spec.model.partition("(")[0]
    counted = spec.budget is not None and any(amount.kind == "bytes" for amount in read_budget(spec.budget))
    return own or counted or spec.sites is not None or spec.engine == "ray"


def _set_up(spec: Spec) -> Spec:
    from unskew.machine.threads import single_threaded
    from unskew.runs.early_stop import refuse_small_budget
    from unskew.runs.setup import set_up

    with single_threaded():
        setup = set_up(spec)
        refuse_small_budget(spec, setup.run)
        return setup.settle(spec)
