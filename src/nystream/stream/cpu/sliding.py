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

Decay (`nystream.ops.decay`): the logits of a part are lowered by λ times their age at the end of the part. The back
ends with the newest group, a total with its segment; a seed, and the suffixes that start from it, with the newest
segment of the seed. A part that is combined is lowered by λ times the tokens from its end to the end of the result.
Without decay λ = 0, and nothing changes.

In all functions, s is the state of one stream, and groups are numbered from the first one of the stream. Ages are in
tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.lanes import softmax
from nystream.stream.cpu.memory import floats_at
from nystream.stream.cpu.simd import apart, compiled, exp, larger, load8, prefetch, splat8, store

FLOOR = np.float32(-1e30)
ZERO = np.float32(0.0)
IDENTITY, GATHER, SEEDS, TOTALS = 0, 1, 2, 4
PREFETCH_SIZE = 4096  # partials of more float32 than this are worth prefetching


@compiled
def absorb(
    block: Any, source: Any, passed: int, target: Any, logit: Any, value: Any, age: int, low: int, high: int
) -> None:
    """target = source ⊕ one token, for landmarks low ... high − 1.

    The target ends `passed` tokens after the source, and `age` tokens after the token.
    """
    apart()
    tile, width, rates = block.tile, block.width, floats_at(block.decay)
    sums = block.landmarks * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            rate = load8(rates + v)
            old = load8(source + p) - rate * splat8(np.float32(passed))
            new = load8(logit + p) - rate * splat8(np.float32(age))
            largest = larger(old, new)
            a, e = exp(old - largest), exp(new - largest)
            store(target + p, largest)
            store(target + (sums + p), load8(source + (sums + p)) * a + e)
            for t in range(0, width, tile):
                store(target + (o + t), load8(source + (o + t)) * a + load8(value + (v + t)) * e)


@compiled
def merge(block: Any, part: Any, part_age: int, other: Any, other_age: int, target: Any, low: int, high: int) -> None:
    """target = part ⊕ other, for landmarks low ... high − 1; the target ends that many tokens after each."""
    apart()
    tile, width, rates = block.tile, block.width, floats_at(block.decay)
    sums = block.landmarks * tile
    for i in range(low, high):
        for v in range(0, tile, 8):
            p, o = i * tile + v, 2 * sums + i * width + v
            rate = load8(rates + v)
            x = load8(part + p) - rate * splat8(np.float32(part_age))
            y = load8(other + p) - rate * splat8(np.float32(other_age))
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
def tokens_between(block: Any, group: int, k: int) -> int:
    """Tokens from the end of ring group `group` to the next end of segment k."""
    first, size = start_and_size(k % block.segments, block.groups, block.segments)
    return (first + size - 1 - group) % block.groups * block.update_size


@compiled
def tokens_between_segments(block: Any, k: int, later: int) -> int:
    """Tokens from the end of segment k to the next end of segment `later`."""
    first, size = start_and_size(k % block.segments, block.groups, block.segments)
    return tokens_between(block, first + size - 1, later)


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
def absorb_group(
    block: Any, s: Any, source: Any, passed: int, target: Any, group: int, age: int, low: int, high: int
) -> None:
    """target = source ⊕ the tokens of a group in the rings; the target ends `age` tokens after the group."""
    r, width, logits = block.update_size, block.width, block.landmarks * block.tile
    for i in range(r):
        token = group * r + i
        logit, value = s + (block.logits_at + token * logits), s + (block.values_at + token * width)
        absorb(block, source, passed, target, logit, value, age + r - 1 - i, low, high)
        source, passed = target, 0


