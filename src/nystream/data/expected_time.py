"""How long a training run will take, and with how many threads, measured on a copy of the model before it starts."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from typing import NamedTuple

import torch

from nystream.models import StreamModel
from nystream.train import StreamData, TrainConfig, fit, predict
from nystream.train.tasks import Task

UPDATES = 3  # that are timed
TURNS = 3  # of each number of threads; the first also allocates memory and compiles
LONG = 2.0  # seconds of an update that is timed only once, because its set-up hardly counts
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
    # The first update also allocates memory and compiles.
    _seconds(1, model, train, task, dataclasses.replace(config, batch_size=1))
    one = _seconds(1, model, train, task, config)
    if one > LONG:
        return one
    return max(_seconds(1 + UPDATES, model, train, task, config) - one, 1e-4) / UPDATES


def faster_threads(model: StreamModel, train: StreamData, task: Task, config: TrainConfig) -> int:
    """Measure two updates with torch's number of threads and with one, in turns, and return the faster number."""
    usual, trial, seconds = torch.get_num_threads(), copy.deepcopy(model), dict[int, float]()
    for turn in range(TURNS if usual > 1 else 0):
        if turn and max(seconds.values()) > 2 * LONG:
            break
        for number in (usual, 1):
            torch.set_num_threads(number)
            seconds[number] = min(_seconds(2, trial, train, task, config), seconds.get(number, math.inf))
    torch.set_num_threads(usual)
    return min(seconds, key=seconds.__getitem__, default=1)


def _seconds(updates: int, model: StreamModel, train: StreamData, task: Task, config: TrainConfig) -> float:
    """The time of some updates of the model, and of their set-up."""
    short = dataclasses.replace(config, epochs=1, steps_per_epoch=updates, patience=None)
    began = time.perf_counter()
    with torch.random.fork_rng():
        fit(model, train, None, short, task=task, progress=False)
    return time.perf_counter() - began


def told(seconds: float) -> str:
    """About how long, in words."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} seconds"
    minutes = round(seconds / 60)
    return f"about {minutes} minutes" if minutes < 90 else f"about {seconds / 3600:.1f} hours"
