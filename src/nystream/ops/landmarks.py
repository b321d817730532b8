"""Segment means: where the segments are, and how a stream renews its landmarks.

With e = n mod m, the first e of the m segments have ⌊n/m⌋ + 1 tokens and the others ⌊n/m⌋. In a stream, each new
segment has the size of the one it replaces. So the sizes cycle, m consecutive segments always tile n tokens, and a new
landmark can take the index of the one it replaces: the attention does not change when q̃ and k̃ are permuted together.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.ops import gather, ring
from nystream.ops.constants import per_device


class Segments(NamedTuple):
    """Segments that tile `length` tokens, again and again; the longer ones come first."""

    length: int
    segments: int

    @property
    def shortest(self) -> int:
        return self.length // self.segments

    @property
    def longest(self) -> int:
        return -(-self.length // self.segments)

    def size(self, k: Tensor) -> Tensor:
        return self.shortest + (k < self.length % self.segments).long()

    def start(self, k: Tensor) -> Tensor:
        """Tokens before segment k of a round."""
        return k * self.shortest + k.clamp(max=self.length % self.segments)

    def of(self, time: Tensor) -> Tensor:
        """The segment of token number `time` (from 1)."""
        base, extra = divmod(self.length, self.segments)
        x = (time - 1) % self.length
        return torch.where(x < extra * (base + 1), x // (base + 1), extra + (x - extra * (base + 1)) // base)

    def ends(self, time: Tensor) -> Tensor:
        """Whether token number `time` completes its segment."""
        k = self.of(time)
        return (time - 1) % self.length == self.start(k) + self.size(k) - 1

    def completed(self, time: Tensor) -> Tensor:
        """Number of complete segments at `time`."""
        return (time - 1) // self.length * self.segments + self.of(time) + self.ends(time).long()

    def renewed_at(self, time: Tensor) -> Tensor:
        """u <= time: when the newest complete segment was completed."""
        done = self.completed(time)
        return done // self.segments * self.length + self.start(done % self.segments)


def segment_means(x: Tensor, m: int) -> Tensor:
    """x [..., n, D] -> [..., m, D]: means over the m segments of one window."""
    n = x.shape[-2]
    base, extra = divmod(n, m)
    long, short = x[..., : extra * (base + 1), :], x[..., extra * (base + 1) :, :]
    means = [
        part.unflatten(-2, (-1, size)).mean(-2) for part, size in ((long, base + 1), (short, base)) if part.shape[-2]
    ]
    return torch.cat(means, -2)


class Schedule(NamedTuple):
    """How a group of r tokens changes the landmarks, for each of the n / r phases."""

    slot: Tensor  # [n/r, r] the landmark of each token
    opens: Tensor  # [n/r] whether the first token begins a segment
    done: Tensor  # [n/r, m] the landmarks that this group completes
    left: Tensor  # [n/r] whether the segment of the last token is incomplete
    renewed: Tensor  # [n/r, R] slots of the completed landmarks, then any others if there are fewer than R
    size: Tensor  # [m] tokens in each landmark's segment


@per_device
def schedule(n: int, m: int, r: int) -> Schedule:
    """The schedule of a window of n tokens and m landmarks, r tokens at a time."""
    seg = Segments(n, m)
    landmark = torch.arange(m)
    time = torch.arange(1, n + 1).reshape(-1, r)
    slot = seg.of(time)
    group = (seg.start(landmark) + seg.size(landmark) - 1) // r  # [m] the group that completes each landmark
    done = group == torch.arange(n // r)[:, None]
    return Schedule(
        slot=slot,
        opens=(time[:, 0] - 1) == seg.start(slot[:, 0]),
        done=done,
        left=~seg.ends(time[:, -1]),
        renewed=done.long().argsort(dim=1, descending=True, stable=True)[:, : _max_completed(n, m, r)],
        size=seg.size(landmark),
    )


def _max_completed(n: int, m: int, r: int) -> int:
    """The largest number of landmarks that one group can complete."""
    base, extra = divmod(n, m)
    ends = [k * base + min(k, extra) for k in range(1, m + 1)]
    return max(Counter((end - 1) // r for end in ends).values())


def collect(landmarks: Tensor, pending: Tensor, tokens: Tensor, time: Tensor, s: Schedule) -> tuple[Tensor, Tensor]:
    """Landmarks and the sum of the unfinished segment after a group.

    landmarks [B, m, ...], pending [B, ...], tokens [B, r, ...]; `time` is the time before the group. Tokens are never
    masked by multiplying with zero, so a NaN affects its own landmark only.
    """
    b, phase = ring.rows(time), (time // tokens.shape[1]) % s.slot.shape[0]
    slot = s.slot[phase]  # [B, r]
    ones = [1] * (tokens.dim() - 2)
    kept = torch.where(s.opens[phase].reshape(-1, *ones), torch.zeros_like(pending), pending)
    sums = torch.zeros_like(landmarks)
    sums = sums.index_put((b, slot[:, 0]), kept)
    sums = gather.add(sums, slot, tokens)
    means = sums / s.size.reshape(-1, *ones)
    landmarks = torch.where(s.done[phase].reshape(*s.done[phase].shape, *ones), means, landmarks)
    left = s.left[phase].reshape(-1, *ones)
    pending = torch.where(left, sums[b, slot[:, -1]], torch.zeros_like(pending))
    return landmarks, pending
