"""Every FLOPs figure and ratio in the paper's three result tables, against the appendix's formulas."""

import ast
import itertools
import math
import sys
from pathlib import Path

import pytest

from nystream import costs, variants
from nystream.costs import tables
from nystream.costs.tables import TableSizes
from nystream.variants import VARIANTS

MILLION = 1e6
GTZAN, THUMOS14, ELECTRICITY = tables.SIZES.values()


# (table, variant, layers, column) -> what the formula gives, at the printed precision.
NOT_FROM_THE_FORMULAS = {
    ("gtzan", "co-full-single", 2, "millions"): "0.23",
    ("gtzan", "co-cont-single", 2, "ratio"): "97.41",
    ("thumos14", "co-cont-single", 2, "millions"): "1.81",
    ("thumos14", "co-cont-single", 2, "ratio"): "9.36",
    ("electricity", "co-full-single", 1, "ratio"): "42.99",
    ("electricity", "nystrom", 1, "millions"): "9.62",
    ("electricity", "nystrom", 1, "ratio"): "7.03",
    ("electricity", "nystrom-fixed", 1, "millions"): "8.41",
    ("electricity", "nystrom-fixed", 1, "ratio"): "8.05",
    ("electricity", "co-cont-single", 1, "ratio"): "145.13",
    ("electricity", "co-fixed-single", 1, "ratio"): "294.33",
}


def count(sizes: TableSizes, variant: str, layers: int = 1, *, corrected: bool = False) -> float:
    n, d, m, heads = sizes
    return costs.flops(variant, n, d, m, layers=layers, heads=heads, corrected=corrected)


def ratio(sizes: TableSizes, variant: str, layers: int = 1, *, corrected: bool = False) -> float:
    return count(sizes, "full", layers) / count(sizes, variant, layers, corrected=corrected)


def millions(sizes: TableSizes, variant: str, layers: int = 1) -> float:
    return count(sizes, variant, layers) / MILLION


def renewing_retro(n: int, d: int, m: int) -> int:
    inverse = 24 * m**3 + 22 * m**2
    return n * d * m + 8 * n * d + n * m**2 + n * m + 11 * n + 15 * d * m + 2 * d + inverse + 22 * m


@pytest.mark.parametrize("table", tables.SIZES)
def test_every_printed_cell(table: str) -> None:
    cells = list(tables.cells(table))
    odd = {(table, cell.variant, cell.layers, cell.column): cell.formula for cell in cells if not cell.follows}
    assert odd == {key: value for key, value in NOT_FROM_THE_FORMULAS.items() if key[0] == table}
    for cell in cells:
        assert bool(cell.why) != cell.follows
        function = ratio if cell.column == "ratio" else millions
        value = function(tables.SIZES[table], cell.variant, cell.layers)
        assert cell.formula == tables.rounded_like(cell.printed, value)


def test_the_tables_have_sixty_cells() -> None:
    assert sum(1 for table in tables.SIZES for _ in tables.cells(table)) == 60


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="table must be one of gtzan, thumos14, electricity, got 'imagenet'"):
        next(tables.cells("imagenet"))


def test_every_odd_cell_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "discrepancies.md").read_text(encoding="utf-8")
    for cell in (cell for table in tables.SIZES for cell in tables.cells(table) if not cell.follows):
        sign = "×" if cell.column == "ratio" else ""
        assert f"| {sign}{cell.printed} | {sign}{cell.formula} |" in text


def test_electricity_ratios_were_taken_from_rounded_cells() -> None:
    printed = {variant: row for (variant, _), row in tables.PRINTED["electricity"].items()}
    for variant in ("co-full-single", "nystrom-fixed", "co-cont-single", "co-fixed-single"):
        assert f"{float(printed['full'][0]) / float(printed[variant][0]):.2f}" == printed[variant][1]


def test_where_odd_cells_seem_to_come_from() -> None:
    two_retro_blocks_and_a_single = count(GTZAN, "co-full-retro") + count(GTZAN, "co-full-retro", layers=2)
    assert f"{two_retro_blocks_and_a_single / MILLION:.2f}" == "0.39"
    assert f"{count(ELECTRICITY, 'nystrom-fixed') / MILLION:.2f}" == "8.41", "printed as nystrom"
    for sizes, printed in ((GTZAN, {"ratio": "102.57"}), (THUMOS14, {"millions": "1.43", "ratio": "11.84"})):
        n, d, m, _ = sizes
        fixed = count(sizes, "co-fixed-retro") + count(sizes, "co-fixed-single")
        renewed = renewing_retro(n, d, m) - n * m**2  # of the retroactive block alone
        operations = (m * renewed + (n - m) * fixed) / n
        found = {"millions": operations / MILLION, "ratio": count(sizes, "full", 2) / operations}
        assert all(f"{found[column]:.2f}" == cell for column, cell in printed.items())
    n, d, m, heads = ELECTRICITY
    nystrom_without_its_largest_term = count(ELECTRICITY, "nystrom") - heads * 4 * n * d * m
    assert f"{nystrom_without_its_largest_term / MILLION:.2f}" == "1.24", "printed as nystrom-fixed"


