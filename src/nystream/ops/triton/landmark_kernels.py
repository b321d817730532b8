"""Kernels of attention through fixed landmarks: Σ_j w_tj (Δ_φ V)_j over the window of every query t.

    o_t = Σ_j w_tj Σ_s e_jts v_s,   e_jts = exp(l_js − λ (age of s at t) − L_j(t)),   Σ_s e_jts = 1

The logits of a landmark do not depend on the query. So the keys that all queries of a tile see, the middle of their
windows, are summed once for the tile: m sums, relative to a reference r_j from which no exponential can overflow. Only
the edges, about as many keys on each side as the tile has queries, are seen by some queries and not by others; their
exponentials are computed for every query, key and landmark, relative to L_j(t). The forward pass stores o and L. With
y_j(t) = Σ_s e_jts v_s, the backward pass is

    dw_tj = do_t y_j(t)ᵀ,   dv_s = Σ_tj w_tj e_jts do_t,   dl_js = Σ_t w_tj e_jts (do_t v_sᵀ − dw_tj)
    dλ    = − Σ_tjs w_tj e_jts (do_t v_sᵀ − dw_tj) (age of s at t)

where the queries that see all keys of a tile are summed once for the tile in the same way.

w, L [B, H, m, T]; l [B, H, m, S]; l and L are logarithms to base two; v [B, S, H, D]; o [B, T, H, D]; decay [B, H].
"""

from __future__ import annotations

import triton
import triton.language as tl

from nystream.ops.triton.tiles import (
    FLOOR,
    LOG2E,
    biases,
    edge_tile,
    edge_tiles,
    inside,
    position,
    products,
    read,
    rows,
    split,
)


