"""Multiply-adds that the library executes per step."""

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
    """Count the multiply-adds of the attention in one `step`, with one token per step and a full window.

    The count includes all matrix products, in the order in which the code computes them, and the rescaling of partial
    sums. With d the total width of all h heads, the products are:

        full                      2n²d
        co-full-single            2nd
        co-full-retro             6n(d + h), or 2n²d for "recompute"
        nystrom                   4ndm + hnm² + Γ
        nystrom-fixed             4ndm + hnm²
        co-fixed-single           3dm + hm² + W
        co-fixed-retro            2dm + hm² + W + ndm
        co-cont-single, renewing  as co-fixed-single, and nd + Γ + N
        co-cont-retro, renewing   as co-fixed-retro,  and 2nd + hnm² + Γ + N

        Γ = dm² + 4 i h m³        Γ and its inverse, with i Newton–Schulz iterations
        W = ndm                   "recompute": the sums over the window
            2m(d + h)             "subtract": the token that enters, and the one that leaves
            2Lm(d + h) + A        "partials": the edges, L of each landmark, and what A says
        A = RPd                   the middles of R landmarks, from P tokens
            (m + RQ)(d + h)       and from Q totals, and the total that the token joins;
                                  only if the window has tiers
        N = 0                     "recompute"
            n(d + h)              "subtract": the row of a new landmark
            (1 + k)n(d + h)       "partials": its middle, and its totals in k tiers, whose
                                  blocks count as the longest one

    L, P, Q and the tiers are those of `nystream.ops.cut`. For about 100 tokens or more, L is max(8, m), P is about 5L,
    and W about d(2Lm + 5L), and about 10d more for each tier. "partials" also has 2(1 + k)m(d + h) multiplications of
    combines.

    The count excludes exponentials, maxima, means, divisions, the factor 1/√d and memory traffic; the rows that
    `co-full-retro` recomputes when the data require it, 2n(d + h) each; and the projections and feed-forward networks
    around the attention (see `dense`).

    Args:
        variant, n, m, layers, heads: As in `flops`.
        d: The total width of all heads.
        form: How the first block computes the sums over its window, as in `AttentionConfig.sums`.
        stack: "paper": the first block returns all rows, the middle blocks process n new rows each, and the last one
            attends from its newest row over n new rows, computing ΔV first (2ndm; `flops(corrected=True)` counts a
            cheaper order). "deep": all blocks are single-output.
        pinv_iters: The number of Newton–Schulz iterations. The other inverses are not counted.

    Returns:
        The multiply-adds per step. For continual landmarks, which are renewed in m of n steps, this is the mean.

    Example:
        >>> import nystream as ns
        >>> ns.costs.executed("co-fixed-single", 1000, 64, 4, heads=4)
        Executed(products=9104, combines=1632)
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
    """Count the multiply-adds per step of the projections and feed-forward networks (inner width `ff`).

    A block that reads one row and returns one costs 4d² + 2 d ff, independent of n. In a paper stack the first block
    projects one token but returns n rows, and every later block reads n new rows; this, not the attention, is most of
    its cost. The same holds for plain variants.

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
