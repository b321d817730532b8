"""What is learned from a source, whatever it is: data in three parts, a task, and scores that mean something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Literal

from torch import Tensor

from nystream.config import ModelInfo
from nystream.train import StreamData
from nystream.train.tasks import Classification, Detection, Forecasting

PartName = Literal["train", "valid", "test", "all"]
SHARES = (0.8, 0.1, 0.1)  # of train, valid and test

Scores = dict[str, float]


class Problem(ABC):
    """A source that has been read.

    Attributes:
        task: what a model is trained for.
        info: what goes in and what comes out, with the reader.
        notes: what was found in the source, and what had to be left out or filled.
        short: as in `TrainConfig`: whether the start of a stream counts, before a window is full.
        dropout: what its models are trained with unless told.
    """

    task: Classification | Detection | Forecasting
    info: ModelInfo
    notes: tuple[str, ...]
    short: float
    dropout: float

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
        """Tokens of the longest stream to train on."""

    @abstractmethod
    def part(self, name: PartName, warm: int) -> StreamData:
        """One part; the first `warm` tokens of each of its streams are there to fill a window, and are not scored."""

    @abstractmethod
    def scores(self, name: PartName, warm: int, output: Tensor, y: Tensor) -> Scores:
        """Of outputs and targets of a part, as `nystream.train.predict` gives them."""

    @abstractmethod
    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        """The scores of what needs no model."""
