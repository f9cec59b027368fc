"""Engines and peers on the standard jobs: rounds in turn, medians, ratios.

Everybody plays the same round before anyone plays the next, so that what else the machine does hits all alike. A
first round (workers start, graphs are captured, code is compiled) is not counted. Only training is timed:
selection, local training, aggregation; no evaluation, no checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from unskew.bench.jobs import CLASSES, StandardJob
from unskew.bench.options import NO_LIBRARY, Options
from unskew.bench.ours import Ours
from unskew.bench.peak import TRAINING, multiply_adds_a_second, threads
from unskew.bench.peers import Peer, PeerFailed
from unskew.core.net import Net
from unskew.core.types import Ids
from unskew.errors import RunFailed
from unskew.machine.cores import cores
from unskew.models import build
from unskew.runs.choose_engine import device_of


class Contender(Protocol):
    """Whoever plays rounds."""

    name: str
    about: str

    def round(self, clients: Ids | None) -> tuple[float, int]:
        """Play the next round; seconds, and samples trained on (each as often as it was)."""
        ...

    def close(self) -> None: ...


@dataclass
class Score:
    """What one contender did."""

    name: str
    kind: str  # engine | peer
    about: str = ""
    seconds: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    problem: str | None = None

    @property
    def rate(self) -> float | None:
        """Samples a second: the median over the counted rounds."""
        return float(np.median(self.rates)) if self.seconds else None

    @property
    def rates(self) -> list[float]:
        return [n / s for n, s in zip(self.samples, self.seconds, strict=True)]


def bench(
    options: Options,
    tell: Callable[[str], None] = lambda line: None,
    done: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """Compare on every job, and give the numbers as plain values; ``text`` makes a table of them.

    ``done`` is shown the report of what there is so far as each job ends. Whoever interrupts gets what there is, with
    ``stopped`` in it.
    """
    about = machine(device_of(options.spec()))
    peaks: list[float] = []
    report: dict[str, Any] = {"machine": about, "precision": options.precision, "jobs": []}
    for job in options.jobs:
        scores = contenders(options)
        found: dict[str, Any] = {"job": job.name, "about": job.about()}
        try:
            if job.available:
                compare_job(job, options, scores, peaks, tell)
            else:
                found["skipped"] = "model not in this version"
        except RunFailed as failed:  # what the other jobs took minutes for must not be lost
            found["skipped"] = f"failed: {failed}"
        except KeyboardInterrupt:
            report["stopped"] = f"stopped in job {job.name}"
            if not any(score.seconds for score in scores):
                break
        # a peak is what the machine can do, so the best counts; a median would flatter us on a busy machine
        peak = about["peak_multiply_adds_per_s"] = max(peaks, default=0.0)
        about["load_after"] = _load()
        report["jobs"].append(found if "skipped" in found else report_scores(job, scores, peak))
        done(report)
        if "stopped" in report:
            break
    return report


def contenders(options: Options) -> list[Score]:
    """Who plays, with nothing played yet."""
    return [Score(name, "engine") for name in options.engines] + [Score(n, "peer") for n in options.peers]


def compare_job(
    job: StandardJob,
    options: Options,
    scores: Sequence[Score],
    peaks: list[float],
    tell: Callable[[str], None],
) -> None:
    """One job, played in turn by everyone who scores; ``peaks`` gets what the machine could do meanwhile."""
    device = device_of(options.spec())
    with contextlib.ExitStack() as stack, threads(1):
        playing: dict[str, Contender] = {}
        for score in scores:
            tell(f"{job.name}: {score.name} gets ready")
            try:
                make = Ours.ready if score.kind == "engine" else Peer.ready
                contender: Contender = make(score.name, job, options)
            except PeerFailed as failed:
                score.problem = str(failed)
                continue
            stack.callback(contender.close)
            playing[score.name] = contender
        for number in range(options.rounds + 1):
            tell(f"{job.name}: " + (f"round {number} of {options.rounds}" if number else "warm-up"))
            peaks.append(multiply_adds_a_second(device, options.precision))
            clients: Ids | None = None
            for score in scores:
                if score.problem is not None:
                    continue
                player = playing[score.name]
                try:
                    seconds, samples = player.round(clients)
                except PeerFailed as failed:
                    score.problem = str(failed)
                    continue
                if isinstance(player, Ours):
                    clients = player.clients  # peers train the clients that our engines drew
                score.about = player.about  # a peer knows its threads after the first
                if number:
                    score.seconds.append(seconds)
                    score.samples.append(samples)


def report_scores(job: StandardJob, scores: Sequence[Score], peak: float) -> dict[str, Any]:
    """A job's numbers; ``peak`` in multiply-adds per second."""
    net = Net(build(job.model, job.shape, CLASSES, job.seed))
    forward = net.multiply_adds(job.shape)
    at_peak = peak / (TRAINING * forward)
    return {
        "job": job.name,
        "about": job.about(),
        "parameters": sum(net.initial[k].numel() for k in net.trainable),
        "multiply_adds": forward,
        "peak_samples_per_s": at_peak,
        "results": [row(score, scores, at_peak) for score in scores],
    }


def row(score: Score, scores: Sequence[Score], peak: float) -> dict[str, Any]:
    """A contender's numbers, and its ratios to the loop engine, to the best peer and to the machine's peak."""
    found: dict[str, Any] = {"name": score.name, "kind": score.kind, "about": score.about}
    if score.problem is not None or score.rate is None:
        return found | {"problem": score.problem}
    loop = next((s.rate for s in scores if s.name == "loop"), None)
    peers = {s.name: s.rate for s in scores if s.kind == "peer" and s.rate is not None}
    best = max(peers.values(), default=None)
    libraries = {name: rate for name, rate in peers.items() if name not in NO_LIBRARY}
    library = max(libraries, key=lambda name: libraries[name], default=None)
    return found | {
        "samples_per_s": score.rate,
        "slowest": min(score.rates),
        "fastest": max(score.rates),
        "seconds_per_round": float(np.median(score.seconds)),
        "rounds": [{"seconds": s, "samples": n} for s, n in zip(score.seconds, score.samples, strict=True)],
        "to_loop": ratio(score.rate, loop),
        "to_best_peer": ratio(score.rate, best),
        "best_library": library,
        "to_best_library": ratio(score.rate, None if library is None else libraries[library]),
        "of_peak": score.rate / peak,
    }


def ratio(rate: float, other: float | None) -> float | None:
    return None if other is None else rate / other


def machine(device: torch.device) -> dict[str, Any]:
    """What the numbers were measured on, and how busy it was."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "load": _load(),
    }


def _load() -> float | None:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
