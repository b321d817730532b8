"""The linear path of a model in a graph: see `nystream.layers.linear_path`.

The last tokens are kept in order of time, oldest first, and move by one at every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.clock import Clock
from nystream.export.dense import Layers, values
from nystream.export.graph import FLOAT, Array, Graph
from nystream.export.span import Span
from nystream.export.states import State


class Path:
    """The linear path of a `StreamModel`."""

    def __init__(self, path: Any) -> None:
        self.path, self.past, self.width = path, path.tokens - 1, path.width

    @property
    def states(self) -> list[State]:
        if not self.past:
            return []
        return [State("recent", (self.past, self.width), leaf="recent", axes=(0, 1), rolled=True)]

    def features(self, g: Graph, clock: Clock, x: str, before: list[str], after: list[str]) -> str:
        """What the path reads at a token x [B, input_dim], scaled: [B, features]."""
        if not self.past:
            return x
        token = g.Unsqueeze(g.Slice(x, [0], [self.width], [1]), [1])
        # One copy of all tokens, from which the new state and the features are taken.
        tokens = g.Concat(before[0], token, axis=1)  # [B, tokens, c]
        g.Slice(tokens, [1], [self.past + 1], [1], name=after[0])
        parts = [x]
        for run in self.path.runs:
            count = run.length * run.repeats
            newest_first = g.Gather(tokens, self.past - run.age - np.arange(count), axis=1)
            if run.length > 1:
                each = g.Reshape(newest_first, [-1, run.repeats, run.length, self.width])
                newest_first = g.Div(
                    g.ReduceSum(each, [2], keepdims=0), self._clipped(g, g.Unsqueeze(clock.after, [1]), run, 2)
                )
            parts.append(g.Reshape(newest_first, [-1, run.repeats * self.width]))
        return g.Concat(*parts, axis=1)

    def span_features(self, g: Graph, span: Span, x: str, before: list[str], after: list[str]) -> str:
        """What the path reads at T tokens x [B T, input_dim], scaled: [B T, features]."""
        if not self.past:
            return x
        shape = g.Concat([-1], g.Reshape(span.length, [1]), [self.width], axis=0)
        piece = g.Reshape(g.Slice(x, [0], [self.width], [1]), shape)
        tokens = g.Concat(before[0], piece, axis=1)  # [B, tokens − 1 + T, c]
        g.Slice(tokens, [-self.past], [np.iinfo(np.int64).max], [1], name=after[0])
        newest, parts = g.Reshape(span.token, [-1, 1]), [x]
        for run in self.path.runs:
            ages = run.age + np.arange(run.length * run.repeats)
            each = g.Gather(tokens, g.Add(newest, self.past - ages), axis=1)  # [B, T, tokens of the run, c]
            if run.length > 1:
                each = g.ReduceSum(g.Reshape(each, [0, 0, run.repeats, run.length, self.width]), [3], keepdims=0)
                time = g.Add(g.Add(g.Reshape(span.before, [-1, 1, 1]), newest), 1)  # [B, T, 1]
                each = g.Div(each, self._clipped(g, time, run, 3))
            parts.append(g.Reshape(each, [-1, run.repeats * self.width]))
        return g.Concat(*parts, axis=1)

    def output(self, layers: Layers, features: str, scale: Array | float = 1.0, bias: Array | str | None = None) -> str:
        """The output of the path, [B, output_dim], each times its `scale`."""
        weight = values(self.path.weight)
        bias = np.zeros(len(weight)) if bias is None else bias
        return layers.affine(features, weight * np.reshape(scale, (-1, 1)), bias)

    def _clipped(self, g: Graph, time: str, run: Any, axis: int) -> str:
        """How many tokens a stream has in each segment at `time` [..., 1], at least 1; with one more axis."""
        starts = run.age + run.length * np.arange(run.repeats)
        counts = g.Clip(g.Sub(time, starts), np.int64(1), np.int64(run.length))
        return g.Unsqueeze(g.Cast(counts, to=FLOAT), [axis])
