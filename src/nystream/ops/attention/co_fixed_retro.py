"""Att_CoNyRe^Fix: fixed landmarks, all rows.

    Att = [(B_φ Γ†)_mem ; (β_φ)_new Γ†] · Δ_φ V

A row of B_φ Γ† does not change while it is in the window: it is computed once, when its token arrives. (The paper's
equation lacks Γ† in the new row.) Cost: n d m per step more than `co_fixed_single`. State: n (2 h m + d) numbers and
the partials.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops import ring, window
from nystream.ops.attention import co_fixed_single, nystrom_fixed
from nystream.ops.attention.co_fixed_single import FixedState
from nystream.ops.attention.common import Fixed, weights, zero_void
from nystream.ops.partials import Partial
from nystream.ops.precision import accumulator
from nystream.ops.timeline import Timeline


class FixedRetroState(NamedTuple):
    """`FixedState`, and the rows of B_φ Γ†."""

    time: Tensor  # [B] tokens read so far
    ring_logit: Tensor  # [B, n, H, m]
    ring_value: Tensor  # [B, n, H, D]
    part_max: Tensor  # [B, S, H, m]
    part_sum: Tensor  # [B, S, H, m, D + 1]
    ring_weight: Tensor  # [B, n, H, m]


def forward(
    q: Tensor, k: Tensor, v: Tensor, cfg: AttentionConfig, fixed: Fixed | None, lengths: Tensor | None = None
) -> Tensor:
    """All n rows."""
    return nystrom_fixed.forward(q, k, v, cfg, fixed, lengths)


def init_state(
    cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None
) -> FixedRetroState:
    base = co_fixed_single.init_state(cfg, batch, dtype, device)
    shape = (batch, cfg.window, cfg.num_heads, cfg.m)
    return FixedRetroState(*base, torch.zeros(shape, dtype=accumulator(dtype), device=device))


def step(
    q: Tensor, k: Tensor, v: Tensor, state: FixedRetroState, cfg: AttentionConfig, fixed: Fixed | None
) -> tuple[Tensor, FixedRetroState]:
    assert fixed is not None
    row = weights(q, fixed.k_tilde, fixed.gamma_pinv, cfg).transpose(1, 2)  # [B, r, H, m]
    ring.write(state.ring_weight, state.time, row)
    sums, base = co_fixed_single.advance(k, v, FixedState(*state[:5]), cfg, fixed)
    return _rows(state.ring_weight, sums, base.time, v.dtype), FixedRetroState(*base, state.ring_weight)


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: FixedRetroState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, FixedRetroState]:
    assert fixed is not None
    old = FixedState(*state[:5])
    base = co_fixed_single.roll_on(*co_fixed_single.extended_axis(k, v, old, cfg, fixed), old, cfg, when)
    row = weights(q, fixed.k_tilde, fixed.gamma_pinv, cfg).transpose(1, 2)
    ext = torch.cat([ring.unroll(state.ring_weight, state.time), row], 1)
    ring_weight = ring.roll_on(state.ring_weight, ext, when.lengths, when.after)
    parts = Partial(base.part_max, base.part_sum)
    sums = window.delta_v(cfg, parts, base.ring_logit, base.ring_value, base.time)
    return _rows(ring_weight, sums, base.time, v.dtype), FixedRetroState(*base, ring_weight)


def _rows(ring_weight: Tensor, sums: Tensor, time: Tensor, dtype: torch.dtype) -> Tensor:
    """All rows, oldest first."""
    out = (ring.unroll(ring_weight, time).transpose(1, 2) @ sums).to(dtype)
    return zero_void(out, time.clamp(max=ring_weight.shape[1]))
