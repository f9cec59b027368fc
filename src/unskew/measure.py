"""Measurements on request: drift from centralised training, and the skew of the minimal losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from unskew.client import Errand, Task, train
from unskew.engines.engine import Job
from unskew.engines.site import Site
from unskew.errors import InputError, unknown
from unskew.method import Method
from unskew.plan import plan
from unskew.prepare import Pooled
from unskew.progress import working
from unskew.round import play_round
from unskew.seeds import generator
from unskew.state import State
from unskew.store import ClientStore
from unskew.types import Tree

MEASURES = {
    "divergence": "||w - w_c|| / ||w_c|| of the global model from one trained centrally in step (thesis 4.1)",
    "gamma": "F* - sum of n_k/n F_k*, the skew of the minimal losses (thesis eq. 3.1)",
    "correlation": "c of what is shared with the samples behind it, round by round (FLea eq. 8)",
}


def check_measures(names: tuple[str, ...], method: Method) -> None:
    for name in names:
        if name not in MEASURES:
            raise unknown("measurement", name, MEASURES)
    for name in ("divergence", "gamma"):
        if name in names and not method.schedule.exchanges:
            raise InputError(f"{name} looks at the global model, and {method} makes none; leave {name} out")
    if "correlation" in names and not any(part.sends for part in method.parts):
        raise InputError(
            f"correlation measures features or samples that are shared, and {method} shares none; leave it out"
        )


def correlation_watch(job: Job) -> Callable[[Tree], dict[str, float]]:
    """Part -> the distance correlation of what it shares with the samples behind it, under a model.

    Under a model that has diverged there is none.
    """
    from unskew.privacy.correlation import watch
    from unskew.privacy.views import views_of

    dealt = job.dealt or job.federation
    views = views_of(job.method.parts, dealt.typical)
    measured = watch(job.judging_net, dealt, views, job.local.batch, job.seed, job.device, job.dtype)
    return lambda model: {part: c for part, c in measured(model).items() if np.isfinite(c)}


def centralized_twin(job: Job) -> Job:
    """The same run with all data in one place: same model, same budget of sample-steps, no faults."""
    method = Method.parse("centralized")
    federation = Pooled().once(job.federation, job.cohort, job.seed)
    return replace(job, method=method, federation=federation, faults=type(job.faults)())


def finite(value: float) -> float | None:
    """A number that JSON has; None for what comes of a model that has diverged."""
    return float(value) if np.isfinite(value) else None


def divergence(twin: Job, state: State, twin_params: Tree) -> tuple[float | None, Tree]:
    """The divergence after this round, and the centralised model one round further."""
    t = state.round - 1
    memory: dict[str, Tree] = {part.name: {} for part in twin.method.parts}
    after, _ = play_round(twin, State(t, twin_params, memory, ClientStore(), state.seed))
    apart = sum(
        float((state.params[k] - after.params[k]).double().square().sum()) for k in twin.net.trainable
    )
    size = sum(float(after.params[k].double().square().sum()) for k in twin.net.trainable)
    return finite(np.sqrt(apart / size)), after.params


def gamma(job: Job, model: Tree, steps: int = 500, most: int = 100) -> dict[str, float | None]:
    """Estimate thesis eq. 3.1 by minimising: F* on all data, F_k* on each client's, both from ``model``.

    The minima are those that ``steps`` of the run's own optimiser reach, the same number everywhere (the exact
    ones cannot be known for a network); of more than ``most`` clients a seeded sample is taken.
    """
    federation = job.federation
    local = replace(job.local, epochs=None, steps=steps)
    task = Task(job.net, (), local, job.seed, federation.dataset.classes)
    site = Site(federation.dataset, job.dtype)
    chosen = np.arange(federation.clients)
    if len(chosen) > most:
        chosen = np.sort(generator(job.seed, "gamma").choice(federation.clients, most, replace=False))

    def minimum(held: np.ndarray[tuple[int], np.dtype[np.int64]], client: int) -> float:
        places = torch.from_numpy(held)
        work = plan(len(held), len(held), local, seed=job.seed, t=job.rounds, client=client)
        census = torch.zeros(federation.dataset.classes)
        errand = Errand(client, job.rounds, model, model, places, work, local.lr, census, {}, {})
        found = train(task, site.pool, errand).params
        return float(site.judge(job.net, found, held)[1].double().mean())

    with working("gamma: minimal losses of clients", len(chosen) + 1) as advance:

        def next_minimum(held: np.ndarray[tuple[int], np.dtype[np.int64]], client: int) -> float:
            found = minimum(held, client)
            advance(1)
            return found

        everything = next_minimum(federation.indices, -1)
        local_minima = [next_minimum(federation.samples(int(c)), int(c)) for c in chosen]
    weights = federation.weigh[chosen] / federation.weigh[chosen].sum()
    mean = float(np.dot(weights, local_minima))
    return {
        "gamma": finite(everything - mean),
        "global_minimum": finite(everything),
        "mean_local_minimum": finite(mean),
        "clients": len(chosen),
        "of_clients": federation.clients,
        "steps": steps,
    }
