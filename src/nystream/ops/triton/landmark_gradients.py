"""Kernels of the gradients of attention through fixed landmarks, with the names of `landmark_kernels`.

With y_j(t) = Σ_s e_jts v_s,

    dw_tj = do_t y_j(t)ᵀ,   dv_s = Σ_tj w_tj e_jts do_t,   dl_js = Σ_t w_tj e_jts (do_t v_sᵀ − dw_tj)
    dλ    = − Σ_tjs w_tj e_jts (do_t v_sᵀ − dw_tj) (age of s at t)

Here, too, a tile has a middle and edges: the queries that see all keys of the tile are summed once for it, and those
that see some of them are taken one by one. dw and dl have the shapes of w and l; dv is [B, S, H, D].
"""

from __future__ import annotations

import triton
import triton.language as tl

from nystream.ops.triton.landmark_kernels import middle_sums
from nystream.ops.triton.tiles import (
    FLOOR,
    LOG2E,
    biases,
    edge_tile,
    edge_tiles,
    extended,
    position,
    products,
    read,
    split,
    tokens,
    write,
)


@triton.jit
def weight_gradient(
    logit,
    ring_value,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out_gradient,
    w_gradient,
    N,
    T,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dw."""
    S = N + T
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = tl.minimum(t, T - 1)
    first, last = tl.load(first_key + b * T + known), tl.load(last_key + b * T + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)
    origin = tl.min(last, 0)

    j = tl.arange(0, MP)
    lines = (row * M + j)[:, None] * T + known[None, :]
    own = tl.load(lse + lines, mask=(j < M)[:, None], other=0.0) + (rate * (last - origin))[None, :]
    reference = tl.min(own, 1)
    sums = middle_sums(
        logit,
        ring_value,
        value,
        reference,
        row,
        b,
        h,
        shared,
        rest,
        origin,
        rate,
        N,
        T,
        H,
        D,
        DP,
        M,
        MP,
        BLOCK_K,
        PRECISION,
    )
    do = read(tokens(out_gradient, b, t, h, T, H, D), D, DP)
    dw = tl.exp2(reference[:, None] - own) * tl.dot(sums, tl.trans(do), input_precision=PRECISION)  # [MP, BLOCK_Q]

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
        bias = biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
        dp = products(
            tokens(out_gradient, b, t, h, T, H, D),
            extended(ring_value, value, b, s, h, N, T, H, D),
            D,
            DP,
            BLOCK_Q,
            BLOCK_K,
            PART,
            PRECISION,
        )
        for i in range(M):
            x = tl.load(logit + (row * M + i) * S + tl.minimum(s, S - 1))
            whole = tl.load(lse + (row * M + i) * T + known)
            part = tl.sum(tl.exp2((x[None, :] + bias) - whole[:, None]) * dp, 1)
            dw += tl.where((j == i)[:, None], part[None, :], 0.0)
    tl.store(w_gradient + lines, dw, mask=(j < M)[:, None] & (t < T)[None, :])


@triton.jit
def middle_gradients(
    weight,
    logit,
    ring_value,
    value,
    first_query,
    last_query,
    last_key,
    decay,
    lse,
    out_gradient,
    w_gradient,
    logit_gradient,
    value_gradient,
    decay_gradient,
    N,
    T,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dl and dv, from the queries that see all keys of a tile; dλ of every tile in `decay_gradient` [B, H, tiles]."""
    S = N + T
    tile, b, h = position(S, H, BLOCK_K)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    s = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    exists, known = s < S, tl.minimum(s, S - 1)
    first, last = tl.load(first_query + b * S + known), tl.load(last_query + b * S + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    _, shared, rest, _ = split(first, last)
    origin = tl.max(known, 0)

    j = tl.arange(0, MP)
    lines = (row * M + j)[:, None] * S + known[None, :]
    real = (j < M)[:, None] & exists[None, :]
    own = tl.load(logit + lines, mask=real, other=float("-inf")) - (rate * (origin - known))[None, :]
    reference = tl.maximum(tl.max(own, 1), FLOOR)  # the queries see all these keys, so it is above none of their L

    # Sums over queries of w exp(r − L) times do and dw, and of the same times the age of `origin`.
    sums, dots = tl.zeros([MP, DP], tl.float32), tl.zeros([MP], tl.float32)
    aged_sums, aged_dots = tl.zeros([MP, DP], tl.float32), tl.zeros([MP], tl.float32)
    for at in range(shared, rest, BLOCK_Q):
        t = at + tl.arange(0, BLOCK_Q)
        t_known = tl.minimum(t, T - 1)
        t_lines = (row * M + j)[:, None] * T + t_known[None, :]
        there = (j < M)[:, None] & (t < rest)[None, :]
        below = reference[:, None] - tl.load(lse + t_lines, mask=there, other=float("inf"))
        age = (tl.load(last_key + b * T + t_known) - origin).to(tl.float32)
        if DECAY:
            below -= (rate * age)[None, :]
        share = tl.load(weight + t_lines, mask=there, other=0.0) * tl.exp2(below)
        dw = tl.load(w_gradient + t_lines, mask=there, other=0.0)
        do = read(tokens(out_gradient, b, t, h, T, H, D), D, DP)
        sums = tl.dot(share, do, sums, input_precision=PRECISION)
        dots += tl.sum(share * dw, 1)
        if DECAY:
            aged = share * age[None, :]
            aged_sums = tl.dot(aged, do, aged_sums, input_precision=PRECISION)
            aged_dots += tl.sum(aged * dw, 1)

    e = tl.exp2(own - reference[:, None])
    v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32)
    slope = tl.dot(sums, tl.trans(v), input_precision=PRECISION) - dots[:, None]
    tl.store(logit_gradient + lines, e * slope, mask=real)
    dv = tl.dot(tl.trans(e), sums, input_precision=PRECISION)
    write(tokens(value_gradient, b, s, h, S, H, D), dv, exists, D, DP)
    if DECAY:
        slope = slope * (origin - known).to(tl.float32)[None, :] - aged_dots[:, None]
        slope += tl.dot(aged_sums, tl.trans(v), input_precision=PRECISION)
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(tl.sum(e * slope, 1), 0))


