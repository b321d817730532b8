"""Shared by several variants: fixed landmarks, the rows of BΓ†, exact attention over a window or a ring."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from nystream.config import AttentionConfig
from nystream.ops import fused, gather, parallel, ring
from nystream.ops.decay import falls
from nystream.ops.extended import Extended
from nystream.ops.partials import FLOOR
from nystream.ops.pinv import pinv
from nystream.ops.precision import accumulate, accumulator, wide
from nystream.ops.timeline import Timeline


class Fixed(NamedTuple):
    """Landmarks that are chosen before streaming, and their Γ†."""

    q_tilde: Tensor  # [H, m, D]
    k_tilde: Tensor  # [H, m, D]
    gamma_pinv: Tensor  # [H, m, m]


class Factors(NamedTuple):
    """The three factors of low-rank attention over one window: output = B Γ† Δ V."""

    beta: Tensor  # [B, H, n, m]
    gamma_pinv: Tensor  # [B, H, m, m]
    delta: Tensor  # [B, H, m, n]


def gamma_pinv(q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> Tensor:
    """Γ† [..., m, m] of landmarks [..., m, D]: computed in float64, returned at the accumulator's precision."""
    if cfg.pinv == "none":  # whatever the landmarks are
        m = q_tilde.shape[-2]
        identity = torch.eye(m, dtype=accumulator(q_tilde.dtype), device=q_tilde.device)
        return identity.expand(*q_tilde.shape[:-1], m).contiguous()
    gamma = (wide(q_tilde) @ wide(k_tilde).mT * cfg.scale).softmax(-1)
    inverse = pinv(gamma, cfg.pinv, cfg.pinv_iters, cfg.pinv_ridge)
    return inverse.to(q_tilde.device, accumulator(q_tilde.dtype))


def weights(q: Tensor, k_tilde: Tensor, inverse: Tensor, cfg: AttentionConfig) -> Tensor:
    """Rows of B_φ Γ† [..., T, m] for queries q [..., T, D]."""
    # Landmarks before tokens, because a softmax over a short last dimension is several times slower.
    return (inverse.mT @ (accumulate(k_tilde) * cfg.scale @ accumulate(q).mT).softmax(-2)).mT


def low_rank(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_tilde: Tensor,
    k_tilde: Tensor,
    inverse: Tensor,
    cfg: AttentionConfig,
    mask: Tensor | None,
    decay: Tensor | None = None,
) -> Tensor:
    """B_φ Γ† Δ_φ V; `mask` [B, 1, 1, n] marks the keys that exist."""
    logit = accumulate(q_tilde) @ accumulate(k).mT * cfg.scale  # [B, H, m, n]
    if decay is not None:
        logit = logit - window_falls(decay, cfg.window)
    if mask is not None:
        logit = logit.masked_fill(~mask, FLOOR)  # finite, so that an empty window does not give NaN
    return (weights(q, k_tilde, inverse, cfg) @ (logit.softmax(-1) @ accumulate(v))).to(v.dtype)


def exists(lengths: Tensor | None, n: int) -> Tensor | None:
    """[B, n] bool: the places of `lengths` tokens at the end of a window."""
    if lengths is None:
        return None
    return torch.arange(n, device=lengths.device) >= n - lengths[:, None]


def exact(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cfg: AttentionConfig,
    lengths: Tensor | None,
    dropout: float = 0.0,
    decay: Tensor | None = None,
) -> Tensor:
    """Softmax attention of q [B, H, rows, D] over a window, of which the last `lengths` places have tokens."""
    valid = exists(lengths, k.shape[2])
    mask = None if valid is None else valid[:, None, None, :]
    if decay is not None:
        mask = decayed(window_falls(decay, k.shape[2]), mask, q.dtype)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=cfg.scale)


def exact_ring(
    q: Tensor, ring_key: Tensor, ring_value: Tensor, time: Tensor, cfg: AttentionConfig, decay: Tensor | None = None
) -> Tensor:
    """Softmax attention of q [B, H, rows, D] over a ring; the order of its slots does not matter."""
    mask = ring.valid(time, cfg.window)[:, None, None, :]
    if decay is not None:
        mask = decayed(falls(decay, ring.age(time, cfg.window)).unsqueeze(2), mask, q.dtype)
    k, v = ring_key.transpose(1, 2), ring_value.transpose(1, 2)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=cfg.scale)


