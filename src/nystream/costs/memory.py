"""Numbers held in memory, as the paper's appendix counts them; `memory` has the formulas.

What is corrected, and why:

- A matrix without its oldest row holds d(n - 1) numbers, not nd - 1. Likewise (ΔV)_prev holds d(m - 1), not dm - m;
  Γ_prev holds (m - 1)², not m² - 2m; B_prev holds (n - 1)(m - 1), not nm - n - m.
- Some totals are not the sum of their own items: co-cont-single's valley ends in -2 where they give -4,
  nystrom-fixed's peak has 2m² where they give m², co-fixed-retro's valley has an m that they cancel.
- Fixed landmarks do need what leaves the window, to take it out of the sums: its logits and its value, m + d numbers
  for each of the n - 1 tokens (n within a step). Only the operations of co-fixed-single are free of n.
- Δ_φ V is m x d: it takes dm numbers, where the two co-cont peaks list nm.
- co-cont-single keeps no Q, so it holds the sum of q over the segment under way (d); and its peak, unlike every
  other, leaves out the result (d).

A stack holds the valleys of all its blocks and, while one of them works, that block's peak: the peak of the stack is
the largest sum of one block's peak and the other blocks' valleys. (The paper draws two blocks without saying how it
adds them up.) Corrected, only the first block of a stack keeps anything but landmarks from step to step, because the
rows that later blocks see are all new at every step.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nystream.costs.flops import check_arguments, middle_block, positive_integer


class Memory(NamedTuple):
    """Numbers (not bytes) held: `valley` between two steps, `peak` within one."""

    valley: int
    peak: int


Formula = Callable[[int, int, int], Memory]

PAPER: Mapping[str, Formula] = {
    "full": lambda n, d, m: Memory(3 * (n * d - 1), n**2 + 4 * n * d + 1),
    "co-full-single": lambda n, d, m: Memory(2 * (n * d - 1), 2 * n * d + n + 2 * d),
    "co-full-retro": lambda n, d, m: Memory(4 * n * d + n - d - 4, 5 * n * d + 2 * n),
    "nystrom": lambda n, d, m: Memory(
        3 * (n * d - 1),
        4 * n * d + 2 * n * m + 2 * d * m + 6 * m**2 + m + 1,
    ),
    "nystrom-fixed": lambda n, d, m: Memory(
        3 * (n * d - 1) + 2 * d * m + m**2,
        4 * n * d + 2 * n * m + 2 * d * m + 2 * m**2 + 1,
    ),
    "co-cont-single": lambda n, d, m: Memory(
        2 * n * d + 4 * d * m + 2 * m**2 - 2,
        2 * n * d + n * m + n + 4 * d * m + d + 7 * m**2 + 4 * m,
    ),
    "co-cont-retro": lambda n, d, m: Memory(
        3 * n * d + 2 * n * m + 4 * d * m + 2 * m**2 - 2 * m - 6,
        4 * n * d + 3 * n * m + 2 * n + 4 * d * m + 7 * m**2 + 4 * m,
    ),
    "co-fixed-single": lambda n, d, m: Memory(
        3 * d * m + m**2 + m,
        3 * d * m + d + m**2 + 2 * m,
    ),
    "co-fixed-retro": lambda n, d, m: Memory(
        n * m + 3 * d * m + m**2 + m,
        n * d + n * m + 3 * d * m + m**2 + 2 * m,
    ),
}

CORRECTED: Mapping[str, Formula] = {
    "full": lambda n, d, m: Memory(3 * d * (n - 1), PAPER["full"](n, d, m).peak),
    "co-full-single": lambda n, d, m: Memory(2 * d * (n - 1), PAPER["co-full-single"](n, d, m).peak),
    "co-full-retro": lambda n, d, m: Memory((4 * d + 1) * (n - 1), PAPER["co-full-retro"](n, d, m).peak),
    "nystrom": lambda n, d, m: Memory(3 * d * (n - 1), PAPER["nystrom"](n, d, m).peak),
    "nystrom-fixed": lambda n, d, m: Memory(
        3 * d * (n - 1) + 2 * d * m + m**2,
        4 * n * d + 2 * n * m + 2 * d * m + m**2 + 1,
    ),
    # K and V, sum of q, landmarks and ΔV, Γ†, φ(Δ)⁻¹, two φ_prev, Γ_prev, (ΔV)_prev, in the appendix's order.
    "co-cont-single": lambda n, d, m: Memory(
        2 * d * (n - 1) + d + 3 * d * m + m**2 + m + 2 * (m - 1) + (m - 1) ** 2 + d * (m - 1),
        2 * n * d + n + 5 * d * m + 3 * d + 7 * m**2 + 4 * m,
    ),
    # Q, K and V, landmarks and ΔV, B Γ†, Γ†, φ(Δ)⁻¹, three φ_prev, B_prev, Γ_prev, (ΔV)_prev.
    "co-cont-retro": lambda n, d, m: Memory(
        3 * d * (n - 1)
        + 3 * d * m
        + m * (n - 1)
        + m**2
        + m
        + (n - 1)
        + 2 * (m - 1)
        + (n - 1) * (m - 1)
        + (m - 1) ** 2
        + d * (m - 1),
        4 * n * d + 2 * n * m + 2 * n + 5 * d * m + 7 * m**2 + 4 * m,
    ),
    "co-fixed-single": lambda n, d, m: Memory(
        (n - 1) * (d + m) + 3 * d * m + m**2 + m,
        n * (d + m) + 3 * d * m + d + m**2 + 2 * m,
    ),
    "co-fixed-retro": lambda n, d, m: Memory(
        (n - 1) * (d + m) + n * m + 3 * d * m + m**2,
        n * (d + m) + n * d + n * m + 3 * d * m + m**2 + 2 * m,
    ),
}


# One query over n rows that are all new, which is what the last block of a stack has: nothing but fixed landmarks
# is kept; K and V (Q too, for segment means), Δ, the row of B and the result come and go.
_NEWEST_ROW: Mapping[str, Formula] = {
    "full": lambda n, d, m: Memory(0, PAPER["co-full-single"](n, d, m).peak),
    "nystrom": lambda n, d, m: Memory(0, 3 * n * d + n * m + 2 * d * m + d + 6 * m**2 + 2 * m + 1),
    "nystrom-fixed": lambda n, d, m: Memory(
        2 * d * m + m**2,
        2 * n * d + n * m + 2 * d * m + 2 * d + m**2 + m + 1,
    ),
}


def memory(variant: str, n: int, d: int, m: int | None = None, layers: int = 1, *, corrected: bool = False) -> Memory:
    """Numbers that the attention of `layers` blocks holds between two steps (valley) and within one (peak).

    By the totals of the paper's appendix, n the window, d the width, m the number of landmarks:

        variant          valley                           peak
        full             3(nd - 1)                        n² + 4nd + 1
        co-full-single   2(nd - 1)                        2nd + n + 2d
        co-full-retro    4nd + n - d - 4                  5nd + 2n
        nystrom          3(nd - 1)                        4nd + 2nm + 2dm + 6m² + m + 1
        nystrom-fixed    3(nd - 1) + 2dm + m²             4nd + 2nm + 2dm + 2m² + 1
        co-cont-single   2nd + 4dm + 2m² - 2              2nd + nm + n + 4dm + d + 7m² + 4m
        co-cont-retro    3nd + 2nm + 4dm + 2m² - 2m - 6   4nd + 3nm + 2n + 4dm + 7m² + 4m
        co-fixed-single  3dm + m² + m                     3dm + d + m² + 2m
        co-fixed-retro   nm + 3dm + m² + m                nd + nm + 3dm + m² + 2m

    `corrected=True` gives our count of the same algorithm: what leaves the window is kept until it does, matrices
    without their oldest row are counted as such, and totals are the sum of their items. `m` is not needed by the three
    variants without landmarks, which ignore it. Stacks are made as in `flops`.

    Example:
        >>> import nystream as ns
        >>> ns.costs.memory("co-fixed-single", 120, 192, 4)
        Memory(valley=2324, peak=2520)
        >>> ns.costs.memory("co-fixed-single", 120, 192, 4, corrected=True)
        Memory(valley=25648, peak=26040)
    """
    n, d, landmarks = check_arguments(variant, n, d, m)
    blocks = [formula(n, d, landmarks) for formula in _blocks(variant, positive_integer("layers", layers), corrected)]
    held = sum(block.valley for block in blocks)
    return Memory(held, max(held - block.valley + block.peak for block in blocks))


def _blocks(variant: str, layers: int, corrected: bool) -> list[Formula]:
    """The formula of every block of a stack."""
    formulas, plain = CORRECTED if corrected else PAPER, middle_block(variant)
    if layers == 1:
        return [formulas[variant]]
    if plain is None:
        return [formulas[variant]] + (layers - 1) * [_fresh(variant) if corrected else formulas[variant]]
    family = variant.rpartition("-")[0]
    middle, last = formulas[plain], formulas[f"{family}-single"]
    if corrected:
        middle, last = _fresh(plain), _NEWEST_ROW[plain]
    return [formulas[f"{family}-retro"], *(layers - 2) * [middle], last]


def _fresh(plain: str) -> Formula:
    """A plain block whose n rows come from the block before it: it keeps its landmarks, if they are fixed."""

    def held(n: int, d: int, m: int) -> Memory:
        return Memory(_NEWEST_ROW[plain](n, d, m).valley, CORRECTED[plain](n, d, m).peak)

    return held
