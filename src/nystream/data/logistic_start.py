"""Classes by logistic regression on the last tokens, blended with the outputs of a Transformer.

Logistic regression reads the newest token and means over segments of those before it: the linear path of the model. Its
share, and the temperature of the probabilities, are chosen on validation data; the Transformer, which is trained alone,
has the rest. If it does not help there, the model is logistic regression.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import LinearConfig
from nystream.data.linear_start import linear_only
from nystream.layers.linear_path import LinearPath
from nystream.layers.scaler import Scaler
from nystream.models import StreamModel
from nystream.train.data import StreamData
from nystream.train.logistic import LOSS_WEIGHT, Logistic, fit_logistic
from nystream.train.tasks import Classification, Detection

FRAMES = (1, 3, 28)  # segments for classes of frames
LONGEST = 512  # tokens of a file whose mean is read for the class of a file
QUARTERS = (0.25, 0.5, 0.75, 1.0)  # where in a file its class is learned
MAX_WORK, MIN_ROWS, MAX_ROWS = 200_000_000, 5_000, 30_000  # rows × features × classes that take a few seconds
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the Transformer
TEMPERATURES = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)

Task = Classification | Detection


class LogisticStart(NamedTuple):
    """A fitted linear path."""

    config: LinearConfig
    scaler: Scaler
    logistic: Logistic

    def predict(self, data: StreamData) -> Tensor:
        """Logits [tokens, classes] of every token."""
        return self.logistic.predict(features(self.config, self.scaler, data))


class Blend(NamedTuple):
    """How two classifiers are combined: logits = ((1 − share) · logistic + share · Transformer) / temperature."""

    share: float
    temperature: float
    score: float  # on validation data
    alone: float  # that of logistic regression alone


def path_config(longest: int, per_file: bool) -> LinearConfig:
    """The segments that logistic regression reads; for classes of files, all tokens so far but the newest."""
    if not per_file:
        return LinearConfig(segments=FRAMES)
    tokens = min(longest, LONGEST)
    return LinearConfig(segments=(1, tokens - 1) if tokens > 1 else (1,))


def fit_start(
    train: StreamData, valid: StreamData, task: Task, classes: int, config: LinearConfig, per_file: bool, seed: int = 0
) -> LogisticStart:
    """Fit logistic regression; with `per_file`, to some tokens of each file only, which all have the same class."""
    scaler = Scaler(train.input_dim, dtype=torch.float64)
    scaler.fit(train.x)
    known = [_learned(data, per_file) for data in (train, valid)]
    x, valid_x = (features(config, scaler, data)[rows] for data, rows in zip((train, valid), known, strict=True))
    most = min(max(MAX_WORK // (x.shape[1] * classes), MIN_ROWS), MAX_ROWS)
    y, valid_y = (data.y[rows] for data, rows in zip((train, valid), known, strict=True))
    fitted = fit_logistic(x, y, valid_x, valid_y, task=task, classes=classes, max_rows=most, seed=seed)
    return LogisticStart(config, scaler, fitted)


def features(config: LinearConfig, scaler: Scaler, data: StreamData) -> Tensor:
    """What the linear path reads at every token, [tokens, features]."""
    path = LinearPath(config, data.input_dim, 1, dtype=torch.float64)
    found = []
    for place in range(len(data)):
        x = scaler(data.stream(place)[0].double().cpu())[None]
        before = x.new_zeros(1, config.tokens - 1, path.width)
        found.append(path.piece(x, before, torch.arange(1, x.shape[1] + 1)[None])[0])
    return torch.cat(found)


def best_blend(logistic: Tensor, transformer: Tensor, y: Tensor, task: Task) -> Blend:
    """The blend of two logits [N, classes] with the best score, less a tenth of the loss, that is not below the score
    of logistic regression alone."""
    alone = _first(task, logistic, y)[0]
    best: tuple[float, Blend] | None = None
    for share, temperature in itertools.product(SHARES, TEMPERATURES):
        score, loss = _first(task, _mix(logistic, transformer, share) / temperature, y)
        value = score - LOSS_WEIGHT * loss
        if (score >= alone or not share) and (best is None or value > best[0]):
            best = value, Blend(share, temperature, score, alone)
    assert best is not None
    return best[1]


def blended(model: StreamModel, start: LogisticStart, blend: Blend) -> StreamModel:
    """The Transformer and the linear path in one model, whose outputs are those of the blend.

    Logistic regression stays as it is in it, see `logistic_of`: what it is multiplied with is the scale of the outputs.
    """
    joined = StreamModel(dataclasses.replace(model.config, linear=start.config), model.info)
    weights = model.state_dict()
    like, logistic = weights["head.weight"], start.logistic
    path, rest = (1 - blend.share) / blend.temperature, blend.share / blend.temperature
    # The path was fitted to tokens in its own units; they are those of the model up to rounding.
    weights["linear.weight"] = logistic.weight.to(like) if path else torch.zeros_like(logistic.weight).to(like)
    for name in ("head.weight", "head.bias"):
        weights[name] = (rest / path if path else rest) * weights[name]
    if path:
        weights["output_scaler.scale"] = torch.full_like(weights["output_scaler.scale"], path)
        weights["output_scaler.mean"] = (path * logistic.bias).to(weights["output_scaler.mean"])
    joined.load_state_dict(weights)
    return joined.to(like.device).eval()


def logistic_of(model: StreamModel) -> StreamModel | None:
    """A model of the logistic regression that is blended into a classifier; None if it has none.

    Older versions added its bias to that of the Transformer, from which it cannot be told.
    """
    if model.config.linear is None or not bool((model.output_scaler.mean != 0).any()):
        return None
    alone = linear_only(model)
    scaler = alone.output_scaler
    scaler.set(scaler.mean / scaler.scale, torch.ones_like(scaler.scale))
    return alone


def _mix(logistic: Tensor, transformer: Tensor, share: float) -> Tensor:
    return (1 - share) * logistic + share * transformer


def _first(task: Task, output: Tensor, y: Tensor) -> tuple[float, float]:
    scores = task.scores(output, y)
    return next(iter(scores.values())), scores["loss"]


def _learned(data: StreamData, per_file: bool) -> Tensor | slice:
    """The tokens that are learned from."""
    if not per_file:
        return slice(None)
    ends = {data.start + (share * data.length).round().clamp(min=1) - 1 for share in QUARTERS}
    return torch.cat(list(ends)).long().unique()