@triton.jit
def edge_gradients(
    weight,
    logit,
    ring_value,
    value,
    first_query,
    last_query,
    last_key,
    decay,
    lse,
    out_gradient,
    w_gradient,
    logit_gradient,
    value_gradient,
    decay_gradient,
    N,
    T,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dl and dv, with the queries that see some keys of a tile added; the tiles are those of `middle_gradients`."""
    S = N + T
    tile, b, h = position(S, H, BLOCK_K)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    s = tile * BLOCK_K + tl.arange(0, BLOCK_K)
    exists, known = s < S, tl.minimum(s, S - 1)
    first, last = tl.load(first_query + b * S + known), tl.load(last_query + b * S + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)

    j = tl.arange(0, MP)
    lines = (row * M + j)[:, None] * S + known[None, :]
    real = (j < M)[:, None] & exists[None, :]
    dl = tl.load(logit_gradient + lines, mask=real, other=0.0)
    dv = read(tokens(value_gradient, b, s, h, S, H, D), D, DP).to(tl.float32)
    fall = tl.zeros([BLOCK_K], tl.float32)
    before, count = edge_tiles(begin, shared, rest, end, BLOCK_Q)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_Q)
        t = at + tl.arange(0, BLOCK_Q)
        t_known = tl.minimum(t, T - 1)
        seen = (t[None, :] >= first[:, None]) & (t[None, :] <= last[:, None])
        seen = seen & exists[:, None] & (t < until)[None, :]
        age = (tl.load(last_key + b * T + t_known)[None, :] - known[:, None]).to(tl.float32)
        bias = biases(seen, age, rate, DECAY)
        dp = products(
            extended(ring_value, value, b, s, h, N, T, H, D),
            tokens(out_gradient, b, t, h, T, H, D),
            D,
            DP,
            BLOCK_K,
            BLOCK_Q,
            PART,
            PRECISION,
        )
        p = tl.zeros([BLOCK_K, BLOCK_Q], tl.float32)
        slopes = tl.zeros([BLOCK_K, BLOCK_Q], tl.float32)
        for i in range(M):
            x = tl.load(logit + (row * M + i) * S + known)
            whole = tl.load(lse + (row * M + i) * T + t_known)
            w = tl.load(weight + (row * M + i) * T + t_known)
            dw = tl.load(w_gradient + (row * M + i) * T + t_known)
            we = w[None, :] * tl.exp2((x[:, None] + bias) - whole[None, :])
            part = we * (dp - dw[None, :])
            p += we
            dl += tl.where((j == i)[:, None], tl.sum(part, 1)[None, :], 0.0)
            if DECAY:
                slopes += part
        dv = tl.dot(p, read(tokens(out_gradient, b, t, h, T, H, D), D, DP), dv, input_precision=PRECISION)
        if DECAY:
            fall += tl.sum(slopes * age, 1)
    tl.store(logit_gradient + lines, dl, mask=real)
    write(tokens(value_gradient, b, s, h, S, H, D), dv, exists, D, DP)
    if DECAY:
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(fall, 0))
