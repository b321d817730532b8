"""Errors of forecasts, in the user's units, and how often their quantiles hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nystream.data.forecast_options import level_name
from nystream.data.forecast_values import has_middle, middle
from nystream.data.problem import Scores
from nystream.data.table import counted

Array = NDArray[np.float64]

PINBALL = "pinball loss"
ERRORS = ("mean absolute error", "root mean squared error")
RELATIVE = " relative to persistence, mean over targets"  # of an error


def errors(
    output: Array,
    y: Array,
    naive: Array,
    targets: Sequence[str],
    horizons: Sequence[int] = (),
    quantiles: Sequence[float] = (),
) -> Scores:
    """Mean absolute and root mean squared error of every target, in the user's units.

    For several targets, also the means of their ratios to the errors of persistence, which have no units; NaN if
    persistence is exact for one of them. For quantiles, first the mean of their pinball losses, the errors of the
    median (none if there is nothing like it), and then the shares of true values up to each quantile and within the
    outer ones. For several horizons, all of these are means over horizons, and those of every horizon follow.

    Args:
        output: Forecast changes [N, targets, horizons, quantiles].
        y: True changes [N, targets, horizons]; NaN if unknown.
        naive: The changes of persistence, likewise.
        targets: The names of the targets.
        horizons: The numbers of rows ahead, if there are several.
        quantiles: The levels of the quantiles; none if the forecasts are single numbers.
    """
    ours, naive = two_errors(middle(output, quantiles), y), two_errors(np.broadcast_to(naive, y.shape), y)
    kinds = dict(zip(ERRORS, ours, strict=True)) if has_middle(quantiles) else {}  # [targets, horizons] each
    if quantiles:
        kinds = {PINBALL: pinball_loss(output, y, quantiles), **kinds, **shares(output, y, quantiles)}
    scores: Scores = {}
    for place, name in enumerate(targets):
        scores |= {f"{kind}{of(name, targets)}": float(values[place].mean()) for kind, values in kinds.items()}
    if len(targets) > 1 and has_middle(quantiles):
        means, naive = ours.mean(2), naive.mean(2)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(naive > 0, means / naive, np.nan).mean(1)
        scores |= {f"{kind}{RELATIVE}": float(ratio) for kind, ratio in zip(ERRORS, ratios, strict=True)}
    for column, rows in enumerate(horizons):
        for place, name in enumerate(targets):
            where = f"{ahead(rows)}{of(name, targets)}"
            scores |= {f"{kind}{where}": float(values[place, column]) for kind, values in kinds.items()}
    return scores


def ahead(rows: int) -> str:
    """What is added to the name of a score for one of several horizons."""
    return f" ({counted(rows, 'row')} ahead)"


def of(name: str, targets: Sequence[str]) -> str:
    return f" of {name}" if len(targets) > 1 else ""


def two_errors(output: Array, y: Array) -> Array:
    """Mean absolute and root mean squared errors [2, ...] over the first axis; NaN where nothing is known."""
    known = ~np.isnan(y)
    error = np.where(known, output - y, 0.0)
    with np.errstate(invalid="ignore"):
        return np.stack([np.abs(error).sum(0) / known.sum(0), np.sqrt(np.square(error).sum(0) / known.sum(0))])


def pinball_losses(output: Array, y: Array, quantiles: Sequence[float]) -> Array:
    """Pinball losses [N, ...] of quantiles [N, ..., quantiles], means over the quantiles; NaN where y is unknown."""
    error, levels = y[..., None] - output, np.array(quantiles)
    return np.asarray(np.maximum(levels * error, (levels - 1) * error).mean(-1))


def pinball_loss(output: Array, y: Array, quantiles: Sequence[float]) -> Array:
    """Mean pinball losses [...] of quantiles [N, ..., quantiles], over known y [N, ...] and over the quantiles."""
    known = ~np.isnan(y)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, pinball_losses(output, y, quantiles), 0.0).sum(0) / known.sum(0))


def shares(output: Array, y: Array, quantiles: Sequence[float]) -> dict[str, Array]:
    """The shares [targets, horizons] of known y that are at most each quantile, and within the outer ones."""
    known = ~np.isnan(y)

    def share(true: NDArray[np.bool_]) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray((true & known).sum(0) / known.sum(0))

    found = {
        f"share up to quantile {level_name(level)}": share(y <= output[..., place])
        for place, level in enumerate(quantiles)
    }
    if len(quantiles) > 1:
        first, last = level_name(quantiles[0]), level_name(quantiles[-1])
        inside = (output[..., 0] <= y) & (y <= output[..., -1])
        found[f"share from quantile {first} to {last}"] = share(inside)
    return found
