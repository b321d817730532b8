"""Which row of an array belongs to which key."""

from __future__ import annotations

import heapq
from collections.abc import Hashable


class Slots(dict[Hashable, int]):
    """Slots by key, oldest key first; a key gets the lowest slot that is free."""

    def __init__(self) -> None:
        super().__init__()
        self._free: list[int] = []  # a heap of those that were released; all others below the next are in use

    def assign(self, key: Hashable) -> int:
        """Return the slot of a new key."""
        self[key] = heapq.heappop(self._free) if self._free else len(self)
        return self[key]

    def release(self, key: Hashable) -> None:
        """Forget a key; its slot is free."""
        heapq.heappush(self._free, self.pop(key))
