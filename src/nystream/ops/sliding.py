"""A sliding window over the monoid of `partials`: one group in, one group out, a few combines, nothing subtracted.

The window holds N groups (of r tokens each, N = n / r) and is cut into K segments whose sizes cycle, N mod K of them
one longer. Segment k always lies in the same slots of the ring. While segment k is being overwritten, the window is

    the new groups of segment k  +  the old groups of segment k  +  all other segments
           (back)                        (front, a suffix)         (middle, and the last whole one)

and front and back always add up to the segment's size. Each push does three combines: the group joins the back, the
suffixes of the segment that is overwritten next grow by one group, and one whole segment joins the next middle.
A constant table, indexed by the phase (groups seen, mod 2N), says which slots these read and write. Resets read an
identity slot and void writes go to a trash slot: no branch, no mask, and rows of a batch may be at any phase.

Slots: 0 identity, 1 trash, 2 and 3 the two middles, then K segment totals, then L suffixes, L the longest segment.
One set of suffix slots is enough: those read and those being built grow from opposite ends, in turn.

Cost of a push and a read: 12 m (d + 1) multiplications for r = 1: two new triples, three combines of two and one of
four. State: (4 + K + L) m (d + 2) numbers a head, K about √N / 2.
Needs N >= 2 and K − 2 <= ⌊N / K⌋.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.ops import partials, ring
from nystream.ops.constants import per_device
from nystream.ops.partials import FLOOR, Partial

IDENTITY, TRASH, MIDDLES, SEGMENTS = 0, 1, 2, 4


class Cut(NamedTuple):
    """How a window of `groups` is cut into `segments`."""

    groups: int
    segments: int

    @property
    def base(self) -> int:
        return self.groups // self.segments

    @property
    def longest(self) -> int:
        return -(-self.groups // self.segments)

    @property
    def suffixes(self) -> int:
        """Index of the first suffix slot."""
        return SEGMENTS + self.segments

    @property
    def slots(self) -> int:
        return self.suffixes + self.longest

    def size(self, k: Tensor) -> Tensor:
        return self.base + (k < self.groups % self.segments).long()

    def start(self, k: Tensor) -> Tensor:
        """First ring group of segment k."""
        return k * self.base + k.clamp(max=self.groups % self.segments)

    def locate(self, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Segment k, place j in it and turn (0 or 1, alternating from one segment to the next) of a group number."""
        x = group % self.groups
        long = self.groups % self.segments
        threshold = long * (self.base + 1)
        k = torch.where(x < threshold, x // (self.base + 1), long + (x - threshold) // self.base)
        turn = (group // self.groups * self.segments + k) % 2
        return k, x - self.start(k), turn

    def suffix_slot(self, length: Tensor, turn: Tensor) -> Tensor:
        """Slot of the suffix of `length` >= 1 groups that is read while `turn` lasts."""
        return self.suffixes + torch.where(turn == 0, length - 1, self.longest - length)


def cut(groups: int) -> Cut:
    """About √N / 2 segments: fewer make longer suffixes (memory), more make longer middles (work)."""
    return Cut(groups, max(2, round(math.sqrt(groups) / 2)))


class Table(NamedTuple):
    """For every phase, the slots a push reads and writes and those a read combines."""

    older: Tensor  # [2N, 3] the back so far, the next suffix so far, the next middle so far
    whole: Tensor  # [2N] the segment that joins the next middle
    group: Tensor  # [2N] the ring group that joins the next suffix
    write: Tensor  # [2N, 3] where the three results go
    read: Tensor  # [2N, 4] back, front, middle, last whole segment


@per_device
def table(groups: int) -> Table:
    """The table of a window of so many groups."""
    c = cut(groups)
    k, j, turn = c.locate(torch.arange(2 * c.groups))
    nxt, last = (k + 1) % c.segments, (k - 1) % c.segments
    between = c.segments - 2
    back = SEGMENTS + k
    front = c.size(k) - 1 - j
    grown = j + 1
    growing = grown < c.size(nxt)
    merging = j < between
    void = torch.full_like(k, IDENTITY)
    trash = torch.full_like(k, TRASH)
    suffix = c.suffix_slot(grown, 1 - turn)
    middle, next_middle = MIDDLES + turn, MIDDLES + 1 - turn
    older = [
        torch.where(j == 0, void, back),
        torch.where(growing & (j > 0), c.suffix_slot(grown - 1, 1 - turn), void),
        torch.where(merging & (j > 0), next_middle, void),
    ]
    write = [back, torch.where(growing, suffix, trash), torch.where(merging, next_middle, trash)]
    read = [
        back,
        torch.where(front > 0, c.suffix_slot(front, turn), void),
        middle if between else void,
        SEGMENTS + last,
    ]
    return Table(
        older=torch.stack(older, 1),
        whole=torch.where(merging, SEGMENTS + (k + 2 + j) % c.segments, void),
        group=(c.start(nxt) + c.size(nxt) - grown).clamp(min=0),
        write=torch.stack(write, 1),
        read=torch.stack(read, 1),
    )


def push(parts: Partial, ring_logit: Tensor, ring_value: Tensor, count: Tensor, logit: Tensor, value: Tensor) -> None:
    """Take in a group, in place: logit [B, r, H, m], value [B, r, H, D]; `count` is the count before it."""
    r = logit.shape[1]
    c = cut(ring_logit.shape[1] // r)
    t = table(c.groups, device=count.device)
    b, phase = ring.rows(count), (count // r) % (2 * c.groups)
    at = t.group[phase]
    joins = partials.of_tokens(
        torch.stack([logit, ring_logit.unflatten(1, (-1, r))[b, at]], 1).transpose(2, 3),  # [B, 2, H, r, m]
        torch.stack([value, ring_value.unflatten(1, (-1, r))[b, at].to(value.dtype)], 1).transpose(2, 3),
    )
    whole, older = t.whole[phase], t.older[phase]
    joins = Partial(
        torch.cat([joins.top, parts.top[b, whole][:, None]], 1),
        torch.cat([joins.mass, parts.mass[b, whole][:, None]], 1),
    )
    new = partials.combine(Partial(parts.top[b[:, None], older], parts.mass[b[:, None], older]), joins)
    write = t.write[phase]
    parts.top.index_put_((b[:, None], write), new.top)
    parts.mass.index_put_((b[:, None], write), new.mass)


def read(parts: Partial, count: Tensor, n: int, r: int) -> Tensor:
    """Δ_φ V [B, H, m, D] of the window; `count` is the count after the newest group."""
    c = cut(n // r)
    b, phase = ring.rows(count), (count // r - 1) % (2 * c.groups)
    slots = table(c.groups, device=count.device).read[phase]  # [B, 4]
    return partials.mean(partials.merge(Partial(parts.top[b[:, None], slots], parts.mass[b[:, None], slots]), -3))


def rebuild(ring_logit: Tensor, ring_value: Tensor, count: Tensor, r: int) -> Partial:
    """All partials from the rings: they are only a cache. Void tokens have logit −inf.

    O(n m d) and no array larger than the rings but for the suffixes of two segments.
    """
    groups = ring_logit.shape[1] // r
    c = cut(groups)
    device, b = count.device, ring.rows(count)
    k, j, turn = c.locate((count // r - 1) % (2 * groups))  # of the newest group
    every = torch.arange(c.segments, device=device)
    place = torch.arange(c.longest, device=device)
    slots = (c.start(every)[:, None] + place).clamp(max=groups - 1)  # [K, L] ring groups of every segment
    inside = place < c.size(every)[:, None]
    # A segment's total covers what lies in it, but the newest one's only what is new: its back.
    back = inside & ((every != k[:, None])[:, :, None] | (place <= j[:, None, None]))  # [B, K, L]
    logit, value = ring_logit.unflatten(1, (-1, r)), ring_value.unflatten(1, (-1, r))
    totals = _of_groups(logit[:, slots], value[:, slots], back)  # top [B, K, H, m]

    pair = torch.stack([k, (k + 1) % c.segments], 1)  # [B, 2] the segments whose suffixes are alive
    at = b[:, None, None], slots[pair]  # [B, 2, L]
    tails = partials.suffixes(_of_groups(logit[at].unsqueeze(3), value[at].unsqueeze(3), inside[pair].unsqueeze(3)))

    ahead = (every - k[:, None] - 2) % c.segments  # [B, K] how soon a segment joins the next middle
    middle = _merge_where(totals, (every != k[:, None]) & (every != (k[:, None] - 1) % c.segments))
    next_middle = _merge_where(totals, ahead < (j[:, None] + 1).clamp(max=c.segments - 2))

    bank = _bank(totals, tails, middle, next_middle)
    content = _content(c, k, j, turn)
    return Partial(bank.top[b[:, None], content], bank.mass[b[:, None], content])


def _of_groups(logit: Tensor, value: Tensor, real: Tensor) -> Partial:
    """Triples over groups [B, ., L, r, H, .], of which `real` [B, ., L] exist.

    What does not exist is replaced, values too: a weight of zero does not hide a value that is NaN.
    """
    logit = logit.masked_fill(~real[..., None, None, None], -torch.inf)
    value = value.masked_fill(~real[..., None, None, None], 0.0).to(logit.dtype)
    return partials.of_tokens(logit.flatten(-4, -3).transpose(-3, -2), value.flatten(-4, -3).transpose(-3, -2))


def _merge_where(totals: Partial, member: Tensor) -> Partial:
    """The combine of the segments that `member` [B, K] marks."""
    top = totals.top.masked_fill(~member[..., None, None], FLOOR)
    mass = totals.mass.masked_fill(~member[..., None, None, None], 0.0)
    return partials.merge(Partial(top, mass), -3)


def _bank(totals: Partial, tails: Partial, middle: Partial, next_middle: Partial) -> Partial:
    """Everything a slot can hold: identity, K totals, L + L suffixes by first place, the two middles."""
    tops = [torch.full_like(middle.top, FLOOR)[:, None], totals.top, tails.top.flatten(1, 2)]
    masses = [torch.zeros_like(middle.mass)[:, None], totals.mass, tails.mass.flatten(1, 2)]
    tops += [middle.top[:, None], next_middle.top[:, None]]
    masses += [middle.mass[:, None], next_middle.mass[:, None]]
    return Partial(torch.cat(tops, 1), torch.cat(masses, 1))


def _content(c: Cut, k: Tensor, j: Tensor, turn: Tensor) -> Tensor:
    """[B, slots]: which entry of the bank each slot holds after group j of segment k; dead slots hold the identity."""
    k, j, turn = k[:, None], j[:, None], turn[:, None]
    middles = torch.arange(2, device=k.device)
    middle_entries = 1 + c.segments + 2 * c.longest + (middles != turn).long()
    totals = torch.arange(1, c.segments + 1, device=k.device).expand(k.shape[0], -1)
    spare = torch.arange(c.longest, device=k.device)
    length = torch.stack([spare + 1, c.longest - spare])  # by orientation
    reading, building = length[turn[:, 0]], length[1 - turn[:, 0]]  # [B, L]
    nxt = (k + 1) % c.segments
    front = 1 + c.segments + c.size(k) - reading
    grown = 1 + c.segments + c.longest + c.size(nxt) - building
    entries = torch.where(
        reading <= c.size(k) - 1 - j, front, torch.where(building <= torch.minimum(j + 1, c.size(nxt) - 1), grown, 0)
    )
    fixed = torch.zeros_like(k).expand(-1, 2)
    return torch.cat([fixed, middle_entries, totals, entries], 1)
