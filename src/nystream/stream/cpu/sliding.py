"""The sliding window over parts, as in `nystream.ops.sliding`, with less work a step.

A part is the triple of a set of tokens for every landmark: the largest logit and the sum of the exponentials, [m, T]
each, then the weighted sum of the values, [m, width]. The window of N groups is cut into K segments; while segment k is
overwritten it is

    the new groups of k   +   the old groups of k and segments k+1 ... k−2   +   segment k−1
         (back)                     (front: a suffix that began at a seed)         (last)

The suffixes of the segment that is overwritten next are built one group a push. They begin at a seed, the sum of the
segments that will stay whole meanwhile, so a read combines three parts, whatever K. The seed of the next but one is
gathered one segment a push; the segment that was completed last joins it at the first push of the next.

Slots: 0 identity, 1 the seed being gathered, 2 and 3 the two seeds, then K totals, then L suffixes; those read and
those built grow from opposite ends, in turn. Cost of a push and a read: 7 m width multiplications, 2 more while a seed
is gathered. Needs K − 3 <= ⌊N / K⌋.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.lanes import softmax
from nystream.stream.cpu.plan import (
    LANDMARKS,
    LANES,
    LOGITS_AT,
    LONGEST,
    PART,
    PARTS_AT,
    SEGMENTS,
    VALUES_AT,
    WIDTH,
    WINDOW,
)
from nystream.stream.cpu.simd import apart, compiled, exp, larger, load8, prefetch, splat8, store

FLOOR = np.float32(-1e30)
ZERO = np.float32(0.0)
IDENTITY, GATHER, SEEDS, TOTALS = 0, 1, 2, 4
LARGE = 4096  # float32 of a part that is worth being asked for ahead of time


@compiled
def absorb(s: Any, source: int, target: int, logit: int, value: int, m: int, tile: int, width: int,
           low: int, high: int) -> None:  # fmt: skip
    """target = source ⊕ one token, for landmarks low ... high − 1."""
    apart()
    sums = m * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            old, new = load8(s, source + p), load8(s, logit + p)
            top = larger(old, new)
            a, e = exp(old - top), exp(new - top)
            store(s, target + p, top)
            store(s, target + sums + p, load8(s, source + sums + p) * a + e)
            for t in range(0, width, tile):
                store(s, target + o + t, load8(s, source + o + t) * a + load8(s, value + v + t) * e)


@compiled
def merge(s: Any, one: int, other: int, target: int, m: int, tile: int, width: int, low: int, high: int) -> None:
    """target = one ⊕ other, for landmarks low ... high − 1."""
    apart()
    sums = m * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            x, y = load8(s, one + p), load8(s, other + p)
            top = larger(x, y)
            a, b = exp(x - top), exp(y - top)
            store(s, target + p, top)
            store(s, target + sums + p, load8(s, one + sums + p) * a + load8(s, other + sums + p) * b)
            for t in range(0, width, tile):
                store(s, target + o + t, load8(s, one + o + t) * a + load8(s, other + o + t) * b)


@compiled
def locate(group: int, groups: int, segments: int) -> tuple[int, int, int, int]:
    """Segment k, place j in it, its size, and turn (0 or 1, alternating) of a group number."""
    x, base, extra = group % groups, groups // segments, groups % segments
    if x < extra * (base + 1):
        k, j, size = x // (base + 1), x % (base + 1), base + 1
    else:
        x -= extra * (base + 1)
        k, j, size = extra + x // base, x % base, base
    return k, j, size, (group // groups * segments + k) % 2


@compiled
def start_and_size(k: int, groups: int, segments: int) -> tuple[int, int]:
    """First group of segment k, and how many it has."""
    base, extra = groups // segments, groups % segments
    return k * base + min(k, extra), base + (1 if k < extra else 0)


@compiled
def slot(plan: Any, b: int, index: int) -> int:
    return int(plan[b + PARTS_AT] + index * plan[b + PART])


@compiled
def suffix(plan: Any, b: int, length: int, turn: int) -> int:
    """Slot of the suffix of so many groups that is read while `turn` lasts; that of none is the seed."""
    if length == 0:
        return slot(plan, b, SEEDS + turn)
    place = length - 1 if turn == 0 else plan[b + LONGEST] - length
    return slot(plan, b, TOTALS + plan[b + SEGMENTS] + place)


@compiled
def absorb_group(s: Any, plan: Any, b: int, source: int, target: int, group: int, r: int, low: int, high: int) -> None:
    """target = source ⊕ the r tokens of a group of the ring."""
    m, tile, width = plan[b + LANDMARKS], plan[b + LANES], plan[b + WIDTH]
    for token in range(group * r, group * r + r):
        logit, value = plan[b + LOGITS_AT] + token * m * tile, plan[b + VALUES_AT] + token * width
        absorb(s, source, target, logit, value, m, tile, width, low, high)
        source = target


@compiled
def push(s: Any, plan: Any, b: int, group: int, r: int) -> None:
    """Take in group number `group`, which the rings hold already."""
    m, tile, width = plan[b + LANDMARKS], plan[b + LANES], plan[b + WIDTH]
    groups, segments = plan[b + WINDOW] // r, plan[b + SEGMENTS]
    k, j, _, turn = locate(group, groups, segments)
    if segments > 2 and j == 0:
        last = (k + segments - 1) % segments
        gathered = slot(plan, b, GATHER if segments > 3 else IDENTITY)
        merge(s, gathered, slot(plan, b, TOTALS + last), slot(plan, b, SEEDS + 1 - turn), m, tile, width, 0, m)
    if j < segments - 3:
        whole = slot(plan, b, TOTALS + (k + 3 + j) % segments)
        so_far = slot(plan, b, GATHER if j else IDENTITY)
        merge(s, so_far, whole, slot(plan, b, GATHER), m, tile, width, 0, m)
    if segments > 1:
        first, size = start_and_size((k + 1) % segments, groups, segments)
        # The one suffix too many, at a segment's end, goes where nothing is read.
        grown, at = suffix(plan, b, j + 1, 1 - turn), max(first + size - 1 - j, 0)
        absorb_group(s, plan, b, suffix(plan, b, j, 1 - turn), grown, at, r, 0, m)
    back = slot(plan, b, TOTALS + k)
    absorb_group(s, plan, b, back if j else slot(plan, b, IDENTITY), back, group % groups, r, 0, m)


@compiled
def prefetch_push(s: Any, plan: Any, b: int, group: int, r: int, own: bool) -> None:
    """Ask for what the push of `group` will read and write; of the stream's own next one, what was not just touched."""
    apart()
    groups, segments, size = plan[b + WINDOW] // r, plan[b + SEGMENTS], plan[b + PART]
    k, j, _, turn = locate(group, groups, segments)
    first, count = start_and_size((k + 1) % segments, groups, segments)
    logits, width = plan[b + LANDMARKS] * plan[b + LANES], plan[b + WIDTH]
    for at in (group % groups, max(first + count - 1 - j, 0)):
        prefetch(s, plan[b + LOGITS_AT] + at * r * logits, r * logits)
        prefetch(s, plan[b + VALUES_AT] + at * r * width, r * width)
    back, front, last = parts(plan, b, group, r)
    prefetch(s, front, size)
    if not own:
        for part in (back, last, suffix(plan, b, j, 1 - turn), suffix(plan, b, j + 1, 1 - turn)):
            prefetch(s, part, size)


