"""What a step does with every row: whether it is skipped, where its stream writes, and which rows need more work."""

import triton
import triton.language as tl


@triton.jit
def _listed(rows, counts, row, some, ROWS: tl.constexpr):
    """Write the list of a program: the rows where `some` holds, and their number."""
    one = some.to(tl.int32)
    tl.store(rows + tl.program_id(0) * ROWS + tl.cumsum(one, 0) - 1, row.to(tl.int32), some)
    tl.store(counts + tl.program_id(0), tl.sum(one, 0))


@triton.jit(do_not_specialize=["rows"], do_not_specialize_on_alignment=["places", "filled", "entering", "due", "entering_counts", "due_counts"])
def plan(
    slots,
    time,
    refused,
    places,
    filled,
    entering,
    due,
    entering_counts,
    due_counts,
    completes,
    rows,
    N: tl.constexpr,
    R: tl.constexpr,
    EDGES: tl.constexpr,
    LANDMARKS: tl.constexpr,
    CONTINUAL: tl.constexpr,
    ADVANCE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write `places` and `filled`, the tokens of the window after the step, [rows] each, and lists of rows.

    Rows of slot −1 are skipped, and all rows if `refused` is not 0. Rows that begin a block are listed in `entering`,
    and those that complete a landmark in `due`: each program lists its own ROWS rows, from place ROWS times its number
    on, and writes their number into `..._counts`. `completes` [n / r] says in which groups of a window landmarks are
    completed. With ADVANCE, the tokens of the step are counted in `time`.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(slots + row, row < rows, -1)
    live = (slot >= 0) & (tl.load(refused) == 0)
    t = tl.load(time + slot, live, 0)
    place = ((t + slot * R) % N).to(tl.int32)
    tl.store(places + row, tl.where(live, place, -1), row < rows)
    tl.store(filled + row, tl.where(live, tl.minimum(t + R, N), 0).to(tl.int32), row < rows)
    if LANDMARKS:
        _listed(entering, entering_counts, row, live & (place % EDGES == 0), ROWS)
    if CONTINUAL:
        _listed(due, due_counts, row, live & (tl.load(completes + t % N // R, live, 0) != 0), ROWS)
    if ADVANCE:
        tl.store(time + slot, t + R, live)
