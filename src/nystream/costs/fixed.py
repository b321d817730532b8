"""Costs of the variants with fixed landmarks."""

from nystream.costs.model import CostModel, Executed, Growth, Memory, Sizes, Stored


def co_fixed_single(n: int, d: int, m: int) -> int:
    return 7 * d * m + m**2 + 6 * m


def co_fixed_retro(n: int, d: int, m: int) -> int:
    return n * d * m + 6 * d * m + m**2 + 6 * m


def newest_row(n: int, d: int, m: int) -> int:
    """Attend from the newest row over n new rows: ndm + nd + 2nm + dm + m² + 2m + 1.

    The row β of B takes dm + m + 1, and Δ takes ndm + nm + m. The product is cheapest from the left: m² for β Γ†, nm
    for (β Γ†) Δ, and nd for its product with V.
    """
    return n * d * m + n * d + 2 * n * m + d * m + m**2 + 2 * m + 1


def newest_row_executed(s: Sizes) -> int:
    """Attend from one query over n new rows, computing Δ V first."""
    return 2 * s.n * s.d * s.m + 2 * s.d * s.m + s.heads * s.m**2


def step_executed(s: Sizes, rows: int) -> Executed:
    """A step that renews no landmark and returns `rows` rows."""
    window, combines = window_sums(s)
    return Executed(2 * s.d * s.m + s.heads * s.m**2 + window + s.d * s.m * rows, combines)


def window_sums(s: Sizes) -> Executed:
    """The sums over the window, in a step with one token. Every step does the same work."""
    if s.form == "recompute":
        return Executed(s.n * s.d * s.m, 0)
    row = s.d + s.heads
    if s.form == "subtract":
        return Executed(2 * s.m * row, 0)
    summed, groups, totals = s.cut.work(s.m)
    edges = 2 * s.cut.longest_edges * s.m * row
    new_total = s.m * row if s.cut.tiers else 0
    # The middle and the edges combine, and the new token with the total of its block in every tier: two triples each,
    # with one multiplication for every number that goes in.
    combines = 2 * (1 + len(s.cut.tiers)) * s.m * row
    return Executed(edges + summed * (groups * s.d + totals * row) + new_total, combines)


def window_executed(s: Sizes) -> int:
    """All rows of a window, for a given Γ†."""
    return 4 * s.n * s.d * s.m + s.heads * s.n * s.m**2


def stored(s: Sizes, rings: int, logits: int) -> Stored:
    """Rings of tokens and of logits, and the partial sums of the window."""
    return Stored(rings * s.n * s.d, logits * s.n * s.heads * s.m + s.partials * s.m * (s.d + 2 * s.heads))


NYSTROM_FIXED = CostModel(
    flops=lambda n, d, m: 4 * n * d * m + n * m**2 + 2 * n * m + n + m,
    memory=lambda n, d, m: Memory(3 * (n * d - 1) + 2 * d * m + m**2, 4 * n * d + 2 * n * m + 2 * d * m + 2 * m**2 + 1),
    corrected_memory=lambda n, d, m: Memory(
        3 * d * (n - 1) + 2 * d * m + m**2, 4 * n * d + 2 * n * m + 2 * d * m + m**2 + 1
    ),
    fresh_memory=lambda n, d, m: Memory(2 * d * m + m**2, 4 * n * d + 2 * n * m + 2 * d * m + m**2 + 1),
    growth=Growth("ndm + nm²", "nd + m²", "nd + nm + m²"),
    executed=lambda s: Executed(window_executed(s), 0),
    state=lambda s: Stored(3 * s.n * s.d, 0),
)

CO_FIXED_SINGLE = CostModel(
    flops=co_fixed_single,
    fresh_flops=newest_row,
    memory=lambda n, d, m: Memory(3 * d * m + m**2 + m, 3 * d * m + d + m**2 + 2 * m),
    corrected_memory=lambda n, d, m: Memory(
        (n - 1) * (d + m) + 3 * d * m + m**2 + m, n * (d + m) + 3 * d * m + d + m**2 + 2 * m
    ),
    fresh_memory=lambda n, d, m: Memory(2 * d * m + m**2, 2 * n * d + n * m + 2 * d * m + 2 * d + m**2 + m + 1),
    growth=Growth("dm + m²", "dm + m²", "dm + m²"),
    corrected_growth=Growth("dm + m²", "nd + nm + m²", "nd + nm + m²"),
    executed=lambda s: step_executed(s, 1),
    fresh_executed=lambda s: Executed(newest_row_executed(s), 0),
    state=lambda s: stored(s, 1, 1),
)

CO_FIXED_RETRO = CostModel(
    flops=co_fixed_retro,
    memory=lambda n, d, m: Memory(n * m + 3 * d * m + m**2 + m, n * d + n * m + 3 * d * m + m**2 + 2 * m),
    corrected_memory=lambda n, d, m: Memory(
        (n - 1) * (d + m) + n * m + 3 * d * m + m**2, n * (d + m) + n * d + n * m + 3 * d * m + m**2 + 2 * m
    ),
    growth=Growth("ndm + m²", "nm + m²", "nd + nm + m²"),
    corrected_growth=Growth("ndm + m²", "nd + nm + m²", "nd + nm + m²"),
    executed=lambda s: step_executed(s, s.n),
    state=lambda s: stored(s, 1, 2),
)
