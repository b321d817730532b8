"""Δ_φ V of the sliding window, m x d, in three forms behind one interface.

recompute   softmax of the ring of logits times the ring of values at every step: O(n m d), nothing kept, nothing to
            drift, the shortest code and the fastest in eager torch while n is small.
partials    `sliding`: O(m d) a step whatever n is, drift-free.
subtract    the paper's update, one sum from which what leaves is subtracted: it drifts and overflows; for comparison.

The rings are the truth: ring_logit [B, n, H, m] holds the logit of every landmark with every key of the window (−inf
where there is none yet), ring_value [B, n, H, D] the values. `parts` is a cache of them, empty for "recompute".
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import partials, ring, sliding
from nystream.ops.partials import FLOOR, Partial


def slots(cfg: AttentionConfig) -> int:
    """How many partials the form keeps."""
    if cfg.form == "partials":
        return sliding.cut(cfg.window // cfg.update_size).slots
    return 1 if cfg.form == "subtract" else 0


def empty(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None) -> Partial:
    """The parts of a window without tokens; `dtype` is the accumulator's."""
    shape = (batch, slots(cfg), cfg.num_heads, cfg.m)
    top = torch.full(shape, 0.0 if cfg.form == "subtract" else FLOOR, dtype=dtype, device=device)
    if cfg.form == "partials":
        sliding.table(cfg.window // cfg.update_size, device=top.device)
    return Partial(top, torch.zeros(*shape, cfg.head_dim + 1, dtype=dtype, device=device))


def push(
    cfg: AttentionConfig,
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    count: Tensor,
    logit: Tensor,
    value: Tensor,
) -> None:
    """Take in a group, in place: logit [B, r, H, m], value [B, r, H, D]; `count` is the count before it."""
    if cfg.form == "partials":
        sliding.push(parts, ring_logit, ring_value, count, logit, value.to(logit.dtype))
    elif cfg.form == "subtract":
        old_logit, old_value = (
            ring.read(ring_logit, count, logit.shape[1]),
            ring.read(ring_value, count, value.shape[1]),
        )
        parts.mass[:, 0] += _plain_sum(logit, value) - _plain_sum(old_logit, old_value)
    ring.write(ring_logit, count, logit)
    ring.write(ring_value, count, value)


def delta_v(cfg: AttentionConfig, parts: Partial, ring_logit: Tensor, ring_value: Tensor, count: Tensor) -> Tensor:
    """Δ_φ V [B, H, m, D]; `count` is the count after the newest group."""
    if cfg.form == "partials":
        return sliding.read(parts, count, cfg.window, cfg.update_size)
    if cfg.form == "subtract":
        return partials.mean(Partial(parts.top[:, 0], parts.mass[:, 0]))
    delta = ring_logit.permute(0, 2, 3, 1).softmax(-1)  # [B, H, m, n]
    return delta @ ring_value.to(delta.dtype).transpose(1, 2)


def rebuild(cfg: AttentionConfig, ring_logit: Tensor, ring_value: Tensor, count: Tensor) -> Partial:
    """The parts from the rings, for as many landmark rows as `ring_logit` has."""
    if cfg.form == "partials":
        return sliding.rebuild(ring_logit, ring_value, count, cfg.update_size)
    if cfg.form == "subtract":
        mass = _plain_sum(ring_logit, ring_value)[:, None]
        return Partial(torch.zeros_like(mass[..., 0]), mass)
    nothing = ring_logit[:, :0]
    return Partial(nothing, nothing[..., None].expand(*nothing.shape, ring_value.shape[-1] + 1))


def _plain_sum(logit: Tensor, value: Tensor) -> Tensor:
    """Σ exp(l) [v, 1] without a stabilising maximum, as in the paper: [B, H, m, D + 1]."""
    weight = logit.exp().permute(0, 2, 3, 1)  # [B, H, m, T]
    return weight @ partials.with_ones(value.to(weight.dtype).transpose(1, 2))
