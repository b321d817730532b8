"""Operations per token, as counted in the paper's appendix."""

from nystream.costs.model import check_arguments, positive_integer, stacked


def flops(
    variant: str, n: int, d: int, m: int | None = None, layers: int = 1, heads: int = 1, *, corrected: bool = False
) -> float:
    """Count the operations per token of the attention in `layers` blocks, as in the paper's appendix.

    One multiply-add is one operation. Only the attention is counted, without projections:

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

    Continual landmarks are renewed in m of n steps, and the other steps cost as much as with fixed landmarks. The mean
    is (m/n) · renewing + (1 − m/n) · fixed.

    Args:
        variant: The variant. In a stack of several blocks, either variant of a continual family stands for the family:
            a retroactive block, then plain blocks, then a single-output block.
        n: The window.
        d: The width of one head. (The paper's tables use heads=1 and the width of the model for GTZAN and THUMOS14, and
            heads=16 and d=512 for electricity.)
        m: The number of landmarks. Ignored by the variants without landmarks.
        layers: The number of blocks.
        heads: The number of heads, a factor of the whole formula.
        corrected: Correct the paper's count in four places. Normalizing the output row of co-full-single costs d, not
            nd. The output row of co-cont-single costs dm, not ndm, when a landmark is renewed. φ(Δ) is counted once,
            not twice, in co-cont-retro. The last block of a stack reads n rows that have all changed, so it is not
            continual: it attends from its newest row over n new rows, in the cheapest order of the products (for what
            the library does, see `executed`).

    Returns:
        An int, or a float for co-cont variants, whose count is a mean.

    Example:
        >>> import nystream as ns
        >>> ns.costs.flops("full", 120, 192), ns.costs.flops("co-fixed-single", 120, 192, 4)
        (5567160, 5416)
        >>> ns.costs.flops("co-fixed-single", 12_000, 192, 4)  # independent of n
        5416
    """
    n, d, landmarks = check_arguments(variant, n, d, m)
    layers, heads = positive_integer("layers", layers), positive_integer("heads", heads)
    blocks = stacked(variant, layers, "flops", corrected)
    total: float = heads * sum(count * formula(n, d, landmarks) for count, formula in blocks)
    return total
