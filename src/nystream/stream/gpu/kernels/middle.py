"""The middle of a window, `far` and the totals: renewed when a stream enters a block, or rebuilt from the rings.

Every partial counts ages from its own end. The middle and `far` end just before the block and the tier block of the
stream, a total with its own tier block; a partial that joins another falls by the tokens between the two ends.

Both kernels take the rows of a list, whose length only the device knows: every program takes one group of pairs after
another. Arguments and sizes are those of `step`.
"""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.sums import FLOOR, finished, nothing, with_partial, with_tokens, wrapped

FAR, TOTALS = tl.constexpr(1), tl.constexpr(2)  # as in nystream.stream.gpu.blocks


@triton.jit
def renew(
    rate,
    slots,
    places,
    listed,
    count,
    ring_logit,
    ring_value,
    part_lse,
    part_mean,
    N: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    EDGES: tl.constexpr,
    TIER: tl.constexpr,
    PARTIALS: tl.constexpr,
    P: tl.constexpr,
    M_: tl.constexpr,
    D_: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Renew the middle of streams that enter a block, and before that `far` of those that enter a tier block."""
    d = tl.program_id(1) * D_ + tl.arange(0, D_)
    group = tl.program_id(0)
    while group * P < tl.load(count) * H:
        pair = group * P + tl.arange(0, P)
        slot, place, h, live = _stream(slots, places, listed, count, pair, H)
        fall = tl.load(rate + h)
        part_at = slot * (PARTIALS * M * H)
        own = place // TIER
        start = own * TIER
        c, s, u = nothing(M_, P, D_)
        if PARTIALS > 1:
            COUNT: tl.constexpr = PARTIALS - TOTALS
            fresh = live & (place == start)
            if tl.max(fresh.to(tl.int32), 0) > 0:
                left = wrapped(own - 1, COUNT)
                end = tl.minimum((left + 1) * TIER, N)
                c, s, u = _with_ring(
                    c, s, u, ring_logit, ring_value, slot, h, d, fall, left * TIER, end, end, end, fresh, N, H, M, D,
                    TIER, CHUNK,
                )  # fmt: skip
                lse, mean = finished(c, s, u)
                _store(part_lse, part_mean, part_at + (TOTALS + left) * (M * H), h, d, lse, mean, fresh, H, M, D)
                for other in range(1, COUNT - 1):
                    index = (own + other) % COUNT
                    at = part_at + (TOTALS + index) * (M * H)
                    lse, mean = _load(part_lse, part_mean, at, h, d, fresh, H, M, D, M_)
                    age = wrapped(start - tl.minimum((index + 1) * TIER, N), N)
                    c, s, u = with_partial(c, s, u, lse - (age * fall)[None, :], mean)
                lse, mean = finished(c, s, u)
                _store(part_lse, part_mean, part_at + FAR * (M * H), h, d, lse, mean, fresh, H, M, D)
            lse, mean = _load(part_lse, part_mean, part_at + FAR * (M * H), h, d, live & ~fresh, H, M, D, M_)
            c, s, u = with_partial(c, s, u, lse - ((place - start) * fall)[None, :], mean)
        c, s, u = _with_ring(
            c, s, u, ring_logit, ring_value, slot, h, d, fall, start, place, place, place + EDGES, live, N, H, M, D,
            TIER, CHUNK,
        )  # fmt: skip
        lse, mean = finished(c, s, u)
        _store(part_lse, part_mean, part_at, h, d, lse, mean, live, H, M, D)
        group += tl.num_programs(0)


@triton.jit
def rebuild(
    rate,
    slots,
    places,
    listed,
    count,
    ring_logit,
    ring_value,
    part_lse,
    part_mean,
    N: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    EDGES: tl.constexpr,
    TIER: tl.constexpr,
    PARTIALS: tl.constexpr,
    P: tl.constexpr,
    M_: tl.constexpr,
    D_: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Compute all partials of streams from their rings; `places` are in their blocks."""
    d = tl.program_id(1) * D_ + tl.arange(0, D_)
    group = tl.program_id(0)
    while group * P < tl.load(count) * H:
        pair = group * P + tl.arange(0, P)
        slot, place, h, live = _stream(slots, places, listed, count, pair, H)
        fall = tl.load(rate + h)
        part_at = slot * (PARTIALS * M * H)
        block = place // EDGES * EDGES
        own = place // TIER
        start = own * TIER
        c, s, u = nothing(M_, P, D_)
        if PARTIALS > 1:
            for index in range(PARTIALS - TOTALS):
                first = index * TIER + tl.zeros_like(own)
                end = tl.minimum(first + TIER, N)
                c_total, s_total, u_total = nothing(M_, P, D_)
                c_total, s_total, u_total = _with_ring(
                    c_total, s_total, u_total, ring_logit, ring_value, slot, h, d, fall, first, end, end, end, live,
                    N, H, M, D, TIER, CHUNK,
                )  # fmt: skip
                lse, mean = finished(c_total, s_total, u_total)
                _store(part_lse, part_mean, part_at + (TOTALS + index) * (M * H), h, d, lse, mean, live, H, M, D)
                fallen = tl.where(own == index, FLOOR, lse - (wrapped(start - end, N) * fall)[None, :])
                c, s, u = with_partial(c, s, u, fallen, tl.where((own == index)[None, :, None], 0.0, mean))
            lse, mean = finished(c, s, u)
            _store(part_lse, part_mean, part_at + FAR * (M * H), h, d, lse, mean, live, H, M, D)
            c -= ((block - start) * fall)[None, :]
        c, s, u = _with_ring(
            c, s, u, ring_logit, ring_value, slot, h, d, fall, start, block, block, block + EDGES, live, N, H, M, D,
            TIER, CHUNK,
        )  # fmt: skip
        lse, mean = finished(c, s, u)
        _store(part_lse, part_mean, part_at, h, d, lse, mean, live, H, M, D)
        group += tl.num_programs(0)


@triton.jit
def _stream(slots, places, listed, count, pair, H: tl.constexpr):
    """Slot, place and head of pairs of listed rows, and whether they exist."""
    live = pair < tl.load(count) * H
    row = tl.load(listed + pair // H, live, 0)
    return tl.load(slots + row, live, 0).to(tl.int64), tl.load(places + row, live, 0), pair % H, live


@triton.jit
def _with_ring(
    c,
    s,
    u,
    ring_logit,
    ring_value,
    slot,
    h,
    d,
    fall,
    first,
    end,
    low,
    high,
    live,
    N: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    COUNT: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Add the tokens in slots first ... first + COUNT − 1 of the ring, except low ... high − 1, to a partial that ends
    before slot `end`; all [P].
    """
    i = tl.arange(0, c.shape[0])
    for begin in range(0, COUNT, CHUNK):
        z = begin + tl.arange(0, CHUNK)
        at = first[None, :] + z[:, None]  # [T, P]
        there = live[None, :] & (z < COUNT)[:, None] & (at < N) & ((at < low[None, :]) | (at >= high[None, :]))
        ring_at = (slot[None, :] * N + at) * H + h[None, :]
        logit = tl.load(
            ring_logit + ring_at[:, None, :] * M + i[None, :, None],
            there[:, None, :] & (i < M)[None, :, None],
            float("-inf"),
        )
        value = tl.load(
            ring_value + ring_at[:, :, None] * D + d[None, None, :], there[:, :, None] & (d < D)[None, None, :], 0.0
        )
        age = wrapped(end[None, :] - 1 - at, N)
        c, s, u = with_tokens(c, s, u, logit - (age * fall[None, :])[:, None, :], value.to(tl.float32))
    return c, s, u


@triton.jit
def _load(
    part_lse, part_mean, at, h, d, there, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr, M_: tl.constexpr
):  # fmt: skip
    """The partials at `at` [P] of heads h [P], empty where not `there`."""
    i = tl.arange(0, M_)
    lse = tl.load(part_lse + (at + h * M)[None, :] + i[:, None], there[None, :] & (i < M)[:, None], FLOOR)
    mean = tl.load(
        part_mean + ((at + h)[None, :, None] * D + i[:, None, None] * (H * D)) + d[None, None, :],
        there[None, :, None] & (i < M)[:, None, None] & (d < D)[None, None, :],
        0.0,
    )
    return lse, mean


@triton.jit
def _store(
    part_lse, part_mean, at, h, d, lse, mean, there, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """Write partials of heads h [P] to `at` [P] where `there`."""
    i = tl.arange(0, lse.shape[0])
    tl.store(part_lse + (at + h * M)[None, :] + i[:, None], lse, there[None, :] & (i < M)[:, None])
    tl.store(
        part_mean + ((at + h)[None, :, None] * D + i[:, None, None] * (H * D)) + d[None, None, :],
        mean,
        there[None, :, None] & (i < M)[:, None, None] & (d < D)[None, None, :],
    )
