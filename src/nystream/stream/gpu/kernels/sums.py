"""Partials in the registers of a program: as in `nystream.ops.partials`, a triple (c, s, u) for P pairs.

c [m, P] is the largest logit, s [m, P] the sum of exp(l − c), u [m, P, D] that of exp(l − c) v. In memory a partial is
(log-sum-exp, mean): (c + log s, u / s).
"""

import triton
import triton.language as tl

FLOOR = tl.constexpr(-1e30)  # the log-sum-exp of nothing: finite, because −inf − (−inf) is NaN


@triton.jit
def nothing(M_: tl.constexpr, P: tl.constexpr, D_: tl.constexpr):
    """The partial of no tokens."""
    return tl.full([M_, P], FLOOR, tl.float32), tl.zeros([M_, P], tl.float32), tl.zeros([M_, P, D_], tl.float32)


@triton.jit
def with_tokens(c, s, u, logit, value):
    """Add tokens: logit [T, m, P], −inf where there is none, and value [T, P, D]."""
    largest = tl.maximum(c, tl.max(logit, 0))
    share = tl.exp(logit - largest[None, :, :])
    old = tl.exp(c - largest)
    s = s * old + tl.sum(share, 0)
    u = u * old[:, :, None]
    T: tl.constexpr = value.shape[0]
    M_: tl.constexpr = u.shape[0]
    D_: tl.constexpr = u.shape[2]
    if (u.shape[1] == 1) & (T >= 16) & (M_ >= 16):  # one matrix product, in tensor cores; tf32x3 is as good as float32
        left, right = tl.trans(tl.reshape(share, [T, M_])), tl.reshape(value, [T, D_])
        u = tl.reshape(tl.dot(left, right, tl.reshape(u, [M_, D_]), input_precision="tf32x3"), [M_, 1, D_])
    else:
        u += tl.sum(share[:, :, :, None] * value[:, None, :, :], 0)
    return largest, s, u


@triton.jit
def with_partial(c, s, u, lse, mean):
    """Add a partial: lse [m, P], mean [m, P, D]."""
    largest = tl.maximum(c, lse)
    old, new = tl.exp(c - largest), tl.exp(lse - largest)
    return largest, s * old + new, u * old[:, :, None] + mean * new[:, :, None]


@triton.jit
def finished(c, s, u):
    """(log-sum-exp, mean)."""
    s = tl.where(s == 0, 1.0, s)
    return c + tl.log(s), u / s[:, :, None]


@triton.jit
def wrapped(x, N: tl.constexpr):
    """x mod N, for −N <= x < N."""
    return tl.where(x < 0, x + N, x)
