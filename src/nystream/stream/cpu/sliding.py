"""The sliding window over partials, cut as in `nystream.ops.cut`: raw edges, and a middle that is one partial.

A partial, as in `nystream.ops.partials`, has the largest logits c and the sums s of exponentials, [m, T] each, then
the weighted sums u of values, [m, width]. Slot 0 is the middle; then come the totals of the tiers.

When a landmark begins a new block, its row of the middle is summed from the tokens and totals around the block; before
that, its row of the total of a tier's block, if that has just been completed. A row is summed in one pass. Four
landmarks begin together, so that they share each load of the values.

The edges of a landmark stay the same for a block, except for the one new token of a step. So the weights of edges are
kept: exp(logit − c), where c is the largest logit of the middle. While an outlier is an edge, they may overflow; then,
and before there is a middle, all weights are computed at every step, relative to the largest logit of the window. What
a stream says depends on its rings alone, so a restored stream continues with the same bits.

Decay (`nystream.ops.decay`): the logits of a partial are lowered by λ times their age at its end, the newest token in
it. A part that is combined is lowered by λ times the tokens from its end to the end of the result.

In all functions, s is the state of one stream, `values` its ring of values, and i a landmark. Groups are numbered from
the first one of the stream, or by their place in the ring where they are called places. Ages are in tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nystream.stream.cpu.memory import address_of, floats_at, ints_at, same_at
from nystream.stream.cpu.simd import (
    EXP_MAX,
    apart,
    compiled,
    exp,
    larger,
    load8,
    merged,
    prefetch,
    smaller,
    splat8,
    store,
    within,
)

FLOOR = np.float32(-1e30)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
MIDDLE, TOTALS = 0, 1  # slots
# Sums of weights up to this are exact; what is rounded to zero does not matter beside the middle's weight of 1.
HIGH = np.float32(1e18)


def together(landmarks: int) -> int:
    """How many landmarks begin their blocks together: four share each load of the values."""
    return 4 if landmarks >= 8 else 1


class Items(NamedTuple):
    """What a row is summed from: logits or weights [items, T], and the address of each item's values."""

    weights: Any
    rows: Any


class Whose(NamedTuple):
    """Landmarks low ... high − 1."""

    low: int
    high: int


@compiled
def locate(x: int, length: int, segments: int) -> tuple[int, int, int]:
    """Segment k of an item x < length, its index j in the segment, and the segment's size."""
    base, extra = length // segments, length % segments
    if x < extra * (base + 1):
        return x // (base + 1), x % (base + 1), base + 1
    x -= extra * (base + 1)
    return extra + x // base, x % base, base


@compiled
def start_and_size(k: int, length: int, segments: int) -> tuple[int, int]:
    """First item of segment k, and its number of items."""
    base, extra = length // segments, length % segments
    return k * base + min(k, extra), base + (1 if k < extra else 0)


@compiled
def _slot(block: Any, s: Any, index: int) -> Any:
    return s + (block.parts_at + index * block.part_size)


@compiled
def _collect(
    block: Any,
    s: Any,
    values: Any,
    whose: Whose,
    end: int,
    first: int,
    last: int,
    slots: bool,
    items: Items,
    count: int,
) -> int:
    """Append groups or slots first ... last − 1 to the items of a sum that ends with token `end`; return the number."""
    apart()
    m, n, r, tile, decays = block.landmarks, block.window, block.update_size, block.tile, block.decays == 1
    rates, stride = floats_at(block.decay), block.most_items * tile
    row, row_bytes = address_of(s + (block.parts_at + 2 * m * tile + whose.low * block.width)), 4 * block.part_size
    logits, step = s + block.parts_at, block.part_size
    if not slots:
        first, last = first * r, last * r
        row, row_bytes = address_of(values), address_of(values + block.stride) - address_of(values)
        logits, step = s + block.logits_at, m * tile
    for k in range(last - first):
        items.rows[count + k] = row + (first + k) * row_bytes
    for i in range(whose.low, whose.high):
        for v in range(0, tile, 8):
            rate, logit = load8(rates + v), logits + (first * step + i * tile + v)
            into = items.weights + ((i - whose.low) * stride + count * tile + v)
            for k in range(last - first):
                x = load8(logit + k * step)
                if decays:
                    age = end - (ints_at(block.newest)[first + k] if slots else first + k)
                    x = x - rate * splat8(np.float32(age if age >= 0 else age + n))
                store(into + k * tile, x)
    return count + max(last - first, 0)


