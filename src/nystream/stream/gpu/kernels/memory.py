"""Where the numbers of a stream are: rows of strips, as `nystream.stream.gpu.layout` says.

The rings have one row per token, ring_logit with m columns per head and ring_value with D; the partials one of m
columns, part_lse, and m of D columns, part_mean. `window` has the pointers to these four. LANE says that a pair has a
lane, and B is the number of rows of a block where it has a warp. What is not `there` is not touched.
"""

import triton
import triton.language as tl

from nystream.stream.gpu.kernels.sums import FLOOR

# After the columns, the lanes of a warp must go along the pairs. Of the dimensions whose addresses are not consecutive,
# Triton takes the first one before version 3.7, and the last one since.
LAST = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7))


@triton.jit
def read(pointers, inside, other):
    """`tl.load` of pointers [P, S, C] or [P, T, S, C]; numbers of a pair come into its lane, if it has one."""
    if not LAST or pointers.shape[0] == 1:
        x = tl.load(pointers, inside, other)
    elif len(pointers.shape) == 3:
        x = tl.permute(tl.load(tl.permute(pointers, (1, 0, 2)), tl.permute(inside, (1, 0, 2)), other), (1, 0, 2))
    else:
        x = tl.load(tl.permute(pointers, (1, 2, 0, 3)), tl.permute(inside, (1, 2, 0, 3)), other)
        x = tl.permute(x, (2, 0, 1, 3))
    return x


@triton.jit
def write(pointers, x, inside):
    """`tl.store`, as `read`."""
    if not LAST or pointers.shape[0] == 1:
        tl.store(pointers, x, inside)
    elif len(pointers.shape) == 3:
        tl.store(tl.permute(pointers, (1, 0, 2)), tl.permute(x, (1, 0, 2)), tl.permute(inside, (1, 0, 2)))
    else:
        at, there = tl.permute(pointers, (1, 2, 0, 3)), tl.permute(inside, (1, 2, 0, 3))
        tl.store(at, tl.permute(x, (1, 2, 0, 3)), there)


