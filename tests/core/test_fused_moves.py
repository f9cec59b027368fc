"""torch's own loops that move weights at once, on GPUs and on CPUs: the moves are those of the rules written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unskew.core import optimisers
from unskew.core.optimisers import optimizer
from unskew.core.slots import Local
from unskew.core.types import Tree, leaves


def moved(local: Local, monkeypatch: pytest.MonkeyPatch, *, fused: bool) -> list[torch.Tensor]:
    """Weights and what the rule remembers after three steps against given gradients."""
    monkeypatch.setattr(optimisers, "_in_one_kernel", lambda *_: fused)
    monkeypatch.setattr(optimisers, "_in_one_pass", lambda *_: False)
    numbers = torch.Generator().manual_seed(0)
    params: Tree = {"a": torch.randn(3, 4, generator=numbers), "b": torch.randn(5, generator=numbers)}
    rule = optimizer(local)
    state = rule.init(params)
    for step in range(3):
        grads = {k: torch.randn(v.shape, generator=numbers) for k, v in params.items()}
        rule.step(params, grads, state, torch.tensor(0.1 / (step + 1)), torch.tensor(step))
    return [*params.values(), *leaves(state)]


RULES = {
    "plain": Local(),
    "decay": Local(weight_decay=0.01),
    "momentum": Local(momentum=0.9),
    "nesterov": Local(momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": Local(optimizer="adam"),
    "adam with decay": Local(optimizer="adam", weight_decay=0.01),
}


@pytest.mark.parametrize("local", RULES.values(), ids=RULES)
def test_one_kernel_moves_weights_as_the_rule_says(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rate that falls, to rounding."""
    expected = moved(local, monkeypatch, fused=False)
    found = moved(local, monkeypatch, fused=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


class Asked(TorchDispatchMode):
    """What torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def in_many_layouts() -> tuple[Tree, list[Tree]]:
    """Weights as they may lie, and gradients that lie otherwise: filters channels last, of one channel, and a matrix
    turned, seen from one number, and a single number."""
    numbers = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=numbers, dtype=torch.float64)

    last = torch.channels_last
    params = {
        "filters": drawn(4, 3, 2, 2).to(memory_format=last),
        "grey": drawn(4, 1, 2, 2).to(memory_format=last),
        "turned": drawn(3, 5),
        "sum": drawn(6),
        "turned weights": drawn(5, 3).t(),
        "number": drawn(),
    }
    grads = [
        {
            "filters": drawn(4, 3, 2, 2),
            "grey": drawn(4, 1, 2, 2),
            "turned": drawn(5, 3).t(),
            "sum": drawn(1).expand(6),
            "turned weights": drawn(3, 5),
            "number": drawn(),
        }
        for _ in range(3)
    ]
    return params, grads


@pytest.mark.parametrize(
    "local", [v for k, v in RULES.items() if k != "plain"], ids=[k for k in RULES if k != "plain"]
)
def test_a_cpu_moves_weights_in_one_pass_however_they_lie(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 1e-12 in float64 after three steps, by torch's own loop alone."""

    def ended(one_pass: bool) -> tuple[Tree, set[str]]:
        params, grads = in_many_layouts()
        if not one_pass:
            monkeypatch.setattr(optimisers, "_in_one_pass", lambda *_: False)
        rule = optimizer(local)
        state = rule.init(params)
        with Asked() as asked:
            for count, given in enumerate(grads):
                rule.step(params, given, state, 0.1, count)
        return params, {name for name in asked.names if "_fused" in name or "_foreach" in name}

    found, asked = ended(one_pass=True)
    assert asked == {"_fused_adam_" if local.optimizer == "adam" else "_fused_sgd_"}
    expected, _ = ended(one_pass=False)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-12, rtol=0)


def test_rates_of_clients_own_and_weights_with_gaps_are_moved_term_by_term() -> None:
    """torch's loop knows one rate, and walks on through memory."""
    rule, gaps = optimizer(Local(momentum=0.9)), torch.ones(3, 4)[:, :2]
    with Asked() as asked:
        rule.step({"w": gaps}, {"w": torch.ones(3, 2)}, {"momentum": {"w": torch.zeros(3, 2)}}, 0.5, 0)
        rows = {"w": torch.ones(2, 3)}
        rule.step(rows, {"w": torch.ones(2, 3)}, rule.init(rows), torch.tensor([0.5, 0.25]), 0)
    assert not any("_fused" in name for name in asked.names)
    assert gaps.tolist() == [[0.5, 0.5]] * 3
    assert rows["w"].tolist() == [[0.5] * 3, [0.75] * 3]
