"""Lines drawn with the dots of braille characters: two by four of them a cell of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

BLANK = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a cell


def chart(
    lines: Sequence[tuple[Sequence[float], str]],
    width: int,
    height: int,
    low: float,
    high: float,
    fraction: str = ".0f",
) -> list[Text]:
    """`height` lines of text, `width` cells wide, the axis on the left included.

    Args:
        lines: values, oldest first, and a style for each; a later line is drawn over an earlier one. What does not fit
            is left out at the old end.
        width, height: cells.
        low, high: values at the bottom and at the top.
        fraction: how the numbers at the axis are written.
    """
    labels = [format(high - (high - low) * row / max(height - 1, 1), fraction) for row in range(height)]
    margin = max(map(len, labels)) + 2
    inner = max(width - margin, 1)
    cells = [[0] * inner for _ in range(height)]
    styles = [[""] * inner for _ in range(height)]
    for values, style in lines:
        shown = values[-2 * inner :]
        before: int | None = None
        for column, value in enumerate(shown):
            share = min(max((value - low) / (high - low), 0.0), 1.0)
            dot = round((1 - share) * (4 * height - 1))
            # Steep parts are joined, so that a line stays a line.
            reach = range(dot, dot + 1) if before is None else range(min(dot, before), max(dot, before) + 1)
            for place in reach:
                row = place // 4
                cells[row][column // 2] |= DOTS[place % 4][column % 2]
                styles[row][column // 2] = style
            before = dot
    found = []
    for row in range(height):
        labelled = labels[row] if row % 4 == 0 or row == height - 1 else ""
        line = Text(f"{labelled:>{margin - 2}} ", style="dim")
        line.append("┤" if labelled else "│", style="dim")
        for cell, style in zip(cells[row], styles[row], strict=True):
            line.append(chr(BLANK + cell) if cell else " ", style=style)
        found.append(line)
    return found
