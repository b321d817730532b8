"""GTZAN: the genre of a track, after its last token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems.problem import BaselineScores, CellRun, Loaded, PaperProblem
from nystream.lab.tasks import audio
from nystream.lab.tasks.audio.splits import FOLDS, Split, mean_token_accuracy
from nystream.train import Classification, TrainConfig


class Tracks(Loaded):
    def __init__(self, tokens: audio.GenreTokens, protocol: str) -> None:
        self.tokens, self.protocol = tokens, protocol
        self.fingerprint = tokens.fingerprint

    def splits(self, count: int) -> list[Split]:
        return [self.tokens.filtered_split()] if self.protocol == "filtered" else self.tokens.splits(count)

    def runs(self, splits: int, seeds: int) -> list[CellRun]:
        return [CellRun(i, seed, *split) for i, split in enumerate(self.splits(splits)) for seed in range(seeds)]

    def baseline(self, name: str, splits: int) -> BaselineScores:
        results = [mean_token_accuracy(split) for split in self.splits(splits)]
        scores = [{"accuracy": result["test"]} for result in results]
        return BaselineScores(scores, {"C": [result["C"] for result in results]})


class Gtzan(PaperProblem):
    name, file = "gtzan", "gtzan_yamnet_tokens.npz"
    window, embed_dim, num_heads, landmarks = 120, 192, 16, 4
    landmark_tokens = 10_000
    depths, laptop, paper, sweep = (1, 2), (1, 2), (5, 5), (2, 4, 8, 16, 32, 64)
    protocols = ("splits", "filtered")
    output_dim = 10
    baselines = ("logistic regression on the mean token",)

    def max_splits(self, cell: Cell) -> int:
        return 1 if cell.protocol == "filtered" else FOLDS

    def load(self, folder: Path, cell: Cell) -> Loaded:
        return Tracks(audio.load(self.path(folder)), cell.protocol)

    def task(self, cell: Cell) -> Classification:
        return Classification(label_smoothing=0.1)

    def training(self, cell: Cell) -> TrainConfig:
        return TrainConfig(epochs=30, batch_size=32, lr=1e-3 if cell.recurrent else 5e-4, weight_decay=0.05)

    def options(self, cell: Cell) -> dict[str, Any]:
        return {"dropout": 0.5} if cell.recurrent else {"ff_dim": cell.embed_dim, "dropout": 0.2}


PROBLEM = Gtzan()
