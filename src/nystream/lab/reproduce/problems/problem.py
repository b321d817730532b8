"""What a task defines: sizes, training, data split into runs, and baselines."""

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
    """Test scores of a baseline, one dictionary per split."""

    scores: Sequence[Mapping[str, float]]
    chosen: Mapping[str, Any]  # its parameters, as set or as chosen on validation data


class Loaded(ABC):
    """The data of a task, with the protocol and the tokens of a cell."""

    fingerprint: str  # a hash of all tokens and targets

    @abstractmethod
    def runs(self, splits: int, seeds: int) -> list[CellRun]:
        """A run for every split and seed; runs of one split share their data objects."""

    @abstractmethod
    def baseline(self, name: str, splits: int) -> BaselineScores:
        """One of the problem's baselines."""

    def scores(self, scores: dict[str, float]) -> dict[str, float]:
        """The scores of a model in the units of the table."""
        return scores


class PaperProblem(ABC):
    """A task of the paper, with the sizes of its table."""

    name: ClassVar[str]
    file: ClassVar[str]  # in the folder of data sets
    window: ClassVar[int]
    embed_dim: ClassVar[int]
    num_heads: ClassVar[int]
    landmarks: ClassVar[int]
    landmark_tokens: ClassVar[int]  # training tokens that are clustered
    depths: ClassVar[tuple[int, ...]]  # numbers of blocks in the table
    laptop: ClassVar[tuple[int, int]]  # default numbers of splits and seeds
    paper: ClassVar[tuple[int, int]]  # numbers of splits and seeds in the paper
    sweep: ClassVar[tuple[int, ...]]  # numbers of landmarks in the paper's figure
    protocols: ClassVar[tuple[str, ...]]  # ways to split the data
    tokens: ClassVar[tuple[str, ...]] = ("paper",)  # kinds of tokens
    output_dim: ClassVar[int]
    baselines: ClassVar[tuple[str, ...]]

    def usual(self, **changes: Any) -> Cell:
        """A cell with the sizes of the table."""
        fields = {"model": "full", "layers": 1, "landmarks": None, "protocol": self.protocols[0]}
        sizes = {"window": self.window, "embed_dim": self.embed_dim, "num_heads": self.num_heads}
        return Cell(task=self.name, **{**fields, **sizes, **changes})

    def cell_name(self, cell: Cell) -> str:
        """The name of a cell in file names."""
        landmarks = None if cell.landmarks is None else self.landmarks
        return cell.named(self.usual(model=cell.model, layers=cell.layers, landmarks=landmarks))

    def check_splits(self, cell: Cell, splits: int) -> None:
        """Raise unless there are that many splits."""
        limit = self.max_splits(cell)
        if not 1 <= splits <= limit:
            allowed = "1" if limit == 1 else f"1 to {limit}"
            raise ValueError(f"splits={splits}, but {self.name} with protocol {cell.protocol!r} has {allowed}")

    @abstractmethod
    def max_splits(self, cell: Cell) -> int:
        """The number of splits that exist."""

    def path(self, folder: Path) -> Path:
        path = folder / self.file
        if not path.is_file():
            raise FileNotFoundError(f"data={folder} has no {self.file}; docs/data.md describes it")
        return path

    @abstractmethod
    def load(self, folder: Path, cell: Cell) -> Loaded:
        """Read the data from the folder of data sets."""

    @abstractmethod
    def task(self, cell: Cell) -> Classification | Detection | Forecasting: ...

    @abstractmethod
    def training(self, cell: Cell) -> TrainConfig:
        """How a cell is trained, with the epochs of all phases; chosen on validation data."""

    @abstractmethod
    def options(self, cell: Cell) -> dict[str, Any]:
        """Further fields of ModelConfig; for a recurrent model, its dropout only."""

    def skip(self, cell: Cell) -> int:
        """Number of tokens at the start of every stream that are not scored."""
        return 0
