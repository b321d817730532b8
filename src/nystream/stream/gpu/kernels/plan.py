"""What a step does with every row: whether it is skipped, where its stream writes, and which rows need more work."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents


@triton.jit
def _listed(rows, count, row, some):
    """Append the rows where `some` holds to a list, in any order."""
    one = some.to(tl.int32)
    at = tl.atomic_add(count, tl.sum(one, 0)) + tl.cumsum(one, 0) - 1
    tl.store(rows + at, row.to(tl.int32), some)


@triton.jit(
    do_not_specialize=["rows"], do_not_specialize_on_alignment=["places", "filled", "entering", "due", "counts"]
)
def plan(
    slots,
    time,
    refused,
    places,
    filled,
    entering,
    due,
    counts,
    completes,
    rows,
    N: tl.constexpr,
    R: tl.constexpr,
    EDGES: tl.constexpr,
    LANDMARKS: tl.constexpr,
    CONTINUAL: tl.constexpr,
    ADVANCE: tl.constexpr,
    EARLY: tl.constexpr,
    ROWS_: tl.constexpr,
):
    """Write `places` and `filled`, the tokens of the window after the step, [rows] each, and lists of rows.

    Rows of slot −1 are skipped, and all rows if `refused` is not 0. `entering` lists the rows that begin a block and
    `due` those that complete a landmark; `counts` has the length of both, and must be 0 before. `completes` [n / r]
    says in which groups of a window landmarks are completed. With ADVANCE, the `time` of the streams is advanced.
    """
    if EARLY:
        gdc_launch_dependents()  # the step may be launched, and waits for the end of this kernel
    row = tl.program_id(0) * ROWS_ + tl.arange(0, ROWS_)
    slot = tl.load(slots + row, row < rows, -1)
    live = (slot >= 0) & (tl.load(refused) == 0)
    t = tl.load(time + slot, live, 0)
    place = ((t + slot * R) % N).to(tl.int32)
    tl.store(places + row, tl.where(live, place, -1), row < rows)
    tl.store(filled + row, tl.where(live, tl.minimum(t + R, N), 0).to(tl.int32), row < rows)
    if LANDMARKS:
        _listed(entering, counts, row, live & (place % EDGES == 0))
    if CONTINUAL:
        _listed(due, counts + 1, row, live & (tl.load(completes + t % N // R, live, 0) != 0))
    if ADVANCE:
        tl.store(time + slot, t + R, live)
