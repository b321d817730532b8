"""Charts of braille dots, two by four per cell of the terminal, with letters over them as marks.

The newest value is at the right edge. Lines, bars and marks differ in shape, because a terminal may have no colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

BLANK = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a cell
AXIS = 2  # width of the axis, in cells, between a label and the chart


class Panel:
    """A chart of `width` by `height` cells, with values from `low` at the bottom to `high` at the top."""

    def __init__(self, width: int, height: int, low: float, high: float) -> None:
        self.width, self.height = width, height
        self._low, self._high = low, high
        self._cells = [[0] * width for _ in range(height)]
        self._letters: dict[tuple[int, int], tuple[str, str]] = {}  # (row, column) of a cell -> letter, style
        self._styles = [[""] * width for _ in range(height)]

    @property
    def columns(self) -> int:
        """Number of values that fit side by side."""
        return 2 * self.width

    def dot(self, value: float) -> int:
        """The row of dots of a value, counted from the top; values outside the scale are clipped."""
        share = min(max((value - self._low) / (self._high - self._low), 0.0), 1.0)
        return round((1 - share) * (4 * self.height - 1))

    def line(self, values: Sequence[float], end: int, style: str) -> None:
        """Draw values as a line, oldest first, the last one in column `end`."""
        previous: int | None = None
        for column, value in self._placed(values, end):
            dot = self.dot(value)
            # Joined to the previous dot, so that steep parts have no gaps.
            self._column(column, dot, dot if previous is None else previous, style)
            previous = dot

    def bars(self, values: Sequence[float], end: int, base: float, style: str) -> None:
        """Draw values as bars from `base`, which is drawn as a line."""
        floor = self.dot(base)
        for column in range(self.columns):
            self._column(column, floor, floor, "dim")
        for column, value in self._placed(values, end):
            self._column(column, self.dot(value), floor, style)

    def mark(self, column: int, value: float, letter: str, style: str) -> None:
        if 0 <= column < self.columns:
            self._letters[self.dot(value) // 4, column // 2] = letter, style

    def rows(self, labels: Mapping[float, str], margin: int) -> list[Text]:
        """The lines of text, with the labels of values in a margin of `margin` cells on the left."""
        label_rows = {self.dot(value) // 4: text for value, text in labels.items()}
        lines = []
        for row in range(self.height):
            label = label_rows.get(row, "")
            line = Text(f"{label:>{margin - AXIS}} {'┤' if label else '│'}", style="dim")
            for column, (cell, style) in enumerate(zip(self._cells[row], self._styles[row], strict=True)):
                letter, own = self._letters.get((row, column), (chr(BLANK + cell) if cell else " ", style))
                line.append(letter, style=f"not dim {own}" if own != "dim" else own)
            lines.append(line)
        return lines

    def _placed(self, values: Sequence[float], end: int) -> list[tuple[int, float]]:
        """The values that fit, with their columns."""
        shown = values[max(len(values) - end - 1, 0) :]
        return [(end + 1 - len(shown) + place, value) for place, value in enumerate(shown)]

    def _column(self, column: int, start: int, end: int, style: str) -> None:
        for dot in range(min(start, end), max(start, end) + 1):
            self._cells[dot // 4][column // 2] |= DOTS[dot % 4][column % 2]
            self._styles[dot // 4][column // 2] = style


def ticks(low: float, high: float, max_ticks: int) -> list[float]:
    """Round numbers within the bounds, at most `max_ticks` of them but at least two."""
    whole = 10.0 ** math.floor(math.log10(high - low))
    for step in (whole * share for share in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)):
        numbers = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(numbers) <= max(max_ticks, 2):
            break
    return numbers


def round_up(value: float) -> float:
    """Round up to 1, 1.5, 2, 3, 5, 7 or 10 times a power of ten."""
    whole = 10.0 ** math.floor(math.log10(value))
    return next(whole * share for share in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0) if value <= whole * share * (1 + 1e-9))
