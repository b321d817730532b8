"""Memory of a stream, as counted in the paper's appendix. `docs/discrepancies.md` explains the corrections.

The valley of a stack is the sum of the valleys of its blocks. Its peak is the largest sum of the peak of one block and
the valleys of the others. (The paper plots stacks of two without saying how it adds them.) In the corrected count, only
the first block of a stack keeps more than landmarks between steps, because the later blocks read n new rows.
"""

from nystream.costs.model import Memory, check_arguments, positive_integer, stacked


def memory(variant: str, n: int, d: int, m: int | None = None, layers: int = 1, *, corrected: bool = False) -> Memory:
    """Count the numbers that the attention of `layers` blocks stores, as in the paper's appendix.

    The valley is what is stored between two steps, the peak what is stored within one:

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

    Args:
        variant, layers: The variants of the blocks, as in `flops`.
        n: The window.
        d: The width.
        m: The number of landmarks. Ignored by the variants without landmarks.
        corrected: Correct the paper's count: include what has to be stored until it leaves the window, count matrices
            without their oldest row as such, and make every total the sum of its items.

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
    valley = sum(count * block.valley for count, block in blocks)
    return Memory(valley, max(valley - block.valley + block.peak for _, block in blocks))
