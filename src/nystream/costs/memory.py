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

from nystream.costs.model import Memory, check_arguments, positive_integer, stacked


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
    blocks: list[tuple[int, Memory]] = [
        (count, formula(n, d, landmarks))
        for count, formula in stacked(variant, positive_integer("layers", layers), "memory", corrected)
    ]
    held = sum(count * block.valley for count, block in blocks)
    return Memory(held, max(held - block.valley + block.peak for _, block in blocks))
