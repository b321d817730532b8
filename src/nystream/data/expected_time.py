"""How long a training run will take, measured before it starts on a copy of the model: a few updates, some scoring."""

from __future__ import annotations

import copy
import dataclasses
import time
from typing import NamedTuple

import torch

from nystream.models import StreamModel
from nystream.train import StreamData, TrainConfig, fit, predict
from nystream.train.tasks import Task

UPDATES = 3  # that are timed
LONG = 2.0  # seconds of an update that are timed only once, and in which its set-up does not count
TOKENS = 4096  # of validation data that are timed, at most


class Expected(NamedTuple):
    """Seconds of one update, and of scoring the validation data once."""

    update: float
    scoring: float

    def run(self, config: TrainConfig, epochs: int) -> float:
        """Seconds of a whole run, without its baselines."""
        return epochs * ((config.steps_per_epoch or 0) * self.update + self.scoring)


def measure(model: StreamModel, train: StreamData, valid: StreamData, task: Task, config: TrainConfig) -> Expected:
    """Measure on a copy of the model; the random numbers of the run stay as they are."""
    trial = copy.deepcopy(model)
    update = update_seconds(trial, train, task, config)
    with torch.random.fork_rng():
        some = valid.subset([int(valid.length.argmax())])
        if len(some.x) > TOKENS:
            some = StreamData([some.x[:TOKENS]], [some.y[:TOKENS]])
        began = time.perf_counter()
        predict(trial, some)
        scoring = (time.perf_counter() - began) * max(1.0, len(valid.x) / len(some.x) / len(valid))
    return Expected(update, scoring)


def update_seconds(model: StreamModel, train: StreamData, task: Task, config: TrainConfig) -> float:
    """Measure one update; this trains the model, but leaves the random numbers of the run as they are."""

    def seconds(updates: int, pieces: int = config.batch_size) -> float:
        short = dataclasses.replace(config, epochs=1, steps_per_epoch=updates, patience=None, batch_size=pieces)
        began = time.perf_counter()
        fit(model, train, None, short, task=task, progress=False)
        return time.perf_counter() - began

    with torch.random.fork_rng():
        seconds(1, pieces=1)  # the first update also allocates memory and compiles
        one = seconds(1)
        if one > LONG:
            return one
        return max(seconds(1 + UPDATES) - one, 1e-4) / UPDATES


def told(seconds: float) -> str:
    """About how long, in words."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} seconds"
    minutes = round(seconds / 60)
    return f"about {minutes} minutes" if minutes < 90 else f"about {seconds / 3600:.1f} hours"
