"""Labels beside points, placed so that none overlaps another label or point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Offsets of a label from its point, in typographic points; the first that is free is used.
NEAR = ((7, 0, "left"), (-7, 0, "right"), (0, 8, "center"), (0, -8, "center"))
FAR = tuple(
    (dx * reach, dy * reach, side)
    for reach in (11, 17, 24, 32, 42, 54, 68)
    for dx, dy, side in (
        (1, 0.6, "left"), (1, -0.6, "left"), (-1, 0.6, "right"), (-1, -0.6, "right"),
        (0.3, 1, "left"), (0.3, -1, "left"), (-0.3, 1, "right"), (-0.3, -1, "right"),
    )
)  # fmt: skip

# In typographic points: half the side of a marker; the gap between two labels side by side, which would otherwise read
# as one; the largest distance of a label from its point without a line to it.
MARKER, GAP, MAX_WITHOUT_LINE = 5, 4, 12

Spot = tuple[float, float]
Segment = tuple[Spot, Spot]
Box = tuple[float, float, float, float]


class Label(NamedTuple):
    """A possible place of a label: its offset (dx, dy) in typographic points; the rest is in pixels."""

    dx: float
    dy: float
    side: str
    box: Box
    line: Segment | None  # from its point, if it is far away


def place(figure: Any, axis: Any, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the texts of points (x, y, text, colour) beside them; a thin line leads to a label that is far away.

    Call this last: anything that is added to the figure later would move the points under the labels.
    """
    if not points:
        return
    figure.canvas.draw()  # the layout decides where a point is
    renderer = figure.canvas.get_renderer()
    inside = axis.get_window_extent(renderer)
    pixels = figure.dpi / 72
    at: list[Spot] = [tuple(axis.transData.transform((x, y))) for x, y, *_ in points]
    markers = [_grown((*spot, *spot), MARKER * pixels, MARKER * pixels) for spot in at]
    labels: list[Box] = []
    lines: list[Segment] = []
    # Points with close neighbours first: they have the least choice.
    for i in sorted(range(len(points)), key=lambda i: sorted(_squared_distance(at[i], other) for other in at)[1:3]):
        x, y, text, colour = points[i]
        style = {"textcoords": "offset points", "va": "center", "fontsize": 7.5, "color": colour}
        sample = axis.annotate(text, (x, y), xytext=(0, 0), ha="left", **style)
        size = sample.get_window_extent(renderer)
        sample.remove()
        taken = [*markers[:i], *markers[i + 1 :], *labels]
        label = _best(_possible(at[i], size, pixels), taken, lines, inside)
        labels.append(_grown(label.box, GAP * pixels, 0))
        lines += [label.line] if label.line else []
        arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        written = axis.annotate(
            text, (x, y), xytext=label[:2], ha=label.side, arrowprops=arrow if label.line else None, **style
        )
        written.set_in_layout(False)  # otherwise a label outside the axis would move the points


def _possible(point: Spot, size: Any, pixels: float) -> Iterator[Label]:
    for dx, dy, side in (*NEAR, *FAR):
        x, y = point[0] + dx * pixels, point[1] + dy * pixels
        left = x - {"left": 0, "center": size.width / 2, "right": size.width}[side]
        box = _grown((left, y - size.height / 2, left + size.width, y + size.height / 2), 1, 1)
        yield Label(dx, dy, side, box, (point, (x, y)) if abs(dx) + abs(dy) > MAX_WITHOUT_LINE else None)


def _best(possible: Iterator[Label], taken: Sequence[Box], lines: Sequence[Segment], inside: Any) -> Label:
    """The first place without a clash, or else the one with the fewest.

    Overlapping text is worse than a line that crosses something, which is unavoidable for a point beneath another.
    """

    def clashes(label: Label) -> tuple[int, int]:
        text = sum(_overlap(label.box, box) for box in taken) + (not _within(label.box, inside))
        crossed = sum(_crosses(line, label.box) for line in lines)
        return text, crossed + (sum(_crosses(label.line, box) for box in taken) if label.line else 0)

    best = next(possible)
    fewest = clashes(best)
    for label in possible:
        if fewest == (0, 0):
            break
        if (count := clashes(label)) < fewest:
            best, fewest = label, count
    return best


def _grown(box: Box, wide: float, high: float) -> Box:
    return box[0] - wide, box[1] - high, box[2] + wide, box[3] + high


def _within(box: Box, frame: Any) -> bool:
    return bool(box[0] >= frame.x0 and box[1] >= frame.y0 and box[2] <= frame.x1 and box[3] <= frame.y1)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(line: Segment, box: Box, steps: int = 16) -> bool:
    (x, y), (end, top) = line
    along = ((x + (end - x) * k / steps, y + (top - y) * k / steps) for k in range(steps + 1))
    return any(box[0] < a < box[2] and box[1] < b < box[3] for a, b in along)


def _squared_distance(one: Spot, other: Spot) -> float:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2
