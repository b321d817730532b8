"""Att: softmax attention of every token of the window with every other.

    Att = softmax(Q Kᵀ / √d) V

A step keeps rings of q, k and v and recomputes the window. Cost: 2 n² d per step. State: 3 n d numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nystream.config import AttentionConfig
from nystream.ops import ring
from nystream.ops.attention.common import Fixed, exact, extend, zero_void
from nystream.ops.timeline import Timeline


class RingState(NamedTuple):
    """Queries, keys and values of the window."""

    time: Tensor  # [B] tokens read so far
    ring_query: Tensor  # [B, n, H, D]
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """All n rows. `mask` is boolean, True where a query may see a key, broadcastable to [B, H, n, n]."""
    if mask is None:
        return zero_void(exact(q, k, v, cfg, lengths, dropout), lengths)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=cfg.scale)


def init_state(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None) -> RingState:
    shape = (batch, cfg.window, cfg.num_heads, cfg.head_dim)
    rings = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(3))
    return RingState(torch.zeros(batch, dtype=torch.long, device=device), *rings)


def step(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None = None
) -> tuple[Tensor, RingState]:
    return recompute(forward, push(q, k, v, state), cfg, fixed)


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: RingState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, RingState]:
    return recompute(forward, roll_on(q, k, v, state, when), cfg, fixed)


def recompute(
    attend: Callable[..., Tensor], state: RingState, cfg: AttentionConfig, fixed: Fixed | None
) -> tuple[Tensor, RingState]:
    """The `forward` of a plain variant over the window in the rings."""
    return attend(*window(state), cfg, fixed, state.time.clamp(max=cfg.window)), state


def push(q: Tensor, k: Tensor, v: Tensor, state: RingState) -> RingState:
    """The rings with one more group, written in place."""
    for leaf, x in zip(state[1:], (q, k, v), strict=True):
        ring.write(leaf, state.time, x.transpose(1, 2))
    return state._replace(time=state.time + q.shape[2])


def roll_on(q: Tensor, k: Tensor, v: Tensor, state: RingState, when: Timeline) -> RingState:
    """The rings after a piece of a stream."""
    rings = (
        ring.roll_on(leaf, extend(leaf, state.time, x), when.lengths, when.after)
        for leaf, x in zip(state[1:], (q, k, v), strict=True)
    )
    return RingState(when.after, *rings)


def window(state: RingState) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of the window [B, H, n, D], oldest first."""
    q, k, v = (ring.unroll(leaf, state.time).transpose(1, 2) for leaf in state[1:])
    return q, k, v
