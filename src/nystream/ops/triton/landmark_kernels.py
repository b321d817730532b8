"""Kernels of attention through fixed landmarks: Σ_j w_tj (Δ_φ V)_j over the window of every query t.

    o_t = Σ_j w_tj Σ_s e_jts v_s,   e_jts = exp(l_js − λ (age of s at t) − L_j(t)),   Σ_s e_jts = 1

The logits of a landmark do not depend on the query. So the keys that all queries of a tile see, the middle of their
windows, are summed once for the tile: m sums, relative to a reference r_j from which no exponential can overflow. Only
the edges, about as many keys on each side as the tile has queries, are seen by some queries and not by others. There,

    e_jts = exp(l_js − λ (age of s at an origin) − c_j) exp(c_j + λ (age of the origin at t) − L_j(t))

has a factor for the key and one for the query, so that sums over landmarks are matrix products. If c_j, the largest
logit of a tile of keys, is so far above an L_j(t) that the factors might leave the range of float32, the exponentials
of this tile are computed for every query, key and landmark instead. The forward pass stores o and L.

w, L [H, m, B, T]; l [H, m, B, S]; l and L are logarithms to base two; o [B, T, H, D]; decay [B, H];
v: N tokens of a ring and T of the piece, [B, N, H, D] and [B, T, H, D], S = N + T.
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

REACH = tl.constexpr(60.0)  # how far a logit may be above L: products with small gradients stay normal numbers
LEAST = tl.constexpr(2.0**-60)


@triton.jit
def lines(x, b, h, B, length, M: tl.constexpr):
    """Pointer to the first number of row b and head h in x [H, M, B, length]."""
    return x + (h * M * B + b) * length


@triton.jit
def logits(
    logit,
    s,
    until,
    origin,
    rate,
    stride,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
):
    """l_js − λ (age of s at `origin`) of the keys s before `until`: [MP, K]; −inf for what does not exist.

    `logit` points to the first line of a row and head, `stride` numbers before the next one.
    """
    j = tl.arange(0, MP)
    exists = (j < M)[:, None] & (s < until)[None, :]
    x = tl.load(logit + (j[:, None] * stride + s[None, :]), mask=exists, other=float("-inf"))
    if DECAY:
        x -= (rate * (origin - s))[None, :]
    return x


@triton.jit
def sees(first, last, at, until):
    """Whether a query sees any of the keys from `at` to `until`: [Q]. With a decay, L of others may be far away."""
    return (last >= at) & (first < until)


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
    B,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """L; 0 for a window without tokens."""
    S = N + T
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = tl.minimum(t, T - 1)
    first, last = tl.load(first_key + b * T + known), tl.load(last_key + b * T + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)
    logit, lse = lines(logit, b, h, B, S, M), lines(lse, b, h, B, T, M)
    origin = tl.min(last, 0)  # ages count from here

    lane_largest = tl.full([MP, BLOCK_K], FLOOR, tl.float32)
    lane_total = tl.zeros([MP, BLOCK_K], tl.float32)
    for at in range(shared, rest, BLOCK_K):
        x = logits(logit, at + tl.arange(0, BLOCK_K), rest, origin, rate, B * S, M, MP, DECAY)
        new = tl.maximum(lane_largest, x)
        lane_total = lane_total * tl.exp2(lane_largest - new) + tl.exp2(x - new)
        lane_largest = new
    middle = tl.max(lane_largest, 1)
    sums = tl.sum(lane_total * tl.exp2(lane_largest - middle[:, None]), 1)
    largest = middle[:, None] + tl.zeros([MP, BLOCK_Q], tl.float32)
    total = sums[:, None] + tl.zeros([MP, BLOCK_Q], tl.float32)

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[:, None] >= first[None, :]) & (s[:, None] <= last[None, :])
        x = logits(logit, s, until, origin, rate, B * S, M, MP, DECAY)
        top = tl.maximum(tl.max(x, 1), FLOOR)
        new = tl.where(sees(first, last, at, until)[None, :], tl.maximum(largest, top[:, None]), largest)
        # Always as exact as this, because all weights of a landmark have the error of their sum.
        part = tl.dot(tl.exp2(x - top[:, None]), seen.to(tl.float32), input_precision="tf32x3")
        total = total * tl.exp2(largest - new) + part * tl.exp2(tl.minimum(top[:, None] - new, 0.0))
        largest = new

    j = tl.arange(0, MP)
    total = tl.where((j < M)[:, None], total, 1.0)
    if tl.min(tl.min(total, 1), 0) > LEAST:
        whole = largest + tl.log2(total)
        if DECAY:
            whole -= (rate * (last - origin))[None, :]
        tl.store(lse + (j[:, None] * (B * T) + t[None, :]), whole, mask=(j < M)[:, None] & (t < T)[None, :])
    else:  # a query does not see the logits to which its own are so small
        for i in range(M):
            own_largest = tl.full([BLOCK_Q], FLOOR, tl.float32)
            own_total = tl.zeros([BLOCK_Q], tl.float32)
            for at in range(begin, end, BLOCK_K):
                s = at + tl.arange(0, BLOCK_K)
                seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None])
                x = tl.load(logit + i * (B * S) + tl.minimum(s, S - 1))[None, :]
                x += biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
                new = tl.maximum(own_largest, tl.max(x, 1))
                own_total = own_total * tl.exp2(own_largest - new) + tl.sum(tl.exp2(x - new[:, None]), 1)
                own_largest = new
            some = own_total > 0
            whole = tl.where(some, own_largest + tl.log2(tl.where(some, own_total, 1.0)), 0.0)
            tl.store(lse + i * (B * T) + t, whole, mask=t < T)


@triton.jit
def middle_sums(
    logit,
    ring_value,
    value,
    reference,
    b,
    h,
    shared,
    rest,
    origin,
    rate,
    N,
    T,
    H,
    B,
    D: tl.constexpr,
    DP: tl.constexpr,
    M: tl.constexpr,
    MP: tl.constexpr,
    DECAY: tl.constexpr,
    AGED: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Σ_s e_js v_s over the middle, e_js = exp(l_js − λ (age of s at `origin`) − r_j): [MP, DP].

    Also Σ_s e_js (age of s at `origin`) v_s and the same without v_s, [MP], if AGED.
    """
    sums, aged_sums = tl.zeros([MP, DP], tl.float32), tl.zeros([MP, DP], tl.float32)
    aged_total = tl.zeros([MP], tl.float32)
    for at in range(shared, rest, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        e = tl.exp2(logits(logit, s, rest, origin, rate, B * (N + T), M, MP, DECAY) - reference[:, None])
        v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32)
        sums = tl.dot(e, v, sums, input_precision=PRECISION)
        if AGED:
            aged = e * (origin - s).to(tl.float32)[None, :]
            aged_sums = tl.dot(aged, v, aged_sums, input_precision=PRECISION)
            aged_total += tl.sum(aged, 1)
    return sums, aged_sums, aged_total


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
    B,
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
    logit, weight, lse = lines(logit, b, h, B, S, M), lines(weight, b, h, B, T, M), lines(lse, b, h, B, T, M)
    origin = tl.min(last, 0)

    j = tl.arange(0, MP)
    places = j[:, None] * (B * T) + known[None, :]
    own = tl.load(lse + places, mask=(j < M)[:, None], other=0.0)
    if DECAY:
        own += (rate * (last - origin))[None, :]
    w = tl.load(weight + places, mask=(j < M)[:, None], other=0.0)
    reference = tl.min(own, 1)  # all queries see the middle, so none of its logits is above any L
    sums, _, _ = middle_sums(
        logit,
        ring_value,
        value,
        reference,
        b,
        h,
        shared,
        rest,
        origin,
        rate,
        N,
        T,
        H,
        B,
        D,
        DP,
        M,
        MP,
        DECAY,
        False,
        BLOCK_K,
        PRECISION,
    )
    o = tl.dot(tl.trans(w * tl.exp2(reference[:, None] - own)), sums, input_precision=PRECISION)

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
        x = logits(logit, s, until, origin, rate, B * S, M, MP, DECAY)
        top = tl.maximum(tl.max(x, 1), FLOOR)
        above = top[:, None] - tl.where(sees(first, last, at, until)[None, :], own, float("inf"))
        if tl.max(tl.max(above, 1), 0) < REACH:
            share = w * tl.exp2(above)
            p = tl.dot(tl.trans(share), tl.exp2(x - top[:, None]), input_precision=PRECISION)
            p = tl.where(seen, p, 0.0)
        else:
            p = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
            bias = biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
            for i in range(M):
                l_i = tl.load(logit + i * (B * S) + tl.minimum(s, S - 1))
                whole = tl.load(lse + i * (B * T) + known)
                w_i = tl.load(weight + i * (B * T) + known)
                p += w_i[:, None] * tl.exp2((l_i[None, :] + bias) - whole[:, None])
        v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32)
        o = tl.dot(p, v, o, input_precision=PRECISION)
    write(tokens(out, b, t, h, T, H, D), o, t < T, D, DP)
