"""Fixed landmarks, over a window short enough that all its logits and values are read at every step.

    Att = softmax(q K̃ᵀ / √d) Γ† · softmax(L) V,   L = Q̃ Kᵀ / √d in a ring

Queries and keys appear only in products with the landmarks, which are folded into their projections. The row of weights
is multiplied with softmax(L) first, so that a step takes n (m + d) multiplications per head, not n m d.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.export.attention.common import (
    by_head,
    heads_first,
    lowered,
    rates,
    rows,
    span_heads,
    span_rows,
    tokens_last,
)
from nystream.export.clock import Clock, scattered
from nystream.export.dense import Layers, values
from nystream.export.graph import Graph
from nystream.export.span import Span
from nystream.export.states import State


class Fixed:
    """The attention of one block."""

    def __init__(self, module: Any, name: str, leaf: str) -> None:
        self.module, self.cfg, self.name, self.leaf = module, module.config, name, leaf
        self.decay = rates(module)

    @property
    def states(self) -> list[State]:
        n, m, heads, dim = self.cfg.window, self.cfg.m, self.cfg.num_heads, self.cfg.head_dim
        void = float("-inf")
        return [
            State(f"{self.name}_logit", (heads, m, n), "float32", void, f"{self.leaf}.ring_logit", (2, 0, 1)),
            State(f"{self.name}_value", (heads, n, dim), leaf=f"{self.leaf}.ring_value", axes=(1, 0, 2)),
        ]

    def project(self, layers: Layers, x: str) -> list[str]:
        """Logits of the query with K̃, logits of the key with Q̃, and the value."""
        cfg, g, fixed = self.cfg, layers.g, self.module._fixed()
        weights, biases = [], []
        for layer, landmarks in ((self.module.q_proj, fixed.k_tilde), (self.module.k_proj, fixed.q_tilde)):
            weight, bias = by_head(layer, cfg)
            tilde = values(landmarks) * cfg.scale
            weights.append(np.einsum("hmd,hde->hme", tilde, weight).reshape(-1, cfg.embed_dim))
            biases.append(np.einsum("hmd,hd->hm", tilde, bias).reshape(-1))
        count = cfg.num_heads * cfg.m
        if layers.weights == "int8":  # logits lose most by rounding, so only the values are light
            logits = layers.affine(x, np.concatenate(weights), np.concatenate(biases))
            queries, keys = g.Split(logits, [count, count], axis=-1, outputs=2)
            return [queries, keys, layers.linear(x, self.module.v_proj, light=True)]
        weight, bias = by_head(self.module.v_proj, cfg)
        weights.append(weight.reshape(cfg.embed_dim, -1))
        biases.append(bias.reshape(-1))
        together = layers.affine(x, np.concatenate(weights), np.concatenate(biases))
        return list(g.Split(together, [count, count, cfg.embed_dim], axis=-1, outputs=3))

    def attend(self, g: Graph, clock: Clock, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put a group into the window; `before` and `after` are the names of the states."""
        cfg, (queries, keys, value) = self.cfg, projected
        n, m, r, heads, dim = cfg.window, cfg.m, cfg.update_size, cfg.num_heads, cfg.head_dim
        logit = tokens_last(g, keys, cfg, m)
        logit = scattered(g, before[0], clock.slots(n, 4, 3), logit, (heads, m, r), 3, after[0])
        value = heads_first(g, value, cfg, dim)
        value = scattered(g, before[1], clock.slots(n, 4, 2), value, (heads, r, dim), 2, after[1])
        delta = g.Softmax(lowered(g, logit, self.decay, clock.age(n) if self.decay is not None else ""), axis=-1)
        return rows(g, g.MatMul(g.MatMul(self.weights(g, queries), delta), value), cfg)

    def attend_span(self, g: Graph, span: Span, projected: list[str], before: list[str], after: list[str]) -> str:
        """Put T tokens into the window, one row each."""
        cfg, (queries, keys, value) = self.cfg, projected
        n, m, heads, dim = cfg.window, cfg.m, cfg.num_heads, cfg.head_dim
        beta, logit = (span_heads(g, span, x, heads, m) for x in (queries, keys))  # [B, H, T, m]
        logit, value = g.Transpose(logit, perm=[0, 1, 3, 2]), span_heads(g, span, value, heads, dim)
        span.written(before[0], logit, [1, heads, m, 1], 3, n, after[0])
        span.written(before[1], value, [1, heads, 1, dim], 2, n, after[1])
        logits = g.Unsqueeze(g.Concat(before[0], logit, axis=3), [3])  # [B, H, m, 1, n + T]
        delta = g.Softmax(g.Add(logits, g.Unsqueeze(span.bias(n, self.decay), [2])), axis=-1)  # [B, H, m, T, n + T]
        row = self._by_inverse(g, g.Softmax(beta, axis=-1))  # [B, H, T, m]
        row = g.Unsqueeze(g.Transpose(row, perm=[0, 1, 3, 2]), [4])
        weight = g.ReduceSum(g.Mul(row, delta), [2], keepdims=0)  # [B, H, T, n + T]
        return span_rows(g, g.MatMul(weight, g.Concat(before[1], value, axis=2)), cfg)

    def weights(self, g: Graph, queries: str) -> str:
        """Rows of B Γ†, [B, H, r, m]."""
        return self._by_inverse(g, g.Softmax(heads_first(g, queries, self.cfg, self.cfg.m), axis=-1))

    def _by_inverse(self, g: Graph, beta: str) -> str:
        if self.cfg.pinv == "none":
            return beta
        return g.MatMul(beta, values(self.module._fixed().gamma_pinv).astype(np.float32))