@compiled
def _add_rows(block: Any, like: Any, rows: Any, count: int, weights: Any, out: Any) -> None:
    """out += Σ weight · row, for `count` rows of `width` numbers at the addresses `rows`, of the type of `like`."""
    apart()
    tile, width = block.tile, block.width
    whole = width - width % (8 * tile)
    for t in range(0, whole, 8 * tile):
        for v in range(t, t + tile, 8):
            y, w = out + v, weights + (v - t)
            y4 = y + 4 * tile
            a0, a1, a2, a3 = load8(y), load8(y + tile), load8(y + 2 * tile), load8(y + 3 * tile)
            a4, a5, a6, a7 = load8(y4), load8(y4 + tile), load8(y4 + 2 * tile), load8(y4 + 3 * tile)
            for j in range(count):
                x, e = same_at(like, rows[j]) + v, load8(w + j * tile)
                x4 = x + 4 * tile
                a0 = load8(x) * e + a0
                a1 = load8(x + tile) * e + a1
                a2 = load8(x + 2 * tile) * e + a2
                a3 = load8(x + 3 * tile) * e + a3
                a4 = load8(x4) * e + a4
                a5 = load8(x4 + tile) * e + a5
                a6 = load8(x4 + 2 * tile) * e + a6
                a7 = load8(x4 + 3 * tile) * e + a7
            store(y, a0)
            store(y + tile, a1)
            store(y + 2 * tile, a2)
            store(y + 3 * tile, a3)
            store(y4, a4)
            store(y4 + tile, a5)
            store(y4 + 2 * tile, a6)
            store(y4 + 3 * tile, a7)
    fours = count - count % 4
    for v in range(0, tile, 8):
        w = weights + v
        for t in range(whole + v, width, tile):
            a0, a1, a2, a3 = load8(out + t), splat8(ZERO), splat8(ZERO), splat8(ZERO)
            for j in range(0, fours, 4):  # four chains of additions at a time, to hide the latency of one
                wj = w + j * tile
                a0 = load8(same_at(like, rows[j]) + t) * load8(wj) + a0
                a1 = load8(same_at(like, rows[j + 1]) + t) * load8(wj + tile) + a1
                a2 = load8(same_at(like, rows[j + 2]) + t) * load8(wj + 2 * tile) + a2
                a3 = load8(same_at(like, rows[j + 3]) + t) * load8(wj + 3 * tile) + a3
            for j in range(fours, count):
                a0 = load8(same_at(like, rows[j]) + t) * load8(w + j * tile) + a0
            store(out + t, (a0 + a1) + (a2 + a3))


@compiled
def _add_rows_to_four(
    block: Any, like: Any, rows: Any, count: int, shift: int, weights: Any, stride: int, out: Any
) -> None:
    """`_add_rows` for four sums, which share each load: weights `stride` apart, and rows `shift` apart, are theirs."""
    apart()
    tile, width = block.tile, block.width
    w1, w2, w3 = weights + stride, weights + 2 * stride, weights + 3 * stride
    shift2, shift3 = 2 * shift, 3 * shift
    for v in range(0, tile, 8):
        for t in range(v, width, 2 * tile):
            u = t + tile if t + tile < width else t  # an odd tile at the end is computed twice
            y0 = out
            y1, y2, y3 = out + width, out + 2 * width, out + 3 * width
            a0, a1, a2, a3 = load8(y0 + t), load8(y1 + t), load8(y2 + t), load8(y3 + t)
            b0, b1, b2, b3 = load8(y0 + u), load8(y1 + u), load8(y2 + u), load8(y3 + u)
            for j in range(count):
                x, k = same_at(like, rows[j]), j * tile + v
                e0, e1, e2, e3 = load8(weights + k), load8(w1 + k), load8(w2 + k), load8(w3 + k)
                a0 = load8(x + t) * e0 + a0
                b0 = load8(x + u) * e0 + b0
                a1 = load8(x + (shift + t)) * e1 + a1
                b1 = load8(x + (shift + u)) * e1 + b1
                a2 = load8(x + (shift2 + t)) * e2 + a2
                b2 = load8(x + (shift2 + u)) * e2 + b2
                a3 = load8(x + (shift3 + t)) * e3 + a3
                b3 = load8(x + (shift3 + u)) * e3 + b3
            store(y0 + t, a0)
            store(y1 + t, a1)
            store(y2 + t, a2)
            store(y3 + t, a3)
            store(y0 + u, b0)
            store(y1 + u, b1)
            store(y2 + u, b2)
            store(y3 + u, b3)


