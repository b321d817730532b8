"""A sliding window over `partials`: one group in, one group out, a few combines, nothing subtracted.

The window has N groups of r tokens each, N = n / r, and is divided into K segments, of which N mod K are one group
longer. Segment k always occupies the same slots of the ring. While segment k is being overwritten, the window is

    the new groups of segment k  +  the old groups of segment k  +  all other segments
           (back)                        (front, a suffix)         (middle, and the last whole segment)

Each push does three combines: the new group joins the back; the suffixes of the segment that is overwritten next grow
by one group; and one whole segment joins the next middle. A constant table, indexed by the phase (the number of groups
so far, mod 2N), says which slots these read and write. A sum starts from the identity slot, and unneeded results go to
a trash slot. So there are no branches and no masks, and the rows of a batch may be at different phases.

Slots: 0 identity, 1 trash, 2 and 3 the two middles, then K segment totals, then L suffixes, where L is the length of
the longest segment. Suffixes that are read and suffixes that are built share these slots: they grow from opposite ends
and swap roles with every segment.

Cost of a push and a read: 12 m (d + 1) multiplications for r = 1: two new partials, three combines of two and one of
four. State: (4 + K + L) m (d + 2) numbers per head, K about √N / 2.
Needs N >= 2 and K − 2 <= ⌊N / K⌋.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.ops import partials, ring
from nystream.ops.constants import per_device
from nystream.ops.landmarks import Segments
from nystream.ops.partials import FLOOR, Partial, select
from nystream.ops.segments import segment_count

IDENTITY, TRASH, MIDDLES, SEGMENTS = 0, 1, 2, 4


class Cut(Segments):
    """The segments of a window, `length` groups in all, and the slots of their partials."""

    __slots__ = ()

    @property
    def suffixes(self) -> int:
        """Index of the first suffix slot."""
        return SEGMENTS + self.segments

    @property
    def slots(self) -> int:
        return self.suffixes + self.longest

    def locate(self, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Segment k of a group, its index j in the segment, and the segment's turn (0 or 1, alternating)."""
        k = self.of(group + 1)
        turn = (group // self.length * self.segments + k) % 2
        return k, group % self.length - self.start(k), turn

    def between(self, older: Tensor, newer: Tensor) -> Tensor:
        """Groups from the end of one segment to the end of another that comes after it."""
        return (self.start(newer) + self.size(newer) - self.start(older) - self.size(older)) % self.length

    def suffix_slot(self, length: Tensor, turn: Tensor) -> Tensor:
        """Slot of the suffix of `length` >= 1 groups that is read during `turn`."""
        return self.suffixes + torch.where(turn == 0, length - 1, self.longest - length)


def cut(groups: int) -> Cut:
    return Cut(groups, segment_count(groups))


class SlotTable(NamedTuple):
    """For every phase, the slots that a push reads and writes and the slots that a read combines."""

    older: Tensor  # [2N, 3] the back, the next suffix and the next middle so far
    whole: Tensor  # [2N] the segment that joins the next middle
    group: Tensor  # [2N] the ring group that joins the next suffix
    write: Tensor  # [2N, 3] where the three results go
    read: Tensor  # [2N, 4] back, front, middle, last whole segment
    older_age: Tensor  # [3] groups by which a push moves the end of the back, of a suffix and of a middle
    join_age: Tensor  # [2N, 3] groups from the end of what joins to the end of the sum that it joins
    read_age: Tensor  # [2N, 4] groups from the end of what is read to the newest group


@per_device
def table(groups: int) -> SlotTable:
    """The table of a window of N = `groups` groups."""
    c = cut(groups)
    k, j, turn = c.locate(torch.arange(2 * groups))
    following, last = (k + 1) % c.segments, (k - 1) % c.segments
    between = c.segments - 2
    back = SEGMENTS + k
    front = c.size(k) - 1 - j
    grown = j + 1
    growing = grown < c.size(following)
    merging = j < between
    identity = torch.full_like(k, IDENTITY)
    trash = torch.full_like(k, TRASH)
    suffix = c.suffix_slot(grown, 1 - turn)
    middle, next_middle = MIDDLES + turn, MIDDLES + 1 - turn
    older = [
        torch.where(j == 0, identity, back),
        torch.where(growing & (j > 0), c.suffix_slot(grown - 1, 1 - turn), identity),
        torch.where(merging & (j > 0), next_middle, identity),
    ]
    write = [back, torch.where(growing, suffix, trash), torch.where(merging, next_middle, trash)]
    read = [
        back,
        torch.where(front > 0, c.suffix_slot(front, turn), identity),
        middle if between else identity,
        SEGMENTS + last,
    ]
    return SlotTable(
        older=torch.stack(older, 1),
        whole=torch.where(merging, SEGMENTS + (k + 2 + j) % c.segments, identity),
        group=(c.start(following) + c.size(following) - grown).clamp(min=0),
        write=torch.stack(write, 1),
        read=torch.stack(read, 1),
        older_age=torch.tensor([1, 0, 0]),
        join_age=torch.stack([identity, j, c.between((k + 2 + j) % c.segments, last)], 1),
        read_age=torch.stack([identity, groups + j + 1 - c.size(k), j + 1 + c.size(last), j + 1], 1),
    )


def push(
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    logit: Tensor,
    value: Tensor,
    decay: Tensor | None = None,
) -> None:
    """Add a group, in place: logit [B, r, H, m], value [B, r, H, D]; `time` is the time before it."""
    r = logit.shape[1]
    groups = ring_logit.shape[1] // r
    t = table(groups, device=time.device)
    b, phase = ring.rows(time), (time // r) % (2 * groups)
    at = t.group[phase]
    logits = torch.stack([logit, ring_logit.unflatten(1, (-1, r))[b, at]], 1)  # [B, 2, r, H, m]
    values = torch.stack([value, ring_value.unflatten(1, (-1, r))[b, at].to(value.dtype)], 1)
    if decay is not None:
        logits = logits - _within_group(decay, r)
    joins = partials.of_tokens(logits.transpose(2, 3), values.transpose(2, 3))
    whole, older = t.whole[phase], t.older[phase]
    joins = _cat(joins, select(parts, b[:, None], whole[:, None]))
    grown = select(parts, b[:, None], older)
    if decay is not None:
        joins = partials.aged(joins, _by_groups(decay, t.join_age[phase], r))
        grown = partials.aged(grown, _by_groups(decay, t.older_age, r))
    new = partials.combine(grown, joins)
    write = t.write[phase]
    parts.max.index_put_((b[:, None], write), new.max)
    parts.sum.index_put_((b[:, None], write), new.sum)


def read(parts: Partial, time: Tensor, n: int, r: int, decay: Tensor | None = None) -> Tensor:
    """Δ_φ V [B, H, m, D] of the window; `time` is the time after the newest group."""
    groups = n // r
    b, phase = ring.rows(time), (time // r - 1) % (2 * groups)
    t = table(groups, device=time.device)
    window = select(parts, b[:, None], t.read[phase])  # max [B, 4, H, m]
    if decay is not None:
        window = partials.aged(window, _by_groups(decay, t.read_age[phase], r))
    return partials.mean(partials.merge(window, -3))


def rebuild(ring_logit: Tensor, ring_value: Tensor, time: Tensor, r: int, decay: Tensor | None = None) -> Partial:
    """Compute all partials from the rings, in O(n m d). Void tokens have a logit of −inf.

    No intermediate array is larger than the rings, except the suffixes of two segments.
    """
    groups = ring_logit.shape[1] // r
    c = cut(groups)
    device, b = time.device, ring.rows(time)
    k, j, turn = c.locate((time // r - 1) % (2 * groups))  # of the newest group
    every = torch.arange(c.segments, device=device)
    place = torch.arange(c.longest, device=device)
    slots = (c.start(every)[:, None] + place).clamp(max=groups - 1)  # [K, L] ring groups of every segment
    inside = place < c.size(every)[:, None]
    # The total of the newest segment covers only its new groups, the back; the others are complete.
    back = inside & ((every != k[:, None])[:, :, None] | (place <= j[:, None, None]))  # [B, K, L]
    logit, value = ring_logit.unflatten(1, (-1, r)), ring_value.unflatten(1, (-1, r))
    if decay is not None:
        logit = logit - _within_group(decay, r)

    def lowered(logit: Tensor, end: Tensor) -> Tensor:
        """Logits [B, ., L, r, H, m] of segments, decayed up to their group number `end` [B, .]."""
        return logit if decay is None else logit - _by_groups(decay, end[..., None] - place, r).unsqueeze(-3)

    ends = torch.where(every == k[:, None], j[:, None], c.size(every) - 1)
    totals = _of_groups(lowered(logit[:, slots], ends), value[:, slots], back)  # max [B, K, H, m]

    pair = torch.stack([k, (k + 1) % c.segments], 1)  # [B, 2] the segments whose suffixes are in use
    at = b[:, None, None], slots[pair]  # [B, 2, L]
    whole = lowered(logit[at], c.size(pair) - 1).unsqueeze(3)
    tails = partials.suffixes(_of_groups(whole, value[at].unsqueeze(3), inside[pair].unsqueeze(3)))

    ahead = (every - k[:, None] - 2) % c.segments  # [B, K] the order in which segments join the next middle
    last = (k[:, None] - 1) % c.segments
    others = (every != k[:, None]) & (every != last)
    joined = ahead < (j[:, None] + 1).clamp(max=c.segments - 2)
    middle, next_middle = (
        _merge_where(
            totals if decay is None else partials.aged(totals, _by_groups(decay, c.between(every, newest), r)), member
        )
        for member, newest in ((others, (last - 1) % c.segments), (joined, last))
    )

    # All possible contents of a slot: identity, K totals, L + L suffixes by first index, the two middles.
    identity = Partial(torch.full_like(middle.max, FLOOR), torch.zeros_like(middle.sum))
    first, *middles = (select(part, slice(None), None) for part in (identity, middle, next_middle))
    bank = _cat(first, totals, Partial(tails.max.flatten(1, 2), tails.sum.flatten(1, 2)), *middles)
    return select(bank, b[:, None], _content(c, k, j, turn))


def _of_groups(logit: Tensor, value: Tensor, real: Tensor) -> Partial:
    """Partials over groups [B, ., L, r, H, .], of which `real` [B, ., L] exist.

    Values that do not exist are replaced, too: a weight of zero does not hide a NaN.
    """
    logit = logit.masked_fill(~real[..., None, None, None], -torch.inf)
    value = value.masked_fill(~real[..., None, None, None], 0.0).to(logit.dtype)
    return partials.of_tokens(logit.flatten(-4, -3).transpose(-3, -2), value.flatten(-4, -3).transpose(-3, -2))


def _merge_where(totals: Partial, member: Tensor) -> Partial:
    """Combine the segments that `member` [B, K] marks."""
    part_max = totals.max.masked_fill(~member[..., None, None], FLOOR)
    part_sum = totals.sum.masked_fill(~member[..., None, None, None], 0.0)
    return partials.merge(Partial(part_max, part_sum), -3)


def _cat(*parts: Partial) -> Partial:
    return Partial(torch.cat([part.max for part in parts], 1), torch.cat([part.sum for part in parts], 1))


def _content(c: Cut, k: Tensor, j: Tensor, turn: Tensor) -> Tensor:
    """[B, slots]: the entry of the bank in each slot after group j of segment k; unused slots have the identity."""
    k, j, turn = k[:, None], j[:, None], turn[:, None]
    middles = torch.arange(2, device=k.device)
    middle_entries = 1 + c.segments + 2 * c.longest + (middles != turn).long()
    totals = torch.arange(1, c.segments + 1, device=k.device).expand(k.shape[0], -1)
    spare = torch.arange(c.longest, device=k.device)
    length = torch.stack([spare + 1, c.longest - spare])  # by turn
    reading, building = length[turn[:, 0]], length[1 - turn[:, 0]]  # [B, L]
    following = (k + 1) % c.segments
    front = 1 + c.segments + c.size(k) - reading
    grown = 1 + c.segments + c.longest + c.size(following) - building
    built = torch.where(building <= torch.minimum(j + 1, c.size(following) - 1), grown, 0)
    entries = torch.where(reading <= c.size(k) - 1 - j, front, built)
    fixed = torch.zeros_like(k).expand(-1, 2)
    return torch.cat([fixed, middle_entries, totals, entries], 1)


def _within_group(decay: Tensor, r: int) -> Tensor:
    """[r, H, 1]: how far the logits of a group's tokens fall by the group's last token."""
    return torch.arange(r - 1, -1, -1, device=decay.device)[:, None, None] * decay[:, None]


def _by_groups(decay: Tensor, age: Tensor, r: int) -> Tensor:
    """[..., H, 1]: how far logits fall in `age` [...] groups."""
    return (r * age)[..., None, None] * decay[:, None]
