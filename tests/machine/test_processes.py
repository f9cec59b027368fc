"""Whether workers may be forked, and what they can load."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import pytest
from torch import nn

from unskew.core.method import Method
from unskew.engines.cpu import fast
from unskew.engines.cpu.fast import FastCPU
from unskew.testing.toy_federation import play, tiny


def test_what_was_typed_is_trained_in_one_process_where_nothing_can_be_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker could not load it, guard or not."""
    typed = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", typed)
    typed.Typed = Typed  # type: ignore[attr-defined]
    monkeypatch.setattr(Typed, "__module__", "__main__")
    monkeypatch.setattr(fast, "can_fork", lambda: False)
    engine = FastCPU(workers=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        play(Method.parse("fedavg"), tiny(), engine=engine, model=Typed(), rounds=1)
    assert engine.count == 1
    assert any("they cannot load what was typed here" in str(one.message) for one in said)


class Typed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(36, 3)

    def forward(self, x: Any) -> Any:
        return self.out(x.flatten(1))
