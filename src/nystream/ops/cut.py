"""How a sliding window is cut into raw edges, a summed middle, and totals. Imports no torch: costs need it, too.

A window is a ring of N groups of tokens, divided into blocks that always occupy the same places. While a block is being
overwritten, all its tokens are in the window: the new ones, and the old ones that have not been replaced yet. So

    window  =  the tokens of that block, the edges  +  one partial sum over everything else, the middle

The middle stays the same for a whole block. Then it is summed again, without the next block. Landmarks do not do this
all at once: each begins its blocks a little after the one before, so that these sums are spread over the steps. The
kernels let four landmarks begin together (`nystream.stream.cpu.sliding`).

To keep that sum short, its far parts are taken from totals. A tier is a division of the ring into larger blocks, each
with a total; tier 2 divides the blocks of tier 1, and so on. The middle of a landmark whose edges lie in one or two
blocks of tier 1, which lie in one or two blocks of tier 2, and so on, is the sum of

    the other groups in those blocks of tier 1,
    the totals of the other blocks of tier 1 in those blocks of tier 2,
    ...
    the totals of the other blocks of the last tier.

Small windows have no tiers: their middle is a sum of tokens. Blocks need not have the same size: of K blocks of N
items, the first N mod K have one more than the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

MIN_BLOCK, MIN_TOTAL = 8, 24  # tokens of a block and of a block of tier 1, at least
BLOCKS_PER_TIER = 6  # blocks of a tier in one of the next
LAST_TIER = 8  # blocks that need no further tier


class Cut(NamedTuple):
    """The cut of a window of `groups` groups: the number of blocks, and of blocks of every tier."""

    groups: int
    blocks: int
    tiers: tuple[int, ...]

    @property
    def totals(self) -> int:
        """Number of totals of all tiers."""
        return sum(self.tiers)

    @property
    def longest_edges(self) -> int:
        """The largest number of groups that are edges of one landmark."""
        return -(-self.groups // self.blocks)

    def bounds(self, tier: int) -> Array:
        """First group of every block of a tier, from 1, and the end of the last one."""
        bounds = np.arange(self.groups + 1)
        for count in self.tiers[:tier]:
            bounds = bounds[starts(len(bounds) - 1, count)]
        return bounds

    def longest(self, tier: int) -> int:
        """The number of groups in the longest block of a tier."""
        return int(np.diff(self.bounds(tier)).max())

    def begins(self, landmarks: int) -> Array:
        """[blocks, m]: where every landmark begins its blocks."""
        bounds = starts(self.groups, self.blocks)
        return bounds[:-1, None] + np.arange(landmarks) * np.diff(bounds)[:, None] // landmarks

    def events(self, landmarks: int) -> Events:
        """All events, in the order of the ring."""
        begins = self.begins(landmarks)
        order = np.argsort(begins.ravel(), kind="stable")
        following = np.vstack([begins[1:], begins[:1] + self.groups])
        return Events(order % landmarks, begins.ravel()[order], following.ravel()[order])

    def middles(self, events: Events) -> list[Array]:
        """What the middle of every event is the sum of: runs of groups, then of totals of every tier.

        Each is [events, 4]: first and end of two runs. Totals are numbered within their tier.
        """
        low, high, items = events.begin, (events.following - 1) % self.groups, self.groups
        runs: list[Array] = []
        for tier in range(1, len(self.tiers) + 1):
            bounds = np.searchsorted(self.bounds(tier - 1), self.bounds(tier))  # in blocks of the tier below
            older, newer = (np.searchsorted(bounds, x, side="right") - 1 for x in (low, high))
            runs.append(np.stack([bounds[older], low, high + 1, bounds[newer + 1]], 1))
            low, high, items = older, newer, self.tiers[tier - 1]
        wraps = low > high  # the edges continue at the start of the ring, so everything else is one run
        runs.append(np.stack([np.where(wraps, low, 0), low, high + 1, np.where(wraps, low, items)], 1))
        return runs

    def work(self, landmarks: int) -> tuple[int, int, int]:
        """How many landmarks a step sums at most, and the largest numbers of groups and totals in such a sum."""
        events = self.events(landmarks)
        most = int(np.unique(events.begin, return_counts=True)[1].max())
        near, *far = (int(sizes(runs).max()) for runs in self.middles(events))
        return most, max(1, near), sum(max(1, count) for count in far)


class Events(NamedTuple):
    """Events at which a landmark begins a block."""

    landmark: Array
    begin: Array  # the first group of the block
    following: Array  # where the landmark begins the next one, up to 2N


def cut(groups: int, update_size: int, landmarks: int) -> Cut:
    """The cut of a window of `groups` groups of r = `update_size` tokens, for m = `landmarks` landmarks.

    A step reads the edges of all landmarks, about two blocks, and the middle, which is as long as m tokens. It renews
    the middle of about m / L landmarks, where L is the length of a block, so L is of the order of m. A total takes the
    memory of about m tokens, so its block is several times as long.
    """
    blocks = max(1, groups // max(1, round(max(MIN_BLOCK, landmarks) / update_size)))
    edges, tiers = Cut(groups, blocks, ()).longest_edges, []
    count = round(groups * update_size / max(MIN_TOTAL, 3 * landmarks))
    while count > 2 and groups // count >= edges:  # so that edges lie in at most two blocks
        tiers.append(count)
        if count <= LAST_TIER:
            break
        count = round(count / BLOCKS_PER_TIER)
    return Cut(groups, blocks, tuple(tiers))


def sizes(runs: Array) -> Array:
    """Number of items in two runs [events, 4]."""
    size: Array = runs[:, 1] - runs[:, 0] + runs[:, 3] - runs[:, 2]
    return size


def starts(length: int, count: int) -> Array:
    """[count + 1]: where `count` blocks of `length` items start, the longer ones first, and the end of the last."""
    index = np.arange(count + 1)
    return index * (length // count) + np.minimum(index, length % count)
