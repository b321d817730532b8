"""The float64 reference: the output of every variant at one time of one stream, written plainly.

    W_t   the last n tokens at time t (all of them while t < n)
    full  softmax(q K_Wᵀ / √d) V_W
    low rank  softmax(q K̃ᵀ / √d) · Γ† · softmax(Q̃ K_Wᵀ / √d) V_W,   Γ = softmax(Q̃ K̃ᵀ / √d)

Q̃ and K̃ are fixed, or the means of the m segments that tile the window (`nystrom`), or, in a stream with continual
landmarks, of those that tile (u − n, u], where u <= t is the last time a segment was completed. Before the window is
full there are no segment means, and attention is exact.

With a decay, a token of age a (0 for the newest) has a logit lower by λ_h a wherever it is summed: in K_W, not in the
landmarks.

All other implementations in this library are tested against this file.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.pinv import RTOL


def attend(
    cfg: AttentionConfig,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    t: int,
    q_tilde: Tensor | None,
    k_tilde: Tensor | None,
    decay: Tensor | None = None,
) -> Tensor:
    """Output at time t of the stream q, k, v [..., T, D], t <= T: the newest r rows, or all n, with zeros first."""
    n, first = cfg.window, max(t - cfg.window, 0)
    k_w, v_w = k[..., first:t, :], v[..., first:t, :]
    q_w = q[..., t - cfg.update_size : t, :] if cfg.single else q[..., first:t, :]
    age = torch.arange(t - first - 1, -1, -1)
    fall = 0.0 if decay is None else decay.to(k.dtype)[:, None, None] * age  # [H, 1, T]
    if cfg.fixed:
        assert q_tilde is not None
        assert k_tilde is not None
        out = _nystrom(cfg, q_w, k_w, v_w, q_tilde, k_tilde, fall)
    elif not cfg.low_rank or t < n:
        out = _softmax(cfg, q_w, k_w, fall) @ v_w
    else:
        renewed = cfg.record.landmarks == "stream"
        u = _last_completion(n, cfg.m, t) if renewed else t
        rounds = u if renewed else 0
        out = _nystrom(cfg, q_w, k_w, v_w, _means(cfg, q, u, rounds), _means(cfg, k, u, rounds), fall)
    if cfg.single:
        return out
    void = torch.zeros(*out.shape[:-2], n - out.shape[-2], out.shape[-1], dtype=out.dtype)
    return torch.cat([void, out], -2)


def stream(
    cfg: AttentionConfig,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_tilde: Tensor | None = None,
    k_tilde: Tensor | None = None,
    decay: Tensor | None = None,
) -> Tensor:
    """Every output of the single-output variants [..., T, D]; of the others, the rows after the last token."""
    length, r = q.shape[-2], cfg.update_size
    if not cfg.single:
        return attend(cfg, q, k, v, length, q_tilde, k_tilde, decay)
    return torch.cat([attend(cfg, q, k, v, t, q_tilde, k_tilde, decay) for t in range(r, length + 1, r)], -2)


def _softmax(cfg: AttentionConfig, a: Tensor, b: Tensor, fall: Tensor | float = 0.0) -> Tensor:
    return (a @ b.mT / cfg.head_dim**0.5 - fall).softmax(-1)


def _nystrom(
    cfg: AttentionConfig, q: Tensor, k: Tensor, v: Tensor, q_tilde: Tensor, k_tilde: Tensor, fall: Tensor | float
) -> Tensor:
    beta, gamma, delta = _softmax(cfg, q, k_tilde), _softmax(cfg, q_tilde, k_tilde), _softmax(cfg, q_tilde, k, fall)
    return beta @ inverse(cfg, gamma) @ (delta @ v)


def inverse(cfg: AttentionConfig, gamma: Tensor) -> Tensor:
    """Γ† of one matrix, or of each matrix of a batch."""
    identity = torch.eye(gamma.shape[-1], dtype=gamma.dtype)
    if cfg.pinv == "none":
        return identity.expand_as(gamma)
    if cfg.pinv == "ridge":
        return torch.linalg.inv(gamma.mT @ gamma + cfg.pinv_ridge**2 * identity) @ gamma.mT
    if cfg.pinv == "exact":
        return torch.linalg.pinv(gamma, rtol=RTOL)
    rows, columns = gamma.sum(-1).amax(-1), gamma.sum(-2).amax(-1)
    z = gamma.mT / (rows * columns)[..., None, None]
    for _ in range(cfg.pinv_iters):
        gz = gamma @ z
        z = 0.25 * z @ (13 * identity - gz @ (15 * identity - gz @ (7 * identity - gz)))
    return z


def segment_sizes(n: int, m: int) -> list[int]:
    """Sizes of the m segments of a round: the first n mod m have one more token."""
    return [n // m + (i < n % m) for i in range(m)]


def _last_completion(n: int, m: int, t: int) -> int:
    u = t // n * n
    for size in segment_sizes(n, m):
        if u + size > t:
            break
        u += size
    return u


def _means(cfg: AttentionConfig, x: Tensor, u: int, rounds: int) -> Tensor:
    """Means over the m segments that tile (u − n, u]; the sizes have cycled by `rounds` tokens."""
    sizes = segment_sizes(cfg.window, cfg.m)
    turn, passed = 0, rounds % cfg.window
    while passed > 0:
        passed -= sizes[turn]
        turn += 1
    start, means = u - cfg.window, []
    for size in sizes[turn:] + sizes[:turn]:
        means.append(x[..., start : start + size, :].mean(-2))
        start += size
    return torch.stack(means, -2)
