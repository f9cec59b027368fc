"""A function of tensors is recorded as its operations, which do the same with other tensors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from unskew.engines.traced import aten, trace


def compiled(step: Callable[..., object], *values: Tensor) -> Callable[..., object]:
    return trace(step, list(values)).compiled()


def test_it_does_with_other_tensors_what_the_function_does() -> None:
    """Lists of tensors, results of which one is none, what is changed in place, and a gradient."""

    def step(weight: Tensor, x: Tensor) -> list[Tensor | None]:
        weight = weight.detach().requires_grad_()
        one, other = (torch.cat([x, 2 * x]) @ weight).split(2)
        (gradient,) = torch.autograd.grad((one * other).sum(), [weight])
        x.add_(1, alpha=0.5)
        torch._foreach_mul_([x], [torch.full((), 3.0)])
        return [one.detach(), None, gradient, x.amax(dim=[0, 1]).to(torch.float64)]

    values = [torch.rand(3, 4), torch.rand(2, 3)]
    play = compiled(step, *[v.clone() for v in values])
    others = [torch.rand(3, 4), torch.rand(2, 3)]
    mine, theirs = ([v.clone() for v in others] for _ in range(2))
    for found, expected in zip(play(*mine), step(*theirs), strict=True):  # type: ignore[call-overload]
        assert found is None if expected is None else torch.equal(found, expected)
    assert torch.equal(mine[1], theirs[1])


def test_a_function_of_stacked_tensors_is_recorded_as_what_is_done_to_the_stack() -> None:
    """vmap is gone from the recording: a product of three pairs is one product."""
    step = torch.vmap(lambda a, b: (a @ b).sin())
    values = torch.rand(3, 2, 2), torch.rand(3, 2, 2)
    traced = trace(step, list(values))
    assert [n.target for n in traced.graph.nodes if n.target in (aten.bmm.default, aten.mm.default)] == [
        aten.bmm.default
    ]
    assert torch.equal(traced.compiled()(*values), step(*values))


def test_what_python_makes_is_made_anew_each_time() -> None:
    """A counter that begins at 0 in every step is 1 after any of them."""
    count = compiled(lambda x: torch.tensor([0.0]).add_(1) + x, torch.zeros(1))
    assert [float(count(torch.zeros(1))) for _ in range(3)] == [1, 1, 1]  # type: ignore[arg-type]


def test_a_tensor_that_is_not_handed_over_stays_the_one_it_is() -> None:
    """What a model has of its own is neither copied nor looked up again."""
    own = nn.Parameter(torch.ones(2))
    play = compiled(lambda x: x * own + own, torch.zeros(2))
    with torch.no_grad():
        own.fill_(3)
    assert torch.equal(play(torch.ones(2)), torch.full((2,), 6.0))  # type: ignore[arg-type]


def test_a_step_that_looks_at_numbers_is_refused() -> None:
    """They are others in the next step; those of Python's own are not."""
    with pytest.raises(RuntimeError, match="looks at numbers"):
        trace(lambda x: x if x.sum() > 0 else -x, [torch.ones(2)])
    assert compiled(lambda x: x * float(torch.tensor(2.0) + 1), torch.ones(1))(torch.ones(1)) == 3
    with pytest.raises(RuntimeError, match="looks at numbers"):
        trace(lambda x: x * float(torch.tensor(2.0).add_(x.sum())), [torch.ones(2)])


def test_what_is_no_number_is_refused() -> None:
    """A generator would be another in the next step."""
    drawing = torch.Generator()
    with pytest.raises(NotImplementedError, match="a Generator cannot be recorded"):
        trace(lambda x: x + torch.rand(2, generator=drawing), [torch.ones(2)])


def step_by_name(weight: Tensor, x: Tensor) -> list[Tensor]:
    """A product added where it lies, a view, a sum, and two operations that have no name but the dispatcher's."""
    out = torch.relu(torch.addmm(weight.sum(0), x, weight.t()))
    pooled, places = aten.max_pool2d_with_indices.default(out.view(1, 1, 4, 4), [2, 2], [2, 2])
    aten.threshold_backward.grad_input(pooled, pooled, 0.5, grad_input=pooled)
    aten.addmm_.default(weight, out, out, beta=1, alpha=-0.5)
    return [weight, pooled, places, out]


def test_operations_are_called_by_the_names_that_people_call_them_by() -> None:
    """All but the pooling and the threshold, which are torch's inner ones; numbers stay, to the bit."""
    given = torch.randn(4, 4), torch.randn(4, 4)
    traced = trace(step_by_name, [v.clone() for v in given])
    play = traced.compiled()
    mine, theirs = ([v.clone() for v in given] for _ in range(2))
    for found, expected in zip(play(*mine), step_by_name(*theirs), strict=True):
        assert torch.equal(found, expected)
    does = {name: does for name, does in play.__globals__.items() if name.startswith("do_")}
    assert does["do_addmm_default"] is torch.addmm
    assert does["do_addmm__default"] is torch.Tensor.addmm_
    inner = [aten.max_pool2d_with_indices.default._op, aten.threshold_backward.grad_input._op]
    assert [each for each in does.values() if type(each) is type(inner[0]) and each in inner] == inner


def test_results_are_let_go_once_nobody_reads_them() -> None:
    """Ten sums one after the other never lie beside each other."""
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def looked(x: Tensor) -> Tensor:
        nonlocal most
        most = max(most, sum(ref() is not None for ref in alive))
        alive.append(weakref.ref(found := x + 1))
        return found

    def step(x: Tensor) -> Tensor:
        for _ in range(10):
            x = x + 1
        return x

    traced = trace(step, [torch.zeros(2)])
    for node in traced.graph.nodes:
        if node.target is aten.add.Tensor:
            node.target, node.args = looked, node.args[:1]
    gc.disable()
    try:
        assert torch.equal(traced.compiled()(torch.zeros(2)), torch.full((2,), 10.0))
    finally:
        gc.enable()
    assert most <= 1


def test_a_recurrent_layer_keeps_what_its_backward_pass_needs() -> None:
    """Replayed without autograd, it is still one that is trained: oneDNN's, in float32."""

    def step(x: Tensor, *weights: Tensor) -> list[Tensor]:
        weights = tuple(w.detach().requires_grad_() for w in weights)
        start = torch.zeros(1, 3, 8)
        out = torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, False)[0]
        return list(torch.autograd.grad(out.square().sum(), weights))

    values = [torch.rand(5, 3, 8), *(p.detach() for p in nn.LSTM(8, 8).parameters())]
    play = compiled(step, *values)
    others = [v + 0.1 for v in values]
    with torch.no_grad():
        found = play(*others)
    for one, expected in zip(found, step(*others), strict=True):  # type: ignore[call-overload]
        torch.testing.assert_close(one, expected)
