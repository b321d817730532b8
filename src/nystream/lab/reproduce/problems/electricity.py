"""Electricity: the total demand an hour ahead.

Tokens "paper" have the contents of the paper's, and the target is the total. Tokens "lags" also have the changes of a
day and a week ago, and the target is the change from the last total; we recommend them. Scores of both are in one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nystream.data.calendar import DAY, WEEK
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.problems.problem import BaselineScores, CellRun, Loaded, PaperProblem
from nystream.lab.tasks.electricity import DemandForecast, baselines, eia930, forecast
from nystream.train import Forecasting, TrainConfig
from nystream.train.data import fingerprint

BASELINES: dict[str, Callable[[DemandForecast, int], baselines.Baseline]] = {
    "persistence": baselines.persistence,
    "a day ago": lambda problem, skip: baselines.seasonal(problem, DAY, skip),
    "a week ago": lambda problem, skip: baselines.seasonal(problem, WEEK, skip),
    "ridge": lambda problem, skip: baselines.ridge(problem, skip=skip),
}


class Hours(Loaded):
    def __init__(self, problem: DemandForecast, skip: int) -> None:
        self.problem, self.skip = problem, skip
        self.fingerprint = fingerprint(problem.x, problem.y)

    def scores(self, scores: dict[str, float]) -> dict[str, float]:
        return self.problem.in_totals(scores)

    def runs(self, splits: int, seeds: int) -> list[CellRun]:
        return [CellRun(0, seed, *self.problem.parts) for seed in range(seeds)]

    def baseline(self, name: str, splits: int) -> BaselineScores:
        baseline = BASELINES[name](self.problem, self.skip)
        return BaselineScores([dict(baseline.scores)], dict(baseline.chosen))


class Electricity(PaperProblem):
    name, file = "electricity", "eia930_117x43848_hourly.npz"
    window, embed_dim, num_heads, landmarks = 64, 128, 8, 4
    landmark_tokens = 20_000
    depths, laptop, paper, sweep = (1,), (1, 2), (1, 5), (2, 4, 8, 16, 32)
    protocols = ("seeds",)
    tokens = ("paper", "lags")
    output_dim = 1
    baselines = tuple(BASELINES)

    def max_splits(self, cell: Cell) -> int:
        return 1  # in order of time

    def load(self, folder: Path, cell: Cell) -> Loaded:
        series = eia930.load(self.path(folder))
        if cell.tokens == "lags":
            return Hours(forecast(series, tokens="lags", target="change"), self.skip(cell))
        return Hours(forecast(series), self.skip(cell))

    def task(self, cell: Cell) -> Forecasting:
        return Forecasting()

    def training(self, cell: Cell) -> TrainConfig:
        # Errors of a percent of a deviation need more than bfloat16. A total is learned more slowly than a change.
        epochs = 30 if cell.tokens == "lags" else 90
        lr = 1e-3 if cell.recurrent else 3e-3
        return TrainConfig(epochs=epochs, steps_per_epoch=60, batch_size=8, lr=lr, piece=256, bf16=False)

    def options(self, cell: Cell) -> dict[str, Any]:
        if cell.recurrent:
            return {"dropout": 0.0}
        # A final norm hides the size of the total; for a change this does not matter.
        return {"ff_dim": cell.embed_dim, "dropout": 0.0, "final_norm": cell.tokens == "lags"}

    def skip(self, cell: Cell) -> int:
        # Smaller windows are scored on the same hours as the others and the baselines.
        return max(self.window, cell.window) - 1


PROBLEM = Electricity()