@compiled
def _sum(block: Any, s: Any, values: Any, whose: Whose, items: Items, tokens: int, count: int, target: int) -> None:
    """Write the sum of the items, tokens first and then slots, into a slot, for some landmarks."""
    apart()
    m, tile, width, stride = block.landmarks, block.tile, block.width, block.most_items * block.tile
    part, sums, low, landmarks = _slot(block, s, target), m * tile, whose.low, whose.high - whose.low
    for k in range(landmarks):
        i, weights = low + k, items.weights + k * stride
        to_sum = i * tile - sums - low * width  # from an item's values for `low` to its sum for i
        for v in range(0, tile, 8):
            largest, total = splat8(FLOOR), splat8(ZERO)
            for j in range(count):
                largest = larger(load8(weights + (j * tile + v)), largest)
            for j in range(tokens):
                e = exp(load8(weights + (j * tile + v)) - largest)
                store(weights + (j * tile + v), e)
                total = total + e
            for j in range(tokens, count):
                e = exp(load8(weights + (j * tile + v)) - largest)
                store(weights + (j * tile + v), e)
                total = load8(floats_at(items.rows[j]) + (to_sum + v)) * e + total
            store(part + (i * tile + v), largest)
            store(part + (sums + i * tile + v), total)
    out = part + (2 * sums + low * width)
    for t in range(0, landmarks * width, 8):
        store(out + t, splat8(ZERO))
    slots, weights = count - tokens, items.weights + tokens * tile
    if landmarks == 4:
        _add_rows_to_four(
            block, values, items.rows, tokens, 0, items.weights, stride, out
        )  # a literal: one load for all
        _add_rows_to_four(block, s, items.rows + tokens, slots, width, weights, stride, out)
        return
    for k in range(landmarks):
        _add_rows(block, values, items.rows, tokens, items.weights + k * stride, out + k * width)
        _add_rows(block, s, items.rows + tokens, slots, weights + k * stride, out + k * width)
        for j in range(tokens, count):
            items.rows[j] += 4 * width


@compiled
def _total(block: Any, s: Any, values: Any, whose: Whose, tier: int, k: int, slots: int, items: Items) -> None:
    """Sum the total of block k of a tier; `slots` is the slot of its first total."""
    apart()
    counts = ints_at(block.counts)
    first, size = start_and_size(k, counts[tier], counts[tier + 1])
    below, end = slots - counts[tier] if tier else 0, ints_at(block.newest)[slots + k]
    count = _collect(block, s, values, whose, end, below + first, below + first + size, tier > 0, items, np.int64(0))
    _sum(block, s, values, whose, items, count if tier == 0 else np.int64(0), count, slots + k)


