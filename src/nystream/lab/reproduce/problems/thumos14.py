"""THUMOS14: the actions in every frame of a video, detected online."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems.problem import BaselineScores, CellRun, Loaded, PaperProblem
from nystream.lab.tasks import actions
from nystream.lab.tasks.actions.baseline import last_tokens_scores
from nystream.train import Detection, TrainConfig
from nystream.train.data import fingerprint


class VideoRuns(Loaded):
    def __init__(self, videos: actions.Actions) -> None:
        self.videos = videos
        parts = (videos.train.data, videos.test.data)
        self.fingerprint = fingerprint(*(x for part in parts for x in (part.x, part.y, part.length)))

    def runs(self, splits: int, seeds: int) -> list[CellRun]:
        # Validation videos are drawn by seed; the test videos are always the same.
        parts = [self.videos.split(seed=split) for split in range(splits)]
        return [CellRun(i, seed, *parts[i]) for i in range(splits) for seed in range(seeds)]

    def baseline(self, name: str, splits: int) -> BaselineScores:
        results = [last_tokens_scores(*self.videos.split(seed=split)) for split in range(splits)]
        return BaselineScores([result.test for result in results], {"C": [result.strength for result in results]})


class Thumos14(PaperProblem):
    name, file = "thumos14", "thumos14_i3d_pca256_i8.npz"
    window, embed_dim, num_heads, landmarks = 64, 1024, 8, 16
    landmark_tokens = 50_000
    depths, laptop, paper, sweep = (1, 2), (1, 1), (5, 5), (2, 4, 8, 16, 32)
    protocols = ("seeds",)
    output_dim = 22
    baselines = ("logistic regression on the last tokens",)

    def max_splits(self, cell: Cell) -> int:
        return 100  # drawn by seed

    def load(self, folder: Path, cell: Cell) -> Loaded:
        return VideoRuns(actions.load(self.path(folder)))

    def task(self, cell: Cell) -> Detection:
        return Detection()

    def training(self, cell: Cell) -> TrainConfig:
        # The start of a video is scored, so windows that are not full are trained on too.
        if cell.recurrent or cell.layers == 1 or cell.stack == "deep":
            rival = {"gru": 1e-3, "lstm": 1e-3 if cell.one_scale else 2e-3}
            lr = rival.get(cell.model, min(1e-3, 0.3072 / cell.embed_dim))  # 3e-4 at d = 1024
            return TrainConfig(epochs=12, batch_size=8, lr=lr, weight_decay=0.05, piece=256, short=1.0)
        # A paper stack learns from the newest row of windows. They overlap, so an epoch takes a quarter of them.
        return TrainConfig(epochs=12, steps_per_epoch=40, batch_size=256, lr=2e-4, weight_decay=0.05, short=0.2)

    def options(self, cell: Cell) -> dict[str, Any]:
        if cell.recurrent:
            return {"dropout": 0.5}
        dropout = 0.2 if not cell.decay else 0.3 if cell.stack == "deep" else 0.5
        return {"ff_dim": cell.embed_dim, "dropout": dropout}


PROBLEM = Thumos14()
