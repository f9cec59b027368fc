"""A GPU that is none: what would fail on a GPU fails on a machine without one.

Tensors lie on a device of their own, and the CPU computes with what they hold. So the GPU engine runs whole, with its
streams and graphs, and three mistakes show that a CPU hides: a tensor that was left on the CPU, a number that is read
while a step is captured, and a number of the host that a captured step goes on with in later steps. It shows nothing of
speed, and nothing of what runs at the same time.

    python -m unskew.testing.pretend_gpu                                  every part and preset
    python -m unskew.testing.pretend_gpu "softpull:SoftPull(mu=2)+sem"    a method, with parts of your own too

It needs a process of its own: torch asks once, before the first gradient, which devices there are.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils import backend_registration

from unskew.core.engine import Job, RoundInputs
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.registry import parts, presets
from unskew.core.types import Ids, Leg, Update
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError, first_line
from unskew.testing.toy_federation import MODEL, RefusedSetup, apart, models, normed, play

aten = torch.ops.aten

NAME, FREE = "pretend", "privateuseone"
"""Its device, and what torch calls the place for one that nobody has taken yet."""

TAKES_BOTH = (
    aten.copy_.default,
    aten._to_copy.default,
    aten._foreach_copy_.default,
    aten.index.Tensor,
    aten.index_put_.default,
    aten._index_put_impl_.default,
)
"""Operations that a GPU carries out with tensors of both sides: copies, and indices that lie on the host."""


class PretendGPU(FastGPU):
    """The GPU engine on the device that is none, its steps captured and replayed."""

    def __init__(self, block: int | None = None, precision: str = "fp32", stack: bool | None = None):
        device = pretend_device()
        if device is None:
            raise RuntimeError("this torch has no room for a device that is written in Python")
        super().__init__(str(device), block, precision=precision, capture=True, stack=stack)

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        with _graphs_of_python():
            return super().visit(job, leg, rows, round_inputs)

    def again(self) -> PretendGPU:
        twin = PretendGPU(self.grouping.block, self.precision, self.grouping.stack)
        twin.hold(Holdings(self.holdings.federation))
        return twin


@cache
def pretend_device() -> torch.device | None:
    """The device; None where torch cannot have one, or has another of its kind.

    Torch knows it from then on, as long as the process lasts: programs that look for any accelerator find it.
    """
    set_up = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if set_up is None or torch._C._get_privateuse1_backend_name() != FREE:
        return None

    set_up(NAME)
    ranges = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for op in (aten.arange.default, aten.arange.start, aten.arange.start_step):
        # by themselves they fill a tensor that grows meanwhile, which a stand-in does not
        ranges.impl(op, partial(_carry_out_of, op), "PrivateUse1")  # type: ignore[no-untyped-call]
    _KEPT.append(ranges)
    for name in ("tensor", "as_tensor"):  # which lose their way to a device of Python's
        setattr(torch, name, _made_here(getattr(torch, name)))
    all_others = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    all_others.fallback(_carry_out_of, "PrivateUse1")  # type: ignore[no-untyped-call]
    _KEPT.append(all_others)
    return torch.device(NAME, 0)


_KEPT: list[torch.library.Library] = []
"""What torch forgets once nobody holds it."""


class _OnDevice(Tensor):
    """A tensor of the device; ``held`` is what the CPU computes with."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _OnDevice:
        made: _OnDevice = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=pretend_device(),
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _carry_out(op, args, kwargs or {})

    def tolist(self) -> Any:
        return self.held.tolist()

    def new_tensor(self, data: Any, *given: Any, **rest: Any) -> Tensor:
        return self.held.new_tensor(data, *given, **rest).to(self.device)

    def __repr__(self, **how: Any) -> str:  # type: ignore[override]
        return f"{self.held!r}, on the GPU that is none"

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("a tensor of a GPU has no array; take cpu() of it first")

    __array__ = numpy  # type: ignore[assignment]


