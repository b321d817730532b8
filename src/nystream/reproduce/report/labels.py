"""Labels beside points, none on another label or point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Where a label may stand, in points from its own, the first that is free: beside it, above, below, then further off.
NEAR = ((7, 0, "left"), (-7, 0, "right"), (0, 8, "center"), (0, -8, "center"))
FAR = tuple(
    (dx * reach, dy * reach, side)
    for reach in (11, 17, 24, 32, 42, 54, 68)
    for dx, dy, side in (
        (1, 0.6, "left"), (1, -0.6, "left"), (-1, 0.6, "right"), (-1, -0.6, "right"),
        (0.3, 1, "left"), (0.3, -1, "left"), (-0.3, 1, "right"), (-0.3, -1, "right"),
    )
)  # fmt: skip


def place(figure: Any, axis: Any, points: Sequence[tuple[float, float, str, str]]) -> None:
    """Write (x, y, text, colour) beside the points of an axis; a thin line leads to a label that is far off."""
    if not points:
        return
    figure.canvas.draw()  # the layout, which decides where a point is
    renderer = figure.canvas.get_renderer()
    inside = axis.get_window_extent(renderer)
    pixels = figure.dpi / 72
    radius = 5 * pixels
    at = [tuple(axis.transData.transform((x, y))) for x, y, *_ in points]
    taken: list[tuple[float, float, float, float]] = [(x - radius, y - radius, x + radius, y + radius) for x, y in at]
    # Crowded points first: they have the least choice.
    order = sorted(range(len(points)), key=lambda i: sorted(_far(at[i], other) for other in at)[1:3])
    for i in order:
        x, y, text, colour = points[i]
        others = [box for j, box in enumerate(taken) if j != i]
        style = {"textcoords": "offset points", "va": "center", "fontsize": 7.5, "color": colour}
        sample = axis.annotate(text, (x, y), xytext=(0, 0), ha="left", **style)
        size = sample.get_window_extent(renderer)
        sample.remove()
        fewest = len(taken) + 2
        for dx, dy, side in (*NEAR, *FAR):
            left = at[i][0] + dx * pixels - {"left": 0, "center": size.width / 2, "right": size.width}[side]
            low = at[i][1] + dy * pixels - size.height / 2
            box = (left - 1, low - 1, left + size.width + 1, low + size.height + 1)
            clashes = sum(_overlap(box, other) for other in others) + (not _within(box, inside))
            if clashes < fewest:
                fewest, chosen = clashes, (dx, dy, side, box)
            if not clashes:
                break
        dx, dy, side, box = chosen
        taken.append(box)
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        arrow = line if abs(dx) + abs(dy) > 12 else None
        axis.annotate(text, (x, y), xytext=(dx, dy), ha=side, arrowprops=arrow, **style)


def _within(box: tuple[float, ...], frame: Any) -> bool:
    return box[0] >= frame.x0 and box[1] >= frame.y0 and box[2] <= frame.x1 and box[3] <= frame.y1


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _far(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2
