"""A GPU's kernels for stacked clients: one kernel convolves, or normalises, with all clients' own weights.

cuDNN runs many clients' convolutions group by group, or client by client: then a step is some hundred and fifty kernels
of a few microseconds, and the longest client's chain of them sets a leg's time. These take all clients at once. A
convolution is a product over patches that are never written: each program reads the places of its tile. Reductions are
in tiles, added in a fixed order, so the same bits come out every time.

Images are [clients, samples, channels, rows, columns] and filters [clients, out, in, rows, columns], with whatever
strides they have; what is written has its channels side by side.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _seen(
    p, q, r, s, H, W,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """Which place of the image the place (r, s) of a filter lies on, and whether there is one.

    ``BACK``: the places of an output that the place (p, q) of its input was seen by, p = row x stride + r - padding.
    """
    if BACK:
        down, right = p + TOP - r, q + LEFT - s
        row, column = down // STRIDE_H, right // STRIDE_W
        met = (down >= 0) & (right >= 0) & (row * STRIDE_H == down) & (column * STRIDE_W == right)
    else:
        row, column = p * STRIDE_H + r - TOP, q * STRIDE_W + s - LEFT
        met = (row >= 0) & (column >= 0)
    return row, column, met & (row < H) & (column < W)


@triton.jit
def convolution(
    x, w, bias, y,
    M, H, W, P, Q, OUT,
    x_k, x_n, x_c, x_h, x_w,
    w_k, w_o, w_c, w_r, w_s,
    b_k, b_o,
    y_k, y_m, y_o,
    C: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr,
    BACK: tl.constexpr, BIASED: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y[m, o] = sum over (r, s, c) of x at place m shifted by (r, s) times w[o, c, r, s], client by client.

    ``BACK``: the gradient by the input; then x is the gradient of the output.
    """
    client = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    o = tl.program_id(1) * BN + tl.arange(0, BN)
    n, place = m // (P * Q), m % (P * Q)
    p, q = place // Q, place % Q
    x_rows = x + client * x_k + n * x_n
    w_rows = w + client * w_k + o * w_o
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, R * S * C, BK):
        if C % BK == 0:  # a tile lies under one place of the filter, so that images are looked up once a row
            tap, c = k // C, tl.multiple_of(k % C, BK) + tl.arange(0, BK)
            row, column, inside = _seen(p, q, tap // S, tap % S, H, W, STRIDE_H, STRIDE_W, TOP, LEFT, BACK)
            there = (x_rows + row * x_h + column * x_w)[:, None] + (c * x_c)[None, :]
            values = tl.load(there, mask=(inside & (m < M))[:, None], other=0.0)
            along = (tap // S) * w_r + (tap % S) * w_s + c * w_c
            if BACK:
                filters = tl.load(w_rows[None, :] + along[:, None], mask=(o < OUT)[None, :], other=0.0)
            else:  # read along what lies side by side
                filters = tl.load(w_rows[:, None] + along[None, :], mask=(o < OUT)[:, None], other=0.0)
                filters = tl.trans(filters)
        else:
            i = k + tl.arange(0, BK)
            c, tap = i % C, i // C
            r, s = tap // S, tap % S
            row, column, inside = _seen(
                p[:, None], q[:, None], r[None, :], s[None, :], H, W, STRIDE_H, STRIDE_W, TOP, LEFT, BACK
            )
            there = x_rows[:, None] + row * x_h + column * x_w + (c * x_c)[None, :]
            inside = inside & (m < M)[:, None] & (i < R * S * C)[None, :]
            values = tl.load(there, mask=inside, other=0.0)
            filters = tl.load(
                w_rows[None, :] + (c * w_c + r * w_r + s * w_s)[:, None],
                mask=(i < R * S * C)[:, None] & (o < OUT)[None, :],
                other=0.0,
            )
        total = tl.dot(values, filters, total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + client * b_k + o * b_o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    out = y + client * y_k + (m * y_m)[:, None] + (o * y_o)[None, :]
    tl.store(out, total.to(y.dtype.element_ty), mask=(m < M)[:, None] & (o < OUT)[None, :])


@triton.jit
def filter_gradient(
    x, dy, dw, db,
    M, H, W, P, Q, OUT, CHUNK, PARTS,
    x_k, x_n, x_c, x_h, x_w,
    d_k, d_m, d_o,
    C: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr,
    BIASED: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """dw[o, (r, s, c)] = sum over places m of dy[m, o] times x at m shifted by (r, s); db[o] = sum of dy[m, o].

    The places are cut into ``PARTS``, each summed by programs of its own into a row of its own of dw
    [clients, parts, out, rows x columns x in].
    """
    alone = tl.program_id(2)
    client, part = (alone // PARTS).to(tl.int64), alone % PARTS
    o = tl.program_id(0) * BN + tl.arange(0, BN)
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    if C % BM == 0:  # a tile lies under one place of the filter
        first = tl.program_id(1) * BM
        tap, c = first // C, tl.multiple_of(first % C, BM) + tl.arange(0, BM)
    else:
        tap, c = i // C, i % C
    r, s = tap // S, tap % S
    total = tl.zeros((BN, BM), tl.float32)
    summed = tl.zeros((BN,), tl.float32)
    last = tl.minimum(M, (part + 1) * CHUNK)
    for k in range(part * CHUNK, last, BK):
        m = k + tl.arange(0, BK)
        n, place = m // (P * Q), m % (P * Q)
        p, q = place // Q, place % Q
        x_rows = x + client * x_k + n * x_n
        if C % BM == 0:
            row, column, inside = _seen(p, q, r, s, H, W, STRIDE_H, STRIDE_W, TOP, LEFT, False)
            there = (x_rows + row * x_h + column * x_w)[:, None] + (c * x_c)[None, :]
            values = tl.load(there, mask=(inside & (m < last))[:, None], other=0.0)
        else:
            row, column, inside = _seen(
                p[:, None], q[:, None], r[None, :], s[None, :], H, W, STRIDE_H, STRIDE_W, TOP, LEFT, False
            )
            there = x_rows[:, None] + row * x_h + column * x_w + (c * x_c)[None, :]
            inside = inside & (m < last)[:, None] & (i < R * S * C)[None, :]
            values = tl.load(there, mask=inside, other=0.0)
        slopes = tl.load(
            dy + client * d_k + (m * d_m)[None, :] + (o * d_o)[:, None],
            mask=(m < last)[None, :] & (o < OUT)[:, None],
            other=0.0,
        )
        total = tl.dot(slopes, values, total, input_precision=PRECISION)
        if BIASED:
            summed += tl.sum(slopes.to(tl.float32), 1)
    rows = (client * PARTS + part) * OUT + o
    out = dw + rows[:, None] * (R * S * C) + i[None, :]
    tl.store(out, total, mask=(o < OUT)[:, None] & (i < R * S * C)[None, :])
    if BIASED:
        if tl.program_id(1) == 0:
            tl.store(db + rows, summed, mask=o < OUT)


@triton.jit
def moments(
    x, weight, found,
    M, AREA, C, TILES,
    x_k, x_m, x_c, w_k, w_n,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Of each tile of places: their weight, weighted mean, and weighted squares around it, channel by channel."""
    client, tile = tl.program_id(2).to(tl.int64), tl.program_id(0)
    m, c = tile * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    counts = tl.load(weight + client * w_k + (m // AREA) * w_n, mask=m < M, other=0.0).to(tl.float32)
    there = x + client * x_k + m[:, None] * x_m + c[None, :] * x_c
    # not only weighted by 0: padding may hold anything, and 0 * inf is nan
    values = tl.load(there, mask=(counts > 0)[:, None] & (c < C)[None, :], other=0.0).to(tl.float32)
    count = tl.sum(counts, 0)
    mean = tl.sum(counts[:, None] * values, 0) / tl.where(count > 0, count, 1.0)
    apart = values - mean[None, :]
    squares = tl.sum(counts[:, None] * apart * apart, 0)
    rows = found + (client * TILES + tile) * 3 * C + c
    tl.store(rows, tl.zeros((BC,), tl.float32) + count, mask=c < C)
    tl.store(rows + C, mean, mask=c < C)
    tl.store(rows + 2 * C, squares, mask=c < C)


@triton.jit
def normalise(
    x, weight, scale, shift, running_mean, running_var, found, y, kept,
    M, AREA, C, TILES,
    x_k, x_m, x_c, w_k, w_n, s_k, b_k, r_k, v_k,
    EPS, MOMENTUM,
    RUNS: tl.constexpr, RELU: tl.constexpr, AFFINE: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Batch norm by the tiles' moments, and ReLU where it follows; the first tile's program moves the averages."""
    client, tile = tl.program_id(2).to(tl.int64), tl.program_id(0)
    m, c = tile * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    t = tl.arange(0, BT)
    rows = found + (client * TILES + t)[:, None] * 3 * C + c[None, :]
    there = (t < TILES)[:, None] & (c < C)[None, :]
    counts = tl.load(rows, mask=there, other=0.0)
    means = tl.load(rows + C, mask=there, other=0.0)
    count = tl.sum(counts, 0)
    total = tl.where(count > 0, count, 1.0)
    mean = tl.sum(counts * means, 0) / total
    apart = means - mean[None, :]
    squares = tl.sum(tl.load(rows + 2 * C, mask=there, other=0.0) + counts * apart * apart, 0)
    variance = squares / total
    rate = tl.rsqrt(variance + EPS)
    if tile == 0:
        tl.store(kept + client * 3 * C + c, mean, mask=c < C)
        tl.store(kept + client * 3 * C + C + c, rate, mask=c < C)
        tl.store(kept + client * 3 * C + 2 * C + c, count, mask=c < C)
        if RUNS:
            at = running_mean + client * r_k + c
            old = tl.load(at, mask=c < C, other=0.0)
            tl.store(at, old + tl.where(count > 0, MOMENTUM * (mean - old), 0.0), mask=c < C)
            at = running_var + client * v_k + c
            old = tl.load(at, mask=c < C, other=0.0)
            unbiased = variance * count / tl.where(count > 1, count - 1, 1.0)
            tl.store(at, old + tl.where(count > 1, MOMENTUM * (unbiased - old), 0.0), mask=c < C)
    counted = tl.load(weight + client * w_k + (m // AREA) * w_n, mask=m < M, other=0.0) > 0
    place = client * M * C + m[:, None] * C + c[None, :]
    seen = x + client * x_k + m[:, None] * x_m + c[None, :] * x_c
    values = tl.load(seen, mask=counted[:, None] & (c < C)[None, :], other=0.0).to(tl.float32)
    if AFFINE:
        rate = rate * tl.load(scale + client * s_k + c, mask=c < C, other=0.0)
    out = (values - mean[None, :]) * rate[None, :]
    if AFFINE:
        out += tl.load(shift + client * b_k + c, mask=c < C, other=0.0)[None, :]
    if RELU:
        out = tl.maximum(out, 0.0)
    tl.store(y + place, out.to(y.dtype.element_ty), mask=(m < M)[:, None] & (c < C)[None, :])


@triton.jit
def slopes_seen(
    x, weight, scale, shift, kept, dy, m, c, client,
    M, AREA, C, x_k, x_m, x_c, w_k, w_n, s_k, b_k, d_k, d_m, d_c,
    RELU: tl.constexpr, AFFINE: tl.constexpr,
):  # fmt: skip
    """Of a tile: the output's gradient (through ReLU), the normalised values, and what normalising multiplied by."""
    counts = tl.load(weight + client * w_k + (m // AREA) * w_n, mask=m < M, other=0.0).to(tl.float32)
    mean = tl.load(kept + client * 3 * C + c, mask=c < C, other=0.0)
    rate = tl.load(kept + client * 3 * C + C + c, mask=c < C, other=0.0)
    there = (m < M)[:, None] & (c < C)[None, :]
    seen = x + client * x_k + m[:, None] * x_m + c[None, :] * x_c
    values = tl.load(seen, mask=there & (counts > 0)[:, None], other=0.0).to(tl.float32)
    slopes = tl.load(dy + client * d_k + m[:, None] * d_m + c[None, :] * d_c, mask=there, other=0.0)
    slopes = slopes.to(tl.float32)
    normal = (values - mean[None, :]) * rate[None, :]
    if AFFINE:
        multiplied = tl.load(scale + client * s_k + c, mask=c < C, other=0.0)
    else:
        multiplied = tl.zeros_like(mean) + 1.0
    if RELU:
        out = normal * multiplied[None, :]
        if AFFINE:
            out += tl.load(shift + client * b_k + c, mask=c < C, other=0.0)[None, :]
        slopes = tl.where(out > 0, slopes, 0.0)
    slopes = tl.where(there, slopes, 0.0)
    return counts, slopes, normal, multiplied * rate


@triton.jit
def norm_sums(
    x, weight, scale, shift, kept, dy, found,
    M, AREA, C, TILES,
    x_k, x_m, x_c, w_k, w_n, s_k, b_k, d_k, d_m, d_c,
    RELU: tl.constexpr, AFFINE: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Of each tile: the sum of the output's gradient, and of its product with the normalised values."""
    client, tile = tl.program_id(2).to(tl.int64), tl.program_id(0)
    m, c = tile * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    counts, slopes, normal, rate = slopes_seen(
        x, weight, scale, shift, kept, dy, m, c, client,
        M, AREA, C, x_k, x_m, x_c, w_k, w_n, s_k, b_k, d_k, d_m, d_c, RELU, AFFINE,
    )  # fmt: skip
    rows = found + (client * TILES + tile) * 2 * C + c
    tl.store(rows, tl.sum(slopes, 0), mask=c < C)
    tl.store(rows + C, tl.sum(slopes * normal, 0), mask=c < C)


@triton.jit
def norm_gradient(
    x, weight, scale, shift, kept, dy, found, dx, dscale, dshift,
    M, AREA, C, TILES,
    x_k, x_m, x_c, w_k, w_n, s_k, b_k, d_k, d_m, d_c,
    RELU: tl.constexpr, AFFINE: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Batch norm's gradient by its input, its scale and its shift.

    With n the weight behind a channel, h the normalised values and g the output's gradient, a place of weight w has
    dx = scale x rate x (g - w / n (sum of g + h x sum of g h)).
    """
    client, tile = tl.program_id(2).to(tl.int64), tl.program_id(0)
    m, c = tile * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    counts, slopes, normal, rate = slopes_seen(
        x, weight, scale, shift, kept, dy, m, c, client,
        M, AREA, C, x_k, x_m, x_c, w_k, w_n, s_k, b_k, d_k, d_m, d_c, RELU, AFFINE,
    )  # fmt: skip
    t = tl.arange(0, BT)
    rows = found + (client * TILES + t)[:, None] * 2 * C + c[None, :]
    there = (t < TILES)[:, None] & (c < C)[None, :]
    plain = tl.sum(tl.load(rows, mask=there, other=0.0), 0)
    turned = tl.sum(tl.load(rows + C, mask=there, other=0.0), 0)
    if AFFINE:
        if tile == 0:
            tl.store(dshift + client * C + c, plain, mask=c < C)
            tl.store(dscale + client * C + c, turned, mask=c < C)
    count = tl.load(kept + client * 3 * C + 2 * C + c, mask=c < C, other=1.0)
    share = counts[:, None] / tl.where(count > 0, count, 1.0)[None, :]
    out = rate[None, :] * (slopes - share * (plain[None, :] + normal * turned[None, :]))
    out = tl.where((counts > 0)[:, None], out, 0.0)
    place = client * M * C + m[:, None] * C + c[None, :]
    tl.store(dx + place, out.to(dx.dtype.element_ty), mask=(m < M)[:, None] & (c < C)[None, :])


@triton.jit
def pool(
    x, y, which,
    M, P, Q, C,
    x_k, x_n, x_h, x_w,
    TALL: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The largest of each window of TALL x WIDE places, and which of them it was, the first of equals."""
    client = tl.program_id(2).to(tl.int64)
    m, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    n, place = m // (P * Q), m % (P * Q)
    corner = x + client * x_k + n * x_n + (place // Q) * TALL * x_h + (place % Q) * WIDE * x_w
    there = (m < M)[:, None] & (c < C)[None, :]
    best = tl.full((BM, BC), float("-inf"), tl.float32)
    at = tl.zeros((BM, BC), tl.int32)
    for i in tl.static_range(TALL * WIDE):
        seen = corner + (i // WIDE) * x_h + (i % WIDE) * x_w
        value = tl.load(seen[:, None] + c[None, :], mask=there, other=0.0).to(tl.float32)
        larger = (value > best) | (value != value)  # what is no number stays, as in torch
        best, at = tl.where(larger, value, best), tl.where(larger, i, at)
    out = client * M * C + m[:, None] * C + c[None, :]
    tl.store(y + out, best.to(y.dtype.element_ty), mask=there)
    tl.store(which + out, at.to(tl.uint8), mask=there)


@triton.jit
def pool_gradient(
    dy, which, dx,
    M, P, Q, C,
    d_k, d_n, d_h, d_w, x_k, x_n, x_h, x_w,
    TALL: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """To the largest of each window goes its gradient, to the others 0."""
    client = tl.program_id(2).to(tl.int64)
    m, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BC + tl.arange(0, BC)
    n, place = m // (P * Q), m % (P * Q)
    p, q = place // Q, place % Q
    there = (m < M)[:, None] & (c < C)[None, :]
    rows = dy + client * d_k + n * d_n + p * d_h + q * d_w
    slope = tl.load(rows[:, None] + c[None, :], mask=there, other=0.0)
    at = tl.load(which + client * M * C + m[:, None] * C + c[None, :], mask=there, other=0)
    corner = dx + client * x_k + n * x_n + p * TALL * x_h + q * WIDE * x_w
    for i in tl.static_range(TALL * WIDE):
        seen = corner + (i // WIDE) * x_h + (i % WIDE) * x_w
        tl.store(
            seen[:, None] + c[None, :], tl.where(at == i, slope, 0.0).to(dx.dtype.element_ty), mask=there
        )


@triton.jit
def drop(x, seed, y, COUNT, x_k, s_k, KEPT, LEAST, STREAM, BN: tl.constexpr):
    """Dropout by the words of ``unskew.models.random_words``: as many values as COUNT, those below LEAST left out."""
    client = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    key = tl.load(seed + client * s_k)
    first, second = (key ^ STREAM).to(tl.int32), (key >> 32).to(tl.int32)
    word = (i ^ first) * 0x1E3779B9 + second
    word = ((word >> 15) ^ word) * 0x7FEB352D
    word = ((word >> 13) ^ word) * 0x119DE1F3
    value = tl.load(x + client * x_k + i, mask=i < COUNT, other=0.0)
    out = tl.where(word >= LEAST, value.to(tl.float32) * KEPT, 0.0)
    tl.store(y + client * COUNT + i, out.to(y.dtype.element_ty), mask=i < COUNT)
