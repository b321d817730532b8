"""Shared by all attentions of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.config import AttentionConfig
from nystream.export.clock import Clock
from nystream.export.dense import values
from nystream.export.graph import Array, Graph
from nystream.export.span import Span


def by_head(layer: Any, cfg: AttentionConfig) -> tuple[Array, Array]:
    """Weight [H, D, E] and bias [H, D] of a projection."""
    bias = np.zeros(cfg.embed_dim) if layer.bias is None else values(layer.bias)
    shape = (cfg.num_heads, cfg.head_dim)
    return values(layer.weight).reshape(*shape, -1), bias.reshape(shape)


def rates(module: Any) -> Array | None:
    """[H, 1, 1]: how far each head lowers a logit per token, or None without decay."""
    decay = module._decay().get("decay")
    return None if decay is None else values(decay).astype(np.float32).reshape(-1, 1, 1)


def lowered(g: Graph, logit: str, decay: Array | None, age: str) -> str:
    """Logits [B, H, ., T] lowered by their age [B, 1, 1, T]."""
    return logit if decay is None else g.Sub(logit, g.Mul(age, decay))


def heads_first(g: Graph, x: str, cfg: AttentionConfig, width: int) -> str:
    """[B r, H width] -> [B, H, r, width]."""
    if cfg.update_size == 1:
        return g.Reshape(x, [-1, cfg.num_heads, 1, width])
    split = g.Reshape(x, [-1, cfg.update_size, cfg.num_heads, width])
    return g.Transpose(split, perm=[0, 2, 1, 3])


def tokens_last(g: Graph, x: str, cfg: AttentionConfig, width: int) -> str:
    """[B r, H width] -> [B, H, width, r]."""
    if cfg.update_size == 1:
        return g.Reshape(x, [-1, cfg.num_heads, width, 1])
    split = g.Reshape(x, [-1, cfg.update_size, cfg.num_heads, width])
    return g.Transpose(split, perm=[0, 2, 3, 1])


def rows(g: Graph, x: str, cfg: AttentionConfig) -> str:
    """[B, H, r, D] -> [B r, E]."""
    if cfg.update_size > 1:
        x = g.Transpose(x, perm=[0, 2, 1, 3])
    return g.Reshape(x, [-1, cfg.embed_dim])


def span_heads(g: Graph, span: Span, x: str, heads: int, width: int) -> str:
    """[B T, H width] -> [B, H, T, width]."""
    shape = g.Concat([-1], g.Reshape(span.length, [1]), [heads, width], axis=0)
    return g.Transpose(g.Reshape(x, shape), perm=[0, 2, 1, 3])


def span_rows(g: Graph, x: str, cfg: AttentionConfig) -> str:
    """[B, H, T, D] -> [B T, E]."""
    return g.Reshape(g.Transpose(x, perm=[0, 2, 1, 3]), [-1, cfg.embed_dim])


def hidden(g: Graph, clock: Clock, n: int, decay: Array | None) -> str:
    """What is added to the logits of keys in a ring: −inf for void slots, and the fall of those that have a token."""
    fall = np.float32(0) if decay is None else g.Mul(clock.age(n), -decay)
    return g.Where(clock.valid(n), fall, np.float32(-np.inf))
