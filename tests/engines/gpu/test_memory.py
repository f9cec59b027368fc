"""Memory on a GPU: what a block held is free when the next one needs it, and one that does not fit is halved."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
import torch

from unskew.core.method import Method
from unskew.engines import stacked
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import RunFailed
from unskew.testing.toy_federation import apart, play

ERRORS = [torch.cuda.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: out of memory")]


def short_of_memory(error: Exception, fits: int, tried: list[int]) -> type[FastGPU]:
    class Small(FastGPU):
        def _train(self, *given: Any) -> Any:
            tried.append(len(given[4]))
            if len(given[4]) > fits:
                raise error
            return super()._train(*given)

        def _halve(self, size: int) -> None:
            assert sys.exc_info() == (None, None, None)  # a live error would keep the memory it failed in
            super()._halve(size)

    return Small


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_block_that_does_not_fit_is_halved_and_trained_again(error: Exception) -> None:
    """Four clients do not fit, two do: a warning, and the loop's numbers."""
    tried: list[int] = []
    engine = short_of_memory(error, 2, tried)("cpu")
    with pytest.warns(UserWarning, match="4 clients at once do not fit the GPU's memory; going on with 2"):
        found = play(Method.parse("scaffold"), engine=engine, rounds=2)
    assert tried == [4, 2, 2, 2, 2]
    assert apart(play(Method.parse("scaffold"), rounds=2).state.params, found.state.params) < 1e-9


@pytest.mark.filterwarnings("ignore:.*do not fit")
def test_one_client_that_does_not_fit_ends_the_run_in_a_sentence() -> None:
    """Four, two, one, and then there is nothing left to halve."""
    tried: list[int] = []
    with pytest.raises(RunFailed, match="one client alone does not fit"):
        play(Method.parse("fedavg"), engine=short_of_memory(ERRORS[0], 0, tried)("cpu"))
    assert tried == [4, 2, 1]


def test_other_errors_are_not_taken_for_want_of_memory() -> None:
    """A model's own error is shown as it is."""
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        play(
            Method.parse("fedavg"),
            engine=short_of_memory(RuntimeError("shapes cannot be multiplied"), 0, [])("cpu"),
        )


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
