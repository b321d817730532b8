"""Fixed landmarks over a long window, at a cost that hardly depends on n.

The ring is divided into blocks of S slots. While a block is being overwritten, all its tokens are in the window, old
and new: they are the edges, which a step reads and writes. The rest of the window is one total per landmark, the
middle. A total is the softmax-weighted mean of some values, and the logarithm of the sum of their weights; to the
softmax it is a token like any other. Nothing is subtracted.

When a stream enters a block, once in S tokens, the edges go back into the ring, and the next block and its middle take
their place. Totals of blocks, of F blocks together, of F² blocks and so on make this cheap: the middle consists of the
siblings of the block, those of its parent, and so on. Only streams that enter a block do this, and only in steps in
which there are any.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from nystream.config import AttentionConfig
from nystream.export.attention.common import heads_first, lowered, rows, tokens_last
from nystream.export.attention.fixed import Fixed
from nystream.export.clock import Clock, scattered
from nystream.export.graph import FLOAT, Graph
from nystream.export.states import State

SHORT = 384  # windows up to this length are read whole: that needs fewer operators
BLOCK = 32  # tokens of a block, about
FAN = 8  # F
FLOOR = np.float32(-1e30)  # the logit of nothing: finite, so that differences are never NaN


def is_long(cfg: AttentionConfig) -> bool:
    """Whether the window is divided."""
    return cfg.window > SHORT


class Tier(NamedTuple):
    """A division of the ring into blocks."""

    tokens: int  # in a block
    first: int  # the index of its first total in the state


class TieredFixed(Fixed):
    """The attention of one block of the model."""

    def __init__(self, module: Any, name: str, leaf: str) -> None:
        super().__init__(module, name, leaf)
        r = self.cfg.update_size
        self.block = -(-BLOCK // r) * r  # in whole groups
        self.blocks = -(-self.cfg.window // self.block)
        self.tiers: list[Tier] = []
        self.totals, tokens = 0, self.block
        while not self.tiers or tokens < self.cfg.window:
            parents = -(-self.cfg.window // (tokens * FAN))
            self.tiers.append(Tier(tokens, self.totals))
            self.totals += parents * FAN
            tokens *= FAN

    @property
    def states(self) -> list[State]:
        m, heads, dim = self.cfg.m, self.cfg.num_heads, self.cfg.head_dim
        void, leaves = float("-inf"), [f"{self.leaf}.ring_{what}" for what in ("logit", "value")]

        def state(name: str, shape: tuple[int, ...], **others: Any) -> State:
            return State(f"{self.name}_{name}", shape, **others)

        logit_edges = state("logit_edges", (heads, m, self.block), initial=void)
        value_edges = state("value_edges", (heads, self.block, dim))
        logit = state(
            "logit", (self.blocks, *logit_edges.shape), initial=void, leaf=leaves[0], axes=(0, 3, 1, 2)
        )._replace(edges=logit_edges.input)
        value = state("value", (self.blocks, *value_edges.shape), leaf=leaves[1], axes=(0, 2, 1, 3))
        value = value._replace(edges=value_edges.input)
        made_of = {
            "logit": logit.input,
            "value": value.input,
            "middle": f"state_{self.name}_middle",
            "window": self.cfg.window,
            "tiers": [list(tier) for tier in self.tiers],
            "fan": FAN,
            "decay": None if self.decay is None else [float(rate) for rate in self.decay.ravel()],
        }
        return [
            logit_edges,
            value_edges,
            logit,
            value,
            state("totals", (self.totals, heads, m, dim + 1), totals=made_of),
            state("middle", (heads, m, dim + 1)),
        ]

    def attend(self, g: Graph, clock: Clock, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put a group into the window; `before` and `after` are the names of the states."""
        cfg, (queries, keys, value) = self.cfg, projected
        m, r, heads, dim = cfg.m, cfg.update_size, cfg.num_heads, cfg.head_dim
        inside = clock.inside(cfg.window, self.block)  # [B] the group's place in its block
        logit_edges, value_edges, middle = self._entered(g, clock, inside, before, after)
        places = g.Reshape(inside, [-1, 1, 1, 1])
        at = [
            places if r == 1 else g.Add(places, np.arange(r).reshape(shape)) for shape in ((1, 1, 1, r), (1, 1, r, 1))
        ]
        logit = scattered(g, logit_edges, at[0], tokens_last(g, keys, cfg, m), (heads, m, r), 3, after[0])
        value = scattered(g, value_edges, at[1], heads_first(g, value, cfg, dim), (heads, r, dim), 2, after[1])
        total, mean = g.Split(middle, [1, dim], axis=-1, outputs=2)  # [B, H, m, 1], [B, H, m, D]
        if self.decay is not None:
            newest = g.Add(places, r - 1)
            age = g.Mod(g.Sub(newest, np.arange(self.block)), cfg.window)
            logit = lowered(g, logit, self.decay, g.Cast(age, to=FLOAT))
            total = lowered(g, total, self.decay, g.Cast(g.Add(places, r), to=FLOAT))
        delta = g.Softmax(g.Concat(logit, total, axis=-1), axis=-1)
        edges, rest = g.Split(delta, [self.block, 1], axis=-1, outputs=2)
        row = self.weights(g, queries)  # [B, H, r, m]
        out = g.Add(g.MatMul(g.MatMul(row, edges), value), g.MatMul(row, g.Mul(rest, mean)))
        return rows(g, out, cfg)

    def _entered(
        self, g: Graph, clock: Clock, inside: str, before: list[str], after: list[str]
    ) -> tuple[str, str, str]:
        """Edges and middle, after some streams have entered a block."""
        heads, m, dim, s = self.cfg.num_heads, self.cfg.m, self.cfg.head_dim, self.block
        entering = g.Equal(inside, np.int64(0))
        slot, written = clock.slot(self.cfg.window), clock.before
        count = len(self.tiers)

        def enter(body: Graph) -> list[str]:
            place = body.Transpose(body.NonZero(entering), perm=[1, 0])  # [R, 1] the streams
            return _Entry(self, body, place, slot, written, before).changes()

        def nothing(body: Graph) -> list[str]:
            edges = [(0, heads, m, s), (0, heads, s, dim)]
            shapes = [(0, 1), (0, 2), (0, count, 2), *edges, *edges]
            shapes += [(0, count, heads, m, dim + 1), (0, heads, m, dim + 1)]
            return [body.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]

        dtypes = ["int64"] * 3 + ["float32"] * 6
        place, address, totals_at, left_logit, left_value, logit, value, totals, middle = g.branches(
            g.any(entering), enter, nothing, dtypes
        )
        # Without streams that enter a block, all of these write nothing.
        g.ScatterND(before[2], address, left_logit, name=after[2])
        g.ScatterND(before[3], address, left_value, name=after[3])
        g.ScatterND(before[4], totals_at, totals, name=after[4])
        middle = g.ScatterND(before[5], place, middle, name=after[5])
        return g.ScatterND(before[0], place, logit), g.ScatterND(before[1], place, value), middle


