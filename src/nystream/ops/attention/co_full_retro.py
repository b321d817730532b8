"""Att_CoRe: softmax attention of every token of the window, updated as tokens come and go.

    A = exp(Q Kᵀ / √d),  Att_CoRe = φ(A)⁻¹ ⊙ A V

    φ(A)ᵢ ← φ(A)ᵢ − exp(qᵢ·k_old) + exp(qᵢ·k_new),   (AV)ᵢ likewise, and one new row from scratch

Sums that never subtract would cost a window of partials per row, n² d. So each row adds and subtracts, against a
reference of its own that rises with its logits; it keeps the largest sum since it was last summed, and is summed afresh
once the sum has fallen below 1/16 of that, so that rounding left behind by what has gone stays small. The same is
watched for Σ exp(l) ‖v‖∞, because values can be large too. A row's errors end when it leaves the window.

Cost: about 7 n d a step, and 2 n d for each row that is summed afresh. State: 4 n d + 5 n h numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nystream.config import AttentionConfig
from nystream.ops import ring
from nystream.ops.attention import full
from nystream.ops.attention.common import Fixed, zero_void
from nystream.ops.attention.full import RingState
from nystream.ops.partials import FLOOR
from nystream.ops.precision import accumulate, accumulator
from nystream.ops.timeline import Timeline

FALLEN = 1 / 16


class RetroState(NamedTuple):
    """The tokens of the window and a sum for each of its rows."""

    time: Tensor  # [B] tokens so far
    ring_query: Tensor  # [B, n, H, D]
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]
    row_top: Tensor  # [B, n, H] the reference: no logit of the row, since it was last summed, was larger
    row_mass: Tensor  # [B, n, H, D + 2] sums of exp(l − top) [v, 1, ‖v‖∞]
    row_peak: Tensor  # [B, n, H, 2] the largest values of the last two since the row was last summed


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    fixed: Fixed | None = None,
    lengths: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """All n rows."""
    return full.forward(q, k, v, cfg, fixed, lengths, dropout=dropout)


def init_state(cfg: AttentionConfig, batch: int, dtype: torch.dtype, device: torch.device | None = None) -> RetroState:
    rings = full.init_state(cfg, batch, dtype, device)
    shape, acc = (batch, cfg.window, cfg.num_heads), accumulator(dtype)
    return RetroState(
        *rings,
        row_top=torch.full(shape, 0.0 if cfg.form == "subtract" else FLOOR, dtype=acc, device=device),
        row_mass=torch.zeros(*shape, cfg.head_dim + 2, dtype=acc, device=device),
        row_peak=torch.zeros(*shape, 2, dtype=acc, device=device),
    )


def step(
    q: Tensor, k: Tensor, v: Tensor, state: RetroState, cfg: AttentionConfig, fixed: Fixed | None = None
) -> tuple[Tensor, RetroState]:
    if cfg.form == "recompute":
        rings = full.push(q, k, v, RingState(*state[:4]))
        return _window(rings, cfg), RetroState(*rings, *state[4:])
    r, count = cfg.update_size, state.time
    old_key, old_value = ring.read(state.ring_key, count, r), ring.read(state.ring_value, count, r)
    there = ring.read(ring.valid(count, cfg.window)[..., None], count, r)  # [B, r, 1] whether anything leaves
    rings = full.push(q, k, v, RingState(*state[:4]))

    query = accumulate(rings.ring_query).transpose(1, 2)  # [B, H, n, D]
    keys = accumulate(torch.cat([old_key, k.transpose(1, 2)], 1)).transpose(1, 2)  # [B, H, 2r, D]
    values = _columns(torch.cat([old_value, v.transpose(1, 2)], 1))  # [B, H, 2r, D + 2]
    logit = (query @ keys.mT * cfg.scale).transpose(1, 2)  # [B, n, H, 2r]
    gone = logit[..., :r].masked_fill(~there.transpose(1, 2)[:, None], -torch.inf)
    logit = torch.cat([gone, logit[..., r:]], -1)
    top = state.row_top
    if cfg.form != "subtract":
        top = torch.maximum(top, logit[..., r:].detach().amax(-1))
    rescale = (state.row_top - top).exp()[..., None]
    share = (logit - top[..., None]).exp()  # [B, n, H, 2r]
    signed = torch.cat([-share[..., :r], share[..., r:]], -1)
    mass = state.row_mass * rescale + (signed.transpose(1, 2) @ values).transpose(1, 2)
    peak = torch.maximum(state.row_peak * rescale, mass[..., -2:].detach())

    fresh = ring.rows(count)[:, None], (count[:, None] + torch.arange(r, device=count.device)) % cfg.window
    stale = torch.zeros_like(state.row_top, dtype=torch.bool)
    if cfg.form != "subtract":
        held = ring.valid(rings.time, cfg.window)[..., None]
        sound = (mass[..., -2:] >= peak * FALLEN).all(-1) & mass.isfinite().all(-1)
        stale = held & ~sound
    stale[fresh] = True
    top, mass, peak = _sum_afresh(stale, rings, top, mass, peak, cfg)
    for held_leaf, leaf in zip(state[4:], (top, mass, peak), strict=True):
        held_leaf.copy_(leaf)
    state = RetroState(*rings, *state[4:])
    out = state.row_mass[..., :-2] / state.row_mass[..., -2:-1].where(
        ring.valid(state.time, cfg.window)[..., None, None], 1
    )
    out = ring.unroll(out, state.time).transpose(1, 2).to(v.dtype)
    return zero_void(out, state.time.clamp(max=cfg.window)), state


def steps(
    q: Tensor, k: Tensor, v: Tensor, state: RetroState, cfg: AttentionConfig, fixed: Fixed | None, when: Timeline
) -> tuple[Tensor, RetroState]:
    rings = full.roll_on(q, k, v, RingState(*state[:4]), when)
    fresh = init_state(cfg, q.shape[0], q.dtype, q.device)
    sums = fresh[4:]
    if cfg.form != "recompute":
        held = ring.valid(rings.time, cfg.window)[..., None].expand_as(fresh.row_top)
        sums = _sum_afresh(held, rings, *sums, cfg)
    return _window(rings, cfg), RetroState(*rings, *sums)


def _window(rings: RingState, cfg: AttentionConfig) -> Tensor:
    return full.forward(*full.window(rings), cfg, None, rings.time.clamp(max=cfg.window))


def _columns(value: Tensor) -> Tensor:
    """[v, 1, ‖v‖∞] of value [B, T, H, D] as [B, H, T, D + 2]."""
    value = accumulate(value)
    return torch.cat([pad(value, (0, 1), value=1.0), value.abs().amax(-1, keepdim=True)], -1).transpose(1, 2)


def _sum_afresh(
    stale: Tensor, rings: RingState, top: Tensor, mass: Tensor, peak: Tensor, cfg: AttentionConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums with the rows that `stale` [B, n, H] marks taken from the rings: 2 n d a row."""
    b, slot, h = stale.nonzero(as_tuple=True)
    key, value = accumulate(rings.ring_key).transpose(1, 2), _columns(rings.ring_value)  # [B, H, n, .]
    query = accumulate(rings.ring_query[b, slot, h])  # [rows, D]
    out_top, out_mass = _rows(query, key, value, b, h, ring.valid(rings.time, cfg.window), cfg)
    index = (b, slot, h)
    return (
        top.index_put(index, out_top),
        mass.index_put(index, out_mass),
        peak.index_put(index, out_mass[:, -2:].detach()),
    )


