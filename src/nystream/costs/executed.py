"""Multiply-adds that the library really executes a step; `executed` says what is counted, and how."""

import nystream.variants as variants
from nystream.costs.model import (
    Executed,
    Sizes,
    check_arguments,
    check_form,
    formula,
    positive_integer,
    require_stack,
    roles_of,
    stacked,
)


def executed(
    variant: str,
    n: int,
    d: int,
    m: int | None = None,
    layers: int = 1,
    heads: int = 1,
    *,
    form: str = "auto",
    stack: str = "paper",
    pinv_iters: int = 6,
) -> Executed:
    """Multiply-adds of the attention's `step`, one token at a time, on a full window.

    Counted are all its matrix products, in the order in which the code takes them, and the rescaling of partial sums.
    With d the width of all h heads, in products:

        full                      2n²d
        co-full-single            2nd
        co-full-retro             6n(d + h), or 2n²d for "recompute"
        nystrom                   4ndm + hnm² + Γ
        nystrom-fixed             4ndm + hnm²
        co-fixed-single           3dm + hm² + W
        co-fixed-retro            2dm + hm² + W + ndm
        co-cont-single, renewing  as co-fixed-single, and nd + Γ + R
        co-cont-retro, renewing   as co-fixed-retro,  and 2nd + hnm² + Γ + R

        Γ = dm² + 4 i h m³        landmarks against landmarks, i Newton–Schulz iterations
        W = ndm                   "recompute": the window's sums from the rings
            2m(d + h)             "partials", "subtract": the token that enters, and one
                                  that is in the window
        R = 0                     "recompute"
            n(d + h)              "subtract": a new landmark's row over the window
            (K + 2)⌈N/K⌉(d + h)   "partials": its segments' totals, two segments' suffixes

    Not counted are exponentials, maxima, means, divisions, the multiplication by 1/√d and moving memory; the rows that
    `co-full-retro` sums afresh as the data ask for it, 2n(d + h) each; and the projections and the feed-forward around
    the attention, which `dense` has.

    `d` is the width of all heads, as in `state_bytes`. `form` is how the first block keeps its window, as
    `AttentionConfig.sums` names it; "auto" is what the library picks. The inverse is Newton–Schulz's; what the other
    inverses cost is LAPACK's affair. Continual landmarks are renewed at m steps out of n: the count is the mean.

    One block is the very variant named. `stack="paper"`: the first block is retroactive, the middle ones work on n
    fresh rows, the last attends from its newest row over n fresh rows, summing the values under every landmark first
    (2ndm; `flops(corrected=True)` has the cheaper order). `stack="deep"`: every block is single-output.

    Example:
        >>> import nystream as ns
        >>> ns.costs.executed("co-fixed-single", 1000, 64, 4, heads=4)
        Executed(products=1376, combines=2720)
        >>> ns.costs.executed("co-full-single", 1000, 64).total
        128000
    """
    n, d, landmarks = check_arguments(variant, n, d, m)
    layers, heads = positive_integer("layers", layers), positive_integer("heads", heads)
    check_form(form)
    if layers > 1:
        require_stack(variant, stack)
    deep = layers == 1 or stack == "deep"
    blocks = [(layers, formula(variant, "executed"))] if deep else stacked(variant, layers, "executed", corrected=True)
    form = variants.get(variant if deep else roles_of(variant).first).form(form, n)
    sizes = Sizes(n, d, landmarks, heads, form, pinv_iters=positive_integer("pinv_iters", pinv_iters))
    counts: list[tuple[int, Executed]] = [(count, step(sizes)) for count, step in blocks]
    return Executed(
        sum(count * step.products for count, step in counts), sum(count * step.combines for count, step in counts)
    )


def dense(variant: str, n: int, d: int, ff: int, layers: int = 1, *, stack: str = "paper") -> int:
    """Multiply-adds a step of the projections and the feed-forward (inner width `ff`) around the attentions.

    A block that is handed one row and returns one costs 4d² + 2 d ff, whatever n is. In a paper stack the first block
    projects one token but returns n rows, and every later block is handed n fresh rows: that, not the attention, is
    most of its price. Plain variants stream in the same way.

    Example:
        >>> import nystream as ns
        >>> ns.costs.dense("co-fixed-single", 1000, 64, ff=128, layers=2, stack="deep")
        65536
        >>> ns.costs.dense("co-fixed-single", 1000, 64, ff=128, layers=2)
        32800768
    """
    n, d, _ = check_arguments(variant, n, d, 1)
    ff, layers = positive_integer("ff", ff), positive_integer("layers", layers)
    if layers > 1:
        require_stack(variant, stack)
    if variants.get(variant).single and (layers == 1 or stack == "deep"):
        return layers * (4 * d**2 + 2 * d * ff)
    first = 3 * d**2 + n * (d**2 + 2 * d * ff)
    whole = n * (4 * d**2 + 2 * d * ff)
    if layers == 1 or not variants.get(roles_of(variant).last).single:
        return first + (layers - 1) * whole
    newest = 3 * n * d**2 + d**2 + 2 * d * ff
    return first + (layers - 2) * whole + newest
