"""Dense products of a recorded step by oneDNN, on processors where MKL uses half of what they have.

Torch multiplies matrices with MKL, which takes AVX2 on AMD's processors also where they have AVX-512; oneDNN, which
torch convolves with, takes what there is. Both are rounding apart. Who multiplies depends on the processor and on
sizes alone, never on a measured time, so that a run repeats to the bit.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph

from unskew.engines.graph import aten, calls, form, swap

WORTH_IT = 2_000_000
"""Multiply-adds of a product from which on oneDNN is faster than MKL, for all that its call takes longer."""

ROWS_TO_ADD = 16
"""Samples in a batch from which on a weight's gradient is faster made and then added than added as it is made."""


@functools.cache
def mkl_is_half_as_fast() -> bool:
    """Whether this is a processor with AVX-512 that MKL does not know as one, and torch has oneDNN."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and _maker() == "AuthenticAMD"
    )


def _maker() -> str:
    """Who made the processor, where Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id"))
    return next(found, "")


def multiply_by_onednn(graph: Graph) -> None:
    """Give oneDNN the large products of a step: those of a dense layer, forwards, backwards, and of its gradient."""
    for node in calls(graph, aten.mm.default, aten.addmm.default, aten.addmm_.default):
        *added, left, right = node.args
        if node.kwargs or not _large(left, right):
            continue
        if node.target is aten.addmm_.default:
            if form(left).shape[1] >= ROWS_TO_ADD:
                with graph.inserting_before(node):
                    product = _product(graph, left, right, None)
                    swap(node, graph.call_function(aten.add_.Tensor, (added[0], product)))
        elif all(_is_row(bias) for bias in added):
            with graph.inserting_before(node):
                product = _product(graph, left, right, *(added or [None]))
            product.meta = node.meta
            swap(node, product)


def _large(left: Any, right: Any) -> bool:
    forms = form(left), form(right)
    if None in forms or any(known.dtype != torch.float32 for known in forms):
        return False
    (rows, inner), columns = forms[0].shape, forms[1].shape[1]
    return bool(rows * inner * columns >= WORTH_IT)


def _is_row(bias: Any) -> bool:
    """Whether a bias is one number after the other in memory: oneDNN's call looks at no strides and reads on."""
    known = form(bias)
    return known is not None and len(known.shape) == 1 and known.stride == (1,)


def _product(graph: Graph, left: Any, right: Any, bias: Any) -> Any:
    """``left @ right + bias``; oneDNN wants the right one turned, and the left one row by row."""
    if form(left).stride != (form(left).shape[1], 1):
        left = graph.call_function(aten.clone.default, (left,), {"memory_format": torch.contiguous_format})
    turned = (
        right.args[0] if right.target is aten.t.default else graph.call_function(aten.t.default, (right,))
    )
    arguments: tuple[Any, ...] = (left, turned, bias, "none", [], "")
    return graph.call_function(torch.ops.mkldnn._linear_pointwise.default, arguments)
