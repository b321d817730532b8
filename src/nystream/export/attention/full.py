"""Softmax attention of the newest token over the window.

Att = softmax(q Kᵀ / √d) V
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.attention.common import (
    by_head,
    heads_first,
    hidden,
    rates,
    rows,
    span_heads,
    span_rows,
    tokens_last,
)
from nystream.export.clock import Clock, scattered
from nystream.export.dense import Layers
from nystream.export.graph import Graph
from nystream.export.span import Span
from nystream.export.states import State


class Full:
    """The attention of one block."""

    def __init__(self, module: Any, name: str, leaf: str) -> None:
        self.module, self.cfg, self.name, self.leaf = module, module.config, name, leaf
        self.decay = rates(module)

    @property
    def states(self) -> list[State]:
        n, heads, dim = self.cfg.window, self.cfg.num_heads, self.cfg.head_dim
        return [
            State(f"{self.name}_key", (heads, dim, n), leaf=f"{self.leaf}.ring_key", axes=(2, 0, 1)),
            State(f"{self.name}_value", (heads, n, dim), leaf=f"{self.leaf}.ring_value", axes=(1, 0, 2)),
        ]

    def project(self, layers: Layers, x: str) -> list[str]:
        """The query, multiplied by 1/√d, the key and the value."""
        return projections(self.module, layers, x, self.cfg.scale)

    def attend(self, g: Graph, clock: Clock, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put a group into the window; `before` and `after` are the names of the states."""
        cfg, (query, key, value) = self.cfg, projected
        n, r, heads, dim = cfg.window, cfg.update_size, cfg.num_heads, cfg.head_dim
        key = tokens_last(g, key, cfg, dim)
        key = scattered(g, before[0], clock.slots(n, 4, 3), key, (heads, dim, r), 3, after[0])
        value = heads_first(g, value, cfg, dim)
        value = scattered(g, before[1], clock.slots(n, 4, 2), value, (heads, r, dim), 2, after[1])
        logit = g.MatMul(heads_first(g, query, cfg, dim), key)  # [B, H, r, n]
        weight = g.Softmax(g.Add(logit, hidden(g, clock, n, self.decay)), axis=-1)
        return rows(g, g.MatMul(weight, value), cfg)

    def attend_span(self, g: Graph, span: Span, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put T tokens into the window, one row each."""
        cfg, n, heads, dim = self.cfg, self.cfg.window, self.cfg.num_heads, self.cfg.head_dim
        query, key, value = (span_heads(g, span, x, heads, dim) for x in projected)  # [B, H, T, D]
        key = g.Transpose(key, perm=[0, 1, 3, 2])
        span.written(before[0], key, [1, heads, dim, 1], 3, n, after[0])
        span.written(before[1], value, [1, heads, 1, dim], 2, n, after[1])
        logit = g.MatMul(query, g.Concat(before[0], key, axis=3))  # [B, H, T, n + T]
        weight = g.Softmax(g.Add(logit, span.bias(n, self.decay)), axis=-1)
        return span_rows(g, g.MatMul(weight, g.Concat(before[1], value, axis=2)), cfg)


def projections(module: Any, layers: Layers, x: str, scale: float) -> list[str]:
    """Query, multiplied by `scale`, key and value, [rows, E] each."""
    cfg = module.config
    parts = [by_head(layer, cfg) for layer in (module.q_proj, module.k_proj, module.v_proj)]
    weights, biases = ([part[place].reshape(cfg.embed_dim, -1) for part in parts] for place in (0, 1))
    weights[0], biases[0] = weights[0] * scale, biases[0] * scale
    if layers.weights == "int8":  # logits lose most by rounding, so only the values are light
        both = layers.affine(x, np.concatenate(weights[:2]), np.concatenate(biases[:2]).reshape(-1))
        query, key = layers.g.Split(both, [cfg.embed_dim] * 2, axis=-1, outputs=2)
        return [query, key, layers.linear(x, module.v_proj, light=True)]
    together = layers.affine(x, np.concatenate(weights), np.concatenate(biases).reshape(-1))
    return list(layers.g.Split(together, [cfg.embed_dim] * 3, axis=-1, outputs=3))
