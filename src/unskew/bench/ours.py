"""Our engines as contenders."""

from __future__ import annotations

import time
from typing import Any

import torch

from unskew.bench.jobs import CLASSES, StandardJob
from unskew.bench.options import Options
from unskew.bench.peak import synchronize
from unskew.core.engine import Engine, Job, RunPlan
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.round import play_round
from unskew.core.state import initial_state
from unskew.core.types import Ids, Leg, Update
from unskew.data.federation import Federation
from unskew.engines.loop import Loop
from unskew.models import build
from unskew.runs.choose_engine import choose, device_of


class Noting:
    """An engine that notes whom it was asked to train."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.clients: Ids | None = None

    def visit(self, job: Job, leg: Leg, *rest: Any) -> Update:
        self.clients = leg.clients
        return self.engine.visit(job, leg, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class Ours:
    """A method played by one of our engines, round after round."""

    def __init__(self, name: str, run: RunPlan, state: Any):
        self.name, self.run, self.state = name, run, state
        self.noting = Noting(run.engine)
        self.about = run.engine.choice(run)
        run.engine = self.noting  # it passes on all that an engine has

    @classmethod
    def ready(
        cls,
        name: str,
        standard: StandardJob,
        options: Options,
        method: str = "fedavg",
        federation: Federation | None = None,
    ) -> Ours:
        """The job made ready for an engine, as ``run`` would; on other data of its shape where given."""
        device = device_of(options.spec("ray" if name == "ray" else "fast"))
        dtype = torch.float64 if options.precision == "fp64" else torch.float32
        net = Net(build(standard.model, standard.shape, CLASSES, standard.seed, dtype))
        net.to(device)
        held = federation or standard.federation()
        run = RunPlan(
            job=Job(Method.parse(method), Roster.of(held), net, standard.local, standard.seed, dtype=dtype),
            engine=Loop(device) if name == "loop" else choose(options.spec(name), device, float("inf")),
            rounds=options.rounds + 1,
            cohort=standard.cohort,
            device=str(device),
        )
        run.engine.hold(Holdings(held))
        memories = {part.name: part.init_server(net) for part in run.job.method.parts}
        return cls(name, run, initial_state(dict(net.initial), memories, standard.seed))

    @property
    def clients(self) -> Ids | None:
        """Whom the last round trained."""
        return self.noting.clients

    def round(self, clients: Ids | None = None) -> tuple[float, int]:
        """Play the next round; the engines draw the same clients by themselves."""
        device = torch.device(self.run.device)
        synchronize(device)
        began = time.perf_counter()
        self.state, ledger = play_round(self.run, self.state)
        synchronize(device)
        return time.perf_counter() - began, int(ledger["sample_steps"])

    def close(self) -> None:
        self.noting.close()
