"""How the kernels cut a window, and the bytes that a step moves.

As in `nystream.ops.cut`, a window is a ring of n slots, and

    window  =  the tokens of the block that is being overwritten, the edges  +  the middle, one partial

Here all landmarks begin their blocks together, because a GPU reads the values of a token once for all of them. When a
stream enters a block, its middle is renewed from

    far, one partial over all other tier blocks  +  the tokens of its own tier block outside of the block

and when it enters a tier block, first the total of the one that it has left, from its tokens, then `far`, from the
totals. Small windows have no totals: `far` is empty, and the tier block is the whole ring.

Blocks have `edges` slots and tier blocks `tier`, a multiple of it; the last ones may be shorter. Token number t of the
stream in slot s of the pool, r tokens at a time, is in slot (t − 1 + r s) mod n of the ring. So streams enter their
blocks at different times even if they have read the same number of tokens, and the calls of a pool take the same time.

A step is limited by memory bandwidth, so the cut is one that moves about the fewest bytes. With b the bytes of a token
in the ring, 4 h m for its logits and 2 d or 4 d for its value, and p = 4 m (d + h) those of a partial, a step of one
token moves, on average,

    edges · b                                                    the edges, one of which is written
    p                                                            the middle
    ((tier − edges) b + 2 p) / edges                             to renew it: tokens and `far` read, the middle written
    (tier · b + totals · p) / tier                               to renew `far`: tokens and totals read, two written

and without totals, only the first three, less p / edges. A partial is kept as (log-sum-exp, mean): no read divides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

MIDDLE, FAR, TOTALS = 0, 1, 2  # where the partials of a stream are
LONGEST_TIER = 64  # blocks of a tier block: with more, the tokens between them cost more than totals


class Blocks(NamedTuple):
    """The cut of a window of n tokens, r of which arrive together."""

    n: int
    r: int
    edges: int
    tier: int  # at least n if there are no totals

    @property
    def totals(self) -> int:
        """Number of totals."""
        return -(-self.n // self.tier) if self.tier < self.n else 0

    @property
    def partials(self) -> int:
        """Number of partials of a stream."""
        return TOTALS + self.totals if self.totals else 1

    def bytes(self, token: int, partial: int) -> float:
        """Bytes that a step reads and writes in the state of a stream, on average over the phases."""
        groups = self.n // self.r
        blocks, tier = -(-self.n // self.edges) / groups, min(self.tier, self.n)
        total = self.edges * token + partial + blocks * ((tier - self.edges) * token + partial)
        if self.totals:
            total += blocks * partial + self.totals / groups * (tier * token + self.totals * partial)
        return total


@lru_cache(maxsize=256)
def blocks(n: int, r: int, token: int, partial: int, most: int) -> Blocks:
    """The cut with the fewest bytes, with at most `most` edges if r allows it.

    If others are almost as good: the one with the fewest edges, which take registers, then with the fewest totals,
    which take memory.
    """
    cuts = {
        cut: cut.bytes(token, partial)
        for edges in range(r, min(n, max(r, most)) + 1, r)
        for cut in (Blocks(n, r, edges, tier) for tier in (*range(edges, min(n, LONGEST_TIER * edges), edges), n))
    }
    for slack, take in ((1.05, lambda cut: power_of_two(cut.edges)), (1.02, lambda cut: cut.totals)):
        fewest = min(cuts.values())
        taken = min(take(cut) for cut, moved in cuts.items() if moved <= slack * fewest)
        cuts = {cut: moved for cut, moved in cuts.items() if take(cut) == taken}
    return min(cuts, key=cuts.__getitem__)


def power_of_two(x: int) -> int:
    """The smallest power of two that is not less than x."""
    return 1 << (x - 1).bit_length()
