"""The products of new tokens with fixed landmarks, and the weights of the landmarks that follow from them."""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.memory import head_stride, landmark_rows, logits, store_logits, width
from nystream.stream.gpu.kernels.sums import exp, of_columns


@triton.jit(do_not_specialize=["tokens"])
def products(
    out,
    x,
    weight,
    bias,
    tokens,
    E: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
    BLOCK: tl.constexpr,
    N: tl.constexpr,
    PART: tl.constexpr,
):
    """Write out [2, tokens, columns] = W x + b for x [tokens, E], in float32.

    weight [terms, 2, columns, E] is a sum of `terms`, which are bfloat16 if x is: their products are exact, and the sum
    of two is exact to about five digits. bias is [2, columns]. One program for BLOCK tokens and N columns.
    """
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n, e = tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, PART)
    which = tl.program_id(2)
    of_x = x + tl.minimum(token, tokens - 1).to(tl.int64)[:, None] * E
    of_weight = weight + (which * COLUMNS + n)[:, None] * E
    acc = tl.zeros([BLOCK, N], tl.float32)
    for begin in range(0, E, PART):
        inside = begin + e < E
        part = tl.load(of_x + (begin + e)[None, :], inside[None, :], 0.0)
        for term in tl.static_range(TERMS):
            pointers = of_weight + (term * 2 * COLUMNS * E + begin + e)[None, :]
            factor = tl.load(pointers, (n < COLUMNS)[:, None] & inside[None, :], 0.0)
            acc = tl.dot(part, tl.trans(factor), acc, input_precision="tf32x3")
    acc += tl.load(bias + which * COLUMNS + n, n < COLUMNS, 0.0)[None, :]
    at = (which * tokens + token).to(tl.int64)[:, None] * COLUMNS + n[None, :]
    tl.store(out + at, acc, (token < tokens)[:, None] & (n < COLUMNS)[None, :])


@triton.jit(do_not_specialize=["tokens"])
def weights(
    query,
    gamma_pinv,
    tokens,
    H: tl.constexpr,
    M: tl.constexpr,
    L: tl.constexpr,
    LANE: tl.constexpr,
    BLOCK: tl.constexpr,
    M_: tl.constexpr,
):
    """Replace the logits of queries by softmax(query) Γ†, rows of m columns per head.

    gamma_pinv has m such rows. One program for BLOCK tokens of a head, or BLOCK pairs if each has a lane.
    """
    if LANE:
        pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        token, h = pair // H, pair % H
    else:
        token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        h = tl.zeros_like(token) + tl.program_id(1)
    exists = token < tokens
    of_pair = query + (token.to(tl.int64) * width(H, M, L) + h * head_stride(M, L, 1, LANE))
    zero = tl.zeros([BLOCK, 1], tl.int32)
    g = tl.reshape(logits(of_pair, zero, exists[:, None], -1e30, H, M, L, M_), [BLOCK, M_])
    g = exp(g - tl.max(g, 1)[:, None])
    total = tl.sum(g, 1)[:, None]
    if LANE:
        of_inverse = gamma_pinv + h * head_stride(M, L, M, LANE)
        line, there = landmark_rows(BLOCK, H, M, M, L, M_)
        inverse = logits(of_inverse, line, exists[:, None] & there, 0.0, H, M, L, M_)  # [P, m, m]
        weight = tl.sum(of_columns(g) * inverse, 1) / total
    else:
        i = tl.arange(0, M_)
        at = tl.program_id(1) * head_stride(M, L, M, LANE) + i[:, None] * M + i[None, :]
        inverse = tl.load(gamma_pinv + at, (i < M)[:, None] & (i < M)[None, :], 0.0)
        weight = tl.dot(g, inverse, input_precision="tf32x3") / total
    store_logits(of_pair, zero, exists[:, None], weight[:, None, :], H, M, L, M_)
