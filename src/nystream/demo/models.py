"""The models of the demonstration, trained on the sample that comes with the package."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch

from nystream.config import AttentionConfig, ModelConfig, ModelInfo
from nystream.models import StreamModel
from nystream.tasks import electricity
from nystream.tasks.electricity import Forecast
from nystream.train import Forecasting, TrainConfig, evaluate, fit, train_two_phase

WINDOW, EMBED_DIM, NUM_HEADS, LANDMARKS = 64, 64, 4, 4
BUDGET = TrainConfig(epochs=15, steps_per_epoch=40, batch_size=8, lr=3e-3, piece=256)


class Trained(NamedTuple):
    """What was learned, by variant; `full` has the weights of `co-full-single`, and computes the same."""

    problem: Forecast
    models: dict[str, StreamModel]


def load() -> Forecast:
    """The total of 24 areas an hour ahead, from what they are, were a day ago and a week ago."""
    return electricity.forecast(electricity.sample(), tokens="lags", target="change")


def train(problem: Forecast, show: bool | None = None, budget: TrainConfig = BUDGET) -> Trained:
    """Full attention in one phase, then continual landmarks and from them fixed ones."""
    # Fixed landmarks share out among two phases what full attention has in one.
    tuning = dataclasses.replace(budget, epochs=budget.epochs // 3, lr=budget.lr / 3)
    first = dataclasses.replace(budget, epochs=budget.epochs - tuning.epochs)
    train, valid, _ = problem.parts
    task = Forecasting()
    full = _build("co-full-single", problem, budget.seed)
    fit(full, train, valid, budget, task=task, progress=show)
    means = _build("co-cont-single", problem, budget.seed)
    fixed = train_two_phase(
        means, train, valid, task=task, config=first, fine_tune=tuning, tokens=10_000, progress=show
    )
    found = {"full": full.convert(variant="full"), "co-full-single": full, "co-cont-single": means}
    return Trained(problem, {**found, "co-fixed-single": fixed})


def errors(trained: Trained) -> dict[str, dict[str, float]]:
    """Test errors of every model, streaming, in units of the total's deviation."""
    task, skip = Forecasting(), WINDOW - 1
    return {
        variant: trained.problem.in_totals(evaluate(model, trained.problem.test, task, skip=skip))
        for variant, model in trained.models.items()
    }


def _build(variant: str, problem: Forecast, seed: int) -> StreamModel:
    torch.manual_seed(seed)
    few = None if "full" in variant else LANDMARKS
    attention = AttentionConfig(variant, EMBED_DIM, NUM_HEADS, WINDOW, few)
    shape = ModelConfig(input_dim=problem.train.input_dim, output_dim=1, attention=attention, ff_dim=EMBED_DIM)
    info = ModelInfo("forecasting", labels=("change of the total",), units=("MW",), horizon=1, seconds=3600.0)
    model = StreamModel(shape, info)
    model.input_scaler.fit(problem.train.x)
    model.output_scaler.fit(problem.train.y)
    return model
