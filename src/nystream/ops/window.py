"""Δ_φ V of the sliding window, m × d, in three forms with the same interface.

recompute   softmax of the ring of logits times the ring of values at every step: O(n m d). Needs no extra state, cannot
            drift, and is the fastest form in eager torch for small n.
partials    `sliding`: O(m² d) per step for any n, without drift.
subtract    the paper's update: one sum, from which the oldest token is subtracted. It drifts and overflows; for
            comparison only.

The rings are authoritative: ring_logit [B, n, H, m] has the logits of all landmarks with all keys of the window (−inf
in void slots), ring_value [B, n, H, D] the values. `parts`, the partial sums, are a cache of them, and empty for
"recompute". Decay (`ops.decay`) is not part of the logits in the ring; it is applied when they are summed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import partials, ring, sliding
from nystream.ops.decay import falls
from nystream.ops.partials import FLOOR, Partial, select


def empty(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None) -> Partial:
    """The partial sums of a window without tokens; `dtype` is the accumulator's."""
    sizes = (cfg.window // cfg.update_size, cfg.update_size, cfg.m)
    slots = {"partials": sliding.slots(*sizes), "subtract": 1}.get(cfg.form, 0)
    shape = (batch, slots, cfg.num_heads, cfg.m)
    part_max = torch.full(shape, 0.0 if cfg.form == "subtract" else FLOOR, dtype=dtype, device=device)
    if cfg.form == "partials":
        sliding.table(*sizes, device=part_max.device)
    return Partial(part_max, torch.zeros(*shape, cfg.head_dim + 1, dtype=dtype, device=device))


def push(
    cfg: AttentionConfig,
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    logit: Tensor,
    value: Tensor,
    decay: Tensor | None = None,
) -> None:
    """Add a group, in place: logit [B, r, H, m], value [B, r, H, D]; `time` is the time before it."""
    if cfg.form == "partials":
        sliding.push(parts, ring_logit, ring_value, time, logit, value.to(logit.dtype), decay)
    elif cfg.form == "subtract":
        old_logit, old_value = (ring.read(x, time, cfg.update_size) for x in (ring_logit, ring_value))
        parts.sum[:, 0] += _plain_sum(logit, value) - _plain_sum(old_logit, old_value)
    ring.write(ring_logit, time, logit)
    ring.write(ring_value, time, value)


def delta_v(
    cfg: AttentionConfig,
    parts: Partial,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    decay: Tensor | None = None,
) -> Tensor:
    """Δ_φ V [B, H, m, D]; `time` is the time after the newest group."""
    if cfg.form == "partials":
        return sliding.read(parts, ring_logit, ring_value, time, cfg.update_size, decay)
    if cfg.form == "subtract":
        return partials.mean(select(parts, slice(None), 0))
    logit = ring_logit.permute(0, 2, 3, 1)  # [B, H, m, n]
    if decay is not None:
        logit = logit - falls(decay, ring.age(time, cfg.window)).unsqueeze(2)
    delta = logit.softmax(-1)
    return delta @ ring_value.to(delta.dtype).transpose(1, 2)


def rebuild(
    cfg: AttentionConfig,
    ring_logit: Tensor,
    ring_value: Tensor,
    time: Tensor,
    decay: Tensor | None = None,
    landmark: Tensor | None = None,
) -> Partial:
    """Compute the partial sums from the rings, for all m landmarks, or those that `landmark` [B, R] names."""
    if cfg.form == "partials":
        return sliding.rebuild(ring_logit, ring_value, time, cfg.update_size, cfg.m, decay, landmark)
    if cfg.form == "subtract":
        part_sum = _plain_sum(ring_logit, ring_value)[:, None]
        return Partial(torch.zeros_like(part_sum[..., 0]), part_sum)
    nothing = ring_logit[:, :0]
    return Partial(nothing, nothing[..., None].expand(*nothing.shape, ring_value.shape[-1] + 1))


def _plain_sum(logit: Tensor, value: Tensor) -> Tensor:
    """Σ exp(l) [v, 1] without subtracting a maximum, as in the paper: [B, H, m, D + 1]."""
    weight = logit.exp().permute(0, 2, 3, 1)  # [B, H, m, T]
    return weight @ partials.with_ones(value.to(weight.dtype).transpose(1, 2))
