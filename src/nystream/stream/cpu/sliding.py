"""The sliding window over partials, as in `nystream.ops.sliding`, with fewer multiplications per step.

A partial, as in `nystream.ops.partials`, has the largest logits c and the sums s of exponentials, [m, T] each, then
the weighted sums u of values, [m, width]. A window of N groups has K segments. While segment k is overwritten, it is

    the new groups of k   +   the old groups of k and segments k+1 ... k−2   +   segment k−1
         (back)                 (front: a suffix that starts from a seed)           (last)

The suffixes of the next segment to be overwritten are built one group per push. They start from a seed, the sum of the
segments that stay whole in the meantime, so a read combines three partials, whatever K is. The seed after that is
gathered one segment per push; the segment that was completed last joins it at the first push of the next segment.

Slots: 0 identity, 1 the seed being gathered, 2 and 3 the two seeds, then K segment totals, then L suffixes. Suffixes
that are read and suffixes that are built share these slots: they grow from opposite ends and swap roles with every
segment. A push and a read cost 7 m width multiplications, and 2 m width more while a seed is gathered. Needs
K − 3 <= ⌊N / K⌋.

In all functions, s is the state of one stream, and groups are numbered from the first one of the stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.lanes import softmax
from nystream.stream.cpu.simd import apart, compiled, exp, larger, load8, prefetch, splat8, store

FLOOR = np.float32(-1e30)
ZERO = np.float32(0.0)
IDENTITY, GATHER, SEEDS, TOTALS = 0, 1, 2, 4
PREFETCH_SIZE = 4096  # partials of more float32 than this are worth prefetching


@compiled
def absorb(block: Any, source: Any, target: Any, logit: Any, value: Any, low: int, high: int) -> None:
    """target = source ⊕ one token, for landmarks low ... high − 1."""
    apart()
    tile, width = block.tile, block.width
    sums = block.landmarks * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            old, new = load8(source + p), load8(logit + p)
            largest = larger(old, new)
            a, e = exp(old - largest), exp(new - largest)
            store(target + p, largest)
            store(target + (sums + p), load8(source + (sums + p)) * a + e)
            for t in range(0, width, tile):
                store(target + (o + t), load8(source + (o + t)) * a + load8(value + (v + t)) * e)


@compiled
def merge(block: Any, part: Any, other: Any, target: Any, low: int, high: int) -> None:
    """target = part ⊕ other, for landmarks low ... high − 1."""
    apart()
    tile, width = block.tile, block.width
    sums = block.landmarks * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            x, y = load8(part + p), load8(other + p)
            largest = larger(x, y)
            a, b = exp(x - largest), exp(y - largest)
            store(target + p, largest)
            store(target + (sums + p), load8(part + (sums + p)) * a + load8(other + (sums + p)) * b)
            for t in range(0, width, tile):
                store(target + (o + t), load8(part + (o + t)) * a + load8(other + (o + t)) * b)


@compiled
def locate(group: int, groups: int, segments: int) -> tuple[int, int, int, int]:
    """Segment k of a group, its index j in the segment, the segment's size, and its turn (0 or 1, alternating)."""
    x, base, extra = group % groups, groups // segments, groups % segments
    if x < extra * (base + 1):
        k, j, size = x // (base + 1), x % (base + 1), base + 1
    else:
        x -= extra * (base + 1)
        k, j, size = extra + x // base, x % base, base
    return k, j, size, (group // groups * segments + k) % 2


@compiled
def start_and_size(k: int, groups: int, segments: int) -> tuple[int, int]:
    """First group of segment k, and its number of groups."""
    base, extra = groups // segments, groups % segments
    return k * base + min(k, extra), base + (1 if k < extra else 0)


@compiled
def slot(block: Any, s: Any, index: int) -> Any:
    return s + (block.parts_at + index * block.part_size)


@compiled
def suffix(block: Any, s: Any, length: int, turn: int) -> Any:
    """The suffix of `length` groups that is read during `turn`; the one of no groups is the seed."""
    if length == 0:
        return slot(block, s, SEEDS + turn)
    place = length - 1 if turn == 0 else block.longest_segment - length
    return slot(block, s, TOTALS + block.segments + place)


@compiled
def absorb_group(block: Any, s: Any, source: Any, target: Any, group: int, low: int, high: int) -> None:
    """target = source ⊕ the tokens of a group in the rings."""
    r, width, logits = block.update_size, block.width, block.landmarks * block.tile
    for token in range(group * r, group * r + r):
        logit, value = s + (block.logits_at + token * logits), s + (block.values_at + token * width)
        absorb(block, source, target, logit, value, low, high)
        source = target


@compiled
def push(block: Any, s: Any, group: int) -> None:
    """Add a group that is already in the rings."""
    m, groups, segments = block.landmarks, block.groups, block.segments
    k, j, _, turn = locate(group, groups, segments)
    if segments > 2 and j == 0:
        last = slot(block, s, TOTALS + (k + segments - 1) % segments)
        gathered = slot(block, s, GATHER if segments > 3 else IDENTITY)
        merge(block, gathered, last, slot(block, s, SEEDS + 1 - turn), 0, m)
    if j < segments - 3:
        total = slot(block, s, TOTALS + (k + 3 + j) % segments)
        gathered = slot(block, s, GATHER if j else IDENTITY)
        merge(block, gathered, total, slot(block, s, GATHER), 0, m)
    if segments > 1:
        first, size = start_and_size((k + 1) % segments, groups, segments)
        # At the end of a segment this builds one suffix too many, in a slot that is not read.
        shorter, longer = suffix(block, s, j, 1 - turn), suffix(block, s, j + 1, 1 - turn)
        absorb_group(block, s, shorter, longer, max(first + size - 1 - j, 0), 0, m)
    back = slot(block, s, TOTALS + k)
    absorb_group(block, s, back if j else slot(block, s, IDENTITY), back, group % groups, 0, m)


@compiled
def prefetch_push(block: Any, s: Any, group: int, just_pushed: bool) -> None:
    """Prefetch what the push of `group` will read and write, except what the push before has just touched."""
    apart()
    r, groups, segments, size = block.update_size, block.groups, block.segments, block.part_size
    k, j, _, turn = locate(group, groups, segments)
    first, count = start_and_size((k + 1) % segments, groups, segments)
    logits, width = r * block.landmarks * block.tile, r * block.width
    for at in (group % groups, max(first + count - 1 - j, 0)):
        prefetch(s + (block.logits_at + at * logits), logits)
        prefetch(s + (block.values_at + at * width), width)
    back, front, last = parts(block, s, group)
    prefetch(front, size)
    if not just_pushed:
        for part in (back, last, suffix(block, s, j, 1 - turn), suffix(block, s, j + 1, 1 - turn)):
            prefetch(part, size)


@compiled
def parts(block: Any, s: Any, group: int) -> tuple[Any, Any, Any]:
    """Back, front and last: the three partials of the window whose newest group is `group`."""
    segments = block.segments
    k, j, size, turn = locate(group, block.groups, segments)
    last = slot(block, s, TOTALS + (k + segments - 1) % segments if segments > 1 else IDENTITY)
    return slot(block, s, TOTALS + k), suffix(block, s, size - 1 - j, turn), last


@compiled
def read(block: Any, window: tuple[Any, Any, Any], gamma_pinv: Any, beta: Any, out: Any) -> None:
    """out = softmax(β) Γ† · Δ_φ V for the three partials of a window; β [m, T] are logits and are overwritten."""
    apart()
    back, front, last = window
    m, tile, width = block.landmarks, block.tile, block.width
    sums = m * tile
    softmax(beta, m, tile)
    for o in range(0, width, 8):
        store(out + o, splat8(ZERO))
    for i in range(m):
        for v in range(0, tile, 8):
            weight = splat8(ZERO)
            for j in range(m):
                weight = load8(beta + (j * tile + v)) * load8(gamma_pinv + ((j * m + i) * tile + v)) + weight
            p, o = i * tile + v, 2 * sums + i * width + v
            x1, x2, x3 = load8(back + p), load8(front + p), load8(last + p)
            largest = larger(larger(x1, x2), x3)
            c1, c2, c3 = exp(x1 - largest), exp(x2 - largest), exp(x3 - largest)
            p += sums
            weight = weight / (load8(back + p) * c1 + load8(front + p) * c2 + load8(last + p) * c3)
            c1, c2, c3 = c1 * weight, c2 * weight, c3 * weight
            for t in range(0, width, tile):
                total = load8(back + (o + t)) * c1 + load8(out + (v + t))
                total = load8(front + (o + t)) * c2 + total
                store(out + (v + t), load8(last + (o + t)) * c3 + total)


@compiled
def rebuild(block: Any, s: Any, newest: int, low: int, high: int) -> None:
    """Compute the partials from the rings, for landmarks low ... high − 1; `newest` is the newest group."""
    groups, segments = block.groups, block.segments
    k, j, size, turn = locate(newest, groups, segments)
    identity = slot(block, s, IDENTITY)
    for segment in range(segments):
        first, count = start_and_size(segment, groups, segments)
        source, target = identity, slot(block, s, TOTALS + segment)
        for group in range(first, first + (j + 1 if segment == k else count)):
            absorb_group(block, s, source, target, group, low, high)
            source = target
    for ahead in range(2):  # the seed being read, and the one that new suffixes start from
        target = slot(block, s, SEEDS + (turn + ahead) % 2)
        merge(block, identity, identity, target, low, high)
        for step in range(1, segments - 1):
            merge(block, target, slot(block, s, TOTALS + (k + ahead + step) % segments), target, low, high)
    target = slot(block, s, GATHER)
    merge(block, identity, identity, target, low, high)
    for step in range(min(j + 1, segments - 3)):
        merge(block, target, slot(block, s, TOTALS + (k + 3 + step) % segments), target, low, high)
    for ahead in range(2):
        first, count = start_and_size((k + ahead) % segments, groups, segments)
        longest = size - 1 - j if ahead == 0 else min(j + 1, count - 1)
        read_in = (turn + ahead) % 2
        for length in range(1, longest + 1):
            source, target = suffix(block, s, length - 1, read_in), suffix(block, s, length, read_in)
            absorb_group(block, s, source, target, first + count - length, low, high)
