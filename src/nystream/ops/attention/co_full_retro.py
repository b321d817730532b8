"""Att_CoRe: softmax attention of every token of the window, updated as tokens enter and leave.

    A = exp(Q Kᵀ / √d),  Att_CoRe = φ(A)⁻¹ ⊙ A V

    φ(A)ᵢ ← φ(A)ᵢ − exp(qᵢ·k_old) + exp(qᵢ·k_new),   (AV)ᵢ likewise, and one new row from scratch

Without subtraction, every row would need its own window of partials, n² d numbers. So each row adds and subtracts,
relative to a reference that rises with its logits. It remembers the largest sum since it was last computed from
scratch, and is computed from scratch again when its sum falls below 1/16 of that, which keeps the rounding errors of
tokens that have left small. The same holds for Σ exp(l) ‖v‖∞, because values can be large, too. The errors of a row end
when it leaves the window.

Cost: about 7 n d per step, and 2 n d for each row that is computed from scratch. State: 4 n d + 5 n h numbers.
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
from nystream.ops.tracing import tracing

MIN_SHARE_OF_PEAK = 1 / 16


class RetroState(NamedTuple):
    """Queries, keys and values of the window, and the sums of its rows.

    Unlike the maximum of a `Partial`, the reference may exceed all logits of the row.
    """

    time: Tensor  # [B] tokens read so far
    ring_query: Tensor  # [B, n, H, D]
    ring_key: Tensor  # [B, n, H, D]
    ring_value: Tensor  # [B, n, H, D]
    row_top: Tensor  # [B, n, H] the reference: the largest logit since the row was last computed from scratch
    row_mass: Tensor  # [B, n, H, D + 2] sums of exp(l − reference) [v, 1, ‖v‖∞]
    row_peak: Tensor  # [B, n, H, 2] the largest values of the last two columns since then


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
    r, time = cfg.update_size, state.time
    old_key, old_value = ring.read(state.ring_key, time, r), ring.read(state.ring_value, time, r)
    leaves = ring.read(ring.valid(time, cfg.window)[..., None], time, r)  # [B, r, 1] whether a token leaves
    rings = full.push(q, k, v, RingState(*state[:4]))

    query = accumulate(rings.ring_query).transpose(1, 2)  # [B, H, n, D]
    keys = accumulate(torch.cat([old_key, k.transpose(1, 2)], 1)).transpose(1, 2)  # [B, H, 2r, D]
    values = _columns(torch.cat([old_value, v.transpose(1, 2)], 1))  # [B, H, 2r, D + 2]
    logit = (query @ keys.mT * cfg.scale).transpose(1, 2)  # [B, n, H, 2r]
    gone = logit[..., :r].masked_fill(~leaves.transpose(1, 2)[:, None], -torch.inf)
    logit = torch.cat([gone, logit[..., r:]], -1)
    reference = state.row_top
    if cfg.form != "subtract":
        reference = torch.maximum(reference, logit[..., r:].detach().amax(-1))
    rescale = (state.row_top - reference).exp()[..., None]
    share = (logit - reference[..., None]).exp()  # [B, n, H, 2r]
    signed = torch.cat([-share[..., :r], share[..., r:]], -1)
    sums = state.row_mass * rescale + (signed.transpose(1, 2) @ values).transpose(1, 2)
    peak = torch.maximum(state.row_peak * rescale, sums[..., -2:].detach())

    fresh = ring.rows(time)[:, None], (time[:, None] + torch.arange(r, device=time.device)) % cfg.window
    stale = torch.zeros_like(state.row_top, dtype=torch.bool)
    if cfg.form != "subtract":
        valid = ring.valid(rings.time, cfg.window)[..., None]
        sound = (sums[..., -2:] >= peak * MIN_SHARE_OF_PEAK).all(-1) & sums.isfinite().all(-1)
        stale = valid & ~sound
    stale[fresh] = True
    reference, sums, peak = _from_scratch(stale, rings, reference, sums, peak, cfg)
    for leaf, new in zip(state[4:], (reference, sums, peak), strict=True):
        leaf.copy_(new)
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
        valid = ring.valid(rings.time, cfg.window)[..., None].expand_as(fresh.row_top)
        sums = _from_scratch(valid, rings, *sums, cfg)
    return _window(rings, cfg), RetroState(*rings, *sums)


def _window(rings: RingState, cfg: AttentionConfig) -> Tensor:
    return full.forward(*full.window(rings), cfg, None, rings.time.clamp(max=cfg.window))


def _columns(value: Tensor) -> Tensor:
    """[v, 1, ‖v‖∞] of value [B, T, H, D] as [B, H, T, D + 2]."""
    value = accumulate(value)
    return torch.cat([pad(value, (0, 1), value=1.0), value.abs().amax(-1, keepdim=True)], -1).transpose(1, 2)


def _from_scratch(
    stale: Tensor, rings: RingState, reference: Tensor, sums: Tensor, peak: Tensor, cfg: AttentionConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums, with the rows that `stale` [B, n, H] marks computed from the rings: 2 n d per row."""
    if tracing():
        return _where_stale(stale, rings, reference, sums, peak, cfg)
    b, slot, h = stale.nonzero(as_tuple=True)
    key, value = accumulate(rings.ring_key).transpose(1, 2), _columns(rings.ring_value)  # [B, H, n, .]
    query = accumulate(rings.ring_query[b, slot, h])  # [rows, D]
    new_reference, new_sums = _rows(query, key, value, b, h, ring.valid(rings.time, cfg.window), cfg)
    index = (b, slot, h)
    return (
        reference.index_put(index, new_reference),
        sums.index_put(index, new_sums),
        peak.index_put(index, new_sums[:, -2:].detach()),
    )


