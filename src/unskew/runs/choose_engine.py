"""Which engine runs a spec: what was asked for, or what suits the job and the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.errors import InputError
from unskew.later import torch
from unskew.machine.cores import cores
from unskew.machine.gpus import gpu_there
from unskew.runs.spec import Spec

if TYPE_CHECKING:
    from unskew.core.engine import Engine

WORTH_WORKERS = 2e11
"""Multiply-adds of a run (some seconds of one core) from which worker processes pay."""

WORTH_RECORDING = 2e9
"""Multiply-adds of a round from which recorded steps pay. Of a round, not of the run: a recorded step may differ in the
last bit, and the first rounds of a longer run are to be those of a shorter one."""


def device_of(spec: Spec) -> torch.device:
    """The device a spec names; ``auto`` is a GPU where there is one and the fast engine may use it."""
    return torch.device(device_name(spec))


def device_name(spec: Spec) -> str:
    """The name of that device; torch is asked only where it must be."""
    if spec.sites is not None:  # what the coordinator does itself is little: it averages, and judges
        return "cpu"
    if spec.engine == "ray":  # the server's side; which device clients train on is the nodes' to know
        if spec.device not in ("auto", "cpu", "cuda"):
            raise InputError(
                f"with engine = ray, Ray chooses among GPUs; write device = auto, cpu or cuda, not {spec.device}"
            )
        return "cpu"
    if spec.device == "auto":
        return "cuda" if spec.engine != "loop" and gpu_there() else "cpu"
    if spec.device == "cpu":
        return "cpu"
    try:
        device = torch.device(spec.device)
    except RuntimeError:
        raise InputError(f"there is no device {spec.device!r}; write cpu, cuda, cuda:1 or auto") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {spec.device!r} is not supported; write cpu, cuda, cuda:1 or auto")
    if device.type == "cuda" and spec.engine == "loop":
        raise InputError("the loop engine runs on the cpu; write engine = fast for a GPU")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        there = torch.cuda.device_count()
        raise InputError(
            f"device {spec.device!r} is not on this machine, which has {there} GPUs; write cpu or auto"
        )
    return str(device)


def check_engine(spec: Spec, on_gpu: bool) -> None:
    """Refuse settings that the engine of a spec does not have where it would run."""
    if spec.engine == "loop":
        if spec.compile:
            raise InputError("compile belongs to the fast engine on a GPU; leave it out for the loop")
        return
    if spec.engine == "ray":  # which says so itself
        return
    if spec.ray is not None:
        raise InputError(f"ray = {spec.ray} says which cluster engine = ray uses; write engine = ray too")
    if on_gpu:
        return
    if spec.precision in ("tf32", "bf16"):
        raise InputError(f"precision {spec.precision} needs a GPU; write precision = fp32 on the cpu")
    if spec.compile:
        raise InputError("compile needs a GPU; leave it out: on a CPU it makes nothing faster")
    if (spec.workers or 1) > (most := max(64, 4 * cores())):
        raise InputError(
            f"workers = {spec.workers:,} would start as many processes, and there are {cores()} cores; write at most "
            f"{most}"
        )


def choose(spec: Spec, device: torch.device, work: float) -> Engine:
    """The engine for a spec whose run takes about ``work`` multiply-adds."""
    check_engine(spec, device.type == "cuda")
    if spec.engine == "loop":
        from unskew.engines.loop import Loop

        return Loop()
    record = work / spec.rounds >= WORTH_RECORDING
    if spec.engine == "ray":
        from unskew.engines.cluster.engine import OverRay

        return OverRay(spec.ray, spec.workers, spec.block, record, spec.device, spec.compile, spec.precision)
    if device.type == "cuda":
        from unskew.engines.gpu.fast import FastGPU

        return FastGPU(str(device), spec.block, spec.compile, spec.precision)
    from unskew.engines.cpu.fast import FastCPU

    alone = work < WORTH_WORKERS and spec.engine == "auto" and spec.workers is None
    return FastCPU(1 if alone else spec.workers or cores(), spec.block, record)
