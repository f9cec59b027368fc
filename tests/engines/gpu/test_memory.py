"""Memory on a GPU: what a block held is free when the next one needs it, and one that does not fit is halved."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unskew.core.method import Method
from unskew.engines import stacked
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import RunFailed
from unskew.testing.toy_federation import apart, play

ERRORS = [torch.cuda.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: out of memory")]


class Memory(TorchDispatchMode):
    """A device on which training more than so many clients at once fails, as where memory is short."""

    def __init__(self, error: Exception, engine: FastGPU, fits: int) -> None:
        super().__init__()
        self.error, self.engine, self.fits = error, engine, fits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        product = func in (torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default)
        if product and self.engine.rooms and len(args[-1]) > self.fits:
            raise self.error
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_block_that_does_not_fit_is_halved_and_trained_again(error: Exception) -> None:
    """Four clients do not fit, two do: a warning, and the loop's numbers.

    When it warns no error is alive: one would keep the memory that it failed in.
    """
    engine, alive = FastGPU("cpu"), []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda said, *_: alive.append((str(said), sys.exc_info()[0]))
        with Memory(error, engine, fits=2):
            found = play(Method.parse("scaffold"), engine=engine, rounds=2)
    ((said, error_alive),) = alive
    assert "4 clients at once do not fit the GPU's memory; going on with 2" in said
    assert error_alive is None
    assert engine.grouping.largest == 2
    assert [room.clients for room in engine.rooms] == [4, 2]
    assert apart(play(Method.parse("scaffold"), rounds=2).state.params, found.state.params) < 1e-9


@pytest.mark.filterwarnings("ignore:.*do not fit")
def test_one_client_that_does_not_fit_ends_the_run_in_a_sentence() -> None:
    """Four, two, one, and then there is nothing left to halve."""
    engine = FastGPU("cpu")
    with (
        pytest.raises(RunFailed, match="one client alone does not fit"),
        Memory(ERRORS[0], engine, fits=0),
    ):
        play(Method.parse("scaffold"), engine=engine)
    assert [room.clients for room in engine.rooms] == [4, 2, 1]


def test_other_errors_are_not_taken_for_want_of_memory() -> None:
    """A model's own error is shown as it is."""
    engine, problem = FastGPU("cpu"), RuntimeError("shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), Memory(problem, engine, fits=0):
        play(Method.parse("scaffold"), engine=engine)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_a_block_is_gone_once_it_is_trained(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No circle of references keeps a stepper, with all its clients' models, for the garbage collector."""
    made: list[weakref.ref[stacked.Stepper]] = []
    init = stacked.Stepper.__init__

    def watched(self: stacked.Stepper, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        made.append(weakref.ref(self))

    monkeypatch.setattr(stacked.Stepper, "__init__", watched)
    gc.disable()
    try:
        play(Method.parse(method), engine=FastCPU(workers=1), rounds=2)
        assert len(made) == 2
        assert not any(stepper() for stepper in made)
    finally:
        gc.enable()
