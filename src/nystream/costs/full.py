"""Costs of the variants without landmarks."""

from nystream.costs.model import CostModel, Executed, Growth, Memory, Sizes, Stored


def _recomputed(s: Sizes) -> Executed:
    return Executed(2 * s.n**2 * s.d, 0)


FULL = CostModel(
    flops=lambda n, d, m: 2 * n**2 * d + n**2 + n * d + n,
    memory=lambda n, d, m: Memory(3 * (n * d - 1), n**2 + 4 * n * d + 1),
    corrected_memory=lambda n, d, m: Memory(3 * d * (n - 1), n**2 + 4 * n * d + 1),
    fresh_memory=lambda n, d, m: Memory(0, n**2 + 4 * n * d + 1),
    growth=Growth("n²d", "nd", "n² + nd"),
    executed=_recomputed,
    state=lambda s: Stored(3 * s.n * s.d, 0),
)

# It carries no sums from step to step, so n new rows cost no more operations.
CO_FULL_SINGLE = CostModel(
    flops=lambda n, d, m: 3 * n * d + 2 * n,
    # aV is one row, so dividing it by φ(a) costs d; the appendix counts nd.
    corrected_flops=lambda n, d, m: 2 * n * d + 2 * n + d,
    memory=lambda n, d, m: Memory(2 * (n * d - 1), 2 * n * d + n + 2 * d),
    corrected_memory=lambda n, d, m: Memory(2 * d * (n - 1), 2 * n * d + n + 2 * d),
    fresh_memory=lambda n, d, m: Memory(0, 2 * n * d + n + 2 * d),
    growth=Growth("nd", "nd", "nd"),
    executed=lambda s: Executed(2 * s.n * s.d, 0),
    state=lambda s: Stored(2 * s.n * s.d, 0),
)

CO_FULL_RETRO = CostModel(
    flops=lambda n, d, m: 7 * n * d + 4 * n - 2 * d - 2,
    memory=lambda n, d, m: Memory(4 * n * d + n - d - 4, 5 * n * d + 2 * n),
    corrected_memory=lambda n, d, m: Memory((4 * d + 1) * (n - 1), 5 * n * d + 2 * n),
    growth=Growth("nd", "nd", "nd"),
    executed=lambda s: _recomputed(s) if s.form == "recompute" else Executed(6 * s.n * (s.d + s.heads), 0),
    state=lambda s: Stored(3 * s.n * s.d, s.n * (s.d + 5 * s.heads)),
)
