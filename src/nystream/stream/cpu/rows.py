"""What a block does to each row alone: LayerNorm, the activation of its feed-forward, scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nystream.stream.cpu.simd import apart, below, compiled, exp, load8, load16, splat8, splat16, store, total

HALF, ONE, TWO, ZERO = (np.float32(c) for c in (0.5, 1.0, 2.0, 0.0))
ROOT_HALF = np.float32(math.sqrt(0.5))
# Abramowitz and Stegun 7.1.26: erfc(z) = (a₁t + … + a₅t⁵) exp(−z²) with t = 1 / (1 + pz), to 1.5e-7 for z >= 0.
P = np.float32(0.3275911)
A1, A2, A3, A4, A5 = (np.float32(a) for a in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))


@compiled
def finite(x: Any, start: int, end: int) -> bool:
    """Whether x is finite from `start` to `end`: a NaN or Inf times zero is NaN, and stays one in a sum."""
    whole, zero = end - (end - start) % 16, splat16(ZERO)
    held = zero
    for k in range(start, whole, 16):
        held = load16(x, k) * zero + held
    tail = total(held)
    for k in range(whole, end):
        tail += x[k] * ZERO
    return bool(tail == ZERO)


@compiled
def copy(x: Any, xo: int, y: Any, yo: int, width: int) -> None:
    """y = x."""
    apart()
    whole = width - width % 8
    for k in range(0, whole, 8):
        store(y, yo + k, load8(x, xo + k))
    for k in range(whole, width):
        y[yo + k] = x[xo + k]


@compiled
def add(x: Any, xo: int, y: Any, yo: int, width: int) -> None:
    """y += x."""
    apart()
    whole = width - width % 8
    for k in range(0, whole, 8):
        store(y, yo + k, load8(y, yo + k) + load8(x, xo + k))
    for k in range(whole, width):
        y[yo + k] += x[xo + k]


@compiled
def scale(x: Any, xo: int, w: Any, at: int, width: int, y: Any, yo: int) -> None:
    """(x − mean) / scale; w holds the means at `at`, then the scales."""
    apart()
    whole = width - width % 8
    for k in range(0, whole, 8):
        store(y, yo + k, (load8(x, xo + k) - load8(w, at + k)) / load8(w, at + width + k))
    for k in range(whole, width):
        y[yo + k] = (x[xo + k] - w[at + k]) / w[at + width + k]


@compiled
def layer_norm(w: Any, at: int, width: int, eps: float, x: Any, xo: int, y: Any, yo: int) -> None:
    """One row; w holds γ at `at`, then β."""
    apart()
    whole = width - width % 16
    held = splat16(ZERO)
    for k in range(0, whole, 16):
        held = held + load16(x, xo + k)
    summed = total(held)
    for k in range(whole, width):
        summed += x[xo + k]
    mean = np.float32(summed / np.float32(width))
    held, means = splat16(ZERO), splat16(mean)
    for k in range(0, whole, 16):
        off = load16(x, xo + k) - means
        held = off * off + held
    summed = total(held)
    for k in range(whole, width):
        summed += (x[xo + k] - mean) * (x[xo + k] - mean)
    inverse = np.float32(ONE / np.float32(math.sqrt(summed / np.float32(width) + np.float32(eps))))
    scales = splat16(inverse)
    for k in range(0, whole, 16):
        store(y, yo + k, (load16(x, xo + k) - means) * scales * load16(w, at + k) + load16(w, at + width + k))
    for k in range(whole, width):
        y[yo + k] = (x[xo + k] - mean) * inverse * w[at + k] + w[at + width + k]


@compiled
def gelu(x: Any, at: int, width: int) -> None:
    """x Φ(x) in place, over a multiple of 8 numbers."""
    apart()
    for k in range(at, at + width, 8):
        v, zero, one = load8(x, k), splat8(ZERO), splat8(ONE)
        z = below(v, zero, zero - v, v) * splat8(ROOT_HALF)
        t = one / (z * splat8(P) + one)
        series = t * splat8(A5) + splat8(A4)
        series = series * t + splat8(A3)
        series = series * t + splat8(A2)
        series = series * t + splat8(A1)
        tail = series * t * exp(zero - z * z)  # erfc(|x| / √2)
        store(x, k, v * splat8(HALF) * below(v, zero, tail, splat8(TWO) - tail))


@compiled
def relu(x: Any, at: int, width: int) -> None:
    """max(x, 0) in place, over a multiple of 8 numbers; NaN stays NaN."""
    apart()
    zero = splat8(ZERO)
    for k in range(at, at + width, 8):
        v = load8(x, k)
        store(x, k, below(v, zero, zero, v))