def test_corrected_single_output_row_of_continual_landmarks() -> None:
    assert f"{ratio(GTZAN, 'co-cont-single', corrected=True):.1f}" == "706.8"
    assert f"{ratio(THUMOS14, 'co-cont-single', corrected=True):.1f}" == "41.7"
    n, d, m, _ = GTZAN
    saved_when_landmarks_are_renewed = n * d * m - d * m
    saved = count(GTZAN, "co-cont-single") - count(GTZAN, "co-cont-single", corrected=True)
    assert math.isclose(saved, m / n * saved_when_landmarks_are_renewed)


def test_corrected_retro_counts_phi_delta_once() -> None:
    n, d, m, _ = THUMOS14
    saved = count(THUMOS14, "co-cont-retro") - count(THUMOS14, "co-cont-retro", corrected=True)
    assert math.isclose(saved, m / n * (n * d + 2 * n + 2 * d * m + 4 * m))


def test_corrected_single_row_of_full_attention_is_divided_once() -> None:
    n, d, _, _ = GTZAN
    saved = count(GTZAN, "co-full-single") - count(GTZAN, "co-full-single", corrected=True)
    assert saved == n * d - d
    assert f"{ratio(GTZAN, 'co-full-single', corrected=True):.1f}" == "119.7"
    assert f"{ratio(THUMOS14, 'co-full-single', corrected=True):.1f}" == "64.0"


def test_one_block_of_the_others_needs_no_correction() -> None:
    for variant in set(VARIANTS) - {"co-full-single", "co-cont-single", "co-cont-retro"}:
        assert count(GTZAN, variant, corrected=True) == count(GTZAN, variant)
        assert isinstance(count(GTZAN, variant), int)


@pytest.mark.parametrize(
    ("family", "middle"), [("co-full", "full"), ("co-cont", "nystrom"), ("co-fixed", "nystrom-fixed")]
)
def test_stack_is_retroactive_then_plain_then_single(family: str, middle: str) -> None:
    first, last = count(GTZAN, f"{family}-retro"), count(GTZAN, f"{family}-single")
    for layers, role in itertools.product((2, 3, 5), ("single", "retro")):
        expected = first + (layers - 2) * count(GTZAN, middle) + last
        assert math.isclose(count(GTZAN, f"{family}-{role}", layers), expected)


@pytest.mark.parametrize("variant", ["full", "nystrom", "nystrom-fixed"])
def test_stack_of_plain_blocks(variant: str) -> None:
    assert count(GTZAN, variant, layers=3) == 3 * count(GTZAN, variant)
    assert count(GTZAN, variant, layers=3, corrected=True) == 3 * count(GTZAN, variant)


def test_corrected_stack_cannot_reuse_sums_in_its_last_block() -> None:
    n, d, m, _ = GTZAN
    row_of_b, delta = d * m + m + 1, n * d * m + n * m + m
    products_from_the_left = m**2 + n * m + n * d
    fixed = row_of_b + delta + products_from_the_left
    gamma_and_inverse = d * m**2 + m**2 + m + 24 * m**3 + 21 * m**2
    segment_means = fixed + 2 * n * d + gamma_and_inverse
    for family, last in (("co-fixed", fixed), ("co-cont", segment_means), ("co-full", 2 * n * d + 2 * n + d)):
        retro = count(GTZAN, f"{family}-retro", corrected=True)
        assert math.isclose(count(GTZAN, f"{family}-single", 2, corrected=True), retro + last)


def test_corrected_two_layer_ratios() -> None:
    expected = {
        ("gtzan", "co-full-single"): "53.56",
        ("gtzan", "co-cont-single"): "41.15",
        ("gtzan", "co-fixed-single"): "52.09",
        ("thumos14", "co-full-single"): "28.71",
        ("thumos14", "co-cont-single"): "5.73",
        ("thumos14", "co-fixed-single"): "7.42",
    }
    for (table, variant), value in expected.items():
        assert f"{ratio(tables.SIZES[table], variant, 2, corrected=True):.2f}" == value