@compiled
def parts(plan: Any, b: int, group: int, r: int) -> tuple[int, int, int]:
    """Back, front and last: the three parts of the window whose newest group is `group`."""
    groups, segments = plan[b + WINDOW] // r, plan[b + SEGMENTS]
    k, j, size, turn = locate(group, groups, segments)
    last = slot(plan, b, TOTALS + (k + segments - 1) % segments if segments > 1 else IDENTITY)
    return slot(plan, b, TOTALS + k), suffix(plan, b, size - 1 - j, turn), last


@compiled
def read(s: Any, back: int, front: int, last: int, m: int, tile: int, width: int, g: Any, gamma: int, z: Any,
         beta: int, out: int) -> None:  # fmt: skip
    """softmax(β) Γ† · Δ_φ V of the three parts, into z at `out`; z holds the logits β [m, T] at `beta`."""
    apart()
    sums = m * tile
    softmax(z, beta, m, tile)
    for o in range(0, width, 8):
        store(z, out + o, splat8(ZERO))
    for i in range(m):
        for v in range(0, tile, 8):
            weight = splat8(ZERO)
            for j in range(m):
                weight = load8(z, beta + j * tile + v) * load8(g, gamma + (j * m + i) * tile + v) + weight
            p, o = i * tile + v, 2 * sums + i * width + v
            x1, x2, x3 = load8(s, back + p), load8(s, front + p), load8(s, last + p)
            top = larger(larger(x1, x2), x3)
            c1, c2, c3 = exp(x1 - top), exp(x2 - top), exp(x3 - top)
            p += sums
            weight = weight / (load8(s, back + p) * c1 + load8(s, front + p) * c2 + load8(s, last + p) * c3)
            c1, c2, c3 = c1 * weight, c2 * weight, c3 * weight
            for t in range(0, width, tile):
                held = load8(s, back + o + t) * c1 + load8(z, out + v + t)
                held = load8(s, front + o + t) * c2 + held
                store(z, out + v + t, load8(s, last + o + t) * c3 + held)


@compiled
def rebuild(s: Any, plan: Any, b: int, newest: int, r: int, low: int, high: int) -> None:
    """The parts from the rings, for landmarks low ... high − 1; `newest` is the number of the newest group."""
    m, tile, width = plan[b + LANDMARKS], plan[b + LANES], plan[b + WIDTH]
    groups, segments = plan[b + WINDOW] // r, plan[b + SEGMENTS]
    k, j, size, turn = locate(newest, groups, segments)
    nothing = slot(plan, b, IDENTITY)
    for segment in range(segments):
        first, count = start_and_size(segment, groups, segments)
        source, target = nothing, slot(plan, b, TOTALS + segment)
        for group in range(first, first + (j + 1 if segment == k else count)):
            absorb_group(s, plan, b, source, target, group, r, low, high)
            source = target
    for ahead in range(2):  # the seed that is read, and the one that suffixes are built on
        target = slot(plan, b, SEEDS + (turn + ahead) % 2)
        merge(s, nothing, nothing, target, m, tile, width, low, high)
        for step in range(1, segments - 1):
            total = slot(plan, b, TOTALS + (k + ahead + step) % segments)
            merge(s, target, total, target, m, tile, width, low, high)
    target = slot(plan, b, GATHER)
    merge(s, nothing, nothing, target, m, tile, width, low, high)
    for step in range(min(j + 1, segments - 3)):
        merge(s, target, slot(plan, b, TOTALS + (k + 3 + step) % segments), target, m, tile, width, low, high)
    for ahead in range(2):
        first, count = start_and_size((k + ahead) % segments, groups, segments)
        longest = size - 1 - j if ahead == 0 else min(j + 1, count - 1)
        way = (turn + ahead) % 2
        for length in range(1, longest + 1):
            source, target = suffix(plan, b, length - 1, way), suffix(plan, b, length, way)
            absorb_group(s, plan, b, source, target, first + count - length, r, low, high)
