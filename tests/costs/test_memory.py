"""Valley and peak: the totals the paper prints, the sums of its own items, and the corrected counts."""

import itertools
from collections.abc import Callable

import pytest

from nystream import costs

SIZES = [(120, 192, 4), (64, 1024, 16), (64, 512, 4), (7, 5, 3), (3, 2, 1), (4, 6, 4)]

# Each of the appendix's lists added up item by item, as printed.
ITEMS: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "full": lambda n, d, m: (3 * (n * d - 1), 3 * n * d + n**2 + 1 + n * d),
    "co-full-single": lambda n, d, m: (2 * (n * d - 1), 2 * n * d + d + n + d),
    "co-full-retro": lambda n, d, m: (
        3 * (n * d - 1) + (n - 1) + (n * d - d),
        3 * n * d + n + n * d + n + n * d,
    ),
    "nystrom": lambda n, d, m: (
        3 * (n * d - 1),
        3 * n * d + 2 * d * m + (n * m + 1) + m**2 + (5 * m**2 + m) + n * m + n * d,
    ),
    "nystrom-fixed": lambda n, d, m: (
        3 * (n * d - 1) + 2 * d * m + m**2,
        3 * n * d + 2 * d * m + m**2 + (n * m + 1) + n * m + n * d,
    ),
    "co-cont-single": lambda n, d, m: (
        2 * (n * d - 1) + 2 * d * m + m**2 + m + d * m + 2 * (m - 1) + (m**2 - 2 * m) + (d * m - m),
        2 * n * d + d + 2 * d * m + m**2 + m + d * m + 2 * m + m**2 + d * m + (n + m) + 5 * m**2 + n * m,
    ),
    "co-cont-retro": lambda n, d, m: (
        3 * (n * d - 1)
        + 2 * d * m
        + (n * m - m)
        + m**2
        + m
        + d * m
        + (n - 1 + 2 * (m - 1))
        + (n * m - n - m)
        + (m**2 - 2 * m)
        + (d * m - m),
        3 * n * d
        + 2 * d * m
        + n * m
        + m**2
        + m
        + d * m
        + (n + 2 * m)
        + n * m
        + m**2
        + d * m
        + (n + m)
        + 5 * m**2
        + n * m
        + n * d,
    ),
    "co-fixed-single": lambda n, d, m: (2 * d * m + m**2 + m + d * m, 2 * d * m + m**2 + m + d * m + m + d),
    "co-fixed-retro": lambda n, d, m: (
        2 * d * m + (n * m - m) + m**2 + m + d * m,
        2 * d * m + n * m + m**2 + m + d * m + m + n * d,
    ),
}


def printed_beyond_its_items(variant: str, m: int) -> tuple[int, int]:
    """How much more the printed valley and peak are than the sums of their own items."""
    excess = {"co-cont-single": (2, 0), "nystrom-fixed": (0, m**2), "co-fixed-retro": (m, 0)}
    return excess.get(variant, (0, 0))


@pytest.mark.parametrize("variant", ITEMS)
def test_printed_total_against_the_sum_of_its_items(variant: str) -> None:
    for sizes in SIZES:
        valley, peak = ITEMS[variant](*sizes)
        printed = costs.memory(variant, *sizes)
        excess = (printed.valley - valley, printed.peak - peak)
        assert excess == printed_beyond_its_items(variant, m=sizes[2]), sizes


def test_worked_example() -> None:
    assert costs.memory("full", 120, 192, 4) == (69_117, 106_561)
    assert costs.memory("co-fixed-single", 120, 192, 4) == (2_324, 2_520)
    assert costs.memory("co-cont-single", 120, 192, 4) == (49_182, 50_072)


@pytest.mark.parametrize("variant", ["full", "nystrom"])
def test_corrected_valley_drops_whole_rows(variant: str) -> None:
    n, d, m = 64, 1024, 16
    assert costs.memory(variant, n, d, m).valley == 3 * (n * d - 1)
    assert costs.memory(variant, n, d, m, corrected=True).valley == 3 * d * (n - 1)
    assert costs.memory(variant, n, d, m, corrected=True).peak == costs.memory(variant, n, d, m).peak


@pytest.mark.parametrize("sizes", SIZES)
def test_corrected_continual_landmarks(sizes: tuple[int, int, int]) -> None:
    n, d, m = sizes
    single = costs.memory("co-cont-single", *sizes, corrected=True)
    assert single.valley == 2 * n * d + 4 * d * m + 2 * m**2 - 2 * d + m - 1
    # Δ_φ V is m x d, not n x m; the running sum of q and the result are the two d that are not printed.
    assert single.peak - costs.memory("co-cont-single", *sizes).peak == d * m - n * m + 2 * d
    retro = costs.memory("co-cont-retro", *sizes, corrected=True)
    assert retro.valley == 3 * n * d + 2 * n * m + 4 * d * m + 2 * m**2 - 4 * d - m - 1
    assert retro.peak - costs.memory("co-cont-retro", *sizes).peak == d * m - n * m