@compiled
def _middle(block: Any, s: Any, values: Any, whose: Whose, first: int, last: int, gap: int, items: Items) -> None:
    """Sum the middle that leaves out the places first ... last − 1 of the ring.

    Totals of blocks that were completed in the last `gap` groups are summed first.
    """
    apart()
    groups, tiers, counts = block.groups, block.tiers, ints_at(block.counts)
    end = (first * block.update_size + block.window - 1) % block.window
    low, length, slots, completed = first, groups, np.int64(TOTALS), True
    for tier in range(tiers):
        k, j, _ = locate(low, length, counts[tier + 1])
        completed = completed and (j < gap if tier == 0 else j == 0)
        if completed:
            _total(block, s, values, whose, tier, (k - 1) % counts[tier + 1], slots, items)
        low, length, slots = k, counts[tier + 1], slots + counts[tier + 1]
    low, high, length = first, (last - 1) % groups, groups
    base, tokens, count = np.int64(0), np.int64(0), np.int64(0)  # Numba would compile a variant for a literal
    for tier in range(tiers + 1):
        k = k_high = 0
        start, stop = 0, length
        if tier < tiers:
            k, j, _ = locate(low, length, counts[tier + 1])
            k_high, j_high, size = locate(high, length, counts[tier + 1])
            start, stop = low - j, high - j_high + size
        elif low > high:  # the rest is one run
            start, stop = low, low
        count = _collect(block, s, values, whose, end, base + start, base + low, tier > 0, items, count)
        count = _collect(block, s, values, whose, end, base + high + 1, base + stop, tier > 0, items, count)
        if tier == 0:
            tokens, base = count, np.int64(TOTALS)
        else:
            base += length
        if tier < tiers:
            low, high, length = k, k_high, counts[tier + 1]
    _sum(block, s, values, whose, items, tokens, count, np.int64(MIDDLE))


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
def items_in(block: Any, scratch: Any) -> Items:
    """Room for the items of a sum."""
    return Items(scratch, ints_at(address_of(scratch + block.together * block.most_items * block.tile)))


@compiled
def _edge_logit(block: Any, s: Any, own: int, e: int, token: int, new: int, rate: Any) -> Any:
    """The logit of edge e, as it was when the middle ended; `new` edges have been overwritten since, the others not."""
    x = load8(s + (block.logits_at + token * block.landmarks * block.tile + own))
    if block.decays == 1:
        x = x + rate * splat8(np.float32(e + 1 if e < new else e + 1 - block.window))
    return x


@compiled
def _weigh_edges(
    block: Any, s: Any, new: int, first: int, last: int, i: int, v: int, c: Any, out: Any, stride: int
) -> None:
    """Write exp(logit − c) of the edges of landmark i, groups first ... last − 1, `stride` apart."""
    apart()
    n, r, token = block.window, block.update_size, (first * block.update_size) % block.window
    rate = load8(floats_at(block.decay) + v)
    for e in range((last - first) * r):
        x = _edge_logit(block, s, i * block.tile + v, e, token, new, rate) - c
        store(out + e * stride, exp(smaller(x, splat8(EXP_MAX))))
        token = token + 1 if token + 1 < n else 0


@compiled
def _largest(block: Any, s: Any, new: int, first: int, last: int, i: int, v: int) -> Any:
    """The largest logit of the window for landmark i."""
    apart()
    n, r, token = block.window, block.update_size, (first * block.update_size) % block.window
    own, rate = i * block.tile + v, load8(floats_at(block.decay) + v)
    largest = load8(s + (block.parts_at + own))
    for e in range((last - first) * r):
        largest = larger(_edge_logit(block, s, own, e, token, new, rate), largest)
        token = token + 1 if token + 1 < n else 0
    return largest


@merged
def advance(block: Any, s: Any, values: Any, group: int, scratch: Any) -> None:
    """Take in a group that is already in the rings; landmarks that begin a new block with it get a new middle."""
    m, r, tile, p = block.landmarks, block.update_size, block.tile, phase(block, group)
    row, edges, rates, place = m * tile, s + block.edges_at, floats_at(block.decay), p.place
    for i in range(m):
        first, last = _edges(block, p, i)
        if first == place:
            if i % block.together == 0:
                gap = place - (p.start - p.before + _shift(block, p.before, i))
                whose = Whose(i, min(i + block.together, m))
                _middle(block, s, values, whose, place, last, gap, items_in(block, scratch))
            for v in range(0, tile, 8):
                own = i * tile + v
                _weigh_edges(block, s, r, first, last, i, v, load8(s + (block.parts_at + own)), edges + own, row)
        else:
            for q in range(r):
                e = (place - first) * r + q
                for v in range(0, tile, 8):
                    own = i * tile + v
                    x = _edge_logit(block, s, own, e, place * r + q, e + 1, load8(rates + v))
                    x = smaller(x - load8(s + (block.parts_at + own)), splat8(EXP_MAX))
                    store(edges + (e * row + own), exp(x))


