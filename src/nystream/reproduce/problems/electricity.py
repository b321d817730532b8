"""Electricity: the total demand an hour ahead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nystream.reproduce.cells import Cell
from nystream.reproduce.problems.problem import Baseline, Loaded, Problem, Run
from nystream.tasks.electricity import Forecast, baselines, eia930, forecast
from nystream.tasks.electricity.features import DAY, WEEK
from nystream.train import Forecasting, TrainConfig
from nystream.train.data import fingerprint

BASELINES: dict[str, Callable[[Forecast, int], baselines.Baseline]] = {
    "persistence": baselines.persistence,
    "a day ago": lambda problem, skip: baselines.seasonal(problem, DAY, skip),
    "a week ago": lambda problem, skip: baselines.seasonal(problem, WEEK, skip),
    "ridge": lambda problem, skip: baselines.ridge(problem, skip=skip),
}


class Hours(Loaded):
    def __init__(self, problem: Forecast, skip: int) -> None:
        self.problem, self.skip = problem, skip
        self.fingerprint = fingerprint(problem.x, problem.y)

    def runs(self, splits: int, seeds: int) -> list[Run]:
        return [Run(0, seed, *self.problem.parts) for seed in range(seeds)]

    def baseline(self, name: str, splits: int) -> Baseline:
        found = BASELINES[name](self.problem, self.skip)
        return Baseline([dict(found.scores)], dict(found.chosen))


class Electricity(Problem):
    name, file = "electricity", "eia930_117x43848_hourly.npz"
    window, embed_dim, num_heads, landmarks = 64, 128, 8, 4
    landmark_tokens = 20_000
    depths, laptop, paper, sweep = (1,), (1, 2), (1, 5), (2, 4, 8, 16, 32)
    protocols = ("seeds",)
    output_dim = 1
    baselines = tuple(BASELINES)

    def most_splits(self, cell: Cell) -> int:
        return 1  # in order of time

    def load(self, folder: Path, cell: Cell) -> Loaded:
        return Hours(forecast(eia930.load(self.path(folder))), self.skip(cell))

    def task(self, cell: Cell) -> Forecasting:
        return Forecasting()

    def training(self, cell: Cell) -> TrainConfig:
        return TrainConfig(epochs=40, batch_size=16, lr=1e-3, piece=256)

    def options(self, cell: Cell) -> dict[str, Any]:
        return {"ff_dim": 128, "dropout": 0.1}

    def skip(self, cell: Cell) -> int:
        return cell.window - 1


PROBLEM = Electricity()
