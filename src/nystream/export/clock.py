"""What follows from the time of each stream: positions, slots, ages. Every value is computed once per graph.

All of it is derived from the new time, an output of the graph, rather than from the old one, its input: if both are the
same memory, the input may already have been overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nystream.export.graph import FLOAT, Graph


class Clock:
    """Values that depend on the time, for groups of `update_size` tokens."""

    def __init__(self, g: Graph, time: str, next_time: str, update_size: int) -> None:
        self.g, self.update_size = g, update_size
        self.after = g.Add(time, update_size, name=next_time)  # [B] tokens so far
        self._known: dict[tuple[object, ...], str] = {}

    @property
    def before(self) -> str:
        """[B]: tokens before the new group."""
        return self._once("before", build=lambda: self.g.Sub(self.after, self.update_size))

    def slot(self, n: int) -> str:
        """[B]: the slot of the group's first token in a ring of n."""
        return self._once("slot", n, build=lambda: self.g.Mod(self.before, n))

    def slots(self, n: int, rank: int, axis: int) -> str:
        """The slots of the group's tokens, [B, 1, ..., r, ..., 1] with `rank` axes: the index of `scattered`."""
        shape = [1] * rank
        shape[axis] = self.update_size

        def build() -> str:
            first = self.g.Reshape(self.slot(n), [-1] + [1] * (rank - 1))
            offsets = np.arange(self.update_size).reshape(shape)
            return first if self.update_size == 1 else self.g.Add(first, offsets)

        return self._once("slots", n, rank, axis, build=build)

    def positions(self, count: int) -> str:
        """[B r]: the positions of the group's tokens, of `count` in rotation."""

        def build() -> str:
            if self.update_size == 1:
                return self.slot(count)
            places = self.g.Add(self.g.Unsqueeze(self.before, [1]), np.arange(self.update_size))
            return self.g.Reshape(self.g.Mod(places, count), [-1])

        return self._once("positions", count, build=build)

    def attend(self, part: Any, projected: list[str], before: list[str], after: list[str]) -> str:
        """The rows of an attention for the new group."""
        return part.attend(self.g, self, projected, before, after)

    def features(self, path: Any, x: str, before: list[str], after: list[str]) -> str:
        """What the linear path reads at the new token."""
        return path.features(self.g, self, x, before, after)

    def inside(self, n: int, block: int) -> str:
        """[B]: the place of the group's first token in its block of a ring."""
        return self._once("inside", n, block, build=lambda: self.g.Mod(self.slot(n), block))

    def age(self, n: int) -> str:
        """[B, 1, 1, n] float: how many tokens have come after the one in each slot."""

        def build() -> str:
            newest = self.g.Reshape(self.g.Sub(self.after, 1), [-1, 1, 1, 1])
            return self.g.Cast(self.g.Mod(self.g.Sub(newest, np.arange(n)), n), to=FLOAT)

        return self._once("age", n, build=build)

    def valid(self, n: int) -> str:
        """[B, 1, 1, n] bool: slots that have a token."""

        def build() -> str:
            return self.g.Less(np.arange(n), self.g.Reshape(self.after, [-1, 1, 1, 1]))

        return self._once("valid", n, build=build)

    def filling(self, n: int) -> str:
        """[B] bool: whether the window of n tokens is not full yet."""
        return self._once("filling", n, build=lambda: self.g.Less(self.after, n))

    def _once(self, *key: object, build: Callable[[], str]) -> str:
        if key not in self._known:
            self._known[key] = build()
        return self._known[key]


def scattered(g: Graph, ring: str, slots: str, update: str, shape: tuple[int, ...], axis: int, name: str | None) -> str:
    """Write `update` [B, *shape] into a ring at `slots` along `axis`; the result is called `name`."""
    index = g.Add(slots, np.zeros((1, *shape), np.int64))  # an index for every number
    return g.ScatterElements(ring, index, update, axis=axis, **({} if name is None else {"name": name}))
