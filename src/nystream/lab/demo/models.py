"""The models of the demo, trained on the sample that comes with the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from nystream import variants
from nystream.config import AttentionConfig, ModelConfig, ModelInfo
from nystream.lab.tasks import electricity
from nystream.lab.tasks.electricity import DemandForecast
from nystream.models import StreamModel
from nystream.progress import naming
from nystream.train import Forecasting, TrainConfig, evaluate, fit, fix_landmarks

WINDOW, EMBED_DIM, NUM_HEADS, LANDMARKS = 64, 64, 4, 4
BUDGET = TrainConfig(epochs=15, steps_per_epoch=40, batch_size=8, lr=3e-3, piece=256)


def load() -> DemandForecast:
    """The total demand of 24 areas an hour ahead, from their demand now, a day ago and a week ago."""
    return electricity.forecast(electricity.sample(), tokens="lags", target="change")


def train(
    problem: DemandForecast, show: bool | None = None, budget: TrainConfig = BUDGET
) -> Iterator[tuple[str, StreamModel]]:
    """Train full attention in one phase, continual and then fixed landmarks in two; yield each model when it is done.

    `full` has the weights of `co-full-single`, and computes the same.
    """
    # The two phases of fixed landmarks together have as many epochs as full attention.
    tuning = dataclasses.replace(budget, epochs=budget.epochs // 3, lr=budget.lr / 3)
    first = dataclasses.replace(budget, epochs=budget.epochs - tuning.epochs)
    train, valid, _ = problem.parts
    options: dict[str, Any] = {"task": Forecasting(), "progress": show}
    full = _build("co-full-single", problem, budget.seed)
    with naming("full attention"):
        fit(full, train, valid, budget, **options)
    yield "full", full.convert(variant="full")
    yield "co-full-single", full
    means = _build("co-cont-single", problem, budget.seed)
    with naming("continual landmarks"):
        fit(means, train, valid, first, **options)
    yield "co-cont-single", means
    with naming("fixed landmarks"):
        fixed = fix_landmarks(means, train, valid, config=tuning, tokens=10_000, **options)
    yield "co-fixed-single", fixed


def errors(problem: DemandForecast, model: StreamModel) -> dict[str, float]:
    """Streaming test errors of a model, in units of the standard deviation of the total."""
    return problem.in_totals(evaluate(model, problem.test, Forecasting(), skip=WINDOW - 1))


def _build(variant: str, problem: DemandForecast, seed: int) -> StreamModel:
    torch.manual_seed(seed)
    landmarks = LANDMARKS if variants.get(variant).low_rank else None
    attention = AttentionConfig(variant, EMBED_DIM, NUM_HEADS, WINDOW, landmarks)
    shape = ModelConfig(input_dim=problem.train.input_dim, output_dim=1, attention=attention, ff_dim=EMBED_DIM)
    info = ModelInfo("forecasting", labels=("change of the total",), units=("MW",), horizon=1, seconds=3600.0)
    model = StreamModel(shape, info)
    model.input_scaler.fit(problem.train.x)
    model.output_scaler.fit(problem.train.y)
    return model
