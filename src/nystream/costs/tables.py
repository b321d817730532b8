"""The operation counts in the paper's three result tables, and explanations of those that its formulas do not give.

A ratio is the operations of `full` divided by those of the variant, with the same number of blocks. A stack of two is
named after its last block.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nystream.costs.flops import flops


class TableSizes(NamedTuple):
    """The sizes behind a table of the paper. `d` is the width in the formula, which is multiplied by `heads`."""

    n: int
    d: int
    m: int
    heads: int


class PrintedCell(NamedTuple):
    """A printed number, and the formula's at the same precision; `why` explains a difference, or is empty."""

    variant: str
    layers: int
    column: str
    printed: str
    formula: str
    corrected: str
    why: str

    @property
    def follows(self) -> bool:
        return self.printed == self.formula


SIZES: Mapping[str, TableSizes] = {
    "gtzan": TableSizes(120, 192, 4, 1),
    "thumos14": TableSizes(64, 1024, 16, 1),
    "electricity": TableSizes(64, 512, 4, 16),
}

# (variant, layers) -> millions of operations and ratio, as printed.
PRINTED: Mapping[str, Mapping[tuple[str, int], tuple[str, str]]] = {
    "gtzan": {
        ("full", 1): ("5.57", "1"),
        ("full", 2): ("11.13", "1"),
        ("co-full-single", 1): ("0.07", "80.26"),
        ("co-full-single", 2): ("0.39", "48.26"),
        ("nystrom", 1): ("0.42", "13.17"),
        ("nystrom", 2): ("0.85", "13.17"),
        ("nystrom-fixed", 1): ("0.37", "14.98"),
        ("nystrom-fixed", 2): ("0.74", "14.98"),
        ("co-cont-single", 1): ("0.01", "509.66"),
        ("co-cont-single", 2): ("0.11", "102.57"),
        ("co-fixed-single", 1): ("0.005", "1028"),
        ("co-fixed-single", 2): ("0.10", "108.92"),
    },
    "thumos14": {
        ("full", 1): ("8.46", "1"),
        ("full", 2): ("16.92", "1"),
        ("co-full-single", 1): ("0.20", "42.99"),
        ("co-full-single", 2): ("0.65", "25.88"),
        ("nystrom", 1): ("4.71", "1.80"),
        ("nystrom", 2): ("9.42", "1.80"),
        ("nystrom-fixed", 1): ("4.21", "2.01"),
        ("nystrom-fixed", 2): ("8.43", "2.01"),
        ("co-cont-single", 1): ("0.46", "18.35"),
        ("co-cont-single", 2): ("1.43", "11.84"),
        ("co-fixed-single", 1): ("0.12", "73.52"),
        ("co-fixed-single", 2): ("1.26", "13.40"),
    },
    "electricity": {
        ("full", 1): ("67.70", "1"),
        ("co-full-single", 1): ("1.57", "43.12"),
        ("nystrom", 1): ("8.41", "8.05"),
        ("nystrom-fixed", 1): ("1.24", "54.60"),
        ("co-cont-single", 1): ("0.47", "144.04"),
        ("co-fixed-single", 1): ("0.23", "294.35"),
    },
}

ROUNDED = "the quotient of two rounded cells"
RETRO_ALONE = "as if (m/n)(retro - nm²) + (1 - m/n)(both), a guess: no renewal in the single block"

# (table, variant, layers, column) -> where the printed number seems to come from.
WHY: Mapping[tuple[str, str, int, str], str] = {
    ("gtzan", "co-full-single", 2, "millions"): "two retroactive blocks and a single one; its own ratio follows",
    ("gtzan", "co-cont-single", 2, "ratio"): RETRO_ALONE,
    ("thumos14", "co-cont-single", 2, "millions"): RETRO_ALONE,
    ("thumos14", "co-cont-single", 2, "ratio"): RETRO_ALONE,
    ("electricity", "co-full-single", 1, "ratio"): ROUNDED,
    ("electricity", "nystrom", 1, "millions"): "the formula of nystrom-fixed",
    ("electricity", "nystrom", 1, "ratio"): "the formula of nystrom-fixed",
    ("electricity", "nystrom-fixed", 1, "millions"): "the formula of nystrom without its 4ndm",
    ("electricity", "nystrom-fixed", 1, "ratio"): "67.70 / 1.24: " + ROUNDED,
    ("electricity", "co-cont-single", 1, "ratio"): ROUNDED,
    ("electricity", "co-fixed-single", 1, "ratio"): ROUNDED,
}


def cells(table: str) -> Iterator[PrintedCell]:
    """Yield every printed count and ratio of a table, row by row."""
    if table not in SIZES:
        raise ValueError(f"table must be one of {', '.join(SIZES)}, got {table!r}")
    n, d, m, heads = SIZES[table]
    for (variant, layers), printed in PRINTED[table].items():
        full = flops("full", n, d, m, layers, heads)
        paper, ours = (flops(variant, n, d, m, layers, heads, corrected=corrected) for corrected in (False, True))
        values = {"millions": (paper / 1e6, ours / 1e6), "ratio": (full / paper, full / ours)}
        for column, cell in zip(values, printed, strict=True):
            formula, corrected = (rounded_like(cell, value) for value in values[column])
            yield PrintedCell(
                variant, layers, column, cell, formula, corrected, WHY.get((table, variant, layers, column), "")
            )


def rounded_like(printed: str, value: float) -> str:
    """Format `value` with as many decimals as a printed number."""
    return f"{value:.{len(printed.partition('.')[2])}f}"
