"""Operations on single rows: scaling, LayerNorm, the activations of a feed-forward layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nystream.stream.cpu.simd import apart, below, compiled, exp, load8, load16, splat16, store, total

HALF, ONE, TWO, ZERO = (np.float32(c) for c in (0.5, 1.0, 2.0, 0.0))
ROOT_HALF = np.float32(math.sqrt(0.5))
# Abramowitz and Stegun 7.1.26: erfc(z) = (a₁t + … + a₅t⁵) exp(−z²), t = 1 / (1 + pz), to within 1.5e-7 for z >= 0.
P = np.float32(0.3275911)
A1, A2, A3, A4, A5 = (np.float32(a) for a in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))


@compiled
def finite(x: Any, count: int) -> bool:
    """Whether `count` numbers are finite: NaN or Inf times zero is NaN, and so is every sum with it."""
    whole, zero = count - count % 16, splat16(ZERO)
    zeros = zero
    for k in range(0, whole, 16):
        zeros = load16(x + k) * zero + zeros
    tail = total(zeros)
    for k in range(whole, count):
        tail += x[k] * ZERO
    return bool(tail == ZERO)


@compiled
def copy(x: Any, y: Any, width: int) -> None:
    """y = x."""
    whole = width - width % 8
    for k in range(0, whole, 8):
        store(y + k, load8(x + k))
    for k in range(whole, width):
        y[k] = x[k]


@compiled
def keep(x: Any, y: Any, width: int) -> None:
    """y = x, in the type of a ring; `width` is a multiple of 8."""
    for k in range(0, width, 8):
        store(y + k, load8(x + k))


@compiled
def add(x: Any, y: Any, width: int) -> None:
    """y += x."""
    whole = width - width % 8
    for k in range(0, whole, 8):
        store(y + k, load8(y + k) + load8(x + k))
    for k in range(whole, width):
        y[k] += x[k]


@compiled
def scale(x: Any, means: Any, width: int, y: Any) -> None:
    """y = (x − mean) / scale; the scales follow the means."""
    scales, whole = means + width, width - width % 8
    for k in range(0, whole, 8):
        store(y + k, (load8(x + k) - load8(means + k)) / load8(scales + k))
    for k in range(whole, width):
        y[k] = (x[k] - means[k]) / scales[k]


@compiled
def layer_norm(weight: Any, width: int, eps: float, x: Any, y: Any) -> None:
    """y = LayerNorm(x) of one row; the biases follow the weights."""
    apart()
    bias, whole = weight + width, width - width % 16
    sums = splat16(ZERO)
    for k in range(0, whole, 16):
        sums = sums + load16(x + k)
    summed = total(sums)
    for k in range(whole, width):
        summed += x[k]
    mean = np.float32(summed / np.float32(width))
    squares, means = splat16(ZERO), splat16(mean)
    for k in range(0, whole, 16):
        off = load16(x + k) - means
        squares = off * off + squares
    summed = total(squares)
    for k in range(whole, width):
        summed += (x[k] - mean) * (x[k] - mean)
    inverse = np.float32(ONE / np.float32(math.sqrt(summed / np.float32(width) + np.float32(eps))))
    scales = splat16(inverse)
    for k in range(0, whole, 16):
        store(y + k, (load16(x + k) - means) * scales * load16(weight + k) + load16(bias + k))
    for k in range(whole, width):
        y[k] = (x[k] - mean) * inverse * weight[k] + bias[k]


@compiled
def gelu(x: Any, width: int) -> None:
    """x Φ(x), in place; `width` is a multiple of 16."""
    for k in range(0, width, 16):
        v, zero, one = load16(x + k), splat16(ZERO), splat16(ONE)
        z = below(v, zero, zero - v, v) * splat16(ROOT_HALF)
        t = one / (z * splat16(P) + one)
        series = t * splat16(A5) + splat16(A4)
        series = series * t + splat16(A3)
        series = series * t + splat16(A2)
        series = series * t + splat16(A1)
        tail = series * t * exp(zero - z * z)  # erfc(|x| / √2)
        store(x + k, v * splat16(HALF) * below(v, zero, tail, splat16(TWO) - tail))


@compiled
def relu(x: Any, width: int) -> None:
    """max(x, 0), in place; `width` is a multiple of 16. NaN stays NaN."""
    zero = splat16(ZERO)
    for k in range(0, width, 16):
        v = load16(x + k)
        store(x + k, below(v, zero, zero, v))
