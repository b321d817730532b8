"""The kernel of `products`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def partial_outer(
    x,
    y,
    out,
    S,
    SPAN,
    H,
    HEAD,
    TOKEN,
    COLUMN,
    M: tl.constexpr,
    MP: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The sums of `outer` over SPAN tokens: [., H, M, D]. Steps of y in memory are HEAD, TOKEN and COLUMN."""
    part, h = tl.program_id(0) // H, tl.program_id(0) % H
    j, d = tl.arange(0, MP), tl.arange(0, DP)
    x += (h * M).to(tl.int64) * S
    y += h.to(tl.int64) * HEAD
    total = tl.zeros([MP, DP], tl.float32)
    for at in range(part * SPAN, tl.minimum(part * SPAN + SPAN, S), BLOCK):
        t = at + tl.arange(0, BLOCK)
        x_part = tl.load(x + (j[:, None] * S + t[None, :]), mask=(j < M)[:, None] & (t < S)[None, :], other=0.0)
        places = t.to(tl.int64)[:, None] * TOKEN + d[None, :] * COLUMN
        y_part = tl.load(y + places, mask=(t < S)[:, None] & (d < D)[None, :], other=0.0)
        total = tl.dot(x_part, y_part, total, input_precision="tf32x3")
    exists = (j < M)[:, None] & (d < D)[None, :]
    tl.store(out + tl.program_id(0).to(tl.int64) * M * D + (j[:, None] * D + d[None, :]), total, mask=exists)
