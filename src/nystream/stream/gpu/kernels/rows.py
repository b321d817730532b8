"""What a model does with every row on its own, between matrix products. Each kernel reads and writes a row once."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows"])
def enter(
    scaled, refused, x, slots, mean, scale, rows, WIDTH: tl.constexpr, R: tl.constexpr, ROWS_: tl.constexpr,
    WIDTH_: tl.constexpr,
):  # fmt: skip
    """Write scaled = (x − mean) / scale, [rows, r, width], rounded after each operation, as torch does. For rows of
    slot −1, x is read as zero; so are numbers that are not finite in other rows, which set `refused`. Without mean and
    scale, which can be None, x is not scaled.
    """
    row = tl.program_id(0) * ROWS_ + tl.arange(0, ROWS_)
    live = tl.load(slots + row, row < rows, -1) >= 0
    column = tl.program_id(1) * WIDTH_ + tl.arange(0, WIDTH_)
    at = row.to(tl.int64)[:, None] * (R * WIDTH) + column[None, :]
    inside = (column < R * WIDTH)[None, :]
    number = tl.load(x + at, live[:, None] & inside, 0.0).to(tl.float32)
    finite = tl.abs(number) < float("inf")
    if tl.min(tl.min(finite.to(tl.int32), 1), 0) == 0:
        tl.store(refused, 1)
    number = tl.where(finite, number, 0.0)
    if mean is not None:
        of_column = column % WIDTH
        number = (number - tl.load(mean + of_column).to(tl.float32)[None, :]).to(x.dtype.element_ty).to(tl.float32)
        number = tl.div_rn(number, tl.load(scale + of_column).to(tl.float32)[None, :])
    tl.store(scaled + at, number.to(x.dtype.element_ty), (row < rows)[:, None] & inside)


@triton.jit(do_not_specialize=["rows"])
def add_norm(
    total,
    normed,
    x,
    y,
    table,
    time,
    slots,
    weight,
    bias,
    rows,
    eps,
    E: tl.constexpr,
    R: tl.constexpr,
    POSITIONS: tl.constexpr,
    ROWS_: tl.constexpr,
    E_: tl.constexpr,
):
    """Write total = x + y, and normed = LayerNorm(total); all [rows, r, E].

    A row of `table` [positions, E] is added, too, by the time of the stream. Both y and `table` can be None; so can
    `total`, or `normed` with its weight and bias, if it is not needed.
    """
    token = tl.program_id(0) * ROWS_ + tl.arange(0, ROWS_)
    column = tl.arange(0, E_)
    exists = token < rows * R
    inside = exists[:, None] & (column < E)[None, :]
    at = token.to(tl.int64)[:, None] * E + column[None, :]
    h = tl.load(x + at, inside, 0.0).to(tl.float32)
    if y is not None:
        h += tl.load(y + at, inside, 0.0).to(tl.float32)
    if table is not None:
        slot = tl.load(slots + token // R, exists, 0)
        position = (tl.load(time + tl.maximum(slot, 0), exists, 0) + token % R) % POSITIONS
        h += tl.load(table + position[:, None] * E + column[None, :], inside, 0.0).to(tl.float32)
    h = h.to(x.dtype.element_ty)
    if total is not None:
        tl.store(total + at, h, inside)
    if normed is not None:
        h = h.to(tl.float32)
        mean = tl.sum(h, 1) / E
        h = tl.where((column < E)[None, :], h - mean[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(h * h, 1) / E + eps)
        factor = tl.load(weight + column, column < E, 0.0).to(tl.float32)[None, :]
        offset = tl.load(bias + column, column < E, 0.0).to(tl.float32)[None, :]
        tl.store(normed + at, (h * scale[:, None] * factor + offset).to(x.dtype.element_ty), inside)