@triton.jit
def normalize(
    logit,
    first_key,
    last_key,
    decay,
    lse,
    T,
    S,
    H,
    M: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """L, of one landmark for each program; 0 for a window without tokens."""
    tile, b, hj = position(T, H * M, BLOCK_Q)
    line = (b * H * M + hj).to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = b.to(tl.int64) * T + tl.minimum(t, T - 1)
    first, last = tl.load(first_key + known), tl.load(last_key + known)
    rate = tl.load(decay + b * H + hj // M) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)
    origin = tl.min(last, 0)  # ages in the middle count from here
    l_line = logit + line * S

    lane_largest = tl.full([BLOCK_K], FLOOR, tl.float32)
    lane_total = tl.zeros([BLOCK_K], tl.float32)
    for at in range(shared, rest, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        x = tl.load(l_line + s, mask=s < rest, other=float("-inf")) - rate * (origin - s)
        new = tl.maximum(lane_largest, x)
        lane_total = lane_total * tl.exp2(lane_largest - new) + tl.exp2(x - new)
        lane_largest = new
    middle = tl.max(lane_largest, 0)
    largest = middle - rate * (last - origin)
    total = tl.sum(lane_total * tl.exp2(lane_largest - middle), 0) + tl.zeros([BLOCK_Q], tl.float32)

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
        x = tl.load(l_line + s, mask=s < until, other=float("-inf"))
        x = x[None, :] + biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
        new = tl.maximum(largest, tl.max(x, 1))
        total = total * tl.exp2(largest - new) + tl.sum(tl.exp2(x - new[:, None]), 1)
        largest = new
    some = total > 0
    whole = tl.where(some, largest + tl.log2(tl.where(some, total, 1.0)), 0.0)
    tl.store(lse + line * T + t, whole, mask=t < T)


@triton.jit
def middle_sums(
    logit,
    value,
    reference,
    row,
    b,
    h,
    shared,
    rest,
    origin,
    rate,
    S,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Σ_s exp(l_js − λ (age of s at `origin`) − r_j) v_s over the middle: [MP, DP]."""
    j = tl.arange(0, MP)
    sums = tl.zeros([MP, DP], tl.float32)
    for at in range(shared, rest, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        exists = (j < M)[:, None] & (s < rest)[None, :]
        x = tl.load(logit + (row * M + j)[:, None] * S + s[None, :], mask=exists, other=float("-inf"))
        e = tl.exp2(x - (rate * (origin - s))[None, :] - reference[:, None])
        v = read(value, b, s, h, S, H, D, DP).to(tl.float32)
        sums = tl.dot(e, v, sums, input_precision=PRECISION)
    return sums


@triton.jit
def attend(
    weight,
    logit,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out,
    T,
    S,
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
    """o, given L."""
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
    reference = tl.min(own, 1)  # all queries see the middle, so none of its logits is above any L
    sums = middle_sums(
        logit, value, reference, row, b, h, shared, rest, origin, rate, S, H, D, DP, M, MP, BLOCK_K, PRECISION
    )
    share = tl.load(weight + lines, mask=(j < M)[:, None], other=0.0) * tl.exp2(reference[:, None] - own)
    o = tl.dot(tl.trans(share), sums, input_precision=PRECISION)

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
        bias = biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
        p = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
        for i in range(M):
            x = tl.load(logit + (row * M + i) * S + tl.minimum(s, S - 1))
            whole = tl.load(lse + (row * M + i) * T + known)
            w = tl.load(weight + (row * M + i) * T + known)
            p += w[:, None] * tl.exp2((x[None, :] + bias) - whole[:, None])
        o = tl.dot(p, read(value, b, s, h, S, H, D, DP).to(tl.float32), o, input_precision=PRECISION)
    tl.store(rows(out, b, t, h, T, H, D, DP), o, mask=inside(t, T, D, DP))


@triton.jit
def weight_gradient(
    logit,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out_gradient,
    w_gradient,
    T,
    S,
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
        logit, value, reference, row, b, h, shared, rest, origin, rate, S, H, D, DP, M, MP, BLOCK_K, PRECISION
    )
    do = read(out_gradient, b, t, h, T, H, D, DP)
    dw = tl.exp2(reference[:, None] - own) * tl.dot(sums, tl.trans(do), input_precision=PRECISION)  # [MP, BLOCK_Q]

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
        bias = biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
        dp = products(out_gradient, t, T, value, s, S, b, h, H, D, DP, BLOCK_Q, BLOCK_K, PART, PRECISION)
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
    T,
    S,
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
        do = read(out_gradient, b, t, h, T, H, D, DP)
        sums = tl.dot(share, do, sums, input_precision=PRECISION)
        dots += tl.sum(share * dw, 1)
        if DECAY:
            aged = share * age[None, :]
            aged_sums = tl.dot(aged, do, aged_sums, input_precision=PRECISION)
            aged_dots += tl.sum(aged * dw, 1)

    e = tl.exp2(own - reference[:, None])
    v = read(value, b, s, h, S, H, D, DP).to(tl.float32)
    slope = tl.dot(sums, tl.trans(v), input_precision=PRECISION) - dots[:, None]
    tl.store(logit_gradient + lines, e * slope, mask=real)
    dv = tl.dot(tl.trans(e), sums, input_precision=PRECISION)
    tl.store(rows(value_gradient, b, s, h, S, H, D, DP), dv, mask=inside(s, S, D, DP))
    if DECAY:
        slope = slope * (origin - known).to(tl.float32)[None, :] - aged_dots[:, None]
        slope += tl.dot(aged_sums, tl.trans(v), input_precision=PRECISION)
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(tl.sum(e * slope, 1), 0))


@triton.jit
def edge_gradients(
    weight,
    logit,
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
    T,
    S,
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
    dv = tl.load(rows(value_gradient, b, known, h, S, H, D, DP), mask=inside(s, S, D, DP), other=0.0).to(tl.float32)
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
        dp = products(value, s, S, out_gradient, t, T, b, h, H, D, DP, BLOCK_K, BLOCK_Q, PART, PRECISION)
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
        dv = tl.dot(p, read(out_gradient, b, t, h, T, H, D, DP), dv, input_precision=PRECISION)
        if DECAY:
            fall += tl.sum(slopes * age, 1)
    tl.store(logit_gradient + lines, dl, mask=real)
    tl.store(rows(value_gradient, b, s, h, S, H, D, DP), dv, mask=inside(s, S, D, DP))
    if DECAY:
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(fall, 0))