@merged
def rebuild(block: Any, s: Any, values: Any, newest: int, low: int, high: int, scratch: Any) -> None:
    """Compute the partials from the rings, for landmarks low ... high − 1; `newest` is the newest group."""
    groups, counts, items, p = block.groups, ints_at(block.counts), items_in(block, scratch), phase(block, newest)
    row, tile = block.landmarks * block.tile, block.tile
    for team in range(low, high, block.together):
        whose, slots = Whose(team, min(team + block.together, high)), np.int64(TOTALS)
        for tier in range(block.tiers):
            for index in range(counts[tier + 1]):
                _total(block, s, values, whose, tier, index, slots, items)
            slots += counts[tier + 1]
        first, last = _edges(block, p, team)
        _middle(block, s, values, whose, first % groups, last, np.int64(0), items)
    for i in range(low, high):
        first, last = _edges(block, p, i)
        for v in range(0, tile, 8):
            own, new = i * tile + v, (p.place + 1 - first) * block.update_size
            c = load8(s + (block.parts_at + own))
            _weigh_edges(block, s, new, first, last, i, v, c, s + (block.edges_at + own), row)


@compiled
def _add_weights(total: Any, weights: Any, count: int, stride: int) -> Any:
    for e in range(count):
        total = total + load8(weights + e * stride)
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
    for at in range(0, r * (room + m) * tile, 8):  # weights of the edges and of the rows of the middle
        store(scratch + at, splat8(ZERO))
    spare = scratch + (r * (room + m) * tile + 2 * (room + m))
    for i in range(m):
        first, last = _edges(block, p, i)
        edge, count, new = (first - origin) * r, (last - first) * r, (p.place + 1 - first) * r
        first_edge, last_edge = min(first_edge, edge), max(last_edge, edge + count)
        for v in range(0, tile, 8):
            own, share = i * tile + v, splat8(ONE)
            own_weights, own_stride = s + (block.edges_at + own), row
            middle = load8(part + (row + own))
            total = _add_weights(middle, own_weights, count, own_stride)
            if not within(total, HALF, HIGH):
                largest = _largest(block, s, new, first, last, i, v)
                own_weights, own_stride = spare, 8
                _weigh_edges(block, s, new, first, last, i, v, largest, own_weights, own_stride)
                share = exp(load8(part + own) - largest)
                total = _add_weights(middle * share, own_weights, count, own_stride)
            for q in range(r):
                weight = load8(weights + (q * row + own)) / total
                shares = scratch + (q * (room + m) * tile + v)
                store(shares + (room + i) * tile, weight * share)
                for e in range(count):
                    at = shares + (edge + e) * tile
                    store(at, load8(own_weights + e * own_stride) * weight + load8(at))
    rows = ints_at(address_of(scratch + r * (room + m) * tile))
    token = (origin * r + first_edge + n) % n
    for e in range(first_edge, last_edge):
        rows[e] = address_of(values + token * block.stride)
        token = token + 1 if token + 1 < n else 0
    for i in range(m):
        rows[room + i] = address_of(part + (2 * row + i * width))
    for q in range(r):
        shares, target = scratch + q * (room + m) * tile, out + q * stride
        for t in range(0, width, 8):
            store(target + t, splat8(ZERO))
        _add_rows(block, values, rows + first_edge, last_edge - first_edge, shares + first_edge * tile, target)
        _add_rows(block, s, rows + room, m, shares + room * tile, target)


@compiled
def prefetch_step(block: Any, s: Any, values: Any, group: int) -> None:
    """Prefetch what the step of `group` reads, except for new middles."""
    apart()
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
        for v in range(0, tile, 8):
            weight = splat8(ZERO)
            for j in range(m):
                weight = load8(beta + (j * tile + v)) * load8(gamma_pinv + ((j * m + i) * tile + v)) + weight
            store(weights + (i * tile + v), weight)
