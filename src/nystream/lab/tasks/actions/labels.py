"""The 22 columns of the labels of THUMOS14, and the targets made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# fmt: off
CLASSES = (
    "Background", "BaseballPitch", "BasketballDunk", "Billiards", "CleanAndJerk", "CliffDiving", "CricketBowling",
    "CricketShot", "Diving", "FrisbeeCatch", "GolfSwing", "HammerThrow", "HighJump", "JavelinThrow", "LongJump",
    "PoleVault", "Shotput", "SoccerPenalty", "TennisSwing", "ThrowDiscus", "VolleyballSpiking", "Ambiguous",
)
# fmt: on
BACKGROUND, AMBIGUOUS = 0, 21


def targets(labels: NDArray[Any], where: str) -> Tensor:
    """Labels [T, 22] as floats, with NaN in ambiguous frames, which are neither trained on nor scored."""
    width = len(CLASSES)
    if labels.ndim != 2 or labels.shape[1] != width:
        raise ValueError(
            f"{where} has labels {list(labels.shape)}, but they must be [T, {width}], one column per class"
        )
    if labels.dtype.kind not in "biuf" or not bool(((labels == 0) | (labels == 1)).all()):
        raise ValueError(f"{where} has labels that are not all zeros and ones")
    empty = ~labels.any(1)
    if bool(empty.any()):
        raise ValueError(
            f"{where} has no class in frame {int(empty.argmax())}; "
            f"frames without an action need a one in column {BACKGROUND}, the background"
        )
    y = torch.tensor(labels.astype(np.float32))
    y[y[:, AMBIGUOUS] > 0] = torch.nan
    return y
