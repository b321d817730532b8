"""Kernels of windowed softmax attention: every query attends to the keys of its own window.

    o_t = Σ_s p_ts v_s,   p_ts = exp(l_ts − L_t),   l_ts = q_t k_sᵀ / √d − λ (age of s at t)

The forward pass stores o and L; the backward pass computes the p again:

    dL_t = − do_t o_tᵀ,   dv_s = Σ_t p_ts do_t,   ds_ts = p_ts (do_t v_sᵀ + dL_t),   dλ = − Σ_ts ds_ts (age of s at t)
    dq_t = Σ_s ds_ts k_s / √d,   dk_s = Σ_t ds_ts q_t / √d

q, o [B, T, H, D]; k and v: N tokens of a ring and T of the piece, [B, N, H, D] and [B, T, H, D], their gradients
[B, N + T − START, H, D], from place START on; L [B, H, T], a logarithm to base two; decay [B, H].
"""

from __future__ import annotations

import triton
import triton.language as tl

from nystream.ops.triton.tiles import FLOOR, LOG2E, biases, extended, position, products, read, tokens, write


@triton.jit
def attend(
    q,
    ring_key,
    key,
    ring_value,
    value,
    first_key,
    last_key,
    decay,
    out,
    lse,
    N,
    T,
    H,
    scale,
    D: tl.constexpr,
    DP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = b * H + h, b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = b * T + tl.minimum(t, T - 1)
    first, last = tl.load(first_key + known), tl.load(last_key + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    queries = tokens(q, b, t, h, T, H, D)
    largest = tl.full([BLOCK_Q], FLOOR, tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    mean = tl.zeros([BLOCK_Q, DP], tl.float32)
    for at in range(tl.min(first, 0), tl.max(last, 0) + 1, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        keys = extended(ring_key, key, b, s, h, N, T, H, D)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None])
        logit = products(queries, keys, D, DP, BLOCK_Q, BLOCK_K, PART, PRECISION) * (scale * LOG2E)
        logit += biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
        new = tl.maximum(largest, tl.max(logit, 1))
        p = tl.exp2(logit - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(p, 1)
        v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP)
        mean = tl.dot(p.to(v.dtype), v, mean * shrink[:, None], input_precision=PRECISION)
        largest = new
    write(tokens(out, b, t, h, T, H, D), mean / total[:, None], t < T, D, DP)
    tl.store(lse + row.to(tl.int64) * T + t, largest + tl.log2(total), mask=t < T)


@triton.jit
def lse_gradient(
    out,
    out_gradient,
    l_gradient,
    T,
    H,
    D: tl.constexpr,
    DP: tl.constexpr,
    BLOCK_Q: tl.constexpr,
):
    """dL."""
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    o = read(tokens(out, b, t, h, T, H, D), D, DP).to(tl.float32)
    do = read(tokens(out_gradient, b, t, h, T, H, D), D, DP).to(tl.float32)
    tl.store(l_gradient + row * T + t, -tl.sum(o * do, 1), mask=t < T)


@triton.jit
def query_gradient(
    q,
    ring_key,
    key,
    ring_value,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out_gradient,
    l_gradient,
    q_gradient,
    decay_gradient,
    N,
    T,
    H,
    scale,
    D: tl.constexpr,
    DP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dq; dλ of every tile in `decay_gradient` [B, H, tiles]."""
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = b * H + h, b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = tl.minimum(t, T - 1)
    first, last = tl.load(first_key + b * T + known), tl.load(last_key + b * T + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    queries, slopes = tokens(q, b, t, h, T, H, D), tokens(out_gradient, b, t, h, T, H, D)
    line = row.to(tl.int64) * T
    whole, dl = tl.load(lse + line + known), tl.load(l_gradient + line + known)
    dq = tl.zeros([BLOCK_Q, DP], tl.float32)
    aged = tl.zeros([BLOCK_Q], tl.float32)
    for at in range(tl.min(first, 0), tl.max(last, 0) + 1, BLOCK_K):
        s = at + tl.arange(0, BLOCK_K)
        keys, values = extended(ring_key, key, b, s, h, N, T, H, D), extended(ring_value, value, b, s, h, N, T, H, D)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None])
        age = (last[:, None] - s[None, :]).to(tl.float32)
        logit = products(queries, keys, D, DP, BLOCK_Q, BLOCK_K, PART, PRECISION) * (scale * LOG2E)
        p = tl.exp2(logit + biases(seen, age, rate, DECAY) - whole[:, None])
        dp = products(slopes, values, D, DP, BLOCK_Q, BLOCK_K, PART, PRECISION)
        ds = p * (dp + dl[:, None])
        k = read(keys, D, DP)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
        if DECAY:
            aged += tl.sum(ds * age, 1)
    write(tokens(q_gradient, b, t, h, T, H, D), dq * scale, t < T, D, DP)
    if DECAY:
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(tl.where(t < T, aged, 0.0), 0))


@triton.jit
def key_gradients(
    q,
    ring_key,
    key,
    ring_value,
    value,
    first_query,
    last_query,
    last_key,
    decay,
    lse,
    out_gradient,
    l_gradient,
    key_gradient,
    value_gradient,
    START,
    N,
    T,
    H,
    scale,
    D: tl.constexpr,
    DP: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dk and dv."""
    S = N + T
    tile, b, h = position(S - START, H, BLOCK_K)
    row, b = b * H + h, b.to(tl.int64)
    s = START + tile * BLOCK_K + tl.arange(0, BLOCK_K)
    known = b * S + tl.minimum(s, S - 1)
    first, last = tl.load(first_query + known), tl.load(last_query + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    keys, values = extended(ring_key, key, b, s, h, N, T, H, D), extended(ring_value, value, b, s, h, N, T, H, D)
    line = row.to(tl.int64) * T
    dk = tl.zeros([BLOCK_K, DP], tl.float32)
    dv = tl.zeros([BLOCK_K, DP], tl.float32)
    for at in range(tl.min(first, 0), tl.max(last, 0) + 1, BLOCK_Q):
        t = at + tl.arange(0, BLOCK_Q)
        t_known = tl.minimum(t, T - 1)
        queries, slopes = tokens(q, b, t, h, T, H, D), tokens(out_gradient, b, t, h, T, H, D)
        whole, dl = tl.load(lse + line + t_known), tl.load(l_gradient + line + t_known)
        seen = (t[None, :] >= first[:, None]) & (t[None, :] <= last[:, None])
        age = (tl.load(last_key + b * T + t_known)[None, :] - tl.minimum(s, S - 1)[:, None]).to(tl.float32)
        logit = products(keys, queries, D, DP, BLOCK_K, BLOCK_Q, PART, PRECISION) * (scale * LOG2E)
        p = tl.exp2(logit + biases(seen, age, rate, DECAY) - whole[None, :])
        do = read(slopes, D, DP)
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)
        dp = products(values, slopes, D, DP, BLOCK_K, BLOCK_Q, PART, PRECISION)
        ds = p * (dp + dl[None, :])
        query = read(queries, D, DP)
        dk = tl.dot(ds.to(query.dtype), query, dk, input_precision=PRECISION)
    write(tokens(key_gradient, b, s - START, h, S - START, H, D), dk * scale, s < S, D, DP)
    write(tokens(value_gradient, b, s - START, h, S - START, H, D), dv, s < S, D, DP)
