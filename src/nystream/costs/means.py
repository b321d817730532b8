"""Costs of the variants whose landmarks are segment means.

Continual landmarks are renewed in m of n steps; the other steps cost as much as with fixed landmarks.
"""

import nystream.costs.fixed as fixed
from nystream.costs.model import CostModel, Executed, Growth, Memory, Operations, Sizes, Stored


def _renewing_single(n: int, d: int, m: int) -> int:
    return n * d * m + 3 * n * d + n + 9 * d * m + 2 * d + 24 * m**3 + 22 * m**2 + 13 * m


def _renewing_retro(n: int, d: int, m: int) -> int:
    inverse = 24 * m**3 + 22 * m**2
    return n * d * m + 8 * n * d + n * m**2 + n * m + 11 * n + 15 * d * m + 2 * d + inverse + 22 * m


def _corrected_renewing_single(n: int, d: int, m: int) -> int:
    """The output row is a product of 1 x m with m x d, dm; the appendix counts ndm, the cost of all n rows."""
    return _renewing_single(n, d, m) - n * d * m + d * m


def _corrected_renewing_retro(n: int, d: int, m: int) -> int:
    """The appendix counts φ(Δ), nd + 2n + 2dm + 4m, twice: once for updating it and once for computing it."""
    return _renewing_retro(n, d, m) - (n * d + 2 * n + 2 * d * m + 4 * m)


def _newest_row(n: int, d: int, m: int) -> int:
    """The cost with fixed landmarks, plus 2nd for the landmarks, dm² + m² + m for Γ and 24m³ + 21m² for Γ†."""
    return fixed.newest_row(n, d, m) + 2 * n * d + d * m**2 + m + 24 * m**3 + 22 * m**2


def _mix(renewing: Operations, other: Operations) -> Operations:
    def mean_cost(n: int, d: int, m: int) -> float:
        # Dividing last keeps the integers before it exact.
        return (m * renewing(n, d, m) + (n - m) * other(n, d, m)) / n

    return mean_cost


def _executed(s: Sizes, rows: int, extra: int) -> Executed:
    """The mean over n steps. A renewal costs nd, Γ, the new sums and `extra`, and happens in m of them."""
    new_sums = 0
    if s.form == "subtract":
        new_sums = s.n * (s.d + s.heads)
    elif s.form == "partials":
        # The middle, and the totals of every tier, with the blocks of a tier padded to the longest.
        totals = sum(count * s.cut.longest(tier) for tier, count in enumerate(s.cut.tiers, 1))
        new_sums = (s.n + totals) * (s.d + s.heads)
    step = fixed.step_executed(s, rows)
    return Executed(step.products + s.m * (s.n * s.d + s.gamma + new_sums + extra) / s.n, step.combines)


def _stored(s: Sizes, rings: int, logits: int) -> Stored:
    tokens, sums = fixed.stored(s, rings, logits)
    return Stored(tokens, sums + 2 * s.d * (s.m + 1) + s.heads * s.m**2)


def _landmark_memory(d: int, m: int) -> int:
    """Landmarks and ΔV, Γ†, φ(Δ)⁻¹, two φ_prev, Γ_prev, (ΔV)_prev."""
    return 3 * d * m + m**2 + m + 2 * (m - 1) + (m - 1) ** 2 + d * (m - 1)


def _nystrom_peak(n: int, d: int, m: int) -> int:
    return 4 * n * d + 2 * n * m + 2 * d * m + 6 * m**2 + m + 1


NYSTROM = CostModel(
    flops=lambda n, d, m: (
        4 * n * d * m + 2 * n * d + n + n * m**2 + 2 * n * m + d * m**2 + 24 * m**3 + 22 * m**2 + 2 * m
    ),
    memory=lambda n, d, m: Memory(3 * (n * d - 1), _nystrom_peak(n, d, m)),
    corrected_memory=lambda n, d, m: Memory(3 * d * (n - 1), _nystrom_peak(n, d, m)),
    fresh_memory=lambda n, d, m: Memory(0, _nystrom_peak(n, d, m)),
    growth=Growth("ndm + nm² + m³", "nd", "nd + nm + m²"),
    executed=lambda s: Executed(fixed.window_executed(s) + s.gamma, 0),
    state=lambda s: Stored(3 * s.n * s.d, 0),
)

CO_CONT_SINGLE = CostModel(
    flops=_mix(_renewing_single, fixed.co_fixed_single),
    corrected_flops=_mix(_corrected_renewing_single, fixed.co_fixed_single),
    fresh_flops=_newest_row,
    memory=lambda n, d, m: Memory(
        2 * n * d + 4 * d * m + 2 * m**2 - 2, 2 * n * d + n * m + n + 4 * d * m + d + 7 * m**2 + 4 * m
    ),
    # K and V, sum of q
    corrected_memory=lambda n, d, m: Memory(
        2 * d * (n - 1) + d + _landmark_memory(d, m),
        2 * n * d + n + 5 * d * m + 3 * d + 7 * m**2 + 4 * m,
    ),
    fresh_memory=lambda n, d, m: Memory(0, 3 * n * d + n * m + 2 * d * m + d + 6 * m**2 + 2 * m + 1),
    growth=Growth("ndm + m³", "nd + m²", "nd + m²"),
    corrected_growth=Growth("dm + m² + m⁴/n", "nd + m²", "nd + m²"),
    executed=lambda s: _executed(s, 1, 0),
    fresh_executed=lambda s: Executed(fixed.newest_row_executed(s) + s.gamma, 0),
    state=lambda s: _stored(s, 2, 1),
)

CO_CONT_RETRO = CostModel(
    flops=_mix(_renewing_retro, fixed.co_fixed_retro),
    corrected_flops=_mix(_corrected_renewing_retro, fixed.co_fixed_retro),
    memory=lambda n, d, m: Memory(
        3 * n * d + 2 * n * m + 4 * d * m + 2 * m**2 - 2 * m - 6,
        4 * n * d + 3 * n * m + 2 * n + 4 * d * m + 7 * m**2 + 4 * m,
    ),
    # Q, K and V, B Γ†, the φ_prev of B, B_prev
    corrected_memory=lambda n, d, m: Memory(
        3 * d * (n - 1) + m * (n - 1) + (n - 1) + (n - 1) * (m - 1) + _landmark_memory(d, m),
        4 * n * d + 2 * n * m + 2 * n + 5 * d * m + 7 * m**2 + 4 * m,
    ),
    growth=Growth("ndm + nm² + m³", "nd + m²", "nd + nm + m²"),
    corrected_growth=Growth("ndm + m³", "nd + nm + m²", "nd + nm + m²"),
    executed=lambda s: _executed(s, s.n, s.n * s.d + s.heads * s.n * s.m**2),
    state=lambda s: _stored(s, 3, 3),
)