def _carry_out(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation of the device: refused where a GPU would refuse it, else the CPU's."""
    given = _tensors([*args, *kwargs.values()])
    here = [v for v in given if isinstance(v, _OnDevice)]
    away = [v for v in given if not isinstance(v, _OnDevice)]
    device = kwargs.get("device")
    if op is aten.copy_.default:
        on = isinstance(args[0], _OnDevice)
    else:
        on = bool(here) if device is None else torch.device(device).type == NAME
    copies = op in TAKES_BOTH
    # single numbers may come from the host
    refused = _Graph.capturing if copies else any(v.dim() for v in away)
    if away and (here or on) and refused:
        shape = "x".join(map(str, away[0].shape)) or "one number"
        when = " while a step is captured" if copies else ""
        raise RuntimeError(
            f"{op} has a tensor on the CPU ({shape}) beside one on the GPU{when}: make it with the device of a tensor "
            "at hand"
        )
    plain_args = [_changed(v, lambda t: t.held if isinstance(t, _OnDevice) else t) for v in args]
    plain = {k: _changed(v, lambda t: t.held if isinstance(t, _OnDevice) else t) for k, v in kwargs.items()}
    if device is not None:
        plain["device"] = "cpu" if on else device
    found = op(*plain_args, **plain)
    if _Graph.capturing is not None:
        _Graph.capturing.record(op, plain_args, plain, found, on)
    if not on:
        return found
    known = {id(v.held): v for v in here}  # what changes in place stays the tensor that it is
    return _changed(found, lambda t: known[id(t)] if id(t) in known else _OnDevice(t))


def _carry_out_of(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _carry_out(op, args, kwargs)


def _made_here(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, made on the CPU and then moved."""

    def made(data: Any, dtype: Any = None, device: Any = None, **rest: Any) -> Tensor:
        found = make(data, dtype=dtype, **rest)
        return found if device is None else found.to(device)

    return made


def _tensors(value: Any) -> list[Tensor]:
    """The tensors that an operation is handed or gives: by themselves and in lists."""
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return [value] if isinstance(value, Tensor) else []


def _changed(value: Any, change: Callable[[Any], Tensor]) -> Any:
    """The same with other tensors."""
    if isinstance(value, list | tuple):
        return [_changed(v, change) for v in value]
    return change(value) if isinstance(value, Tensor) else value


class _Graph:
    """A captured step: operations that are carried out again on the same memory, and nothing of Python."""

    capturing: _Graph | None = None

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], Any, dict[str, Any], list[Any]]] = []

    def capture_begin(self, pool: Any = None) -> None:
        _Graph.capturing = self

    def capture_end(self) -> None:
        _Graph.capturing = None

    def record(self, op: Any, args: Any, kwargs: dict[str, Any], found: Any, on: bool) -> None:
        if not on:
            raise RuntimeError(
                f"{op} waits for the GPU while a step is captured: leave numbers on the device"
            )
        memory = {t.untyped_storage().data_ptr() for t in _tensors([*args, *kwargs.values()])}
        made = _tensors(found)
        shows = made and all(t.untyped_storage().data_ptr() in memory for t in made)
        if op._schema.is_mutable:
            self.calls.append((op, args, kwargs, []))
        elif not shows and op is not aten.empty.memory_format:
            # a view shows what is there, and this is nothing yet
            self.calls.append((op, args, kwargs, made))

    def replay(self) -> None:
        for op, args, kwargs, made in self.calls:
            for old, new in zip(made, _tensors(op(*args, **kwargs)), strict=False):
                old.copy_(new)


class _Stream:
    """Work is carried out at once, so nobody waits."""

    def __init__(self, priority: int = 0) -> None: ...

    def wait_stream(self, other: _Stream) -> None: ...


@contextlib.contextmanager
def _capture(graph: _Graph, stream: _Stream | None = None) -> Iterator[None]:
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()


@contextlib.contextmanager
def _graphs_of_python() -> Iterator[None]:
    """What the engine asks of ``torch.cuda``, answered here."""
    stream = _Stream()
    answers: dict[str, Any] = {
        "Stream": _Stream,
        "CUDAGraph": _Graph,
        "graph": _capture,
        "stream": lambda stream: contextlib.nullcontext(),
        "set_stream": lambda stream: None,
        "current_stream": lambda device=None: stream,
        "graph_pool_handle": lambda: None,
        "synchronize": lambda device=None: None,
    }
    with mock.patch.multiple(torch.cuda, **answers):
        yield


def difference(method: Method) -> float:
    """How far a method's models are from the loop engine's after two rounds: dense ones stacked; convolving ones with
    batch norm side by side, read back from disk after each round. An exception where they cannot be played."""
    usual: dict[str, Any] = {"rounds": 2, "epochs": 1, "drop": 0.2}
    reread = {
        "stopped": True,
        "evaluate_clients": True,
        "cohort": 2,
        "client_test": 0.3,
        "crop": 1,
        "flip": True,
    }
    found = []
    for stack, more in ((True, {"model": MODEL}), (False, {"model": normed} | reread)):
        try:
            expected = play(method, **usual, **more)
        except RefusedSetup:  # it names a layer that only the other model has
            continue
        played = play(method, engine=PretendGPU(stack=stack), **usual, **more)
        found.append(apart(models(expected.state), models(played.state)))
    if not found:
        raise InputError(f"{method} takes neither of the models that are tried here")
    return max(found)


def main(words: list[str]) -> int:
    """A line a method; 1 where one of them fails on a GPU or has other numbers there."""
    pretend_device()  # before the first gradient
    tried = [part.example or name for name, part in parts().items()] + [*presets()]
    failed = 0
    for word in words or tried:
        try:
            off = difference(Method.parse(word))
            said = f"the loop engine's numbers to {off:.0e}" if off <= 1e-9 else f"differs by {off:.0e}"
            failed += off > 1e-9
        except Exception as problem:  # parts may fail in any way
            said = f"fails: {first_line(problem)}"
            failed += 1
        print(f"{word}: {said}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # not by way of Python's own end: torch's threads for a GPU may still ask a device written in Python
    os._exit(code)
