"""The products of new tokens with fixed landmarks, and the weights of the landmarks that follow from them."""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.memory import head_stride, strip_stride, width


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

    weight [terms, 2, columns, E] is a sum of `terms`, which are bfloat16 if x is: their products are exact, and two of
    them have almost the digits of one float32. bias is [2, columns]. One program for BLOCK tokens and N columns.
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
    HEADS: tl.constexpr,
    M_: tl.constexpr,
):
    """Replace the logits of queries by softmax(query) Γ†, rows of m columns per head; gamma_pinv is [h, m, m].

    One program for BLOCK tokens and HEADS heads.
    """
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h, i = tl.program_id(1) * HEADS + tl.arange(0, HEADS), tl.arange(0, M_)
    exists = (h < H)[:, None] & (i < M)[None, :]
    column = (h * head_stride(M, L, 1, LANE))[:, None] + (i // L * strip_stride(H, L, LANE) + i % L)[None, :]
    at = token.to(tl.int64)[:, None, None] * width(H, M, L) + column[None]
    there = (token < tokens)[:, None, None] & exists[None]
    g = tl.load(query + at, there, float("-inf"))  # [T, H, m]
    g = tl.exp(g - tl.maximum(tl.max(g, 2), -1e30)[:, :, None])
    total = tl.sum(g, 2)
    g = g / tl.where(total == 0, 1.0, total)[:, :, None]
    square = exists[:, :, None] & (i < M)[None, None, :]
    inverse = gamma_pinv + (h * (M * M))[:, None, None] + (i * M)[None, :, None] + i[None, None, :]
    inverse = tl.load(inverse, square, 0.0)  # [H, m, m]
    if HEADS > 1 or M_ < 16:
        g = tl.sum(g[:, :, :, None] * inverse[None], 2)
    else:
        g = tl.dot(tl.reshape(g, [BLOCK, M_]), tl.reshape(inverse, [M_, M_]), input_precision="tf32x3")
        g = tl.reshape(g, [BLOCK, HEADS, M_])
    stored = (h < H)[:, None] & (i < width(1, M, L))[None, :]  # columns that only complete a strip become 0
    tl.store(query + at, g, (token < tokens)[:, None, None] & stored[None])
