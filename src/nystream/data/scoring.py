"""Streaming scores of a model of your own data, beside those of its baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.data import linear_start
from nystream.data.forecast_problem import Forecast
from nystream.data.labelled import Labelled
from nystream.data.logistic_start import logistic_of
from nystream.data.problem import PartName, Problem, Scores
from nystream.data.table import counted
from nystream.models import StreamModel
from nystream.train import TrainConfig, predict
from nystream.train.sampler import warm_up

LogLine = Callable[[str], None]


class Evaluation(NamedTuple):
    """A model on a source.

    Attributes:
        output: [N, output_dim], for the scored tokens.
        scores: Those of the model and of the baselines.
        warm: The number of tokens at the start of each stream that are not scored.
    """

    output: Tensor
    scores: dict[str, Scores]
    warm: int


def evaluate(
    model: StreamModel, problem: Problem, part: PartName = "all", show: bool | None = False, log: LogLine = print
) -> Evaluation:
    """Streaming outputs and scores of a model on a source, and the scores of the baselines."""
    window = warm_up(model.config, TrainConfig(short=problem.short))
    warm = scored_from(model, problem, part, window)
    longest = int(problem.part(part, warm).length.max())
    if longest <= window:
        raise ValueError(f"the source has {longest} rows to forecast from, which do not fill a window of {window + 1}")
    if longest <= warm:
        log(f"the model reads {warm + 1} rows, more than the source has; scores are from row {window + 1} on")
        warm = window
    return Evaluation(*scored(model, problem, part, warm, log, show), warm)


def scored(
    model: StreamModel, problem: Problem, part: PartName, warm: int, log: LogLine, show: bool | None
) -> tuple[Tensor, dict[str, Scores]]:
    """The outputs for the scored tokens of a part, and the scores of the model and of the baselines."""
    data = problem.part(part, warm)
    output, y = predict(model, data, skip=warm, progress=show)
    _log_if_not_finite(output, log)
    scores = {"model": problem.scores(part, warm, output, y)}
    if isinstance(problem, Forecast) and problem.start is not None:
        ridge = torch.from_numpy(problem.start.ridge_output[problem.scored(part, warm)])
        scores["ridge"] = problem.scores(part, warm, ridge, y)
    elif isinstance(problem, Forecast) and model.config.linear is not None:
        path, _ = predict(linear_start.linear_only(model), data, skip=warm, progress=show)
        scores["ridge" if linear_start.is_ridge(model) else "linear path"] = problem.scores(part, warm, path, y)
    elif isinstance(problem, Labelled) and not problem.linear and (logistic := logistic_of(model)) is not None:
        logits, _ = predict(logistic, data, skip=warm, progress=show)
        scores["logistic regression"] = problem.scores(part, warm, logits, y)
    return output, scores | problem.baselines(part, warm)


def scored_from(model: StreamModel, problem: Problem, part: PartName, warm: int) -> int:
    """The number of tokens at the start of a stream that are not scored: all that the linear path reads count.

    In a source of its own that has no more tokens than that, only the `warm` ones of the window count.
    """
    linear = model.config.linear
    most = warm if linear is None or not warm else max(warm, linear.tokens - 1)
    return most if problem.fills(part, most) else warm


def _log_if_not_finite(output: Tensor, log: LogLine) -> None:
    wrong = int((~output.isfinite()).any(1).sum())
    if wrong:
        log(f"the model's output is not finite for {wrong:,} of {counted(len(output), 'token')}, so scores are missing")
