"""Dense products of a recorded step by oneDNN: the same numbers, and only where it is worth it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from unskew.engines import dense_products, rewrite_alone
from unskew.engines.dense_products import mkl_is_half_as_fast, multiply_by_onednn
from unskew.engines.graph import aten, calls
from unskew.engines.traced import Traced, trace

ONEDNN = torch.ops.mkldnn._linear_pointwise.default

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN"
)


def rewritten(step: Callable[..., Any], *values: Tensor) -> Traced:
    """A function's operations, its large products given to oneDNN."""
    traced = trace(step, list(values))
    multiply_by_onednn(traced.graph)
    return traced


def numbers(*shape: int) -> Tensor:
    """The same ones at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def off(found: Tensor, expected: Tensor) -> float:
    """The largest difference, of the largest number: sums cancel, and only what they are sums of says how exact."""
    return float((found - expected).abs().max() / expected.abs().max())


def dense(x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    """A dense layer forwards and backwards, as autograd writes it."""
    weight, bias = weight.detach().requires_grad_(), bias.detach().requires_grad_()
    x = x.detach().requires_grad_()
    out = torch.nn.functional.linear(x, weight, bias)
    return [out, *torch.autograd.grad((out * out).sum(), [x, weight, bias])]


def test_a_large_layer_is_multiplied_by_onednn_three_times() -> None:
    """Forwards, by its inputs and by its weights: 32 samples, 1024 inputs, 128 outputs, to rounding."""
    given = numbers(32, 1024), numbers(128, 1024), numbers(128)
    made = rewritten(dense, *given)
    assert len(calls(made.graph, ONEDNN)) == 3
    assert not calls(made.graph, aten.mm.default, aten.addmm.default)
    for found, expected in zip(made.compiled()(*given), dense(*given), strict=True):
        assert off(found, expected) < 1e-5


@pytest.mark.parametrize(
    ("samples", "dtype"), [(4, torch.float32), (32, torch.float64)], ids=["small", "float64"]
)
def test_small_products_and_other_types_stay_as_they_are(samples: int, dtype: torch.dtype) -> None:
    """4 x 1024 x 128 multiply-adds are over before oneDNN has begun; float64 it does not multiply."""
    given = [v.to(dtype) for v in (numbers(samples, 1024), numbers(128, 1024), numbers(128))]
    made = rewritten(dense, *given)
    assert not calls(made.graph, ONEDNN)
    for found, expected in zip(made.compiled()(*given), dense(*given), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(("samples", "by_onednn"), [(32, 1), (8, 0)])
def test_a_product_added_to_a_weight_is_onednns_where_it_is_long(samples: int, by_onednn: int) -> None:
    """weight += a @ b of 2048 x samples x 1024: of few samples the sum is most of the work, and MKL's does both."""

    def step(weight: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return aten.addmm_.default(weight, a, b)

    def given() -> list[Tensor]:
        return [numbers(2048, 1024), numbers(samples, 2048).t(), numbers(samples, 1024)]

    made = rewritten(step, *given())
    assert len(calls(made.graph, ONEDNN)) == by_onednn
    weight, *factors = given()
    made.compiled()(weight, *factors)
    assert off(weight, given()[0] + factors[0] @ factors[1]) < 1e-5


def test_a_matrix_that_is_added_is_no_bias() -> None:
    """addmm of a whole matrix stays: oneDNN's call adds a row to each."""
    given = numbers(32, 128), numbers(32, 1024), numbers(1024, 128)
    made = rewritten(lambda c, a, b: torch.addmm(c, a, b), *given)
    assert not calls(made.graph, ONEDNN)


@pytest.mark.parametrize(
    "bias", [numbers(256)[::2], numbers(1).expand(128)], ids=["every other", "one for all"]
)
def test_a_bias_with_strides_is_none_either(bias: Tensor) -> None:
    """oneDNN's call takes numbers one after the other, beyond the end of one that is spread."""
    given = bias, numbers(32, 1024), numbers(1024, 128)
    made = rewritten(lambda c, a, b: torch.addmm(c, a, b), *given)
    assert off(made.compiled()(*given), torch.addmm(*given)) < 1e-5


def test_a_recorded_step_multiplies_by_onednn_only_where_mkl_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same step, on a processor of each kind."""
    given = [numbers(128, 1024), numbers(128), numbers(32, 1024), torch.tensor(-0.1)]

    def step(weight: Tensor, bias: Tensor, x: Tensor, move: Tensor) -> list[Tensor]:
        out, _, by_weight, by_bias = dense(x, weight, bias)
        return [by_weight, by_bias, out.sum()]

    for slow in (True, False):
        monkeypatch.setattr(rewrite_alone, "mkl_is_half_as_fast", lambda slow=slow: slow)
        made = trace(step, given)
        rewrite_alone.rewrite_alone(made, 0)
        assert bool(calls(made.graph, ONEDNN)) is slow


@pytest.mark.parametrize(
    ("maker", "level", "slow"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
    ],
)
def test_mkl_is_slow_on_amd_with_avx512(
    monkeypatch: pytest.MonkeyPatch, maker: str, level: str, slow: bool
) -> None:
    """It takes AVX2 there, which is half as wide."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    monkeypatch.setattr(dense_products, "_maker", lambda: maker)
    assert mkl_is_half_as_fast.__wrapped__() is slow


def test_who_made_the_processor_is_unknown_where_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Mac: then MKL is left alone."""

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert dense_products._maker() == ""
