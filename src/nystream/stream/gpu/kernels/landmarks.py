"""Continual landmarks: means over segments, and what follows from them when one is completed.

`landmarks` [slots, m, 2, H, D] are pairs (q̃, k̃), `pending` [slots, 2, H, D] sums of q and k over the unfinished
segment, as in `nystream.ops.attention.co_cont_single`.
"""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.inverse import newton, ridge
from nystream.stream.gpu.kernels.memory import head_stride, row_at, strip_stride, whole, width
from nystream.stream.gpu.kernels.sums import wrapped


@triton.jit(do_not_specialize_on_alignment=["places"])
def collect(
    logit,
    query_logit,
    query,
    key,
    slots,
    places,
    segment,
    opens,
    completes,
    landmarks,
    pending,
    ring_key,
    scale,
    N: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    LANE: tl.constexpr,
    M_: tl.constexpr,
    D_: tl.constexpr,
):
    """Add new tokens to the landmarks and to the ring of keys, and write their scaled products with the landmarks.

    query and key are [rows, r, H, D], logit and query_logit rows of m columns per head. For every token of a window,
    `segment` [n] is its landmark, `opens` [n] whether it is the first of it, and `completes` [n] the number of tokens
    of the landmark if it is the last, else 0. One program for one stream and head.
    """
    row, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    place = tl.load(places + row)
    if place >= 0:
        slot = tl.load(slots + row).to(tl.int64)
        phase = wrapped(place - (slot * R % N).to(tl.int32), N)
        i, d = tl.arange(0, M_), tl.arange(0, D_)
        inside = (i < M)[:, None] & (d < D)[None, :]
        at = ((slot * M + i[:, None]) * 2 * H + h) * D + d[None, :]
        q_tilde, k_tilde = tl.load(landmarks + at, inside, 0.0), tl.load(landmarks + at + H * D, inside, 0.0)
        sum_at = (slot * 2 * H + h) * D + d
        q_sum, k_sum = tl.load(pending + sum_at, d < D, 0.0), tl.load(pending + sum_at + H * D, d < D, 0.0)
        for token in range(R):
            new_at = ((row * R + token) * H + h) * D + d
            k_new = tl.load(key + new_at, d < D, 0.0)
            tl.store(ring_key + ((slot * N + place + token) * H + h) * D + d, k_new, d < D)
            first = tl.load(opens + phase + token) != 0
            q_sum = tl.where(first, 0.0, q_sum) + tl.load(query + new_at, d < D, 0.0).to(tl.float32)
            k_sum = tl.where(first, 0.0, k_sum) + k_new.to(tl.float32)
            size = tl.load(completes + phase + token)
            done = (i == tl.load(segment + phase + token)) & (size > 0)
            count = tl.maximum(size, 1).to(tl.float32)
            q_tilde = tl.where(done[:, None], (q_sum / count)[None, :], q_tilde)
            k_tilde = tl.where(done[:, None], (k_sum / count)[None, :], k_tilde)
            tl.store(landmarks + at, q_tilde, inside & done[:, None])
            tl.store(landmarks + at + H * D, k_tilde, inside & done[:, None])
            q_sum, k_sum = tl.where(size > 0, 0.0, q_sum), tl.where(size > 0, 0.0, k_sum)
        tl.store(pending + sum_at, q_sum, d < D)
        tl.store(pending + sum_at + H * D, k_sum, d < D)
        for token in range(R):
            new_at = ((row * R + token) * H + h) * D + d
            k_new = tl.load(key + new_at, d < D, 0.0).to(tl.float32)
            q_new = tl.load(query + new_at, d < D, 0.0).to(tl.float32)
            l_at = (row * R + token) * width(H, M, L) + _column(h, i, H, M, L, 1, LANE)
            key_product, query_product = tl.sum(q_tilde * k_new[None, :], 1), tl.sum(k_tilde * q_new[None, :], 1)
            stored = i < width(1, M, L)
            tl.store(logit + l_at, tl.where(i < M, key_product * scale, float("-inf")), stored)
            tl.store(query_logit + l_at, tl.where(i < M, query_product * scale, float("-inf")), stored)