def _rows(
    query: Tensor, key: Tensor, value: Tensor, b: Tensor, h: Tensor, held: Tensor, cfg: AttentionConfig
) -> tuple[Tensor, Tensor]:
    """Sums of single rows: query [rows, D] of batch row b and head h, over key and value [B, H, n, .]."""
    heads = key.shape[1]
    order = (b * heads + h).argsort(stable=True)
    pairs, counts = (b * heads + h)[order].unique_consecutive(return_counts=True)
    widest = int(counts.max()) if counts.numel() else 0
    # One padded batch of rows for each (batch row, head) that has any: a plain batched product, no copy of the keys
    # for every row.
    group = torch.arange(pairs.shape[0], device=b.device).repeat_interleave(counts)
    rank = torch.arange(order.shape[0], device=b.device) - (counts.cumsum(0) - counts)[group]
    padded = query.new_zeros(pairs.shape[0], widest, query.shape[-1]).index_put((group, rank), query[order])
    pb, ph = pairs // heads, pairs % heads
    logit = padded @ key[pb, ph].mT * cfg.scale  # [pairs, widest, n]
    logit = logit.masked_fill(~held[pb][:, None], -torch.inf)
    top = torch.zeros_like(logit[..., 0]) if cfg.form == "subtract" else logit.detach().amax(-1).clamp(min=FLOOR)
    mass = (logit - top[..., None]).exp() @ value[pb, ph]
    back = order.argsort()
    return top[group, rank][back], mass[group, rank][back]
