"""Γ† of a stream's own landmarks, in float64, one head after the other.

A matrix [m, M] has its rows filled up with zeros to M, a multiple of eight, so that vectors run along them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.plan import NEWTON, RIDGE
from nystream.stream.cpu.simd import apart, compiled, load8, splat8, store

ZERO = np.float64(0.0)
MATRICES = 5  # that an inverse needs room for, its argument and its result included


def doubles(m: int) -> int:
    """float64 that `invert` needs."""
    return MATRICES * m * (-(-m // 8) * 8)


@compiled
def invert(z: Any, gamma: int, s: Any, out: int, d: Any, m: int, heads: int, tile: int, kind: int, iterations: int,
           ridge: float) -> None:  # fmt: skip
    """Γ [m, m, T] in z -> Γ† in s, in the scratch d."""
    apart()
    across = -(-m // 8) * 8
    size = m * across
    d[: MATRICES * size] = 0.0
    for h in range(heads):
        for i in range(m):
            for j in range(m):
                d[i * across + j] = z[gamma + (i * m + j) * tile + h]
        if kind == NEWTON:
            _newton(d, m, across, iterations)
        elif kind == RIDGE:
            _ridge(d, m, across, ridge)
        else:
            for i in range(m):
                d[size + i * across + i] = 1.0
        for i in range(m):
            for j in range(m):
                for lane in range(h, tile, heads):
                    s[out + (i * m + j) * tile + lane] = np.float32(d[size + i * across + j])


@compiled
def _product(d: Any, x: int, y: int, out: int, m: int, across: int) -> None:
    """X Y."""
    apart()
    whole = m - m % 4
    for v in range(0, across, 8):
        for i in range(0, whole, 4):  # four rows at once share every load of Y, and none waits for another's sum
            r0 = x + i * across
            r1, r2, r3 = r0 + across, r0 + 2 * across, r0 + 3 * across
            s0, s1, s2, s3 = splat8(ZERO), splat8(ZERO), splat8(ZERO), splat8(ZERO)
            for k in range(m):
                held = load8(d, y + k * across + v)
                s0 = splat8(d[r0 + k]) * held + s0
                s1 = splat8(d[r1 + k]) * held + s1
                s2 = splat8(d[r2 + k]) * held + s2
                s3 = splat8(d[r3 + k]) * held + s3
            at = out + i * across + v
            store(d, at, s0)
            store(d, at + across, s1)
            store(d, at + 2 * across, s2)
            store(d, at + 3 * across, s3)
        for i in range(whole, m):
            s0 = splat8(ZERO)
            for k in range(m):
                s0 = splat8(d[x + i * across + k]) * load8(d, y + k * across + v) + s0
            store(d, out + i * across + v, s0)


@compiled
def _less(d: Any, x: int, out: int, diagonal: float, m: int, across: int) -> None:
    """diagonal · I − X."""
    for at in range(0, m * across, 8):
        store(d, out + at, splat8(ZERO) - load8(d, x + at))
    for i in range(m):
        d[out + i * across + i] += diagonal


@compiled
def _newton(d: Any, m: int, across: int, iterations: int) -> None:
    """Newton–Schulz on Γ at 0, scaled for this matrix by itself: Z comes next."""
    apart()
    size = m * across
    z, gz, a, b = size, 2 * size, 3 * size, 4 * size
    rows = columns = 0.0
    for i in range(m):
        along = down = 0.0
        for j in range(m):
            along += d[i * across + j]
            down += d[j * across + i]
        rows, columns = max(rows, along), max(columns, down)
    for i in range(m):
        for j in range(m):
            d[z + j * across + i] = d[i * across + j] / (rows * columns)
    for _ in range(iterations):
        _product(d, 0, z, gz, m, across)
        _less(d, gz, a, 7.0, m, across)
        _product(d, gz, a, b, m, across)
        _less(d, b, a, 15.0, m, across)
        _product(d, gz, a, b, m, across)
        _less(d, b, a, 13.0, m, across)
        _product(d, z, a, b, m, across)
        for at in range(0, size, 8):
            store(d, z + at, load8(d, b + at) * splat8(np.float64(0.25)))


@compiled
def _ridge(d: Any, m: int, across: int, ridge: float) -> None:
    """(ΓᵀΓ + λ²I)⁻¹Γᵀ, by elimination without pivots: the matrix is positive definite. The result comes after Γ."""
    apart()
    size = m * across
    right, left = size, 2 * size
    for i in range(m):
        for j in range(m):
            d[right + i * across + j] = d[j * across + i]
    _product(d, right, 0, left, m, across)  # ΓᵀΓ
    for i in range(m):
        d[left + i * across + i] += np.float64(ridge) * np.float64(ridge)
    for p in range(m):
        pivot = splat8(1.0 / d[left + p * across + p])
        for at in range(p * across, (p + 1) * across, 8):
            store(d, left + at, load8(d, left + at) * pivot)
            store(d, right + at, load8(d, right + at) * pivot)
        for i in range(m):
            if i != p:
                factor = splat8(d[left + i * across + p])
                for v in range(0, across, 8):
                    at, by = i * across + v, p * across + v
                    store(d, left + at, load8(d, left + at) - load8(d, left + by) * factor)
                    store(d, right + at, load8(d, right + at) - load8(d, right + by) * factor)
