"""Errors of forecasts, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import Scores

ERRORS = ("mean absolute error", "root mean squared error")
RELATIVE = " relative to persistence, mean over targets"  # of an error


def errors(output: NDArray[np.float64], y: NDArray[np.float64], targets: Sequence[str]) -> Scores:
    """Mean absolute and root mean squared error of every target, in the user's units.

    For several targets, also the means of their ratios to the errors of persistence, which have no units; NaN if
    persistence is exact for one of them.
    """
    ours, naive = two_errors(output, y), two_errors(np.zeros_like(y), y)
    scores: Scores = {}
    for place, name in enumerate(targets):
        of = f" of {name}" if len(targets) > 1 else ""
        scores |= {f"{kind}{of}": float(values[place]) for kind, values in zip(ERRORS, ours, strict=True)}
    if len(targets) > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(naive > 0, ours / naive, np.nan).mean(1)
        scores |= {f"{kind}{RELATIVE}": float(ratio) for kind, ratio in zip(ERRORS, ratios, strict=True)}
    return scores


def two_errors(output: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute and root mean squared errors [2, targets]; NaN for a target that is never known."""
    known = ~np.isnan(y)
    error = np.where(known, output - y, 0.0)
    with np.errstate(invalid="ignore"):
        return np.stack([np.abs(error).sum(0) / known.sum(0), np.sqrt(np.square(error).sum(0) / known.sum(0))])
