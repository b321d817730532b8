"""Models of your own data before and after training: what they start from, and how that becomes part of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import ModelConfig
from nystream.data import linear_start, logistic_start, quantile_width
from nystream.data.forecast_problem import Forecast
from nystream.data.forecast_values import Layout
from nystream.data.labelled import Labelled
from nystream.data.problem import Problem
from nystream.data.scoring import LogLine, scored_from
from nystream.layers.scaler import Scaler
from nystream.models import StreamModel
from nystream.train import StreamData, TrainConfig, predict
from nystream.train.sampler import warm_up


def untrained(
    config: ModelConfig, problem: Problem, train: StreamData, start: linear_start.LinearStart | None
) -> StreamModel:
    """The model before training, with its scalers; beside a linear path, the Transformer alone."""
    if start is not None:
        model = StreamModel(linear_start.without_path(config, problem.output_dim))
        linear_start.prepare(model, start)
        return model
    model = StreamModel(config, problem.info)
    model.input_scaler.fit(train.x)
    if problem.task.scaled:
        _fit_output_scaler(model, train.y)
    return model


def finished(model: StreamModel, config: ModelConfig, problem: Problem, log: LogLine) -> StreamModel:
    """The trained model with its linear path, if it has one, whose share is chosen on validation data."""
    if isinstance(problem, Forecast) and problem.start is not None:
        return _with_best_share(linear_start.joined(model, config, problem.start), problem, log)
    if isinstance(problem, Labelled) and problem.linear:
        return _blended(model, problem, log)
    return model


def _blended(model: StreamModel, problem: Labelled, log: LogLine) -> StreamModel:
    """The model with a linear path, blended as is best on validation data."""
    data, rows = problem.part("valid", 0), problem.answers("valid")
    output, y = predict(model, data)
    blend = logistic_start.best_blend(
        problem.start.predict(data)[rows], output.double().cpu()[rows], y.cpu()[rows], problem.task
    )
    gain = blend.score - blend.alone
    if blend.share:
        log(
            f"on validation data, {100 * gain:.1f} points better than logistic regression; share of the Transformer: "
            f"{blend.share:g}"
        )
    else:
        log("no better than logistic regression on validation data: the Transformer is left out")
    return logistic_start.blended(model, problem.start, blend)


def _with_best_share(model: StreamModel, problem: Forecast, log: LogLine) -> StreamModel:
    """The model with that share of the Transformer's outputs, for each horizon, which is best on validation data."""
    model.info = problem.info
    window = warm_up(model.config, TrainConfig(short=problem.short))
    warm = scored_from(model, problem, "valid", window)
    data = problem.part("valid", warm)
    # Not the path's float64 outputs: a difference in rounding is no gain.
    (output, y), (path, _) = (predict(each, data, skip=warm) for each in (model, linear_start.linear_only(model)))
    layout = problem.layout
    alone, both, known = (x.double().cpu().numpy() for x in (path, output, y))
    shares, errors = linear_start.best_shares(alone, both, known, layout, problem.periods("valid", warm))
    each = torch.tensor(shares).repeat_interleave(layout.shape[2]).repeat(layout.targets)  # [outputs]
    linear_start.scale_share(model, each)
    assert problem.start is not None
    name = problem.start.name + (" with the quantiles of its residuals" if layout.quantiles else "")
    if any(shares):
        least, most = min(shares), max(shares)
        share = f"{most:g}" if least == most else f"{least:g} to {most:g}, depending on the horizon"
        gain = 1 - sum(errors) / len(errors)
        log(f"on validation data, {gain:.1%} better than {name}; share of the Transformer: {share}")
        _widen(model, alone, alone + each.double().numpy() * (both - alone), known, layout, log)
    else:
        log(f"no better than {name} on validation data: the Transformer is left out")
    return model


def _widen(
    model: StreamModel,
    path: NDArray[np.float64],
    both: NDArray[np.float64],
    y: NDArray[np.float64],
    layout: Layout,
    log: LogLine,
) -> None:
    """Make the quantiles of a model as wide as the validation data are spread, if they are too narrow."""
    widths = quantile_width.best_widths(path, both, y, layout)
    if max(widths) > 1:
        quantile_width.widen(model, widths, layout)
        least, most = (f"{width - 1:.0%}" for width in (min(widths), max(widths)))
        log(f"quantiles widened by {least if least == most else f'{least} to {most}'}, as on validation data")


def _fit_output_scaler(model: StreamModel, y: Tensor) -> None:
    """Fit the output scaler to the targets that are known, column by column."""
    scalers = [Scaler(1) for _ in y.T]
    for scaler, column in zip(scalers, y.T, strict=True):
        known = column[column.isfinite()]
        if not len(known):
            raise ValueError("a target is not known in any row that is trained on")
        scaler.fit(known[:, None])
    mean, scale = (torch.cat([getattr(scaler, name) for scaler in scalers]) for name in ("mean", "scale"))
    model.output_scaler.set(mean, scale)
