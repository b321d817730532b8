"""Operations per new token, as the paper's appendix counts them; `flops` has the formulas."""

import operator
from collections.abc import Callable, Mapping

Formula = Callable[[int, int, int], float]


def _full(n: int, d: int, m: int) -> int:
    return 2 * n**2 * d + n**2 + n * d + n


def _co_full_single(n: int, d: int, m: int) -> int:
    return 3 * n * d + 2 * n


def _co_full_retro(n: int, d: int, m: int) -> int:
    return 7 * n * d + 4 * n - 2 * d - 2


def _nystrom(n: int, d: int, m: int) -> int:
    return 4 * n * d * m + 2 * n * d + n + n * m**2 + 2 * n * m + d * m**2 + 24 * m**3 + 22 * m**2 + 2 * m


def _nystrom_fixed(n: int, d: int, m: int) -> int:
    return 4 * n * d * m + n * m**2 + 2 * n * m + n + m


def _co_fixed_single(n: int, d: int, m: int) -> int:
    return 7 * d * m + m**2 + 6 * m


def _co_fixed_retro(n: int, d: int, m: int) -> int:
    return n * d * m + 6 * d * m + m**2 + 6 * m


def _updated_single(n: int, d: int, m: int) -> int:
    return n * d * m + 3 * n * d + n + 9 * d * m + 2 * d + 24 * m**3 + 22 * m**2 + 13 * m


def _updated_retro(n: int, d: int, m: int) -> int:
    inverse = 24 * m**3 + 22 * m**2
    return n * d * m + 8 * n * d + n * m**2 + n * m + 11 * n + 15 * d * m + 2 * d + inverse + 22 * m


def _corrected_co_full_single(n: int, d: int, m: int) -> int:
    """aV is one row, so that dividing it by φ(a) costs d, where the appendix counts nd."""
    return 2 * n * d + 2 * n + d


def _corrected_updated_single(n: int, d: int, m: int) -> int:
    """The one output row is a product of 1 x m with m x d: dm, where the appendix counts the ndm of all n rows."""
    return _updated_single(n, d, m) - n * d * m + d * m


def _corrected_updated_retro(n: int, d: int, m: int) -> int:
    """φ(Δ), nd + 2n + 2dm + 4m, is listed twice in the appendix: once as updated and once as computed."""
    return _updated_retro(n, d, m) - (n * d + 2 * n + 2 * d * m + 4 * m)


def _fresh_fixed_newest_row(n: int, d: int, m: int) -> int:
    """The newest row over n rows that are all new, fixed landmarks: ndm + nd + 2nm + dm + m² + 2m + 1.

    dm + m + 1 for the row of B, ndm + nm + m for Δ, then from the left, which is the cheap order:
    m² for β Γ†, nm for (β Γ†) Δ and nd for its product with V.
    """
    return n * d * m + n * d + 2 * n * m + d * m + m**2 + 2 * m + 1


def _fresh_segment_newest_row(n: int, d: int, m: int) -> int:
    """The same with segment means: 2nd for the landmarks, dm² + m² + m for Γ and 24m³ + 21m² for Γ† on top."""
    return _fresh_fixed_newest_row(n, d, m) + 2 * n * d + d * m**2 + m + 24 * m**3 + 22 * m**2


def _mix(updated: Formula, non_updated: Formula) -> Formula:
    def mean_cost(n: int, d: int, m: int) -> float:
        # One division, at the end: the whole numbers before it are exact.
        return (m * updated(n, d, m) + (n - m) * non_updated(n, d, m)) / n

    return mean_cost


PAPER: Mapping[str, Formula] = {
    "full": _full,
    "co-full-single": _co_full_single,
    "co-full-retro": _co_full_retro,
    "nystrom": _nystrom,
    "nystrom-fixed": _nystrom_fixed,
    "co-cont-single": _mix(_updated_single, _co_fixed_single),
    "co-cont-retro": _mix(_updated_retro, _co_fixed_retro),
    "co-fixed-single": _co_fixed_single,
    "co-fixed-retro": _co_fixed_retro,
}

CORRECTED: Mapping[str, Formula] = {
    **PAPER,
    "co-full-single": _corrected_co_full_single,
    "co-cont-single": _mix(_corrected_updated_single, _co_fixed_single),
    "co-cont-retro": _mix(_corrected_updated_retro, _co_fixed_retro),
}

# The plain variant that the middle blocks of a continual family's stack are made of.
_MIDDLE_BLOCK: Mapping[str, str] = {"co-full": "full", "co-cont": "nystrom", "co-fixed": "nystrom-fixed"}

# co-full-single keeps no sums from step to step, so rows that are all new cost it nothing more.
_LAST_BLOCK_CORRECTED: Mapping[str, Formula] = {
    "co-full": _corrected_co_full_single,
    "co-cont": _fresh_segment_newest_row,
    "co-fixed": _fresh_fixed_newest_row,
}

STACKS = ("paper", "deep")

_WITHOUT_LANDMARKS = ("full", "co-full-single", "co-full-retro")


def positive_integer(name: str, value: object) -> int:
    """Return `value` as an int, or say which argument is not an integer of at least 1."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return number


def check_arguments(variant: str, n: int, d: int, m: int | None) -> tuple[int, int, int]:
    """Return n, d and m as ints; m is 0 where a variant without landmarks was given none."""
    if variant not in PAPER:
        raise ValueError(f"variant must be one of {', '.join(PAPER)}, got {variant!r}")
    window, width = positive_integer("n", n), positive_integer("d", d)
    if m is None:
        if variant not in _WITHOUT_LANDMARKS:
            raise ValueError(f"m must be given for variant {variant!r} (an integer from 1 to n={window}), got None")
        return window, width, 0
    landmarks = positive_integer("m", m)
    if landmarks > window:
        raise ValueError(f"m must be at most n={window}, got {landmarks}")
    return window, width, landmarks


def middle_block(variant: str) -> str | None:
    """The plain variant that the middle blocks of a continual variant's stack are made of; None for a plain one."""
    return _MIDDLE_BLOCK.get(variant.removesuffix("-single").removesuffix("-retro"))


def require_stack(variant: str, stack: str) -> None:
    """A stack of two or more blocks is "paper", or "deep" and made of single-output blocks."""
    if stack not in STACKS:
        raise ValueError(f"stack must be one of {', '.join(STACKS)}, got {stack!r}")
    if stack == "deep" and not variant.endswith("-single"):
        raise ValueError(f"stack='deep' is made of single-output variants, got variant {variant!r}")


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
    formulas = CORRECTED if corrected else PAPER
    plain = middle_block(variant)
    if layers == 1 or plain is None:
        return heads * layers * formulas[variant](n, d, landmarks)
    family = variant.rpartition("-")[0]
    first, middle = formulas[f"{family}-retro"], formulas[plain]
    last = _LAST_BLOCK_CORRECTED[family] if corrected else formulas[f"{family}-single"]
    blocks = (first(n, d, landmarks), (layers - 2) * middle(n, d, landmarks), last(n, d, landmarks))
    return heads * sum(blocks)
