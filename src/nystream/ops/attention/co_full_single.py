"""Att_CoSi: softmax attention of the newest token over the window.

    Att_CoSi = softmax(q_new Kᵀ / √d) V

With a decay, the logit of a token falls by λ per token of its age (`ops.decay`).

Cost: 2 n d per step. State: 2 n d numbers, the rings of k and v.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import ring
from nystream.ops.attention.common import Fixed, banded, exact, exact_ring
from nystream.ops.extended import of_ring
from nystream.ops.timeline import Timeline


class KeyValueState(NamedTuple):
    """The keys and values of the window."""

    time: Tensor  # [B] tokens read so far
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    lengths: Tensor | None = None,
    dropout: float = 0.0,
    decay: Tensor | None = None,
) -> Tensor:
    """The newest r rows."""
    return exact(q[:, :, -cfg.update_size :], k, v, cfg, lengths, dropout, decay)


def init_state(
    cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None
) -> KeyValueState:
    shape = (batch, cfg.window, cfg.num_heads, cfg.head_dim)
    rings = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
    return KeyValueState(torch.zeros(batch, dtype=torch.long, device=device), *rings)


def step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: KeyValueState,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    decay: Tensor | None = None,
) -> tuple[Tensor, KeyValueState]:
    ring.write(state.ring_key, state.time, k.transpose(1, 2))
    ring.write(state.ring_value, state.time, v.transpose(1, 2))
    state = state._replace(time=state.time + q.shape[2])
    return exact_ring(q, state.ring_key, state.ring_value, state.time, cfg, decay), state


def steps(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: KeyValueState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> tuple[Tensor, KeyValueState]:
    key, value = of_ring(state.ring_key, state.time, k), of_ring(state.ring_value, state.time, v)
    out = banded(q, key, value, cfg, when, decay)
    rings = (state.ring_key, key.piece, 0.0), (state.ring_value, value.piece, 0.0)
    return out, KeyValueState(when.after, *ring.carry_on(rings, when.lengths, when.after))


def outputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: KeyValueState,
    cfg: AttentionConfig,
    fixed: Fixed | None,
    when: Timeline,
    decay: Tensor | None = None,
) -> Tensor:
    """The outputs of `steps` alone."""
    key, value = of_ring(state.ring_key, state.time, k), of_ring(state.ring_value, state.time, v)
    return banded(q, key, value, cfg, when, decay)