@triton.constexpr_function
def width(H, SIZE, C):
    """Numbers of a row of all heads."""
    return -(-SIZE // C) * C * H


@triton.constexpr_function
def whole(N, H, SIZE, C, B, LANE):
    """Numbers of N rows."""
    return (N if LANE else -(-N // B) * B) * width(H, SIZE, C)


@triton.constexpr_function
def head_stride(SIZE, C, B, LANE):
    """Numbers from one head to the next."""
    return C if LANE else B * width(1, SIZE, C)


@triton.constexpr_function
def strip_stride(H, C, LANE):
    """Numbers from one strip to the next."""
    return H * C if LANE else C


@triton.jit
def row_at(row, H: tl.constexpr, SIZE: tl.constexpr, C: tl.constexpr, B: tl.constexpr, LANE: tl.constexpr):
    """Numbers before a row of one head."""
    if LANE or B == 1:
        before = row * width(H, SIZE, C)
    else:
        before = row // B * (B * width(H, SIZE, C)) + row % B * width(1, SIZE, C)
    return before


@triton.jit
def columns(of_pair, row, there, strip, H: tl.constexpr, SIZE: tl.constexpr, C: tl.constexpr, C_: tl.constexpr):
    """Pointers to the columns of strips [S], in rows that are `row` [P, T] numbers after pointers [P], and masks.

    Returns:
        Two of [P, T, S, C].
    """
    LANE: tl.constexpr = row.shape[0] > 1
    c = tl.arange(0, C_)
    column = strip[:, None] * strip_stride(H, C, LANE) + c[None, :]  # [S, C]
    pointers = of_pair[:, None, None, None] + (row[:, :, None, None] + column[None, None, :, :])
    stored = strip < (SIZE + C - 1) // C
    inside = (there[:, :, None] & stored[None, None, :])[:, :, :, None]
    if C < C_:
        inside = inside & (c < C)[None, None, None, :]
    return pointers, inside


@triton.jit
def logits(of_pair, row, there, other, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, M_: tl.constexpr):
    """Read [P, T, m] in rows of logits, `other` where there is none."""
    P: tl.constexpr = row.shape[0]
    T: tl.constexpr = row.shape[1]
    pointers, inside = _logits(of_pair, row, there, H, M, L, M_)
    return tl.reshape(read(pointers, inside, other), [P, T, M_])


@triton.jit
def store_logits(of_pair, row, there, x, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, M_: tl.constexpr):
    """Write x [P, T, m] to rows of logits."""
    pointers, inside = _logits(of_pair, row, there, H, M, L, M_)
    write(pointers, tl.reshape(x, pointers.shape), inside)


@triton.jit
def _logits(of_pair, row, there, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr, M_: tl.constexpr):
    L_: tl.constexpr = M_ if L == M else L
    return columns(of_pair, row, there, tl.arange(0, M_ // L_), H, M, L, L_)


@triton.jit
def ring(x, slot, h, N: tl.constexpr, H: tl.constexpr, SIZE: tl.constexpr, C: tl.constexpr, B: tl.constexpr):
    """Pointers [P] to the first row of a pair in a ring."""
    LANE: tl.constexpr = slot.shape[0] > 1
    return x + (slot * whole(N, H, SIZE, C, B, LANE) + h * head_stride(SIZE, C, B, LANE))


@triton.jit
def tokens(
    window, slot, at, h, strip, there, N: tl.constexpr, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
    L: tl.constexpr, C: tl.constexpr, B: tl.constexpr, M_: tl.constexpr, C_: tl.constexpr,
):  # fmt: skip
    """Logits [P, T, m], −inf where not `there`, and values [P, T, S, C], of places `at` [P, T] of the rings."""
    LANE: tl.constexpr = slot.shape[0] > 1
    of_logits, of_values = ring(window[0], slot, h, N, H, M, L, B), ring(window[1], slot, h, N, H, D, C, B)
    logit = logits(of_logits, row_at(at, H, M, L, B, LANE), there, float("-inf"), H, M, L, M_)
    pointers, inside = columns(of_values, row_at(at, H, D, C, B, LANE), there, strip, H, D, C, C_)
    return logit, read(pointers, inside, 0.0)


@triton.jit
def partials(
    window, at, h, strip, there, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr, L: tl.constexpr, C: tl.constexpr,
    M_: tl.constexpr, C_: tl.constexpr,
):  # fmt: skip
    """Read partials number `at` [P]: lse [P, m], mean [P, m, S, C]; empty where not `there` [P]."""
    of_lse, row, exist = _lse(window, at, h, there, H, M, L)
    lse = tl.reshape(logits(of_lse, row, exist, FLOOR, H, M, L, M_), [at.shape[0], M_])
    pointers, inside = _means(window, at, h, strip, there, H, M, D, C, M_, C_)
    return lse, read(pointers, inside, 0.0)


@triton.jit
def store_partials(
    window, at, h, strip, lse, mean, there, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr, L: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Write partials number `at` [P], where `there` [P]."""
    of_lse, row, exist = _lse(window, at, h, there, H, M, L)
    store_logits(of_lse, row, exist, lse, H, M, L, lse.shape[1])
    pointers, inside = _means(window, at, h, strip, there, H, M, D, C, mean.shape[1], mean.shape[3])
    write(pointers, mean, inside)


@triton.jit
def _lse(window, at, h, there, H: tl.constexpr, M: tl.constexpr, L: tl.constexpr):
    of_pair = window[2] + (at * width(H, M, L) + h * L)
    return of_pair, tl.zeros([at.shape[0], 1], tl.int32), there[:, None]


@triton.jit
def _means(
    window, at, h, strip, there, H: tl.constexpr, M: tl.constexpr, D: tl.constexpr, C: tl.constexpr,
    M_: tl.constexpr, C_: tl.constexpr,
):  # fmt: skip
    LANE: tl.constexpr = at.shape[0] > 1
    of_pair = window[3] + (at * (M * width(H, D, C)) + h * head_stride(D, C, M, LANE))
    row, exists = landmark_rows(at.shape[0], H, M, D, C, M_)
    return columns(of_pair, row, there[:, None] & exists, strip, H, D, C, C_)


@triton.jit
def landmark_rows(
    P: tl.constexpr, H: tl.constexpr, M: tl.constexpr, SIZE: tl.constexpr, C: tl.constexpr, M_: tl.constexpr
):  # fmt: skip
    """Where the rows of m landmarks are, [P, m], and which of them exist, [1, m]."""
    i = tl.arange(0, M_)
    # There is one block, so the rows of a head are next to each other.
    row = i * width(H if P > 1 else 1, SIZE, C)
    return tl.zeros([P, 1], tl.int32) + row[None, :], (i < M)[None, :]