@pytest.mark.parametrize("sizes", SIZES)
def test_corrected_fixed_landmarks_keep_the_window(sizes: tuple[int, int, int]) -> None:
    n, d, m = sizes
    for variant, cancelled in (("co-fixed-single", 0), ("co-fixed-retro", m)):
        paper, ours = costs.memory(variant, *sizes), costs.memory(variant, *sizes, corrected=True)
        assert ours.valley - paper.valley == (n - 1) * (d + m) - cancelled
        assert ours.peak - paper.peak == n * (d + m)


def test_only_the_papers_count_of_fixed_landmarks_is_free_of_the_window() -> None:
    windows = (8, 64, 4096)
    assert len({costs.memory("co-fixed-single", n, 200, 8) for n in windows}) == 1
    assert len({costs.memory("co-fixed-single", n, 200, 8, corrected=True) for n in windows}) == len(windows)


@pytest.mark.parametrize("variant", ITEMS)
def test_valley_is_below_peak(variant: str) -> None:
    for sizes, corrected in itertools.product(SIZES, (False, True)):
        if sizes[2] > 1:
            valley, peak = costs.memory(variant, *sizes, corrected=corrected)
            assert 0 < valley < peak, (sizes, corrected)


@pytest.mark.parametrize("variant", ["full", "co-full-single", "co-full-retro"])
def test_variants_without_landmarks_ignore_m(variant: str) -> None:
    assert costs.memory(variant, 20, 8) == costs.memory(variant, 20, 8, 4)


def test_returns_named_integers() -> None:
    counted = costs.memory("nystrom-fixed", 20, 8, 4)
    assert isinstance(counted, costs.Memory)
    assert (counted.valley, counted.peak) == tuple(counted)
    assert all(isinstance(value, int) for value in counted)


def test_arguments_are_checked_as_those_of_flops() -> None:
    for arguments, message in (
        (("linear", 20, 8, 4), "variant='linear' is not known; it must be one of full, "),
        (("full", 0, 8), "n must be an integer of at least 1, got 0"),
        (("nystrom", 20, 8, 32), "m must be at most n=20, got 32"),
        (("full", 10, 4, None, 0), "layers must be an integer of at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            costs.memory(*arguments)


@pytest.mark.parametrize(
    ("family", "middle"), [("co-full", "full"), ("co-cont", "nystrom"), ("co-fixed", "nystrom-fixed")]
)
def test_a_stack_holds_all_valleys_and_one_peak(family: str, middle: str) -> None:
    for sizes in SIZES:
        blocks = [costs.memory(name, *sizes) for name in (f"{family}-retro", middle, f"{family}-single")]
        valley, peak = costs.memory(f"{family}-single", *sizes, layers=3)
        assert valley == sum(block.valley for block in blocks), sizes
        assert peak == max(valley - block.valley + block.peak for block in blocks), sizes
        assert costs.memory(f"{family}-retro", *sizes, layers=3) == (valley, peak), sizes


@pytest.mark.parametrize("sizes", SIZES)
def test_corrected_only_the_first_block_of_a_stack_keeps_more_than_landmarks(sizes: tuple[int, int, int]) -> None:
    _, d, m = sizes
    fixed = costs.memory("co-fixed-retro", *sizes, corrected=True)
    for layers in (2, 4):
        for family in ("co-full", "co-cont"):
            alone = costs.memory(f"{family}-retro", *sizes, corrected=True)
            stack = costs.memory(f"{family}-single", *sizes, layers=layers, corrected=True)
            assert stack.valley == alone.valley, (family, layers)
        plain = costs.memory("full", *sizes, layers=layers, corrected=True)
        assert plain.valley == costs.memory("full", *sizes, corrected=True).valley, layers
        landmarks = (layers - 1) * (2 * d * m + m**2)
        stack = costs.memory("co-fixed-single", *sizes, layers=layers, corrected=True)
        assert stack.valley == fixed.valley + landmarks, layers
        assert stack.peak >= fixed.peak + landmarks, layers


def test_corrected_last_block_by_its_items() -> None:
    n, d, m = SIZES[0]
    held = costs.memory("co-fixed-retro", n, d, m, corrected=True)
    rows_and_query, delta, row_and_sum, result = 2 * n * d + d, n * m, m + 1, d
    last = 2 * d * m + m**2 + rows_and_query + delta + row_and_sum + result
    expected = max(held.peak + 2 * d * m + m**2, held.valley + last)
    assert costs.memory("co-fixed-single", n, d, m, layers=2, corrected=True).peak == expected
