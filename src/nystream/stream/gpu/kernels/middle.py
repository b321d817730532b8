"""The middle of a window, `far` and the totals: renewed when a stream enters a block, or rebuilt from the rings.

Every partial counts ages from its own end. The middle and `far` end just before the block and the tier block of the
stream, a total with its own tier block; a partial that joins another falls by the tokens between the two ends.
"""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.memory import partials, store_partials, tokens
from nystream.stream.gpu.kernels.sums import FLOOR, finished, nothing, with_partial, with_tokens, wrapped

FAR, TOTALS = tl.constexpr(1), tl.constexpr(2)  # as in nystream.stream.gpu.blocks


@triton.jit
def renew(
    window,
    fall,
    slot,
    place,
    h,
    strip,
    live,
    N: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    C: tl.constexpr,
    EDGES: tl.constexpr,
    TIER: tl.constexpr,
    PARTIALS: tl.constexpr,
    M_: tl.constexpr,
    C_: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Renew the middle of streams that enter a block, and before that `far` of those that enter a tier block.

    fall, slot, place, h and live are [P], strips [S].
    """
    own = place // TIER
    start = own * TIER
    c, s, u = nothing(slot.shape[0], M_, strip.shape[0], C_)
    if PARTIALS > 1:
        COUNT: tl.constexpr = PARTIALS - TOTALS
        fresh = live & (place == start)
        if tl.max(fresh.to(tl.int32), 0) > 0:
            left = wrapped(own - 1, COUNT)
            end = tl.minimum((left + 1) * TIER, N)
            c, s, u = _with_ring(
                c, s, u, window, fall, slot, h, strip, left * TIER, end, end, end, fresh,
                N, H, M, D, L, C, EDGES, M_, C_, TIER, CHUNK,
            )  # fmt: skip
            lse, mean = finished(c, s, u)
            store_partials(window, slot * PARTIALS + TOTALS + left, h, strip, lse, mean, fresh, H, M, D, L, C)
            for other in range(1, COUNT - 1):
                index = (own + other) % COUNT
                at = slot * PARTIALS + TOTALS + index
                lse, mean = partials(window, at, h, strip, fresh, H, M, D, L, C, M_, C_)
                age = wrapped(start - tl.minimum((index + 1) * TIER, N), N)
                c, s, u = with_partial(c, s, u, _fallen(lse, age, fall), mean)
            lse, mean = finished(c, s, u)
            store_partials(window, slot * PARTIALS + FAR, h, strip, lse, mean, fresh, H, M, D, L, C)
        lse, mean = partials(window, slot * PARTIALS + FAR, h, strip, live & ~fresh, H, M, D, L, C, M_, C_)
        c, s, u = with_partial(c, s, u, _fallen(lse, place - start, fall), mean)
    c, s, u = _with_ring(
        c, s, u, window, fall, slot, h, strip, start, place, place, place + EDGES, live,
        N, H, M, D, L, C, EDGES, M_, C_, TIER, CHUNK,
    )  # fmt: skip
    lse, mean = finished(c, s, u)
    store_partials(window, slot * PARTIALS, h, strip, lse, mean, live, H, M, D, L, C)


@triton.jit(do_not_specialize_on_alignment=["places", "listed", "count"])
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
    L: tl.constexpr,
    C: tl.constexpr,
    EDGES: tl.constexpr,
    TIER: tl.constexpr,
    PARTIALS: tl.constexpr,
    P: tl.constexpr,
    M_: tl.constexpr,
    S_: tl.constexpr,
    C_: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Compute all partials of listed rows from their rings; `places` are in their blocks. Sizes are those of `step`."""
    window = (ring_logit, ring_value, part_lse, part_mean)
    strip = tl.program_id(1) * S_ + tl.arange(0, S_)
    group, pairs_listed = tl.program_id(0), tl.load(count) * H
    while group * P < pairs_listed:
        row, h, live = listed_rows(listed, pairs_listed, group, H, P)
        slot, place = tl.load(slots + row, live, 0).to(tl.int64), tl.load(places + row, live, 0)
        slot, place, h, live = per_pair(slot, P), per_pair(place, P), per_pair(h, P), per_pair(live, P)
        if rate is None:
            fall = None
        else:
            fall = tl.load(rate + h)
        block = place // EDGES * EDGES
        own = place // TIER
        start = own * TIER
        c, s, u = nothing(P, M_, S_, C_)
        if PARTIALS > 1:
            for index in range(PARTIALS - TOTALS):
                first = index * TIER + tl.zeros_like(own)
                end = tl.minimum(first + TIER, N)
                c_total, s_total, u_total = nothing(P, M_, S_, C_)
                c_total, s_total, u_total = _with_ring(
                    c_total, s_total, u_total, window, fall, slot, h, strip, first, end, end, end, live,
                    N, H, M, D, L, C, EDGES, M_, C_, TIER, CHUNK,
                )  # fmt: skip
                lse, mean = finished(c_total, s_total, u_total)
                store_partials(window, slot * PARTIALS + TOTALS + index, h, strip, lse, mean, live, H, M, D, L, C)
                joins = own != index
                fallen = _fallen(lse, wrapped(start - end, N), fall)
                c, s, u = with_partial(
                    c, s, u, tl.where(joins[:, None], fallen, FLOOR), tl.where(joins[:, None, None, None], mean, 0.0)
                )
            lse, mean = finished(c, s, u)
            store_partials(window, slot * PARTIALS + FAR, h, strip, lse, mean, live, H, M, D, L, C)
            c = _fallen(c, block - start, fall)
        c, s, u = _with_ring(
            c, s, u, window, fall, slot, h, strip, start, block, block, block + EDGES, live,
            N, H, M, D, L, C, EDGES, M_, C_, TIER, CHUNK,
        )  # fmt: skip
        lse, mean = finished(c, s, u)
        store_partials(window, slot * PARTIALS, h, strip, lse, mean, live, H, M, D, L, C)
        group += tl.num_programs(0)


@triton.jit
def listed_rows(listed, count, group, H: tl.constexpr, P: tl.constexpr):
    """Row and head of a group of P pairs of a list of `count` pairs, and whether they exist; as `pairs`."""
    pair = pairs(group, P)
    exists = pair < count
    return tl.load(listed + pair // H, exists, 0).to(tl.int64), pair % H, exists


@triton.jit
def pairs(group, P: tl.constexpr):
    """The pairs of a group, [P], or a scalar, which `per_pair` turns into [1]: so it is loaded once for all lanes."""
    if P == 1:
        pair = group
    else:
        pair = group * P + tl.arange(0, P)
    return pair


@triton.jit
def per_pair(x, P: tl.constexpr):
    """x, which follows from `pairs`, as [P]."""
    if P == 1:
        x = tl.full([1], x, x.dtype)
    return x


@triton.jit
def _with_ring(
    c,
    s,
    u,
    window,
    fall,
    slot,
    h,
    strip,
    first,
    end,
    low,
    high,
    live,
    N: tl.constexpr,
    H: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    C: tl.constexpr,
    EDGES: tl.constexpr,
    M_: tl.constexpr,
    C_: tl.constexpr,
    COUNT: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Add the tokens at places first ... first + COUNT − 1 of the ring, except low ... high − 1, to a partial that ends
    before place `end`; all [P].
    """
    for begin in range(0, COUNT, CHUNK):
        z = begin + tl.arange(0, CHUNK)
        at = first[:, None] + z[None, :]  # [P, T]
        there = live[:, None] & ((at < low[:, None]) | (at >= high[:, None]))
        if COUNT % CHUNK != 0:
            there = there & (z < COUNT)[None, :]
        if N % COUNT != 0:
            there = there & (at < N)
        logit, value = tokens(window, slot, at, h, strip, there, N, H, M, D, L, C, EDGES, M_, C_)
        if fall is not None:
            logit -= (wrapped(end[:, None] - 1 - at, N) * fall[:, None])[:, :, None]
        c, s, u = with_tokens(c, s, u, logit, value)
    return c, s, u


@triton.jit
def _fallen(x, age, fall):
    """x [P, m] after a time [P]."""
    if fall is not None:
        x -= (age * fall)[:, None]
    return x
