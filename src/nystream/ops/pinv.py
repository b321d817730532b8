"""Γ†: four inverses of the m × m matrix between the two thin factors, all computed in float64.

newton  Z₀ = Γᵀ / (‖Γ‖₁ ‖Γ‖∞), then Z ← ¼ Z (13 I − ΓZ (15 I − ΓZ (7 I − ΓZ))), `iters` times. Every matrix has its own
        scale: with a maximum over the batch, the output of a stream would depend on the other streams.
exact   the Moore–Penrose inverse, without singular values below `RTOL` times the largest: they are noise in a float32
        model, and would amplify rounding errors beyond the ninth digit in a float64 one.
ridge   (ΓᵀΓ + λ²I)⁻¹Γᵀ: well defined for any order of the landmarks, unlike (Γ + λI)⁻¹.
none    I, for ablation; meaningful only if q̃ᵢ and k̃ᵢ are pairs.

Why float64: an iteration of Newton–Schulz multiplies components along singular values near zero by 13/4, rounding
errors included, and the normal equations of the ridge square the condition number. None of them ever raises an error,
because one row must not stop a batch.

Cost: 4 m³ per iteration for Newton–Schulz, about m³ for ridge, about 20 m³ for exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

RTOL = 1e-6


def newton(gamma: Tensor, iters: int) -> Tensor:
    """Newton–Schulz iterations on `gamma` [..., m, m]."""
    identity = torch.eye(gamma.shape[-1], dtype=gamma.dtype, device=gamma.device)
    norms = gamma.abs().sum(-2).amax(-1) * gamma.abs().sum(-1).amax(-1)  # [...]
    z = gamma.mT / norms[..., None, None]
    for _ in range(iters):
        gz = gamma @ z
        z = 0.25 * z @ (13 * identity - gz @ (15 * identity - gz @ (7 * identity - gz)))
    return z


def exact(gamma: Tensor) -> Tensor:
    """The Moore–Penrose inverse."""
    finite, safe = _shield(gamma)
    return torch.where(finite, torch.linalg.pinv(safe, rtol=RTOL), torch.nan)


def ridge(gamma: Tensor, lam: float) -> Tensor:
    """(ΓᵀΓ + λ²I)⁻¹Γᵀ."""
    identity = torch.eye(gamma.shape[-1], dtype=gamma.dtype, device=gamma.device)
    finite, safe = _shield(gamma)
    inverse = torch.linalg.solve_ex(safe.mT @ safe + lam**2 * identity, safe.mT).result
    return torch.where(finite, inverse, torch.nan)


def pinv(gamma: Tensor, kind: str, iters: int, lam: float) -> Tensor:
    """Γ† of `gamma` [..., m, m], in float64, with `AttentionConfig.pinv`, `.pinv_iters` and `.pinv_ridge`."""
    gamma = gamma.double()
    if kind == "newton":
        return newton(gamma, iters)
    if kind == "exact":
        return exact(gamma)
    if kind == "ridge":
        return ridge(gamma, lam)
    return torch.eye(gamma.shape[-1], dtype=gamma.dtype, device=gamma.device).expand_as(gamma)


def _shield(gamma: Tensor) -> tuple[Tensor, Tensor]:
    """Replace matrices with NaN by I: LAPACK raises an error for a whole batch if one of its matrices has a NaN."""
    identity = torch.eye(gamma.shape[-1], dtype=gamma.dtype, device=gamma.device)
    finite = gamma.isfinite().all(-1).all(-1)[..., None, None]  # [..., 1, 1]
    return finite, torch.where(finite, gamma, identity)
