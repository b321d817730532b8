"""From the outputs of a model to forecasts, in the user's units: for scores, answers and tables of predictions alike.

A model forecasts the change of its targets since the last known values, the base. Its quantiles are sorted here, so
that they never cross; sorting never makes the pinball loss larger. Then they are raised to the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config import ModelInfo

Array = NDArray[np.float64]


class Layout(NamedTuple):
    """What the outputs of a model are: target after target, of each its horizons, of each its quantiles.

    Attributes:
        targets: The number of targets.
        horizons: The numbers of rows ahead; none for a single one.
        quantiles: The levels of quantiles; none for a single number.
        minimum: The least value of a forecast; None if there is none.
    """

    targets: int
    horizons: tuple[int, ...] = ()
    quantiles: tuple[float, ...] = ()
    minimum: float | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of targets, horizons and quantiles."""
        return self.targets, max(1, len(self.horizons)), max(1, len(self.quantiles))

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape without horizons and quantiles that there are none of."""
        there = (True, bool(self.horizons), bool(self.quantiles))
        return tuple(size for size, kept in zip(self.shape, there, strict=True) if kept)

    @property
    def plain(self) -> bool:
        """Whether outputs are forecasts as they are, one number for each target."""
        return not self.horizons and not self.quantiles and self.minimum is None


def layout_of(info: ModelInfo, output_dim: int) -> Layout:
    """The layout of the outputs of a model."""
    each = max(1, len(info.horizons)) * max(1, len(info.quantiles))
    return Layout(output_dim // each, info.horizons, info.quantiles, info.minimum)


def changes(output: NDArray[Any], layout: Layout, scale: Array | None = None) -> Array:
    """Return the forecast changes [..., targets, horizons, quantiles].

    Args:
        output: The outputs of a model [..., outputs].
        layout: What they are.
        scale: The unit of the changes [..., targets]; None for the user's units.
    """
    change = output.astype(np.float64).reshape(*output.shape[:-1], *layout.shape)
    if scale is not None:
        change = scale[..., None, None] * change
    return np.sort(change, -1) if len(layout.quantiles) > 1 else change


def forecasts(output: NDArray[Any], layout: Layout, base: Array, scale: Array | None = None) -> Array:
    """Return the forecasts [..., targets, horizons, quantiles].

    `base` has the last known values [..., targets]; the other arguments are those of `changes`.
    """
    level = base[..., None, None] + changes(output, layout, scale)
    return level if layout.minimum is None else np.maximum(level, layout.minimum)


def without_axes(values: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return values [..., targets, horizons, quantiles] without the axes that have nothing to tell apart."""
    return values.reshape(*values.shape[:-3], *layout.axes)


def has_middle(quantiles: Sequence[float]) -> bool:
    """Whether quantiles have a median, or are even on both sides of it; single numbers count as one."""
    count = len(quantiles)
    return not count or 0.5 in quantiles or abs(quantiles[(count - 1) // 2] + quantiles[count // 2] - 1) < 1e-6


def middle(values: Array, quantiles: Sequence[float]) -> Array:
    """Return the forecasts [...] that stand for quantiles [..., quantiles]: the median, or what is in the middle.

    Of an even number of levels without the median, it is the mean of the two in the middle.
    """
    if 0.5 in quantiles:
        return values[..., list(quantiles).index(0.5)]
    count = values.shape[-1]
    first, second = values[..., (count - 1) // 2], values[..., count // 2]
    return first if count % 2 else (first + second) / 2
