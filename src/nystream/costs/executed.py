"""Multiply-adds that the library really executes a step; `executed` says what is counted, and how."""

from typing import NamedTuple

from nystream.config.attention import RECOMPUTE_BELOW
from nystream.costs.flops import check_arguments, middle_block, positive_integer, require_stack
from nystream.costs.state import FORMS


class Executed(NamedTuple):
    """Multiply-adds a step: of matrix products, and of combining partial sums."""

    products: float
    combines: float

    @property
    def total(self) -> float:
        """Both."""
        return self.products + self.combines


class _Sizes(NamedTuple):
    n: int
    d: int
    m: int
    heads: int
    form: str
    iters: int

    @property
    def gamma(self) -> int:
        return self.d * self.m**2 + 4 * self.iters * self.heads * self.m**3


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
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, as AttentionConfig.sums has them, got {form!r}")
    if form == "auto" and "full" not in variant:
        form = "partials" if n >= RECOMPUTE_BELOW else "recompute"
    if form == "partials" and n == 1:
        form = "recompute"  # there is nothing to keep
    if layers > 1:
        require_stack(variant, stack)
    sizes = _Sizes(n, d, landmarks, heads, form, positive_integer("pinv_iters", pinv_iters))
    middle = middle_block(variant)
    if layers == 1 or middle is None or stack == "deep":
        one = _step(variant, sizes)
        return Executed(layers * one.products, layers * one.combines)
    first = _step(f"{variant.rpartition('-')[0]}-retro", sizes)
    between = _step(middle, sizes).products
    return Executed(first.products + (layers - 2) * between + _newest_row(middle, sizes), first.combines)


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
    if variant.endswith("-single") and (layers == 1 or stack == "deep"):
        return layers * (4 * d**2 + 2 * d * ff)
    first = 3 * d**2 + n * (d**2 + 2 * d * ff)
    whole = n * (4 * d**2 + 2 * d * ff)
    if layers == 1 or middle_block(variant) is None:
        return first + (layers - 1) * whole
    newest = 3 * n * d**2 + d**2 + 2 * d * ff
    return first + (layers - 2) * whole + newest


def _step(variant: str, sizes: _Sizes) -> Executed:
    n, d, m, heads, form, _ = sizes
    if variant == "full" or (variant == "co-full-retro" and form == "recompute"):
        return Executed(2 * n**2 * d, 0)
    if variant == "co-full-single":
        return Executed(2 * n * d, 0)
    if variant == "co-full-retro":
        return Executed(6 * n * (d + heads), 0)
    if variant == "nystrom-fixed":
        return Executed(4 * n * d * m + heads * n * m**2, 0)
    if variant == "nystrom":
        return Executed(4 * n * d * m + heads * n * m**2 + sizes.gamma, 0)
    retro = variant.endswith("-retro")
    window = 2 * m * (d + heads) if form != "recompute" else n * d * m
    products: float = 2 * d * m + heads * m**2 + window + d * m * (n if retro else 1)
    # Three combines of two and one of four, each a multiplication for every number that goes in.
    combines = 10 * m * (d + heads) if form == "partials" else 0
    if variant.startswith("co-cont"):
        products += m * _renewal(sizes, retro) / n
    return Executed(products, combines)


def _renewal(sizes: _Sizes, retro: bool) -> int:
    """What a step that renews a landmark executes on top of one that does not."""
    n, d, m, heads, form, _ = sizes
    again = 0
    if form == "subtract":
        again = n * (d + heads)
    elif form == "partials":
        segments = max(2, round(n**0.5 / 2))
        again = (segments + 2) * -(-n // segments) * (d + heads)
    return n * d + sizes.gamma + again + (n * d + heads * n * m**2 if retro else 0)


def _newest_row(middle: str, sizes: _Sizes) -> int:
    """The last block of a paper stack: one query over n rows that are all new."""
    n, d, m, heads, _, _ = sizes
    if middle == "full":
        return 2 * n * d
    fixed = 2 * n * d * m + 2 * d * m + heads * m**2
    return fixed if middle == "nystrom-fixed" else fixed + sizes.gamma
