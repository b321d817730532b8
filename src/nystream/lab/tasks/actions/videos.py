"""The videos of THUMOS14, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.train import StreamData

# fmt: off
CLASSES = (
    "Background", "BaseballPitch", "BasketballDunk", "Billiards", "CleanAndJerk", "CliffDiving", "CricketBowling",
    "CricketShot", "Diving", "FrisbeeCatch", "GolfSwing", "HammerThrow", "HighJump", "JavelinThrow", "LongJump",
    "PoleVault", "Shotput", "SoccerPenalty", "TennisSwing", "ThrowDiscus", "VolleyballSpiking", "Ambiguous",
)
# fmt: on
BACKGROUND, AMBIGUOUS = 0, 21


@dataclass(frozen=True)
class Videos:
    """Videos as streams of tokens, with the actions of every token: floats [T, 22], NaN where ambiguous."""

    names: tuple[str, ...]
    data: StreamData

    def __post_init__(self) -> None:
        if len(self.names) != len(self.data):
            raise ValueError(f"names has {len(self.names)} videos, but data has {len(self.data)}")

    def subset(self, index: Sequence[int]) -> Videos:
        """Select videos by index."""
        return Videos(tuple(self.names[i] for i in index), self.data.subset(index))


@dataclass(frozen=True)
class Actions:
    """THUMOS14. Its authors call these training videos "validation": their training set has clips of one action."""

    train: Videos
    test: Videos
    token_seconds: float  # from one token to the next
    classes: tuple[str, ...] = CLASSES

    def split(self, seed: int, valid: float = 0.15) -> tuple[StreamData, StreamData, StreamData]:
        """Train, valid and test data: a random share of the training videos is set aside for validation."""
        train, validation = self.split_videos(seed, valid)
        return train.data, validation.data, self.test.data

    def split_videos(self, seed: int, valid: float = 0.15) -> tuple[Videos, Videos]:
        """The training and validation videos, each in the order of the file."""
        count = len(self.train.names)
        cut = round(valid * count) if 0.0 < valid < 1.0 else 0
        if not 0 < cut < count:
            raise ValueError(f"valid={valid!r} must leave some of the {count} training videos on both sides")
        order = np.random.default_rng(seed).permutation(count)
        return self.train.subset(np.sort(order[cut:]).tolist()), self.train.subset(np.sort(order[:cut]).tolist())


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
