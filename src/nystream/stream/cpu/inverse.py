"""Γ† of a stream's own landmarks, in float64, all heads at once: every number below is a vector across the heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from nystream.stream.cpu.plan import NEWTON, RIDGE
from nystream.stream.cpu.simd import apart, compiled, larger, load8, splat8, store

ZERO, QUARTER = np.float64(0.0), np.float64(0.25)


@compiled
def invert(z: Any, gamma: int, s: Any, out: int, d: Any, m: int, tile: int, kind: int, iterations: int,
           ridge: float) -> None:  # fmt: skip
    """Γ [m, m, T] in z -> Γ† in s. d, of float64, has room for 5 m² T numbers."""
    apart()
    size = m * m * tile
    for p in range(size):
        d[p] = z[gamma + p]
    if kind == NEWTON:
        _newton(d, m, tile, iterations)
    elif kind == RIDGE:
        _ridge(d, m, tile, ridge)
    else:
        for i in range(m):
            for j in range(m):
                for v in range(tile):
                    d[size + (i * m + j) * tile + v] = 1.0 if i == j else 0.0
    for p in range(size):
        s[out + p] = np.float32(d[size + p])


@compiled
def _product(d: Any, x: int, y: int, out: int, diagonal: float, factor: float, m: int, tile: int) -> None:
    """factor · (diagonal · I − X Y)."""
    apart()
    factors, whole, down = splat8(np.float64(factor)), m - m % 4, m * tile
    for i in range(m):
        for v in range(0, tile, 8):
            for j in range(0, whole, 4):  # four sums at once: none waits for another
                a, b, c, e = splat8(ZERO), splat8(ZERO), splat8(ZERO), splat8(ZERO)
                for k in range(m):
                    left, right = load8(d, x + i * down + k * tile + v), y + k * down + j * tile + v
                    a = left * load8(d, right) + a
                    b = left * load8(d, right + tile) + b
                    c = left * load8(d, right + 2 * tile) + c
                    e = left * load8(d, right + 3 * tile) + e
                at = out + i * down + j * tile + v
                store(d, at, a)
                store(d, at + tile, b)
                store(d, at + 2 * tile, c)
                store(d, at + 3 * tile, e)
            for j in range(whole, m):
                a = splat8(ZERO)
                for k in range(m):
                    a = load8(d, x + i * down + k * tile + v) * load8(d, y + k * down + j * tile + v) + a
                store(d, out + i * down + j * tile + v, a)
            for j in range(m):
                start = splat8(np.float64(diagonal)) if i == j else splat8(ZERO)
                at = out + i * down + j * tile + v
                store(d, at, (start - load8(d, at)) * factors)


@compiled
def _newton(d: Any, m: int, tile: int, iterations: int) -> None:
    """Newton–Schulz, scaled for every matrix by itself: Z at m² T."""
    apart()
    size = m * m * tile
    z, gz, a, b = size, 2 * size, 3 * size, 4 * size
    for v in range(0, tile, 8):
        most = splat8(ZERO)
        for i in range(m):
            across = splat8(ZERO)
            for j in range(m):
                across = across + load8(d, (i * m + j) * tile + v)
            most = larger(across, most)
        down_most = splat8(ZERO)
        for j in range(m):
            down = splat8(ZERO)
            for i in range(m):
                down = down + load8(d, (i * m + j) * tile + v)
            down_most = larger(down, down_most)
        norm = most * down_most
        for i in range(m):
            for j in range(m):
                store(d, z + (j * m + i) * tile + v, load8(d, (i * m + j) * tile + v) / norm)
    for _ in range(iterations):
        # The signs: each product below is diagonal · I − X Y.
        _product(d, 0, z, gz, 0.0, -1.0, m, tile)  # ΓZ
        for i in range(m):
            for j in range(m):
                start = splat8(np.float64(7.0)) if i == j else splat8(ZERO)
                for v in range(0, tile, 8):
                    at = (i * m + j) * tile + v
                    store(d, a + at, start - load8(d, gz + at))
        _product(d, gz, a, b, 15.0, 1.0, m, tile)
        _product(d, gz, b, a, 13.0, 1.0, m, tile)
        _product(d, z, a, b, 0.0, -0.25, m, tile)
        for at in range(0, size, 8):
            store(d, z + at, load8(d, b + at))


@compiled
def _ridge(d: Any, m: int, tile: int, ridge: float) -> None:
    """(ΓᵀΓ + λ²I)⁻¹Γᵀ at m² T, by elimination without pivots: the matrix is positive definite."""
    apart()
    size = m * m * tile
    right, left = size, 2 * size
    for i in range(m):
        for j in range(m):
            start = splat8(np.float64(ridge * ridge)) if i == j else splat8(ZERO)
            for v in range(0, tile, 8):
                held = start
                for k in range(m):
                    held = load8(d, (k * m + i) * tile + v) * load8(d, (k * m + j) * tile + v) + held
                store(d, left + (i * m + j) * tile + v, held)
                store(d, right + (i * m + j) * tile + v, load8(d, (j * m + i) * tile + v))
    for v in range(0, tile, 8):
        for p in range(m):
            pivot = splat8(np.float64(1.0)) / load8(d, left + (p * m + p) * tile + v)
            for j in range(m):
                store(d, left + (p * m + j) * tile + v, load8(d, left + (p * m + j) * tile + v) * pivot)
                store(d, right + (p * m + j) * tile + v, load8(d, right + (p * m + j) * tile + v) * pivot)
            for i in range(m):
                if i == p:
                    continue
                factor = load8(d, left + (i * m + p) * tile + v)
                for j in range(m):
                    for half in (left, right):
                        at = half + (i * m + j) * tile + v
                        store(d, at, load8(d, at) - load8(d, half + (p * m + j) * tile + v) * factor)
