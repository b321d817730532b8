"""Γ† of continual landmarks in a graph, in float64: see `nystream.ops.pinv`."""

from __future__ import annotations

import math

import numpy as np

from nystream.config import AttentionConfig
from nystream.export.graph import DOUBLE, FLOAT, Graph


def inverse(g: Graph, q_tilde: str, k_tilde: str, cfg: AttentionConfig) -> str:
    """Γ† [., H, m, m] in float32, of landmarks [., H, m, D]."""
    wide = [g.Cast(x, to=DOUBLE) for x in (q_tilde, k_tilde)]
    # Not a product with a transposed matrix: older versions of ONNX Runtime fuse these two, but not in float64.
    product = g.Einsum(*wide, equation="bhid,bhjd->bhij")
    gamma = g.Softmax(g.Mul(product, np.float64(cfg.scale)), axis=-1)
    if cfg.pinv == "newton":
        result = _newton(g, gamma, cfg)
    elif cfg.pinv == "ridge":
        result = _ridge(g, gamma, cfg)
    else:
        result = g.Add(g.Mul(gamma, np.float64(0)), np.eye(cfg.m))
    return g.Cast(result, to=FLOAT)


def _newton(g: Graph, gamma: str, cfg: AttentionConfig) -> str:
    """Z₀ = Γᵀ / (‖Γ‖₁ ‖Γ‖∞), then Z ← ¼ Z (13 I − ΓZ (15 I − ΓZ (7 I − ΓZ)))."""
    rows, columns = (
        g.ReduceMax(g.ReduceSum(gamma, [axis], keepdims=1), [2, 3], keepdims=1) for axis in (3, 2)
    )  # Γ has no negative numbers
    start = g.Div(g.Transpose(gamma, perm=[0, 1, 3, 2]), g.Mul(rows, columns))
    identity = np.eye(cfg.m)

    def update(body: Graph, z: str) -> str:
        gz = body.MatMul(gamma, z)
        inner = body.Sub(7 * identity, gz)
        for factor in (15, 13):
            inner = body.Sub(factor * identity, body.MatMul(gz, inner))
        return body.Mul(np.float64(0.25), body.MatMul(z, inner))

    return g.repeated(cfg.pinv_iters, start, "float64", update)


def _ridge(g: Graph, gamma: str, cfg: AttentionConfig) -> str:
    """(ΓᵀΓ + λ²I)⁻¹Γᵀ. ONNX has no solver; Newton's iteration X ← X (2 I − A X) converges for a positive definite A."""
    lam2, identity = cfg.pinv_ridge**2, np.eye(cfg.m)
    matrix = g.Add(g.Einsum(gamma, gamma, equation="bhki,bhkj->bhij"), lam2 * identity)
    # The rows of Γ sum to 1, so no eigenvalue of A exceeds m + λ². The error is at most 1 − 1/κ, and squared each time.
    largest = cfg.m + lam2
    count = math.ceil(math.log2(40 * largest / lam2))

    def update(body: Graph, x: str) -> str:
        return body.MatMul(x, body.Sub(2 * identity, body.MatMul(matrix, x)))

    start = g.Add(g.Mul(matrix, np.float64(0)), identity / largest)
    inverse = g.repeated(count, start, "float64", update)
    result = g.Einsum(inverse, gamma, equation="bhik,bhjk->bhij")
    for _ in range(2):  # what is left of Γᵀ − A Z: a small λ would otherwise magnify rounding errors
        inner = g.Sub(identity, g.MatMul(gamma, result))
        rest = g.Sub(g.Einsum(gamma, inner, equation="bhki,bhkj->bhij"), g.Mul(np.float64(lam2), result))
        result = g.Add(result, g.MatMul(inverse, rest))
    return result
