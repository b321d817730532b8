"""Γ† of the landmarks of a stream, in float64, one head after another.

The rows of a matrix [m, M] are padded with zeros to M, a multiple of eight, so that vectors run along them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.plan import NEWTON, RIDGE
from nystream.stream.cpu.simd import apart, compiled, load8, splat8, store

ZERO = np.float64(0.0)
MATRICES = 5  # that fit in the scratch memory: Γ, its inverse, and three for intermediate results


def doubles(m: int) -> int:
    """Size of the scratch memory of `invert`, in float64."""
    return MATRICES * m * (-(-m // 8) * 8)


@compiled
def invert(block: Any, gamma: Any, out: Any, scratch: Any) -> None:
    """Γ [m, m, T] -> Γ† [m, m, T]."""
    apart()
    m, heads, tile = block.landmarks, block.heads, block.tile
    across = -(-m // 8) * 8
    size = m * across
    inverse = scratch + size
    for at in range(0, MATRICES * size, 8):
        store(scratch + at, splat8(ZERO))
    for h in range(heads):
        for i in range(m):
            for j in range(m):
                scratch[i * across + j] = gamma[(i * m + j) * tile + h]
        if block.pinv == NEWTON:
            _newton(scratch, m, across, block.pinv_iters)
        elif block.pinv == RIDGE:
            _ridge(scratch, m, across, np.float64(block.pinv_ridge))
        else:
            for i in range(m):
                inverse[i * across + i] = 1.0
        for i in range(m):
            for j in range(m):
                for lane in range(h, tile, heads):
                    out[(i * m + j) * tile + lane] = np.float32(inverse[i * across + j])


@compiled
def _product(x: Any, y: Any, out: Any, m: int, across: int) -> None:
    """X Y."""
    apart()
    whole = m - m % 4
    for v in range(0, across, 8):
        for i in range(0, whole, 4):  # four rows share every load of Y, and their sums do not wait for each other
            r0, o = x + i * across, out + (i * across + v)
            r1, r2, r3 = r0 + across, r0 + 2 * across, r0 + 3 * across
            s0, s1, s2, s3 = splat8(ZERO), splat8(ZERO), splat8(ZERO), splat8(ZERO)
            for k in range(m):
                yk = load8(y + (k * across + v))
                s0 = splat8(r0[k]) * yk + s0
                s1 = splat8(r1[k]) * yk + s1
                s2 = splat8(r2[k]) * yk + s2
                s3 = splat8(r3[k]) * yk + s3
            store(o, s0)
            store(o + across, s1)
            store(o + 2 * across, s2)
            store(o + 3 * across, s3)
        for i in range(whole, m):
            s0 = splat8(ZERO)
            for k in range(m):
                s0 = splat8(x[i * across + k]) * load8(y + (k * across + v)) + s0
            store(out + (i * across + v), s0)


@compiled
def _diagonal_minus(diagonal: float, x: Any, out: Any, m: int, across: int) -> None:
    """diagonal · I − X."""
    for at in range(0, m * across, 8):
        store(out + at, splat8(ZERO) - load8(x + at))
    for i in range(m):
        out[i * across + i] += diagonal


@compiled
def _newton(gamma: Any, m: int, across: int, iterations: int) -> None:
    """Newton–Schulz, scaled for this matrix alone; Z, the result, follows Γ in memory."""
    size = m * across
    z, gz, a, b = gamma + size, gamma + 2 * size, gamma + 3 * size, gamma + 4 * size
    rows = columns = 0.0
    for i in range(m):
        along = down = 0.0
        for j in range(m):
            along += gamma[i * across + j]
            down += gamma[j * across + i]
        rows, columns = max(rows, along), max(columns, down)
    for i in range(m):
        for j in range(m):
            z[j * across + i] = gamma[i * across + j] / (rows * columns)
    for _ in range(iterations):
        _product(gamma, z, gz, m, across)
        _diagonal_minus(7.0, gz, a, m, across)
        _product(gz, a, b, m, across)
        _diagonal_minus(15.0, b, a, m, across)
        _product(gz, a, b, m, across)
        _diagonal_minus(13.0, b, a, m, across)
        _product(z, a, b, m, across)
        for at in range(0, size, 8):
            store(z + at, load8(b + at) * splat8(np.float64(0.25)))


@compiled
def _ridge(gamma: Any, m: int, across: int, ridge: float) -> None:
    """(ΓᵀΓ + λ²I)⁻¹Γᵀ by elimination, without pivoting: the matrix is positive definite. The result follows Γ."""
    size = m * across
    right, left = gamma + size, gamma + 2 * size
    for i in range(m):
        for j in range(m):
            right[i * across + j] = gamma[j * across + i]
    _product(right, gamma, left, m, across)  # ΓᵀΓ
    for i in range(m):
        left[i * across + i] += ridge * ridge
    for p in range(m):
        pivot = splat8(1.0 / left[p * across + p])
        for at in range(p * across, (p + 1) * across, 8):
            store(left + at, load8(left + at) * pivot)
            store(right + at, load8(right + at) * pivot)
        for i in range(m):
            if i != p:
                factor = splat8(left[i * across + p])
                for v in range(0, across, 8):
                    at, by = i * across + v, p * across + v
                    store(left + at, load8(left + at) - load8(left + by) * factor)
                    store(right + at, load8(right + at) - load8(right + by) * factor)
