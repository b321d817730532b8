"""Γ† of one head, in float64: `nystream.ops.pinv` says why. Γ is [m, m], padded with zeros."""

import triton
import triton.language as tl


@triton.jit
def _identity(M: tl.constexpr, M_: tl.constexpr):
    i, j = tl.arange(0, M_), tl.arange(0, M_)
    return tl.where((i[:, None] == j[None, :]) & (i < M)[:, None], 1.0, 0.0).to(tl.float64)


@triton.jit
def newton(gamma, ITERS: tl.constexpr, M: tl.constexpr, M_: tl.constexpr):
    """ITERS iterations of Newton–Schulz."""
    identity = _identity(M, M_)
    z = tl.trans(gamma) / (tl.max(tl.sum(gamma, 0), 0) * tl.max(tl.sum(gamma, 1), 0))
    for _ in range(ITERS):
        gz = tl.dot(gamma, z)
        z = 0.25 * tl.dot(z, 13 * identity - tl.dot(gz, 15 * identity - tl.dot(gz, 7 * identity - gz)))
    return z


@triton.jit
def ridge(gamma, LAMBDA: tl.constexpr, M: tl.constexpr, M_: tl.constexpr):
    """(ΓᵀΓ + λ²I)⁻¹ Γᵀ, by Gauss–Jordan elimination, which needs no pivots because ΓᵀΓ + λ²I is positive definite."""
    i, j = tl.arange(0, M_), tl.arange(0, M_)
    left = tl.dot(tl.trans(gamma), gamma) + LAMBDA * LAMBDA * _identity(M, M_)
    right = tl.trans(gamma)
    for k in range(M):
        column = tl.sum(tl.where((j == k)[None, :], left, 0.0), 1)
        pivot = tl.sum(tl.where(i == k, column, 0.0), 0)
        left_row = tl.sum(tl.where((i == k)[:, None], left, 0.0), 0) / pivot
        right_row = tl.sum(tl.where((i == k)[:, None], right, 0.0), 0) / pivot
        factor = tl.where(i == k, 0.0, column)[:, None]
        left = tl.where((i == k)[:, None], left_row[None, :], left - factor * left_row[None, :])
        right = tl.where((i == k)[:, None], right_row[None, :], right - factor * right_row[None, :])
    return right