def window_falls(decay: Tensor, n: int) -> Tensor:
    """[H, 1, n]: how far the logits of the tokens of a window fall."""
    return falls(decay, torch.arange(n - 1, -1, -1, device=decay.device)).unsqueeze(1)


def decayed(fall: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What scaled_dot_product_attention adds to the logits: the fall, and −inf for what is hidden."""
    bias = -fall if mask is None else (-fall).masked_fill(~mask, -torch.inf)
    return bias.to(dtype)


def zero_void(out: Tensor, lengths: Tensor | None) -> Tensor:
    """All-row outputs [B, H, n, D] with zeros where there is no token yet."""
    valid = exists(lengths, out.shape[2])
    if valid is None:
        return out
    return torch.where(valid[:, None, :, None], out, torch.zeros((), dtype=out.dtype, device=out.device))


def extend(state_ring: Tensor, time: Tensor, x: Tensor) -> Tensor:
    """[B, n + T, H, D]: the unrolled ring, then the piece x [B, H, T, D]."""
    return torch.cat([ring.unroll(state_ring, time), x.transpose(1, 2).to(state_ring.dtype)], 1)


def banded(
    q: Tensor, key: Extended, value: Extended, cfg: AttentionConfig, when: Timeline, decay: Tensor | None = None
) -> Tensor:
    """Softmax attention of every token over its own window: q [B, H, T, D] -> [B, H, T, D]."""
    use_kernels = fused.wanted(value.piece, q.shape[2], cfg)
    if use_kernels:
        out, some_bad = fused.full(q, key, value, cfg, when, decay)
        if not some_bad:
            return out
        del out  # and what its gradients would need
    bad = ~(key.finite() & value.finite())  # [B, n + T, H]
    key, value = key.without(bad), value.without(bad)
    out = fused.full(q, key, value, cfg, when, decay)[0] if use_kernels else _blocks(q, key, value, cfg, when, decay)
    return out.masked_fill(parallel.spoiled(bad, cfg.window, when).transpose(1, 2)[..., None], torch.nan)


def _blocks(
    q: Tensor, key: Extended, value: Extended, cfg: AttentionConfig, when: Timeline, decay: Tensor | None
) -> Tensor:
    """Blocks of up to n queries see the n tokens before them: 4 n d multiply-adds per token."""
    n, r, length, device = cfg.window, cfg.update_size, q.shape[2], q.device
    scores = q.shape[0] * q.shape[1] * 2 * n  # for one query of a block of n
    block = min(length, r * -(-min(max(n, 16), max(16, parallel.AT_ONCE // scores)) // r))
    count = -(-length // block)
    rear = count * block - length
    places = torch.arange(count, device=device)[:, None] * block + torch.arange(n + block, device=device)
    start, end = (
        pad(x, (0, rear)).unflatten(1, (count, block))[..., None] for x in (when.window_start(n), when.window_end(n))
    )
    queries = pad(q, (0, 0, 0, rear)).unflatten(2, (count, block)).transpose(1, 2)  # [B, count, H, block, D]
    outs = []
    piece = max(1, parallel.AT_ONCE // (scores * block))
    for at in range(0, count, piece):
        some = slice(at, at + piece)
        span = places[some].clamp(max=n + length - 1)
        seen = (places[some, None] >= start[:, some]) & (places[some, None] <= end[:, some])
        k, v = (gather.at(x.whole(), span).transpose(2, 3) for x in (key, value))
        seen = seen[:, :, None]
        if decay is not None:
            age = end[:, some] - places[some, None]  # [B, ., block, n + block]
            rates = decay if decay.dim() == 2 else decay[None]  # [1 or B, H]
            seen = decayed(rates[:, None, :, None, None] * age[:, :, None], seen, q.dtype)
        # Four dimensions: with five, torch uses a slow path, and torch.compile gives wrong results.
        flat, k, v, mask = (x.flatten(0, 1) for x in (queries[:, some], k, v, seen))
        out = scaled_dot_product_attention(flat, k, v, mask, scale=cfg.scale)
        outs.append(out.unflatten(0, (q.shape[0], -1)))
    return torch.cat(outs, 1).transpose(1, 2).flatten(2, 3)[:, :, :length]
