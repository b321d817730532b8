"""What follows from the times of streams that read T tokens at once: see `clock`, which is for one group of tokens.

Token j of a piece, j = 0 ... T − 1, replaces the token in slot (time + j) mod n. So when token t is the newest, a token
of the ring is in the window if the one that replaces it comes later. T is at most n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nystream.export.graph import FLOAT, Array, Graph


class Span:
    """Values that depend on the times of a piece x [B, T, input_dim]."""

    def __init__(self, g: Graph, x: str, time: str, next_time: str, update_size: int) -> None:
        self.g, self.before, self.update_size = g, time, update_size
        self.length = g.Squeeze(g.Shape(x, start=1, end=2), [0])  # T
        self.after = g.Add(time, self.length, name=next_time)
        self.token = g.Range(np.int64(0), self.length, np.int64(1))  # [T]
        self._known: dict[tuple[object, ...], str] = {}

    def positions(self, count: int) -> str:
        """[B T]: the positions of the tokens, of `count` in rotation."""
        return self._once("positions", count, build=lambda: self.g.Reshape(self.slots(count), [-1]))

    def slots(self, n: int) -> str:
        """[B, T]: the slots of the tokens in a ring of n."""

        def build() -> str:
            return self.g.Mod(self.g.Add(self.g.Unsqueeze(self.before, [1]), self.token), n)

        return self._once("slots", n, build=build)

    def attend(self, part: Any, projected: list[str], before: list[str], after: list[str]) -> str:
        """The rows of an attention for all tokens."""
        return part.attend_span(self.g, self, projected, before, after)

    def features(self, path: Any, x: str, before: list[str], after: list[str]) -> str:
        """What the linear path reads at all tokens."""
        return path.span_features(self.g, self, x, before, after)

    def written(self, ring: str, update: str, shape: list[int], axis: int, n: int, name: str) -> str:
        """Write `update` [B, ..., T, ...] into a ring; `shape` is that of both, with 1 for streams and tokens."""
        places = [1] * len(shape)
        places[axis] = -1
        index = self.g.Reshape(self.slots(n), [0, *places[1:]])
        index = self.g.Add(index, np.zeros(shape, np.int64))
        return self.g.ScatterElements(ring, index, update, axis=axis, name=name)

    def bias(self, n: int, decay: Array | None) -> str:
        """What is added to the logits of n slots of a ring, and of the T tokens: [B or 1, H or 1, T, n + T].

        −inf for tokens that are not in the window of token t, the third axis; for others, how far their logits fall.
        """
        key = None if decay is None else decay.tobytes()
        return self._once("bias", n, key, build=lambda: self._bias(n, decay))

    def _bias(self, n: int, decay: Array | None) -> str:
        g = self.g
        newest = g.Add(g.Mul(g.Div(self.token, self.update_size), self.update_size), self.update_size - 1)
        newest = g.Unsqueeze(newest, [1])  # [T, 1] the last token of the group of token t
        time, slot = g.Reshape(self.before, [-1, 1, 1, 1]), np.arange(n)
        order = g.Mod(g.Sub(slot, time), n)  # [B, 1, 1, n] the token that replaces the one in each slot
        in_ring = g.And(g.Greater(order, newest), g.Less(slot, time))  # [B, 1, T, n]
        in_piece = g.LessOrEqual(self.token, newest)  # [T, T]
        falls: list[Any] = [np.float32(0), np.float32(0)]
        if decay is not None:
            ages = g.Add(g.Sub(newest, order), n), g.Sub(newest, self.token)
            falls = [g.Mul(g.Cast(age, to=FLOAT), -decay) for age in ages]
        ring, piece = (
            g.Where(seen, fall, np.float32(-np.inf)) for seen, fall in zip((in_ring, in_piece), falls, strict=True)
        )
        # As many streams in both, so that they can be one tensor.
        none = g.Mul(g.Cast(time, to=FLOAT), np.float32(0))
        return g.Concat(ring, g.Add(piece, none), axis=-1)

    def _once(self, *key: object, build: Callable[[], str]) -> str:
        if key not in self._known:
            self._known[key] = build()
        return self._known[key]
