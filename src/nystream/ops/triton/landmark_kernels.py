"""Kernels of attention through fixed landmarks: Σ_j w_tj (Δ_φ V)_j over the window of every query t.

    o_t = Σ_j w_tj Σ_s e_jts v_s,   e_jts = exp(l_js − λ (age of s at t) − L_j(t)),   Σ_s e_jts = 1

The logits of a landmark do not depend on the query. So the keys that all queries of a tile see, the middle of their
windows, are summed once for the tile: m sums, relative to a reference r_j from which no exponential can overflow. Only
the edges, about as many keys on each side as the tile has queries, are seen by some queries and not by others; their
exponentials are computed for every query, key and landmark, relative to L_j(t). The forward pass stores o and L.

w, L [B, H, m, T]; l [B, H, m, S]; l and L are logarithms to base two; o [B, T, H, D]; decay [B, H];
v: N tokens of a ring and T of the piece, [B, N, H, D] and [B, T, H, D], its gradient [B, S, H, D], S = N + T.
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
    extended,
    position,
    read,
    split,
    tokens,
    write,
)


@triton.jit
def normalize(
    logit,
    first_key,
    last_key,
    decay,
    lse,
    N,
    T,
    H,
    M: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """L, of one landmark for each program; 0 for a window without tokens."""
    S = N + T
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
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Σ_s exp(l_js − λ (age of s at `origin`) − r_j) v_s over the middle: [MP, DP]."""
    S = N + T
    j = tl.arange(0, MP)
    sums = tl.zeros([MP, DP], tl.float32)
    for at in range(shared, rest, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        exists = (j < M)[:, None] & (s < rest)[None, :]
        x = tl.load(logit + (row * M + j)[:, None] * S + s[None, :], mask=exists, other=float("-inf"))
        e = tl.exp2(x - (rate * (origin - s))[None, :] - reference[:, None])
        v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32)
        sums = tl.dot(e, v, sums, input_precision=PRECISION)
    return sums


@triton.jit
def attend(
    weight,
    logit,
    ring_value,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out,
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
    """o, given L."""
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
    reference = tl.min(own, 1)  # all queries see the middle, so none of its logits is above any L
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
        o = tl.dot(
            p,
            read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32),
            o,
            input_precision=PRECISION,
        )
    write(tokens(out, b, t, h, T, H, D), o, t < T, D, DP)