def test_heads_multiply_the_formula() -> None:
    for variant, layers, corrected in itertools.product(VARIANTS, (1, 2, 3), (False, True)):
        one = costs.flops(variant, 60, 32, 5, layers, corrected=corrected)
        assert math.isclose(costs.flops(variant, 60, 32, 5, layers, 8, corrected=corrected), 8 * one)


def test_fixed_landmarks_single_output_is_free_of_the_window() -> None:
    assert len({costs.flops("co-fixed-single", n, 200, 8) for n in (8, 64, 4096, 10**6)}) == 1


@pytest.mark.parametrize(
    ("variant", "order"), [("full", 2), ("nystrom", 1), ("co-fixed-retro", 1), ("co-full-retro", 1)]
)
def test_order_of_growth_with_the_window(variant: str, order: int) -> None:
    growth = costs.flops(variant, 2_000_000, 200, 8) / costs.flops(variant, 1_000_000, 200, 8)
    assert math.isclose(growth, 2**order, rel_tol=1e-3)


def test_continual_landmarks_approach_a_bound_as_the_window_grows() -> None:
    """The renewal's ndm and 3nd come m times in n steps, so they leave dm² + 3dm above the fixed landmarks' cost."""
    d, m = 200, 8
    fixed = costs.flops("co-fixed-single", 10**8, d, m)
    assert math.isclose(costs.flops("co-cont-single", 10**8, d, m), fixed + d * m**2 + 3 * d * m + m, rel_tol=1e-4)
    assert math.isclose(costs.flops("co-cont-single", 10**8, d, m, corrected=True), fixed + 3 * d * m + m, rel_tol=1e-4)


@pytest.mark.parametrize("role", ["single", "retro"])
def test_mix_is_the_update_alone_when_every_step_renews_a_landmark(role: str) -> None:
    n = m = 6
    d = 10
    updated = {
        "single": n * d * m + 3 * n * d + n + 9 * d * m + 2 * d + 24 * m**3 + 22 * m**2 + 13 * m,
        "retro": renewing_retro(n, d, m),
    }
    assert costs.flops(f"co-cont-{role}", n, d, m) == updated[role]


@pytest.mark.parametrize("variant", ["full", "co-full-single", "co-full-retro"])
def test_variants_without_landmarks_ignore_m(variant: str) -> None:
    assert costs.flops(variant, 20, 8) == costs.flops(variant, 20, 8, None) == costs.flops(variant, 20, 8, 4)


def test_unknown_variant_lists_the_nine_names() -> None:
    with pytest.raises(ValueError, match=r"variant='co-fixd' is not known; .*; did you mean co-fixed\?") as error:
        costs.flops("co-fixd", 20, 8, 4)
    assert all(name in str(error.value) for name in VARIANTS)


@pytest.mark.parametrize("family", ["co-full", "co-cont", "co-fixed"])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_family_stands_for_its_single_variant(family: str, layers: int) -> None:
    for count in (costs.flops, costs.memory, costs.executed, costs.state_bytes):
        assert count(family, 20, 8, 4, layers=layers) == count(f"{family}-single", 20, 8, 4, layers=layers)


@pytest.mark.parametrize("argument", ["n", "d", "m", "layers", "heads"])
def test_bad_number_is_named(argument: str) -> None:
    for bad in (0, -3, 2.0, "4", True):
        arguments = {"n": 20, "d": 8, "m": 4, "layers": 1, "heads": 1} | {argument: bad}
        with pytest.raises(ValueError, match=rf"{argument} must be an integer of at least 1, got {bad!r}"):
            costs.flops("nystrom", **arguments)  # type: ignore[arg-type]


def test_landmarks_are_required() -> None:
    for variant in (name for name in VARIANTS if variants.get(name).low_rank):
        with pytest.raises(ValueError, match=rf"m must be given for variant '{variant}'.*got None"):
            costs.flops(variant, 20, 8)


def test_more_landmarks_than_tokens() -> None:
    for variant in VARIANTS:
        with pytest.raises(ValueError, match="m must be at most n=20, got 21"):
            costs.flops(variant, 20, 8, 21)


def test_counts_need_only_numpy() -> None:
    ours = ("nystream.costs", "nystream.config", "nystream.ops.cut", "nystream.variants")
    package = Path(costs.__file__).parent
    files = {*package.glob("*.py"), package.parent / "ops/cut.py"}
    files |= {path for folder in ("config", "variants") for path in (package.parent / folder).glob("*.py")}
    known = {"numpy", *sys.stdlib_module_names}
    for path in files - {package / "plot.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                assert name.startswith(ours) or name.partition(".")[0] in known, (path.name, name)
