"""A GPU's kernels for what surrounds the layers of a step of stacked clients: how it begins, its loss, its books.

Each is the work of some ten small kernels of torch's, which take a microsecond or two one after the other.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def begin(
    now, index, weights, rates, seeds, pool, labels, mean, std,
    x, y, weight, rate, seed,
    SAMPLES, C, W, AREA,
    i_s, i_k, i_n, w_s, w_k, w_n, r_s, r_k, s_s, s_k,
    p_n, p_c, p_h, p_w, l_n, m_c, d_c,
    x_n, x_c, x_h, x_w,
    MASKS: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """What the step ``now`` of a plan begins with: samples from the pool, normalised, and what is planned beside them.

    One program takes a tile of places of one sample of one client; a sample's first one its label and its weight, and a
    client's first one the client's rate and the seed of its masks.
    """
    alone, tile = tl.program_id(0), tl.program_id(1)
    client, n = (alone // SAMPLES).to(tl.int64), alone % SAMPLES
    step = tl.load(now)
    at = tl.load(index + step * i_s + client * i_k + n * i_n)
    place, c = tile * BP + tl.arange(0, BP), tl.arange(0, BC)
    row, column = place // W, place % W
    there = (place < AREA)[:, None] & (c < C)[None, :]
    seen = pool + at * p_n + (row * p_h + column * p_w)[:, None] + (c * p_c)[None, :]
    values = tl.load(seen, mask=there, other=0).to(tl.float32)
    middle = tl.load(mean + c * m_c, mask=c < C, other=0.0)
    scale = tl.load(std + c * d_c, mask=c < C, other=1.0)
    # to the bit as torch divides
    values = tl.div_rn(values - middle[None, :], tl.zeros_like(values) + scale[None, :])
    out = x + alone.to(tl.int64) * x_n + (row * x_h + column * x_w)[:, None] + (c * x_c)[None, :]
    tl.store(out, values.to(x.dtype.element_ty), mask=there)
    if tile == 0:
        tl.store(y + alone, tl.load(labels + at * l_n))
        tl.store(weight + alone, tl.load(weights + step * w_s + client * w_k + n * w_n))
        if n == 0:
            tl.store(rate + client, tl.load(rates + step * r_s + client * r_k))
            if MASKS:
                tl.store(seed + client, tl.load(seeds + step * s_s + client * s_k))


@triton.jit
def shares(logits, targets, weights, n, c, client, SAMPLES, C, l_k, l_n, l_c, t_k, t_n, w_k, w_n):
    """Of some samples of a client: each class's share by softmax, which class is right, the loss, and the weight.

    What is padding is looked at by nobody: its logits may be no numbers.
    """
    weight = tl.load(weights + client * w_k + n * w_n, mask=n < SAMPLES, other=0.0)
    there = ((n < SAMPLES) & (weight != 0))[:, None] & (c < C)[None, :]
    seen = tl.load(logits + client * l_k + n[:, None] * l_n + c[None, :] * l_c, mask=there, other=0.0)
    seen = tl.where((c < C)[None, :], seen.to(tl.float32), float("-inf"))
    target = tl.load(targets + client * t_k + n * t_n, mask=n < SAMPLES, other=0)
    right = target[:, None] == c[None, :]
    seen -= tl.max(seen, 1)[:, None]
    powers = tl.exp(seen)
    total = tl.sum(powers, 1)
    loss = tl.log(total) - tl.sum(tl.where(right, seen, 0.0), 1)
    return powers / total[:, None], right, loss, weight


@triton.jit
def cross_entropy(
    logits, targets, weights, found, kept,
    SAMPLES, C,
    l_k, l_n, l_c, t_k, t_n, w_k, w_n,
    BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """A client's mean loss, each sample counting by its weight; kept is by what the sum was divided."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BC)
    total, count = tl.zeros((BN,), tl.float32), tl.zeros((BN,), tl.float32)
    for first in range(0, SAMPLES, BN):
        n = first + tl.arange(0, BN)
        _, _, loss, weight = shares(
            logits, targets, weights, n, c, client, SAMPLES, C, l_k, l_n, l_c, t_k, t_n, w_k, w_n
        )
        total += loss * weight
        count += weight
    whole = tl.maximum(tl.sum(count, 0), 1.0)
    tl.store(found + client, tl.sum(total, 0) / whole)
    tl.store(kept + client, whole)


@triton.jit
def cross_entropy_gradient(
    logits, targets, weights, kept, slopes, out,
    SAMPLES, C,
    l_k, l_n, l_c, t_k, t_n, w_k, w_n, g_k,
    BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The gradient of a client's mean loss by the logits of some of its samples."""
    client = tl.program_id(1).to(tl.int64)
    n, c = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BC)
    share, right, _, weight = shares(
        logits, targets, weights, n, c, client, SAMPLES, C, l_k, l_n, l_c, t_k, t_n, w_k, w_n
    )
    steep = tl.load(slopes + client * g_k) / tl.load(kept + client) * weight
    slope = tl.where((weight != 0)[:, None], steep[:, None] * (share - tl.where(right, 1.0, 0.0)), 0.0)
    place = out + client * SAMPLES * C + n[:, None] * C + c[None, :]
    tl.store(place, slope.to(out.dtype.element_ty), mask=(n < SAMPLES)[:, None] & (c < C)[None, :])


@triton.jit(do_not_specialize=["CLIENTS"])  # one kernel for however many still train
def add_losses(losses, value, weights, CLIENTS, v_k, w_k, BK: tl.constexpr):
    """A step's losses to those of the steps before, but for clients whose batch is all padding, which comes last."""
    client = tl.program_id(0) * BK + tl.arange(0, BK)
    trains = tl.load(weights + client * w_k, mask=client < CLIENTS, other=0.0) > 0
    found = tl.load(value + client * v_k, mask=trains, other=0.0)
    before = tl.load(losses + client, mask=trains, other=0.0)
    tl.store(losses + client, before + found.to(losses.dtype.element_ty), mask=trains)
