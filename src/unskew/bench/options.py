"""What a comparison is asked to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unskew.bench.jobs import JOBS, StandardJob
from unskew.errors import InputError, unknown
from unskew.runs.choose_engine import choose, device_of
from unskew.runs.spec import Spec

ENGINES = ("loop", "fast", "ray")

PEERS: dict[str, str] = {
    "plain": "a plain loop: the model copied for each client, DataLoader, torch.optim.SGD",
    "flower": "Flower's simulation",
    "pfl": "pfl-research's simulated backend",
    "fluke": "fluke's FedAvg",
    "fedjax": "FedJAX's federated averaging",
    "fedlab": "FedLab's FedAvg",
}
"""Whom we compare with; ``plain`` needs no environment of its own."""

NO_LIBRARY = ("plain",)
"""Peers that are scripts, and nobody's library."""


@dataclass(frozen=True)
class Options:
    """What to compare: the flags of ``unskew bench``."""

    jobs: Sequence[StandardJob] = (JOBS["A"], JOBS["B"], JOBS["C"])
    engines: Sequence[str] = ("loop", "fast")
    rounds: int = 5
    peers: Sequence[str] = ()
    device: str = "auto"
    workers: int | None = None
    block: int | None = None
    compile: bool = False
    precision: str = "fp32"

    def __post_init__(self) -> None:
        for name in self.engines:
            if name not in ENGINES:
                raise unknown("engine", name, ENGINES)
        for name in self.peers:
            if name not in PEERS:
                raise unknown("peer", name, PEERS)
        if not self.engines:
            raise InputError("name at least one engine: --engines loop,fast")
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, not {self.rounds}")
        device = device_of(self.spec())
        for name in dict.fromkeys(("fast", *self.engines)):
            if name != "loop":  # says what does not go together before anything is started
                choose(self.spec(name), device, float("inf"))
        if self.peers and device.type != "cpu":
            raise InputError("peers are measured on the cpu; add --device cpu, or leave --peers out")

    def spec(self, engine: str = "fast") -> Spec:
        chosen = {k: getattr(self, k) for k in ("device", "workers", "block", "compile", "precision")}
        return Spec.of(chosen | {"engine": engine})
