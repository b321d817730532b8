"""Partials in the registers of a program: as in `nystream.ops.partials`, a triple (c, s, u) for P pairs.

c [P, m] is the largest logit, s [P, m] the sum of exp(l − c), u [P, m, S, C] that of exp(l − c) v. In memory a partial
is (log-sum-exp, mean): (c + log s, u / s).

Where every pair has a lane, dimensions are added by `tl.reshape`: with `None`, Triton would move numbers between lanes.
"""

import triton
import triton.language as tl

FLOOR = tl.constexpr(-1e30)  # the log-sum-exp of nothing: finite, because −inf − (−inf) is NaN

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def exp(x):
    """eˣ, in fewer instructions than `tl.exp`, which does not flush the smallest numbers to zero."""
    return tl.exp2(x * LOG2E)


@triton.jit
def nothing(P: tl.constexpr, M_: tl.constexpr, S_: tl.constexpr, C_: tl.constexpr):
    """The partial of no tokens."""
    return tl.full([P, M_], FLOOR, tl.float32), tl.zeros([P, M_], tl.float32), tl.zeros([P, M_, S_, C_], tl.float32)


@triton.jit
def with_tokens(c, s, u, logit, value):
    """Add tokens: logit [P, T, m], −inf where there is none, and value [P, T, S, C], in the dtype of the ring."""
    P: tl.constexpr = value.shape[0]
    T: tl.constexpr = value.shape[1]
    S_: tl.constexpr = value.shape[2]
    C_: tl.constexpr = value.shape[3]
    M_: tl.constexpr = c.shape[1]
    largest = tl.maximum(c, tl.max(logit, 1))
    share = exp(logit - of_tokens(largest))
    old = exp(c - largest)
    s = s * old + tl.sum(share, 1)
    u = u * of_means(old)
    if P > 1:
        u += tl.sum(tl.reshape(share, [P, T, M_, 1, 1]) * tl.reshape(value.to(tl.float32), [P, T, 1, S_, C_]), 1)
    else:
        left, right, sums = tl.trans(tl.reshape(share, [T, M_])), tl.reshape(value, [T, C_]), tl.reshape(u, [M_, C_])
        if value.dtype == tl.bfloat16:  # the sum of two bfloat16 numbers has five digits
            high = left.to(tl.bfloat16)
            sums = tl.dot(high, right, sums)
            sums = tl.dot((left - high.to(tl.float32)).to(tl.bfloat16), right, sums)
        else:
            sums = tl.dot(left, right, sums, input_precision="tf32x3")  # as good as float32
        u = tl.reshape(sums, [P, M_, S_, C_])
    return largest, s, u


@triton.jit
def with_partial(c, s, u, lse, mean):
    """Add a partial: lse [P, m], mean [P, m, S, C]."""
    largest = tl.maximum(c, lse)
    old, new = exp(c - largest), exp(lse - largest)
    return largest, s * old + new, u * of_means(old) + mean * of_means(new)


@triton.jit
def finished(c, s, u):
    """(log-sum-exp, mean)."""
    s = tl.where(s == 0, 1.0, s)
    return c + tl.log(s), u * of_means(1 / s)


@triton.jit
def of_means(x):
    """x [P, m] for all columns: [P, m, 1, 1]."""
    if x.shape[0] > 1:
        x = tl.reshape(x, [x.shape[0], x.shape[1], 1, 1])
    else:
        x = x[:, :, None, None]
    return x


@triton.jit
def of_tokens(x):
    """x [P, m] for all tokens: [P, 1, m]."""
    if x.shape[0] > 1:
        x = tl.reshape(x, [x.shape[0], 1, x.shape[1]])
    else:
        x = x[:, None, :]
    return x


@triton.jit
def of_columns(x):
    """x [P, m] for all of some other dimension: [P, m, 1]."""
    if x.shape[0] > 1:
        x = tl.reshape(x, [x.shape[0], x.shape[1], 1])
    else:
        x = x[:, :, None]
    return x


@triton.jit
def wrapped(x, N: tl.constexpr):
    """x mod N, for −N <= x < N."""
    return tl.where(x < 0, x + N, x)
