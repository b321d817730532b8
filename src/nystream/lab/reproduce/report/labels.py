"""Labels beside points, placed so that none overlaps another label or point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Offsets of a label from its point, in typographic points; the first that is free is used: beside it, then further off.
OFFSETS = (
    (7, 0, "left"), (-7, 0, "right"), (0, 8, "center"), (0, -8, "center"),
    *(
        (dx * reach, dy * reach, side)
        for reach in (11, 17, 24, 32, 42, 54, 68)
        for dx, dy, side in (
            (1, 0.6, "left"), (1, -0.6, "left"), (-1, 0.6, "right"), (-1, -0.6, "right"),
            (0.3, 1, "left"), (0.3, -1, "left"), (-0.3, 1, "right"), (-0.3, -1, "right"),
        )
    ),
)  # fmt: skip

# In typographic points: half the side of a marker; the gap between two labels side by side, which would otherwise read
# as one; the largest distance of a label from its point without a line to it.
MARKER, GAP, MAX_WITHOUT_LINE = 5, 4, 12


class Label(NamedTuple):
    """A possible place of a label: its offset (dx, dy) in typographic points; the rest is in pixels."""

    dx: float
    dy: float
    side: str
    box: Any  # a Bbox
    line: Any  # a Path from its point, if it is far away, or None


def place(
    figure: Any,
    axis: Any,
    points: Sequence[tuple[float, float, str, str]],
    strokes: Sequence[tuple[tuple[float, float], tuple[float, float]]] = (),
) -> None:
    """Write the texts of points (x, y, text, colour) beside them; a thin line leads to a label that is far away.

    Labels stay off the `strokes`, lines from (x, y) to (x, y), where there is room. Call this last: anything that is
    added to the figure later would move the points under the labels.
    """
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    if not points:
        return
    figure.canvas.draw()  # the layout decides where a point is
    renderer = figure.canvas.get_renderer()
    inside = axis.get_window_extent(renderer)
    pixels = figure.dpi / 72
    at = axis.transData.transform([(x, y) for x, y, *_ in points])
    markers = [Bbox([spot, spot]).padded(MARKER * pixels) for spot in at]
    labels: list[Any] = []
    lines = [Path(axis.transData.transform(stroke)) for stroke in strokes]
    # Points with close neighbours first: they have the least choice.
    for i in sorted(range(len(points)), key=lambda i: sorted(((at - at[i]) ** 2).sum(1))[1:3]):
        x, y, text, colour = points[i]
        style = {"textcoords": "offset points", "va": "center", "fontsize": 7.5, "color": colour}
        sample = axis.annotate(text, (x, y), xytext=(0, 0), ha="left", **style)
        size = sample.get_window_extent(renderer)
        sample.remove()
        taken = [*markers[:i], *markers[i + 1 :], *labels]
        label = _best(_possible(at[i], size, pixels), taken, lines, inside)
        labels.append(label.box.padded(GAP * pixels, 0))
        lines += [] if label.line is None else [label.line]
        arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        written = axis.annotate(
            text, (x, y), xytext=label[:2], ha=label.side, arrowprops=None if label.line is None else arrow, **style
        )
        written.set_in_layout(False)  # otherwise a label outside the axis would move the points


def _possible(point: Any, size: Any, pixels: float) -> Iterator[Label]:
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    for dx, dy, side in OFFSETS:
        x, y = point[0] + dx * pixels, point[1] + dy * pixels
        left = x - {"left": 0, "center": size.width / 2, "right": size.width}[side]
        box = Bbox.from_bounds(left, y - size.height / 2, size.width, size.height).padded(1)
        yield Label(dx, dy, side, box, Path([point, (x, y)]) if abs(dx) + abs(dy) > MAX_WITHOUT_LINE else None)


def _best(possible: Iterator[Label], taken: Sequence[Any], lines: Sequence[Any], inside: Any) -> Label:
    """The first place without a clash, or else the one with the fewest.

    Overlapping text is worse than a line that crosses something, which is unavoidable for a point beneath another.
    """

    def clashes(label: Label) -> tuple[int, int]:
        box = label.box
        outside = box.x0 < inside.x0 or box.y0 < inside.y0 or box.x1 > inside.x1 or box.y1 > inside.y1
        crossed = sum(line.intersects_bbox(box) for line in lines)
        if label.line is not None:
            crossed += sum(label.line.intersects_bbox(other) for other in taken)
        return box.count_overlaps(taken) + outside, crossed

    best = next(possible)
    fewest = clashes(best)
    for label in possible:
        if fewest == (0, 0):
            break
        if (count := clashes(label)) < fewest:
            best, fewest = label, count
    return best