@compiled
def push(block: Any, s: Any, group: int) -> None:
    """Add a group that is already in the rings."""
    m, groups, segments = block.landmarks, block.groups, block.segments
    k, j, _, turn = locate(group, groups, segments)
    before = k + segments - 1  # the segment before k, with which the next seed ends
    if segments > 2 and j == 0:
        last = slot(block, s, TOTALS + before % segments)
        gathered = slot(block, s, GATHER if segments > 3 else IDENTITY)
        age = tokens_between_segments(block, before - 1, before)
        merge(block, gathered, age, last, 0, slot(block, s, SEEDS + 1 - turn), 0, m)
    if j < segments - 3:
        total = slot(block, s, TOTALS + (k + 3 + j) % segments)
        gathered = slot(block, s, GATHER if j else IDENTITY)
        merge(
            block, gathered, 0, total, tokens_between_segments(block, k + 3 + j, before), slot(block, s, GATHER), 0, m
        )
    if segments > 1:
        first, size = start_and_size((k + 1) % segments, groups, segments)
        # At the end of a segment this builds one suffix too many, in a slot that is not read.
        shorter, longer = suffix(block, s, j, 1 - turn), suffix(block, s, j + 1, 1 - turn)
        oldest = max(first + size - 1 - j, 0)
        absorb_group(block, s, shorter, 0, longer, oldest, tokens_between(block, oldest, before), 0, m)
    back = slot(block, s, TOTALS + k)
    source = back if j else slot(block, s, IDENTITY)
    absorb_group(block, s, source, block.update_size, back, group % groups, 0, 0, m)


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
def ages(block: Any, group: int) -> tuple[int, int]:
    """Tokens from the ends of front and last to that of the newest group, with which the back ends."""
    segments = block.segments
    k, j, _, _ = locate(group, block.groups, segments)
    _, size = start_and_size((k + segments - 1) % segments, block.groups, segments)
    return (j + 1 + size) * block.update_size, (j + 1) * block.update_size


@compiled
def read(
    block: Any, window: tuple[Any, Any, Any], passed: tuple[int, int], gamma_pinv: Any, beta: Any, out: Any
) -> None:
    """out = softmax(β) Γ† · Δ_φ V for the `parts` of a window and their `ages`; β [m, T] are logits, overwritten."""
    apart()
    back, front, last = window
    front_age, last_age = splat8(np.float32(passed[0])), splat8(np.float32(passed[1]))
    m, tile, width, rates = block.landmarks, block.tile, block.width, floats_at(block.decay)
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
            rate = load8(rates + v)
            x1, x2, x3 = load8(back + p), load8(front + p) - rate * front_age, load8(last + p) - rate * last_age
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
    groups, segments, r = block.groups, block.segments, block.update_size
    k, j, size, turn = locate(newest, groups, segments)
    identity = slot(block, s, IDENTITY)
    for segment in range(segments):
        first, count = start_and_size(segment, groups, segments)
        source, target = identity, slot(block, s, TOTALS + segment)
        for group in range(first, first + (j + 1 if segment == k else count)):
            absorb_group(block, s, source, r, target, group, 0, low, high)
            source = target
    for ahead in range(2):  # the seed being read, and the one that new suffixes start from
        target = slot(block, s, SEEDS + (turn + ahead) % 2)
        merge(block, identity, 0, identity, 0, target, low, high)
        for step in range(1, segments - 1):
            segment = k + ahead + step
            total = slot(block, s, TOTALS + segment % segments)
            age = tokens_between_segments(block, segment, k + ahead + segments - 2)
            merge(block, target, 0, total, age, target, low, high)
    target = slot(block, s, GATHER)
    merge(block, identity, 0, identity, 0, target, low, high)
    for step in range(min(j + 1, segments - 3)):
        total = slot(block, s, TOTALS + (k + 3 + step) % segments)
        age = tokens_between_segments(block, k + 3 + step, k + segments - 1)
        merge(block, target, 0, total, age, target, low, high)
    for ahead in range(2):
        first, count = start_and_size((k + ahead) % segments, groups, segments)
        longest = size - 1 - j if ahead == 0 else min(j + 1, count - 1)
        read_in = (turn + ahead) % 2
        for length in range(1, longest + 1):
            source, target = suffix(block, s, length - 1, read_in), suffix(block, s, length, read_in)
            group = first + count - length
            age = tokens_between(block, group, k + ahead + segments - 2) if segments > 1 else 0
            absorb_group(block, s, source, 0, target, group, age, low, high)
