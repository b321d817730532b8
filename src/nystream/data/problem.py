"""What a source is used for: training, validation and test data, a task, and its scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Literal

from torch import Tensor

from nystream.config import ModelInfo
from nystream.data.class_scores import ClassScores
from nystream.train import StreamData
from nystream.train.tasks import Classification, Detection, Forecasting

PartName = Literal["train", "valid", "test", "all"]
HeldOut = Literal["valid", "test"]
HELD_OUT: tuple[HeldOut, ...] = ("valid", "test")
SHARES = (0.8, 0.1, 0.1)  # of training, validation and test data

Scores = dict[str, float]


class Problem(ABC):
    """A source that has been read.

    Attributes:
        task: What a model is trained for.
        info: Inputs and outputs of the model, and the reader.
        notes: What was found in the source, and what was dropped or filled.
        short: As in `TrainConfig`: whether the start of a stream counts, before a window is full.
        dropout: The default dropout of its models.
        parts_scored: The parts that a trained model is scored on.
    """

    task: Classification | Detection | Forecasting
    info: ModelInfo
    notes: tuple[str, ...]
    short: float
    dropout: float
    parts_scored: tuple[PartName, ...] = ("valid", "test")

    @property
    def input_dim(self) -> int:
        return len(self.info.inputs)

    @property
    def output_dim(self) -> int:
        return len(self.info.labels)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all tokens and targets."""
        return self.part("all", 0).fingerprint

    @property
    @abstractmethod
    def longest(self) -> int:
        """The number of tokens of the longest training stream."""

    @property
    def usual(self) -> int:
        """The number of tokens of a usual training stream, for which the window is chosen."""
        return self.longest

    @abstractmethod
    def part(self, name: PartName, warm: int) -> StreamData:
        """Return one part. The first `warm` tokens of each of its streams only fill a window and are not scored."""

    def fills(self, name: PartName, warm: int) -> bool:
        """Whether a part that is a source of its own has more than `warm` tokens."""
        return True

    @abstractmethod
    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        """Score outputs and targets of a part, as `nystream.train.predict` returns them."""

    @abstractmethod
    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        """Return the scores of baselines that need no model."""

    def class_scores(self, name: PartName, output: Tensor) -> ClassScores | None:
        """Return the scores of every class, of outputs for a whole part; None if there are no classes."""
        return None
