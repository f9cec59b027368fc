"""Measurements on request: drift from centralised training, and the skew of the minimal losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from unskew.core.client import ClientJob, Handed, train
from unskew.core.engine import RunPlan
from unskew.core.held import BEFORE
from unskew.core.measure import ask_to_measure
from unskew.core.method import Method
from unskew.core.plan import plan
from unskew.core.query import ClientView
from unskew.core.questions import Query
from unskew.core.round import play_round
from unskew.core.state import State
from unskew.core.step import LocalTraining
from unskew.core.store import ClientStore
from unskew.core.types import Tree
from unskew.parts.prepare import Pooled
from unskew.progress import working
from unskew.readings import number_or_none
from unskew.seeds import generator


def correlation_watch(run: RunPlan) -> Callable[[Tree], dict[str, float]]:
    """Part -> the distance correlation of what it shares with the samples behind it, under a model.

    Under a model that has diverged there is none.
    """
    from unskew.core.views import views_of
    from unskew.runs.correlation import watch

    views = views_of(run.job.method.parts, run.as_dealt.typical)
    measured = watch(run, views, run.job.local.batch)
    return lambda model: {part: c for part, c in measured(model).items() if np.isfinite(c)}


def centralized_twin(run: RunPlan, what: str = "divergence") -> RunPlan:
    """The same run with all data in one place: same model, same budget of sample-steps, no faults.

    To be there, every sample has to be sent; that is what ``what`` costs. Where the data is pooled already, nothing is.
    """
    job, engine = run.job, run.engine.again()
    sharing = Pooled().transfers(job.roster, run.cohort, job.seed)
    roster = engine.transfer(Pooled(), sharing, job.roster, job.seed)
    if not job.roster.pooled.any():
        run.measuring.gathered(what, job.roster.sizes.tolist(), job.roster.dataset.bits)
    pooled = replace(job, method=Method.parse("centralized"), roster=roster)
    return replace(run, job=pooled, engine=engine, faults=type(run.faults)())


def divergence(twin: RunPlan, state: State, twin_params: Tree) -> tuple[float | None, Tree]:
    """The divergence after this round, and the centralised model one round further."""
    t = state.round - 1
    memory: dict[str, Tree] = {part.name: {} for part in twin.job.method.parts}
    after, _ = play_round(twin, State(t, twin_params, memory, ClientStore(), state.seed))
    apart = sum(
        float((state.params[k] - after.params[k]).double().square().sum()) for k in twin.job.net.trainable
    )
    size = sum(float(after.params[k].double().square().sum()) for k in twin.job.net.trainable)
    return number_or_none(np.sqrt(apart / size)), after.params


class Minimum:
    """The smallest loss that a model reaches on the samples of one client, by some more steps of training."""

    name = f"{__name__}:Minimum"
    questions = ("minimum",)

    def minimum(self, client: ClientView, steps: int, t: int, whose: int | None = None) -> Tree:
        """The mean loss on all that the client holds, after training on it; ``t`` and ``whose`` name its draws."""
        local = replace(client.local, epochs=None, steps=steps)
        training = LocalTraining(client.trained, (), local, client.seed)
        number = client.client if whose is None else whose
        work = plan(len(client), len(client), local, seed=client.seed, t=t, client=number)
        places, census = torch.arange(len(client)), torch.zeros(client.classes)
        model = Handed(client.model)
        client_job = ClientJob(number, t, model, model, places, work, local.lr, census, {}, {})
        found = train(training, client.pool(), client_job).params
        return {"loss": client.losses(client.trained, found).double().mean()}


def gamma(run: RunPlan, model: Tree, steps: int = 500, most: int = 100) -> dict[str, float | None]:
    """Estimate thesis eq. 3.1 by minimising: F* on all data, F_k* on each client's, both from ``model``.

    The minima are those that ``steps`` of the run's own optimiser reach, the same number everywhere (the exact
    ones cannot be known for a network); of more than ``most`` clients that hold samples a seeded sample is taken.
    """
    job, roster, twin = run.job, run.job.roster, centralized_twin(run, "gamma")
    holding = chosen = np.flatnonzero(roster.sizes)  # who holds nothing has no loss, and n_k = 0
    if len(holding) > most:
        chosen = holding[np.sort(generator(job.seed, "gamma").choice(len(holding), most, replace=False))]
    losses = []
    with working("gamma: minimal losses of clients", len(chosen) + 1) as advance:
        about = {"steps": steps, "t": run.end}
        one = Query(Minimum.name, "minimum", about | {"whose": -1})
        (pooled,) = twin.engine.query(twin.job, one, np.zeros(1, np.int64), model, BEFORE)
        advance(1)
        for found in ask_to_measure(run, "gamma", Minimum(), "minimum", chosen, model, BEFORE, **about):
            losses.append(float(found["loss"]))
            advance(1)
    twin.engine.close()
    weights = roster.weigh[chosen] / roster.weigh[chosen].sum()
    everything, mean = float(pooled["loss"]), float(np.dot(weights, losses))
    return {
        "gamma": number_or_none(everything - mean),
        "global_minimum": number_or_none(everything),
        "mean_local_minimum": number_or_none(mean),
        "clients": len(chosen),
        "of_clients": len(holding),
        "steps": steps,
    }