def _where_stale(
    stale: Tensor, rings: RingState, reference: Tensor, sums: Tensor, peak: Tensor, cfg: AttentionConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """`_from_scratch` of all n rows, for graphs, where no shape may depend on a value."""
    query, key = (accumulate(x).transpose(1, 2) for x in (rings.ring_query, rings.ring_key))  # [B, H, n, D]
    logit = (query @ key.mT * cfg.scale).masked_fill(~ring.valid(rings.time, cfg.window)[:, None, None], -torch.inf)
    new_reference = _reference(logit, cfg)  # [B, H, n]
    new_sums = ((logit - new_reference[..., None]).exp() @ _columns(rings.ring_value)).transpose(1, 2)
    return (
        torch.where(stale, new_reference.transpose(1, 2), reference),
        torch.where(stale[..., None], new_sums, sums),
        torch.where(stale[..., None], new_sums[..., -2:].detach(), peak),
    )


def _reference(logit: Tensor, cfg: AttentionConfig) -> Tensor:
    """The reference of rows with logits [..., n]."""
    return torch.zeros_like(logit[..., 0]) if cfg.form == "subtract" else logit.detach().amax(-1).clamp(min=FLOOR)


def _rows(
    query: Tensor, key: Tensor, value: Tensor, b: Tensor, h: Tensor, valid: Tensor, cfg: AttentionConfig
) -> tuple[Tensor, Tensor]:
    """Sums of single rows: query [rows, D] of batch row b and head h, over key and value [B, H, n, .]."""
    heads = key.shape[1]
    order = (b * heads + h).argsort(stable=True)
    pairs, counts = (b * heads + h)[order].unique_consecutive(return_counts=True)
    widest = int(counts.max()) if counts.numel() else 0
    # One padded batch of queries for each (batch row, head) that has any, so that the keys are not copied for every
    # query.
    group = torch.arange(pairs.shape[0], device=b.device).repeat_interleave(counts)
    rank = torch.arange(order.shape[0], device=b.device) - (counts.cumsum(0) - counts)[group]
    padded = query.new_zeros(pairs.shape[0], widest, query.shape[-1]).index_put((group, rank), query[order])
    pb, ph = pairs // heads, pairs % heads
    logit = padded @ key[pb, ph].mT * cfg.scale  # [pairs, widest, n]
    logit = logit.masked_fill(~valid[pb][:, None], -torch.inf)
    reference = _reference(logit, cfg)
    sums = (logit - reference[..., None]).exp() @ value[pb, ph]
    back = order.argsort()
    return reference[group, rank][back], sums[group, rank][back]
