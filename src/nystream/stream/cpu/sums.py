"""Sums over parts of a window, written into slots: the totals of the tiers, and the middle (see `sliding`).

A sum has items, tokens first and then slots. Their logits are collected, turned into weights, and multiplied with their
values, for one landmark or for four that share each load.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nystream.stream.cpu.memory import address_of, floats_at, ints_at, same_at
from nystream.stream.cpu.simd import apart, compiled, exp, inlined, lanes, larger, load, splat, store

FLOOR = np.float32(-1e30)
ZERO = np.float32(0.0)
MIDDLE, TOTALS = 0, 1  # slots


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
        for v in range(0, tile, lanes(block)):
            rate, logit = load(block, rates + v), logits + (first * step + i * tile + v)
            into = items.weights + ((i - whose.low) * stride + count * tile + v)
            for k in range(last - first):
                x = load(block, logit + k * step)
                if decays:
                    age = end - (ints_at(block.newest)[first + k] if slots else first + k)
                    x = x - rate * splat(block, np.float32(age if age >= 0 else age + n))
                store(into + k * tile, x)
    return count + max(last - first, 0)


@compiled
def add_rows(block: Any, like: Any, rows: Any, count: int, weights: Any, out: Any) -> None:
    """out += Σ weight · row, for `count` rows of `width` numbers at the addresses `rows`, of the type of `like`."""
    apart()
    tile, width = block.tile, block.width
    whole = width - width % (8 * tile)
    for t in range(0, whole, 8 * tile):
        for v in range(t, t + tile, lanes(block)):
            y, w = out + v, weights + (v - t)
            y4 = y + 4 * tile
            a0, a1, a2, a3 = load(block, y), load(block, y + tile), load(block, y + 2 * tile), load(block, y + 3 * tile)
            a4, a5 = load(block, y4), load(block, y4 + tile)
            a6, a7 = load(block, y4 + 2 * tile), load(block, y4 + 3 * tile)
            for j in range(count):
                x, e = same_at(like, rows[j]) + v, load(block, w + j * tile)
                x4 = x + 4 * tile
                a0 = load(block, x) * e + a0
                a1 = load(block, x + tile) * e + a1
                a2 = load(block, x + 2 * tile) * e + a2
                a3 = load(block, x + 3 * tile) * e + a3
                a4 = load(block, x4) * e + a4
                a5 = load(block, x4 + tile) * e + a5
                a6 = load(block, x4 + 2 * tile) * e + a6
                a7 = load(block, x4 + 3 * tile) * e + a7
            store(y, a0)
            store(y + tile, a1)
            store(y + 2 * tile, a2)
            store(y + 3 * tile, a3)
            store(y4, a4)
            store(y4 + tile, a5)
            store(y4 + 2 * tile, a6)
            store(y4 + 3 * tile, a7)
    if width - whole >= 4 * tile:
        for v in range(whole, whole + tile, lanes(block)):
            y, w = out + v, weights + (v - whole)
            a0, a1, a2, a3 = load(block, y), load(block, y + tile), load(block, y + 2 * tile), load(block, y + 3 * tile)
            for j in range(count):
                x, e = same_at(like, rows[j]) + v, load(block, w + j * tile)
                a0 = load(block, x) * e + a0
                a1 = load(block, x + tile) * e + a1
                a2 = load(block, x + 2 * tile) * e + a2
                a3 = load(block, x + 3 * tile) * e + a3
            store(y, a0)
            store(y + tile, a1)
            store(y + 2 * tile, a2)
            store(y + 3 * tile, a3)
        whole += 4 * tile
    fours = count - count % 4
    for v in range(0, tile, lanes(block)):
        w = weights + v
        for t in range(whole + v, width, tile):
            a0, a1, a2, a3 = load(block, out + t), splat(block, ZERO), splat(block, ZERO), splat(block, ZERO)
            for j in range(0, fours, 4):  # four chains of additions at a time, to hide the latency of one
                wj = w + j * tile
                a0 = load(block, same_at(like, rows[j]) + t) * load(block, wj) + a0
                a1 = load(block, same_at(like, rows[j + 1]) + t) * load(block, wj + tile) + a1
                a2 = load(block, same_at(like, rows[j + 2]) + t) * load(block, wj + 2 * tile) + a2
                a3 = load(block, same_at(like, rows[j + 3]) + t) * load(block, wj + 3 * tile) + a3
            for j in range(fours, count):
                a0 = load(block, same_at(like, rows[j]) + t) * load(block, w + j * tile) + a0
            store(out + t, (a0 + a1) + (a2 + a3))


@inlined  # with a shift of zero, the four share each load of a value, too
def _add_rows_to_four(
    block: Any, like: Any, rows: Any, count: int, shift: int, weights: Any, stride: int, out: Any
) -> None:
    """`add_rows` for four sums: weights `stride` apart, and rows `shift` apart, are theirs."""
    tile, width = block.tile, block.width
    w1, w2, w3 = weights + stride, weights + 2 * stride, weights + 3 * stride
    shift2, shift3 = 2 * shift, 3 * shift
    for v in range(0, tile, lanes(block)):
        for t in range(v, width, 2 * tile):
            u = t + tile if t + tile < width else t  # an odd tile at the end is computed twice
            y0 = out
            y1, y2, y3 = out + width, out + 2 * width, out + 3 * width
            a0, a1, a2, a3 = load(block, y0 + t), load(block, y1 + t), load(block, y2 + t), load(block, y3 + t)
            b0, b1, b2, b3 = load(block, y0 + u), load(block, y1 + u), load(block, y2 + u), load(block, y3 + u)
            for j in range(count):
                x, k = same_at(like, rows[j]), j * tile + v
                e0, e1, e2, e3 = load(block, weights + k), load(block, w1 + k), load(block, w2 + k), load(block, w3 + k)
                a0 = load(block, x + t) * e0 + a0
                b0 = load(block, x + u) * e0 + b0
                a1 = load(block, x + (shift + t)) * e1 + a1
                b1 = load(block, x + (shift + u)) * e1 + b1
                a2 = load(block, x + (shift2 + t)) * e2 + a2
                b2 = load(block, x + (shift2 + u)) * e2 + b2
                a3 = load(block, x + (shift3 + t)) * e3 + a3
                b3 = load(block, x + (shift3 + u)) * e3 + b3
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
        for v in range(0, tile, lanes(block)):
            largest, total = splat(block, FLOOR), splat(block, ZERO)
            for j in range(count):
                largest = larger(load(block, weights + (j * tile + v)), largest)
            for j in range(tokens):
                e = exp(load(block, weights + (j * tile + v)) - largest)
                store(weights + (j * tile + v), e)
                total = total + e
            for j in range(tokens, count):
                e = exp(load(block, weights + (j * tile + v)) - largest)
                store(weights + (j * tile + v), e)
                total = load(block, floats_at(items.rows[j]) + (to_sum + v)) * e + total
            store(part + (i * tile + v), largest)
            store(part + (sums + i * tile + v), total)
    out = part + (2 * sums + low * width)
    for t in range(0, landmarks * width, lanes(block)):
        store(out + t, splat(block, ZERO))
    slots, weights = count - tokens, items.weights + tokens * tile
    if landmarks == 4:
        _add_rows_to_four(block, values, items.rows, tokens, np.int64(0), items.weights, stride, out)
        _add_rows_to_four(block, s, items.rows + tokens, slots, width, weights, stride, out)
        return
    for k in range(landmarks):
        add_rows(block, values, items.rows, tokens, items.weights + k * stride, out + k * width)
        add_rows(block, s, items.rows + tokens, slots, weights + k * stride, out + k * width)
        for j in range(tokens, count):
            items.rows[j] += 4 * width


@compiled
def total(block: Any, s: Any, values: Any, whose: Whose, tier: int, k: int, slots: int, items: Items) -> None:
    """Sum the total of block k of a tier; `slots` is the slot of its first total."""
    counts = ints_at(block.counts)
    first, size = start_and_size(k, counts[tier], counts[tier + 1])
    below, end = slots - counts[tier] if tier else 0, ints_at(block.newest)[slots + k]
    count = _collect(block, s, values, whose, end, below + first, below + first + size, tier > 0, items, np.int64(0))
    _sum(block, s, values, whose, items, count if tier == 0 else np.int64(0), count, slots + k)


@compiled
def totals(block: Any, s: Any, values: Any, whose: Whose, first: int, gap: int, items: Items) -> None:
    """Sum the totals of blocks that were completed in the last `gap` places of the ring before `first`."""
    counts, low, length, slots, completed = ints_at(block.counts), first, block.groups, np.int64(TOTALS), True
    for tier in range(block.tiers):
        k, j, _ = locate(low, length, counts[tier + 1])
        completed = completed and (j < gap if tier == 0 else j == 0)
        if completed:
            total(block, s, values, whose, tier, (k - 1) % counts[tier + 1], slots, items)
        low, length, slots = k, counts[tier + 1], slots + counts[tier + 1]


@compiled
def middle(block: Any, s: Any, values: Any, whose: Whose, first: int, last: int, items: Items) -> None:
    """Sum the middle that leaves out the places first ... last − 1 of the ring."""
    apart()
    groups, tiers, counts = block.groups, block.tiers, ints_at(block.counts)
    end = (first * block.update_size + block.window - 1) % block.window
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


@compiled
def items_in(block: Any, scratch: Any) -> Items:
    """Room for the items of a sum."""
    return Items(scratch, ints_at(address_of(scratch + block.together * block.most_items * block.tile)))
