"""What a task brings: sizes, training, data cut into runs, baselines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from nystream.lab.reproduce.cells import Cell
from nystream.train import Classification, Detection, Forecasting, TrainConfig
from nystream.train.data import Data

MAX_SEEDS = 1000  # of a split


class CellRun(NamedTuple):
    """One of the trainings of a cell: the number of its split, its seed, and its data."""

    split: int
    seed: int
    train: Data
    valid: Data
    test: Data

    @property
    def number(self) -> int:
        """The seed of the weights and of the order of the data; no two runs of a cell share it."""
        return MAX_SEEDS * self.split + self.seed


class BaselineScores(NamedTuple):
    """Test scores of something that is no Transformer, one dictionary a split."""

    scores: Sequence[Mapping[str, float]]
    chosen: Mapping[str, Any]  # what was set, or chosen on validation


class Loaded(ABC):
    """The data of a task, cut as a cell asks for."""

    fingerprint: str  # a hash of all tokens and targets

    @abstractmethod
    def runs(self, splits: int, seeds: int) -> list[CellRun]:
        """Every split with every seed; what two runs share is one object."""

    @abstractmethod
    def baseline(self, name: str, splits: int) -> BaselineScores:
        """One of the problem's baselines."""

    def scores(self, found: dict[str, float]) -> dict[str, float]:
        """The scores of a model in the units of the table."""
        return found


class PaperProblem(ABC):
    """A task as the paper sets it; sizes are those of its table."""

    name: ClassVar[str]
    file: ClassVar[str]  # in the folder of data sets
    window: ClassVar[int]
    embed_dim: ClassVar[int]
    num_heads: ClassVar[int]
    landmarks: ClassVar[int]
    landmark_tokens: ClassVar[int]  # of the training part, that are clustered
    depths: ClassVar[tuple[int, ...]]  # numbers of blocks in the table
    laptop: ClassVar[tuple[int, int]]  # splits and seeds where none are asked for
    paper: ClassVar[tuple[int, int]]  # splits and seeds of the paper
    sweep: ClassVar[tuple[int, ...]]  # numbers of landmarks in the paper's figure
    protocols: ClassVar[tuple[str, ...]]  # ways to split
    tokens: ClassVar[tuple[str, ...]] = ("paper",)  # kinds of tokens
    output_dim: ClassVar[int]
    baselines: ClassVar[tuple[str, ...]]  # what is no Transformer, and must be beaten

    def usual(self, **changes: Any) -> Cell:
        """A cell with the sizes of the table."""
        given = {"model": "full", "layers": 1, "landmarks": None, "protocol": self.protocols[0], **changes}
        sizes = {"window": self.window, "embed_dim": self.embed_dim, "num_heads": self.num_heads}
        return Cell(task=self.name, **{**sizes, **given})

    def cell_name(self, cell: Cell) -> str:
        """A name for files."""
        few = None if cell.landmarks is None else self.landmarks
        return cell.named(self.usual(model=cell.model, layers=cell.layers, landmarks=few))

    def check_splits(self, cell: Cell, splits: int) -> None:
        """Refuse more splits than there are."""
        most = self.most_splits(cell)
        if not 1 <= splits <= most:
            allowed = "1" if most == 1 else f"1 to {most}"
            raise ValueError(f"splits={splits}, but {self.name} with protocol {cell.protocol!r} has {allowed}")

    @abstractmethod
    def most_splits(self, cell: Cell) -> int:
        """How many splits there are."""

    def path(self, folder: Path) -> Path:
        found = folder / self.file
        if not found.is_file():
            raise FileNotFoundError(f"data={folder} has no {self.file}; docs/data.md says what it holds")
        return found

    @abstractmethod
    def load(self, folder: Path, cell: Cell) -> Loaded:
        """The data in the folder of data sets."""

    @abstractmethod
    def task(self, cell: Cell) -> Classification | Detection | Forecasting: ...

    @abstractmethod
    def training(self, cell: Cell) -> TrainConfig:
        """The whole budget of a cell's training, chosen on validation data."""

    @abstractmethod
    def options(self, cell: Cell) -> dict[str, Any]:
        """Fields of ModelConfig beside attention, layers and widths of tokens and outputs."""

    def skip(self, cell: Cell) -> int:
        """Tokens at the start of every stream that are not scored."""
        return 0
