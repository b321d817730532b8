"""Exact attention of the newest tokens over a ring of keys and values."""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.memory import head_stride, row_at, strip_stride, whole
from nystream.stream.gpu.kernels.sums import FLOOR, wrapped


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["places", "filled"])
def full(
    out,
    query,
    key,
    value,
    rate,
    slots,
    places,
    filled,
    ring_key,
    ring_value,
    rows,
    scale,
    N: tl.constexpr,
    R: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
    B: tl.constexpr,
    LANE: tl.constexpr,
    P: tl.constexpr,
    D_: tl.constexpr,
    CHUNK: tl.constexpr,
    WARM_UP: tl.constexpr,
):
    """Write out [rows, r, H, D] = softmax(q Kᵀ scale) V, and the new tokens into the rings.

    query, key and value are [rows, r, H, D], ring_key is [slots, n, H, D] and ring_value as in `memory`. With
    WARM_UP, only rows whose window is not full yet are computed: those without landmarks. One program for P pairs and
    one query of the group.
    """
    pair = tl.program_id(0) * P + tl.arange(0, P)
    which = tl.program_id(1)
    row, h = (pair // H).to(tl.int64), pair % H
    place = tl.load(places + row, row < rows, -1)
    count = tl.load(filled + row, row < rows, 0)
    live = place >= 0
    written = row < rows
    if WARM_UP:
        live = live & (count < N)
        written = live
    # Nothing to do for most programs of a warm-up.
    if tl.max(written.to(tl.int32), 0) > 0:
        slot = tl.load(slots + row, live, 0).to(tl.int64)
        d = tl.arange(0, D_)
        of_value = slot * whole(N, H, D, C, B, LANE) + h * head_stride(D, C, B, LANE)  # [P]
        column = d // C * strip_stride(H, C, LANE) + d % C
        q_at = ((row * R + which) * H + h)[:, None] * D + d[None, :]
        q = tl.load(query + q_at, live[:, None] & (d < D)[None, :], 0.0).to(tl.float32) * scale  # [P, D]
        c, s, u = tl.full([P], FLOOR, tl.float32), tl.zeros([P], tl.float32), tl.zeros([P, D_], tl.float32)
        for begin in range(0, N, CHUNK):
            at = begin + tl.arange(0, CHUNK)
            age = wrapped((place + (R - 1))[None, :] - at[:, None], N)  # [T, P]
            there = live[None, :] & (at < N)[:, None] & (age < count[None, :])
            new = there & (age < R)
            ring_token = slot[None, :] * N + at[:, None]
            key_at = (ring_token * H + h[None, :])[:, :, None] * D + d[None, None, :]
            value_at = (row_at(at, H, D, C, B, LANE)[:, None] + of_value[None, :])[:, :, None] + column[None, None, :]
            token = (row * R + (R - 1))[None, :] - age
            new_at = (token * H + h[None, :])[:, :, None] * D + d[None, None, :]
            new_mask = new[:, :, None] & (d < D)[None, None, :]
            old_mask = (there & ~new)[:, :, None] & (d < D)[None, None, :]
            k_old, v_old = tl.load(ring_key + key_at, old_mask, 0.0), tl.load(ring_value + value_at, old_mask, 0.0)
            k_new, v_new = tl.load(key + new_at, new_mask, 0.0), tl.load(value + new_at, new_mask, 0.0)
            if which == 0:
                tl.store(ring_key + key_at, k_new, new_mask)
                tl.store(ring_value + value_at, v_new, new_mask)
            k = tl.where(new[:, :, None], k_new, k_old).to(tl.float32)
            v = tl.where(new[:, :, None], v_new, v_old).to(tl.float32)
            logit = tl.sum(k * q[None, :, :], 2)
            if rate is not None:
                logit -= age * tl.load(rate + h)[None, :]
            logit = tl.where(there, logit, float("-inf"))
            largest = tl.maximum(c, tl.max(logit, 0))
            share, old = tl.exp(logit - largest[None, :]), tl.exp(c - largest)
            c, s = largest, s * old + tl.sum(share, 0)
            u = u * old[:, None] + tl.sum(share[:, :, None] * v, 0)
        y = u / tl.where(s == 0, 1.0, s)[:, None]
        tl.store(out + q_at, tl.where(live[:, None], y, 0.0), written[:, None] & (d < D)[None, :])
