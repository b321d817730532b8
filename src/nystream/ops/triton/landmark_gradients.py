"""Kernels of the gradients of attention through fixed landmarks, with the names of `landmark_kernels`.

With y_j(t) = Σ_s e_jts v_s,

    dw_tj = do_t y_j(t)ᵀ,   dv_s = Σ_tj w_tj e_jts do_t,   dl_js = Σ_t w_tj e_jts (do_t v_sᵀ − dw_tj)
    dλ    = − Σ_tjs w_tj e_jts (do_t v_sᵀ − dw_tj) (age of s at any origin)

since Σ_s e_jts (do_t v_sᵀ − dw_tj) = 0. Here, too, a tile has a middle and edges: the queries that see all keys of the
tile are summed once for it, and those that see some of them are taken one by one. dw has the shape of w;
dl [H, m, B, S − START] and dv [B, S − START, H, D] are those of the keys from place START on.
"""

from __future__ import annotations

import triton
import triton.language as tl

from nystream.ops.triton.landmark_kernels import REACH, lines, logits, middle_sums, sees
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
    weight,
    logit,
    ring_value,
    value,
    first_key,
    last_key,
    decay,
    lse,
    out_gradient,
    w_gradient,
    decay_gradient,
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
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dw; dλ of every tile in `decay_gradient` [B, H, tiles]."""
    S = N + T
    tile, b, h = position(T, H, BLOCK_Q)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    t = tile * BLOCK_Q + tl.arange(0, BLOCK_Q)
    known = tl.minimum(t, T - 1)
    first, last = tl.load(first_key + b * T + known), tl.load(last_key + b * T + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)
    logit, weight, lse = lines(logit, b, h, B, S, M), lines(weight, b, h, B, T, M), lines(lse, b, h, B, T, M)
    w_gradient = lines(w_gradient, b, h, B, T, M)
    origin = tl.min(last, 0)

    j = tl.arange(0, MP)
    places = j[:, None] * (B * T) + known[None, :]
    own = tl.load(lse + places, mask=(j < M)[:, None], other=0.0)
    if DECAY:
        own += (rate * (last - origin))[None, :]
    reference = tl.min(own, 1)
    sums, aged_sums, aged_total = middle_sums(
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
        DECAY,
        BLOCK_K,
        PRECISION,
    )
    do = tl.trans(read(tokens(out_gradient, b, t, h, T, H, D), D, DP))
    share = tl.exp2(reference[:, None] - own)
    dw = share * tl.dot(sums, do, input_precision=PRECISION)  # [MP, BLOCK_Q]
    # Σ_s e_jts (age of s at `origin`), and the same with do_t v_sᵀ
    ages = tl.zeros([MP, BLOCK_Q], tl.float32)
    aged_dw = tl.zeros([MP, BLOCK_Q], tl.float32)
    if DECAY:
        ages += share * aged_total[:, None]
        aged_dw += share * tl.dot(aged_sums, do, input_precision=PRECISION)

    before, count = edge_tiles(begin, shared, rest, end, BLOCK_K)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_K)
        s = at + tl.arange(0, BLOCK_K)
        seen = (s[None, :] >= first[:, None]) & (s[None, :] <= last[:, None]) & (s < until)[None, :]
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
        age = (origin - s).to(tl.float32)[None, :]
        x = logits(logit, s, until, origin, rate, B * S, M, MP, DECAY)
        top = tl.maximum(tl.max(x, 1), FLOOR)
        above = top[:, None] - tl.where(sees(first, last, at, until)[None, :], own, float("inf"))
        if tl.max(tl.max(above, 1), 0) < REACH:
            e, rise = tl.exp2(x - top[:, None]), tl.exp2(above)
            slopes = tl.trans(tl.where(seen, dp, 0.0))
            dw += rise * tl.dot(e, slopes, input_precision=PRECISION)
            if DECAY:
                ages += rise * tl.dot(e * age, tl.trans(seen.to(tl.float32)), input_precision=PRECISION)
                aged_dw += rise * tl.dot(e * age, slopes, input_precision=PRECISION)
        else:
            bias = biases(seen, (last[:, None] - s[None, :]).to(tl.float32), rate, DECAY)
            for i in range(M):
                l_i = tl.load(logit + i * (B * S) + tl.minimum(s, S - 1))
                e_i = tl.exp2((l_i[None, :] + bias) - tl.load(lse + i * (B * T) + known)[:, None])
                this = (j == i)[:, None]
                dw += tl.where(this, tl.sum(e_i * dp, 1)[None, :], 0.0)
                if DECAY:
                    ages += tl.where(this, tl.sum(e_i * age, 1)[None, :], 0.0)
                    aged_dw += tl.where(this, tl.sum(e_i * age * dp, 1)[None, :], 0.0)
    exists = (j < M)[:, None] & (t < T)[None, :]
    tl.store(w_gradient + places, dw, mask=exists)
    if DECAY:
        w = tl.load(weight + places, mask=exists, other=0.0)
        tl.store(decay_gradient + tl.program_id(0), -tl.sum(tl.sum(w * (aged_dw - dw * ages), 1), 0))


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
    START,
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
    """dl and dv, from the queries that see all keys of a tile."""
    S = N + T
    tile, b, h = position(S - START, H, BLOCK_K)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    s = START + tile * BLOCK_K + tl.arange(0, BLOCK_K)
    exists, known = s < S, tl.minimum(s, S - 1)
    first, last = tl.load(first_query + b * S + known), tl.load(last_query + b * S + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    _, shared, rest, _ = split(first, last)
    logit, weight, lse = lines(logit, b, h, B, S, M), lines(weight, b, h, B, T, M), lines(lse, b, h, B, T, M)
    w_gradient = lines(w_gradient, b, h, B, T, M)
    origin = tl.max(known, 0)

    j = tl.arange(0, MP)
    own = logits(logit, s, S, origin, rate, B * S, M, MP, DECAY)
    reference = tl.maximum(tl.max(own, 1), FLOOR)  # the queries see all these keys, so it is above none of their L

    # Sums over queries of w exp(r − L) times do and dw.
    sums, dots = tl.zeros([MP, DP], tl.float32), tl.zeros([MP], tl.float32)
    for at in range(shared, rest, BLOCK_Q):
        t = at + tl.arange(0, BLOCK_Q)
        t_known = tl.minimum(t, T - 1)
        places = j[:, None] * (B * T) + t_known[None, :]
        there = (j < M)[:, None] & (t < rest)[None, :]
        below = reference[:, None] - tl.load(lse + places, mask=there, other=float("inf"))
        if DECAY:
            below -= (rate * (tl.load(last_key + b * T + t_known) - origin))[None, :]
        share = tl.load(weight + places, mask=there, other=0.0) * tl.exp2(below)
        dw = tl.load(w_gradient + places, mask=there, other=0.0)
        do = read(tokens(out_gradient, b, t, h, T, H, D), D, DP)
        sums = tl.dot(share, do, sums, input_precision=PRECISION)
        dots += tl.sum(share * dw, 1)

    e = tl.exp2(own - reference[:, None])
    v = read(extended(ring_value, value, b, s, h, N, T, H, D), D, DP).to(tl.float32)
    slope = tl.dot(sums, tl.trans(v), input_precision=PRECISION) - dots[:, None]
    dl = lines(logit_gradient, b, h, B, S - START, M) + (j[:, None] * (B * (S - START)) + (s - START)[None, :])
    tl.store(dl, e * slope, mask=(j < M)[:, None] & exists[None, :])
    dv = tl.dot(tl.trans(e), sums, input_precision=PRECISION)
    write(tokens(value_gradient, b, s - START, h, S - START, H, D), dv, exists, D, DP)


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
    START,
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
    PART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dl and dv, with the queries that see some keys of a tile added; the tiles are those of `middle_gradients`."""
    S = N + T
    tile, b, h = position(S - START, H, BLOCK_K)
    row, b = (b * H + h).to(tl.int64), b.to(tl.int64)
    s = START + tile * BLOCK_K + tl.arange(0, BLOCK_K)
    exists, known = s < S, tl.minimum(s, S - 1)
    first, last = tl.load(first_query + b * S + known), tl.load(last_query + b * S + known)
    rate = tl.load(decay + row) * LOG2E if DECAY else 0.0
    begin, shared, rest, end = split(first, last)
    logit, weight, lse = lines(logit, b, h, B, S, M), lines(weight, b, h, B, T, M), lines(lse, b, h, B, T, M)
    w_gradient = lines(w_gradient, b, h, B, T, M)
    origin = tl.max(known, 0)

    j = tl.arange(0, MP)
    x = logits(logit, s, S, origin, rate, B * S, M, MP, DECAY)
    top = tl.maximum(tl.max(x, 1), FLOOR)
    e = tl.exp2(x - top[:, None])
    dl_places = lines(logit_gradient, b, h, B, S - START, M) + (j[:, None] * (B * (S - START)) + (s - START)[None, :])
    real = (j < M)[:, None] & exists[None, :]
    dl = tl.load(dl_places, mask=real, other=0.0)
    dv_tokens = tokens(value_gradient, b, s - START, h, S - START, H, D)
    dv = read(dv_tokens, D, DP).to(tl.float32)
    before, count = edge_tiles(begin, shared, rest, end, BLOCK_Q)
    for number in range(count):
        at, until = edge_tile(number, before, begin, shared, rest, end, BLOCK_Q)
        t = at + tl.arange(0, BLOCK_Q)
        t_known = tl.minimum(t, T - 1)
        newest = tl.load(last_key + b * T + t_known)
        seen = (t[None, :] >= first[:, None]) & (t[None, :] <= last[:, None])
        seen = seen & exists[:, None] & (t < until)[None, :]
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
        places = j[:, None] * (B * T) + t_known[None, :]
        own = tl.load(lse + places, mask=(j < M)[:, None], other=0.0)
        if DECAY:
            own += (rate * (newest - origin))[None, :]
        if tl.max(top - tl.min(own, 1), 0) < REACH:
            share = tl.load(weight + places, mask=(j < M)[:, None], other=0.0) * tl.exp2(top[:, None] - own)
            sunk = share * tl.load(w_gradient + places, mask=(j < M)[:, None], other=0.0)
            p = tl.where(seen, tl.dot(tl.trans(e), share, input_precision=PRECISION), 0.0)
            part = tl.dot(share, tl.trans(tl.where(seen, dp, 0.0)), input_precision=PRECISION)
            part -= tl.dot(sunk, tl.trans(seen.to(tl.float32)), input_precision=PRECISION)
            dl += e * part
        else:
            bias = biases(seen, (newest[None, :] - known[:, None]).to(tl.float32), rate, DECAY)
            p = tl.zeros([BLOCK_K, BLOCK_Q], tl.float32)
            for i in range(M):
                l_i = tl.load(logit + i * (B * S) + known)
                whole = tl.load(lse + i * (B * T) + t_known)
                w_i = tl.load(weight + i * (B * T) + t_known)
                dw_i = tl.load(w_gradient + i * (B * T) + t_known)
                we = w_i[None, :] * tl.exp2((l_i[:, None] + bias) - whole[None, :])
                p += we
                dl += tl.where((j == i)[:, None], tl.sum(we * (dp - dw_i[None, :]), 1)[None, :], 0.0)
        dv = tl.dot(p, read(tokens(out_gradient, b, t, h, T, H, D), D, DP), dv, input_precision=PRECISION)
    tl.store(dl_places, dl, mask=real)
    write(dv_tokens, dv, exists, D, DP)