@triton.jit(do_not_specialize_on_alignment=["places", "filled", "listed", "count"])
def refresh(
    slots,
    places,
    filled,
    listed,
    count,
    landmarks,
    ring_key,
    ring_logit,
    gamma_pinv,
    N: tl.constexpr,
    EDGES: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    LANE: tl.constexpr,
    M_: tl.constexpr,
    D_: tl.constexpr,
    CHUNK: tl.constexpr,
    PINV: tl.constexpr,
    ITERS: tl.constexpr,
    SCALE: tl.constexpr,
    LAMBDA: tl.constexpr,
):
    """Write the logits of all keys, and Γ†, for listed rows, whose landmarks have changed; one head at a time."""
    i, j, d = tl.arange(0, M_), tl.arange(0, M_), tl.arange(0, D_)
    inside = (i < M)[:, None] & (d < D)[None, :]
    square = (i < M)[:, None] & (j < M)[None, :]
    pair = tl.program_id(0)
    while pair < tl.load(count) * H:
        row, h = tl.load(listed + pair // H), pair % H
        slot = tl.load(slots + row).to(tl.int64)
        newest, tokens = tl.load(places + row) + (R - 1), tl.load(filled + row)
        at = ((slot * M + i[:, None]) * 2 * H + h) * D + d[None, :]
        q_tilde, k_tilde = tl.load(landmarks + at, inside, 0.0), tl.load(landmarks + at + H * D, inside, 0.0)
        for begin in range(0, N, CHUNK):
            z = begin + tl.arange(0, CHUNK)
            there = (z < N) & (wrapped(newest - z, N) < tokens)
            token = slot * N + z
            k = tl.load(ring_key + (token * H + h)[:, None] * D + d[None, :], there[:, None] & (d < D)[None, :], 0.0)
            logit = tl.sum(k.to(tl.float32)[:, None, :] * q_tilde[None, :, :], 2) * SCALE  # [T, m]
            logit = tl.where(there[:, None] & (i < M)[None, :], logit, float("-inf"))
            ring_at = row_at(z, H, M, L, EDGES, LANE)[:, None] + _column(h, i, H, M, L, EDGES, LANE)[None, :]
            of_slot = ring_logit + slot * whole(N, H, M, L, EDGES, LANE)
            tl.store(of_slot + ring_at, logit, (z < N)[:, None] & (i < width(1, M, L))[None, :])
        if PINV == "none":
            inverse = (i[:, None] == j[None, :]).to(tl.float64)
        else:
            gamma = tl.dot(q_tilde.to(tl.float64), tl.trans(k_tilde.to(tl.float64))) * SCALE
            gamma = tl.where(square, gamma, float("-inf"))
            gamma = tl.exp(gamma - tl.where(i < M, tl.max(gamma, 1), 0.0)[:, None])
            gamma = gamma / tl.where(i < M, tl.sum(gamma, 1), 1.0)[:, None]
            if PINV == "newton":
                inverse = newton(gamma, ITERS, M, M_)
            else:
                inverse = ridge(gamma, LAMBDA, M, M_)
        pinv_at = row_at(i, H, M, L, M, LANE)[:, None] + _column(h, j, H, M, L, M, LANE)[None, :]
        inverse = tl.where(square, inverse, 0.0).to(tl.float32)
        of_slot = gamma_pinv + slot * (M * width(H, M, L))
        tl.store(of_slot + pinv_at, inverse, (i < M)[:, None] & (j < width(1, M, L))[None, :])
        pair += tl.num_programs(0)


@triton.jit
def _column(
    h, i, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, B: tl.constexpr, LANE: tl.constexpr
):  # fmt: skip
    """Numbers from the place of a row to its column i of head h."""
    return h * head_stride(M, L, B, LANE) + i // L * strip_stride(H, L, LANE) + i % L
