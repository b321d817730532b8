"""The sliding window over partials, cut as in `nystream.ops.cut`: raw edges, and a middle that is one partial.

A partial, as in `nystream.ops.partials`, has the largest logits c and the sums s of exponentials, [m, T] each, then
the weighted sums u of values, [m, width]. Slot 0 is the middle; then come the totals of the tiers.

When a landmark begins a new block, its row of the middle is summed from the tokens and totals around the block; in the
step before, its row of the total of a tier's block, if that has been completed since the last time. A row is summed in
one pass. Four landmarks begin together, so that they share each load of the values. That makes a step cheaper on
average, and the steps in which they begin dearer: one landmark at a time would be more even, and slower.

The edges of a landmark stay the same for a block, except for the one new token of a step. So the weights of edges are
kept: exp(logit − c), where c is the largest logit of the middle. While an outlier is an edge, they may overflow; then,
and before there is a middle, all weights are computed at every step, relative to the largest logit of the window.

With fixed landmarks, what a stream says depends on its rings alone, so a restored stream continues with the same bits.
With continual landmarks, it agrees up to rounding: a renewed landmark is summed alone, but after a restore together
with three others, which may add in another order.

Decay (`nystream.ops.decay`): the logits of a partial are lowered by λ times their age at its end, the newest token in
it. A part that is combined is lowered by λ times the tokens from its end to the end of the result.

In all functions, s is the state of one stream, `values` its ring of values, and i a landmark. Groups are numbered from
the first one of the stream, or by their place in the ring where they are called places. Ages are in tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nystream.stream.cpu.memory import address_of, floats_at, ints_at
from nystream.stream.cpu.simd import (
    EXP_MAX,
    apart,
    compiled,
    exp,
    lanes,
    larger,
    load,
    prefetch,
    smaller,
    splat,
    store,
    within,
)
from nystream.stream.cpu.sums import TOTALS, Whose, add_rows, items_in, middle, total, totals

ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# Sums of weights up to this are exact; what is rounded to zero does not matter beside the middle's weight of 1.
HIGH = np.float32(1e18)


def together(landmarks: int) -> int:
    """How many landmarks begin their blocks together: four share each load of the values."""
    return 4 if landmarks >= 4 else 1


class Phase(NamedTuple):
    """Where a group is: its place in the ring, and the blocks around it. Starts may lie outside of the ring."""

    place: int
    start: int  # of its block
    before: int  # sizes of the block before, of its own, and of the next
    size: int
    after: int


@compiled
def phase(block: Any, group: int) -> Phase:
    groups, blocks, base = block.groups, block.blocks, block.block_size
    extra, place = groups - blocks * base, group % groups
    if place < extra * (base + 1):
        k = place // (base + 1)
        start = k * (base + 1)
    else:
        k = extra + (place - extra * (base + 1)) // base
        start = k * base + extra
    before, after = k - 1 if k else blocks - 1, k + 1 if k + 1 < blocks else 0
    return Phase(
        place,
        start,
        base + (1 if before < extra else 0),
        base + (1 if k < extra else 0),
        base + (1 if after < extra else 0),
    )


@compiled
def _shift(block: Any, size: int, i: int) -> int:
    """⌊i size / m⌋: how many groups after the start of a block of this size landmark i begins its own."""
    return ints_at(block.shifts)[(size - block.block_size) * block.landmarks + i]


@compiled
def _edges(block: Any, p: Phase, i: int) -> tuple[int, int]:
    """The first group that is an edge of landmark i, and the first one after it that is not."""
    begin = p.start + _shift(block, p.size, i)
    if begin <= p.place:
        return begin, p.start + p.size + _shift(block, p.after, i)
    return p.start - p.before + _shift(block, p.before, i), begin


@compiled
def _edge_logit(block: Any, s: Any, own: int, e: int, token: int, new: int, rate: Any) -> Any:
    """The logit of edge e, as it was when the middle ended; `new` edges have been overwritten since, the others not."""
    x = load(block, s + (block.logits_at + token * block.landmarks * block.tile + own))
    if block.decays == 1:
        x = x + rate * splat(block, np.float32(e + 1 if e < new else e + 1 - block.window))
    return x


@compiled
def _weigh_edges(
    block: Any, s: Any, new: int, first: int, last: int, i: int, v: int, c: Any, out: Any, stride: int
) -> None:
    """Write exp(logit − c) of the edges of landmark i, groups first ... last − 1, `stride` apart."""
    n, r, token = block.window, block.update_size, (first * block.update_size) % block.window
    rate = load(block, floats_at(block.decay) + v)
    for e in range((last - first) * r):
        x = _edge_logit(block, s, i * block.tile + v, e, token, new, rate) - c
        store(out + e * stride, exp(smaller(x, splat(block, EXP_MAX))))
        token = token + 1 if token + 1 < n else 0


@compiled
def _largest(block: Any, s: Any, new: int, first: int, last: int, i: int, v: int) -> Any:
    """The largest logit of the window for landmark i."""
    n, r, token = block.window, block.update_size, (first * block.update_size) % block.window
    own, rate = i * block.tile + v, load(block, floats_at(block.decay) + v)
    largest = load(block, s + (block.parts_at + own))
    for e in range((last - first) * r):
        largest = larger(_edge_logit(block, s, own, e, token, new, rate), largest)
        token = token + 1 if token + 1 < n else 0
    return largest


@compiled
def advance(block: Any, s: Any, values: Any, group: int, scratch: Any) -> None:
    """Take in a group that is already in the rings; landmarks that begin a new block with it get a new middle."""
    m, r, tile, p = block.landmarks, block.update_size, block.tile, phase(block, group)
    row, edges, rates, place = m * tile, s + block.edges_at, floats_at(block.decay), p.place
    items = items_in(block, scratch)
    for i in range(m):
        first, last = _edges(block, p, i)
        if i % block.together == 0:
            whose = Whose(i, min(i + block.together, m))
            if first == place:
                middle(block, s, values, whose, place, last, items)
            if last == place + 1:
                totals(block, s, values, whose, last % block.groups, last - first, items)
        if first == place:
            for v in range(0, tile, lanes(block)):
                own = i * tile + v
                _weigh_edges(block, s, r, first, last, i, v, load(block, s + (block.parts_at + own)), edges + own, row)
        else:
            for q in range(r):
                e = (place - first) * r + q
                for v in range(0, tile, lanes(block)):
                    own = i * tile + v
                    x = _edge_logit(block, s, own, e, place * r + q, e + 1, load(block, rates + v))
                    x = smaller(x - load(block, s + (block.parts_at + own)), splat(block, EXP_MAX))
                    store(edges + (e * row + own), exp(x))


@compiled
def rebuild(block: Any, s: Any, values: Any, newest: int, low: int, high: int, scratch: Any) -> None:
    """Compute the partials from the rings, for landmarks low ... high − 1; `newest` is the newest group."""
    groups, counts, items, p = block.groups, ints_at(block.counts), items_in(block, scratch), phase(block, newest)
    row, tile = block.landmarks * block.tile, block.tile
    for team in range(low, high, block.together):
        whose, slots = Whose(team, min(team + block.together, high)), np.int64(TOTALS)
        for tier in range(block.tiers):
            for index in range(counts[tier + 1]):
                total(block, s, values, whose, tier, index, slots, items)
            slots += counts[tier + 1]
        first, last = _edges(block, p, team)
        middle(block, s, values, whose, first % groups, last, items)
    for i in range(low, high):
        first, last = _edges(block, p, i)
        for v in range(0, tile, lanes(block)):
            own, new = i * tile + v, (p.place + 1 - first) * block.update_size
            c = load(block, s + (block.parts_at + own))
            _weigh_edges(block, s, new, first, last, i, v, c, s + (block.edges_at + own), row)


@compiled
def _add_weights(block: Any, total: Any, weights: Any, count: int, stride: int) -> Any:
    for e in range(count):
        total = total + load(block, weights + e * stride)
    return total


@compiled
def read(block: Any, s: Any, values: Any, group: int, weights: Any, out: Any, stride: int, scratch: Any) -> None:
    """out = w · Δ_φ V for each of r rows, `stride` apart; the weights w = softmax(β) Γ† are [r, m, T]."""
    apart()
    m, n, r, tile, width = block.landmarks, block.window, block.update_size, block.tile, block.width
    row, part, p = m * tile, s + block.parts_at, phase(block, group)
    origin = p.start - p.before
    room = (p.before + p.size + p.after) * r  # edges of all landmarks
    first_edge, last_edge = room, 0
    for at in range(0, r * (room + m) * tile, lanes(block)):  # weights of the edges and of the rows of the middle
        store(scratch + at, splat(block, ZERO))
    spare = scratch + (r * (room + m) * tile + 2 * (room + m))
    for i in range(m):
        first, last = _edges(block, p, i)
        edge, count, new = (first - origin) * r, (last - first) * r, (p.place + 1 - first) * r
        first_edge, last_edge = min(first_edge, edge), max(last_edge, edge + count)
        for v in range(0, tile, lanes(block)):
            own, share = i * tile + v, splat(block, ONE)
            own_weights, own_stride = s + (block.edges_at + own), row
            middle_sum = load(block, part + (row + own))
            total_sum = _add_weights(block, middle_sum, own_weights, count, own_stride)
            if not within(total_sum, HALF, HIGH):
                largest = _largest(block, s, new, first, last, i, v)
                own_weights, own_stride = spare, lanes(block)
                _weigh_edges(block, s, new, first, last, i, v, largest, own_weights, own_stride)
                share = exp(load(block, part + own) - largest)
                total_sum = _add_weights(block, middle_sum * share, own_weights, count, own_stride)
            for q in range(r):
                weight = load(block, weights + (q * row + own)) / total_sum
                shares = scratch + (q * (room + m) * tile + v)
                store(shares + (room + i) * tile, weight * share)
                for e in range(count):
                    at = shares + (edge + e) * tile
                    store(at, load(block, own_weights + e * own_stride) * weight + load(block, at))
    rows = ints_at(address_of(scratch + r * (room + m) * tile))
    token = (origin * r + first_edge + n) % n
    for e in range(first_edge, last_edge):
        rows[e] = address_of(values + token * block.stride)
        token = token + 1 if token + 1 < n else 0
    for i in range(m):
        rows[room + i] = address_of(part + (2 * row + i * width))
    for q in range(r):
        shares, target = scratch + q * (room + m) * tile, out + q * stride
        for t in range(0, width, lanes(block)):
            store(target + t, splat(block, ZERO))
        add_rows(block, values, rows + first_edge, last_edge - first_edge, shares + first_edge * tile, target)
        add_rows(block, s, rows + room, m, shares + room * tile, target)


@compiled
def prefetch_step(block: Any, s: Any, values: Any, group: int) -> None:
    """Prefetch what the step of `group` reads, except for new middles."""
    n, r, p = block.window, block.update_size, phase(block, group)
    prefetch(s + block.parts_at, block.part_size)
    prefetch(s + block.edges_at, p.size * r * block.landmarks * block.tile)
    token = ((p.place - p.size + 1) * r + n) % n
    for _ in range(2 * p.size * r):
        prefetch(values + token * block.stride, block.width)
        token = token + 1 if token + 1 < n else 0


@compiled
def weigh(block: Any, beta: Any, gamma_pinv: Any, weights: Any) -> None:
    """w = β Γ† [m, T]."""
    m, tile = block.landmarks, block.tile
    for i in range(m):
        for v in range(0, tile, lanes(block)):
            weight = splat(block, ZERO)
            for j in range(m):
                inverse = load(block, gamma_pinv + ((j * m + i) * tile + v))
                weight = load(block, beta + (j * tile + v)) * inverse + weight
            store(weights + (i * tile + v), weight)
