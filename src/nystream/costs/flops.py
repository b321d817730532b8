"""Operations per new token, as the paper's appendix counts them; `flops` has the formulas."""

from nystream.costs.model import check_arguments, positive_integer, stacked


def flops(
    variant: str, n: int, d: int, m: int | None = None, layers: int = 1, heads: int = 1, *, corrected: bool = False
) -> float:
    """Operations per new token of the attention of `layers` blocks, as the paper's appendix counts them.

    n is the window, d the width, m the number of landmarks. One multiply-add is one operation; only the attention
    itself is counted, without projections:

        full              2n²d + n² + nd + n
        co-full-single    3nd + 2n
        co-full-retro     7nd + 4n - 2d - 2
        nystrom           4ndm + 2nd + n + nm² + 2nm + dm² + 24m³ + 22m² + 2m
        nystrom-fixed     4ndm + nm² + 2nm + n + m
        co-fixed-single   7dm + m² + 6m
        co-fixed-retro    ndm + 6dm + m² + 6m
        co-cont-single    a step that renews a landmark:
                          ndm + 3nd + n + 9dm + 2d + 24m³ + 22m² + 13m
        co-cont-retro     a step that renews a landmark:
                          ndm + 8nd + nm² + nm + 11n + 15dm + 2d + 24m³ + 22m² + 22m

    Continual landmarks are renewed at m steps out of n, and a step that renews nothing is a step with fixed landmarks,
    so their mean cost is the mix (m/n) · renewing + (1 − m/n) · fixed.

    `heads` multiplies the whole formula, so `d` is the width of one head. (The paper's tables use heads=1 and the
    model's whole width for GTZAN and THUMOS14, and 16 times the formula at d=512 for electricity.)

    One block is the very variant named. In a stack of two or more either name of a continual family means the
    family: a retroactive block, then plain blocks of the family, then a single-output block. Plain variants cost
    `layers` times one block. `m` is not needed by the three variants without landmarks, which ignore it.

    `corrected=True` gives our count. It differs from the paper's in four places: to normalise the one output row of
    co-full-single costs d and not nd; that of co-cont-single costs dm and not ndm when landmarks are renewed; φ(Δ) is
    counted once, not twice, in co-cont-retro; and the last block of a stack meets n rows that have all changed, so it
    cannot be continual: it attends from its newest row over n fresh rows. Everything else is the paper's own way of
    counting. It is the cost of the method, products taken in their cheapest order; `executed` has what the library
    runs, which in the last block sums the values under every landmark first.

    The result is an int, except for co-cont variants, where the mix of the two kinds of steps makes it a float.

    Example:
        >>> import nystream as ns
        >>> ns.costs.flops("full", 120, 192), ns.costs.flops("co-fixed-single", 120, 192, 4)
        (5567160, 5416)
        >>> ns.costs.flops("co-fixed-single", 12_000, 192, 4)  # no n in it
        5416
    """
    n, d, landmarks = check_arguments(variant, n, d, m)
    layers, heads = positive_integer("layers", layers), positive_integer("heads", heads)
    blocks = stacked(variant, layers, "flops", corrected)
    total: float = heads * sum(count * formula(n, d, landmarks) for count, formula in blocks)
    return total