class _Entry:
    """What happens to the R streams that enter a block, inside a branch of the graph."""

    def __init__(self, owner: TieredFixed, g: Graph, place: str, slot: str, written: str, states: list[str]) -> None:
        self.owner, self.g, self.place, self.states = owner, g, place, states
        self.slot = g.Unsqueeze(g.GatherND(slot, place), [1])  # [R, 1] the first slot of the block
        window = owner.cfg.window
        self.last = g.Mod(g.Add(self.slot, window - 1), window)  # [R, 1] the slot of the newest token so far
        self.written = g.Min(
            g.Unsqueeze(g.GatherND(written, place), [1]), np.int64(window)
        )  # [R, 1] tokens in the ring

    def changes(self) -> list[str]:
        """Streams, addresses of blocks and totals, the blocks that were left, those that follow, totals and middles."""
        g, owner, tiers = self.g, self.owner, self.owner.tiers
        block, left = (g.Div(x, owner.block) for x in (self.slot, self.last))
        next_edges = [g.GatherND(ring, g.Concat(self.place, block, axis=1)) for ring in self.states[2:4]]
        edges = [g.GatherND(x, self.place) for x in self.states[:2]]
        total = self._edges_total(*edges)  # of the block that was left
        new, at, parts = [total], [g.Add(left, tiers[0].first)], []
        for below, tier in pairwise(tiers):
            children = self._children(below, g.Div(left, FAN), left, new[-1], None)
            new.append(_combined(g, children, owner.cfg.head_dim))
            left = g.Div(left, FAN)
            at.append(g.Add(left, tier.first))
        left = g.Div(self.last, owner.block)
        for tier, own in zip(tiers, new, strict=True):
            parts.append(self._children(tier, g.Div(block, FAN), left, own, block))
            block, left = g.Div(block, FAN), g.Div(left, FAN)
        middle = _combined(g, g.Concat(*parts, axis=1), owner.cfg.head_dim)
        indices = [g.Concat(self.place, x, axis=1) for x in at]
        totals_at = g.Concat(*(g.Unsqueeze(x, [1]) for x in indices), axis=1)  # [R, T, 2]
        totals = g.Concat(*(g.Unsqueeze(x, [1]) for x in new), axis=1)  # [R, T, H, m, D + 1]
        address = g.Concat(self.place, g.Div(self.last, owner.block), axis=1)
        return [self.place, address, totals_at, *edges, *next_edges, totals, middle]

    def _edges_total(self, logit: str, value: str) -> str:
        """The total of the edges, [R, H, m, D + 1]."""
        g, owner = self.g, self.owner
        if owner.decay is not None:  # ages from the last token
            slots = g.Add(g.Mul(g.Div(self.last, owner.block), owner.block), np.arange(owner.block))
            age = g.Cast(g.Mod(g.Sub(self.last, slots), owner.cfg.window), to=FLOAT)
            logit = lowered(g, logit, owner.decay, g.Reshape(age, [-1, 1, 1, owner.block]))
        # Before the first token there is nothing at all, and the logarithm of 0 must not become NaN.
        logit = g.Max(logit, FLOOR)
        size = g.ReduceLogSumExp(logit, [3], keepdims=1)
        return g.Concat(size, g.MatMul(g.Softmax(logit, axis=-1), value), axis=-1)

    def _children(self, tier: Tier, parent: str, left: str, total: str, current: str | None) -> str:
        """The totals of a parent's children in one tier, [R, F, H, m, D + 1], without the `current` one.

        The total of the block that was left, `left` [R, 1], is new.
        """
        g, owner, window = self.g, self.owner, self.owner.cfg.window
        child = g.Add(g.Mul(parent, FAN), np.arange(FAN))  # [R, F]
        streams = g.Add(self.place, np.zeros((1, FAN), np.int64))
        index = g.Concat(*(g.Unsqueeze(x, [2]) for x in (streams, g.Add(child, tier.first))), axis=2)
        old = g.GatherND(self.states[4], index)
        wide = [-1, FAN, 1, 1, 1]
        totals = g.Where(g.Reshape(g.Equal(child, left), wide), g.Unsqueeze(total, [1]), old)
        start = g.Mul(child, tier.tokens)
        void = g.GreaterOrEqual(start, self.written)
        if current is not None:
            void = g.Or(void, g.Equal(child, current))
        nothing = np.zeros(owner.cfg.head_dim + 1, np.float32)
        nothing[0] = FLOOR
        totals = g.Where(g.Reshape(void, wide), nothing, totals)
        if owner.decay is None:
            return totals
        end = g.Sub(g.Min(g.Add(start, tier.tokens), np.int64(window)), 1)
        end = g.Where(g.Equal(child, left), self.last, end)  # the block that was left may have begun only now
        age = g.Cast(g.Mod(g.Sub(self.last, end), window), to=FLOAT)
        fall = g.Mul(g.Reshape(age, wide), owner.decay * _size_only(owner.cfg.head_dim))
        return g.Sub(totals, fall)


def _size_only(dim: int) -> Any:
    """[D + 1]: 1 for the logarithm of a total's size, 0 for its mean."""
    return np.eye(1, dim + 1, dtype=np.float32)[0]


def _combined(g: Graph, totals: str, dim: int) -> str:
    """One total [R, H, m, D + 1] of several [R, K, H, m, D + 1]."""
    size, mean = g.Split(totals, [1, dim], axis=-1, outputs=2)
    mean = g.ReduceSum(g.Mul(g.Softmax(size, axis=1), mean), [1], keepdims=0)
    return g.Concat(g.ReduceLogSumExp(size, [1], keepdims=0), mean, axis=-1)
