"""From the outputs of a model to forecasts, in the user's units: for scores, answers and tables of predictions alike.

A model forecasts the change of its targets since the last known values, the base.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def changes(output: NDArray[Any], scale: Array | None = None) -> Array:
    """Return the forecast changes [..., outputs].

    Args:
        output: The outputs of a model [..., outputs].
        scale: The unit of the changes [..., targets]; None for the user's units.
    """
    output = output.astype(np.float64)
    return output if scale is None else scale * output


def forecasts(output: NDArray[Any], base: Array, scale: Array | None = None) -> Array:
    """Return the forecasts [..., outputs], given the last known values [..., targets]; others as in `changes`."""
    return base + changes(output, scale)
