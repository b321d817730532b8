"""A forecast that starts as ridge regression: the linear path of its model is fitted first, in closed form.

The Transformer is then trained to forecast what ridge regression misses, and also reads what it forecasts. Its outputs
are added to those of the linear path, with a share that is chosen on validation data and may be zero: the model is then
ridge regression.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.config import LinearConfig, ModelConfig
from nystream.data.forecast_scores import pinball_loss
from nystream.data.forecast_values import Layout
from nystream.layers.scaler import Scaler
from nystream.models import StreamModel
from nystream.train.data import StreamData
from nystream.train.ridge import LAGS, Ridge, fit_ridge

# Other columns are used only if they make the validation error of ridge regression this much smaller, in relation.
WORTH = 0.01
MAX_LAGS_OF_OTHERS = 24  # tokens whose other columns are read
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the Transformer's outputs
MIN_VALID = 10  # rows of validation data; with fewer, nothing can be chosen, and the last value is the forecast
LEAST_MISSED = 1e-3  # relative to the deviation of the forecasts
EXACT = 1e-6  # error relative to the deviation of a target: float32 has no more digits
RIDGE, LAST_VALUE = "ridge regression", "the last value"
# Of several horizons, the least share with so much of the best gain is chosen. A Transformer with many outputs overfits
# more easily: a smaller share costs little where it helps, and far less where it does not.
ENOUGH = 2 / 3
LEAST_GAIN = 0.002  # over ridge regression, in relation; below it the Transformer is left out


Rows = slice | NDArray[np.int64]


class LinearStart(NamedTuple):
    """A fitted linear path.

    Attributes:
        ridge: Ridge regression.
        path: The linear path: ridge regression, or a simpler forecast that is better on validation data.
        name: What the path is.
        scaler: That of the tokens.
        output: [N, outputs], what the path forecasts after every row of the table.
        ridge_output: [N, outputs], likewise for ridge regression.
    """

    ridge: Ridge
    path: Ridge
    name: str
    scaler: Scaler
    output: NDArray[np.float64]
    ridge_output: NDArray[np.float64]

    @property
    def config(self) -> LinearConfig:
        return LinearConfig(segments=self.path.lags, inputs=self.path.inputs, embedded=True)

    @property
    def units(self) -> Tensor:
        """[outputs]: what it misses by, the unit in which the Transformer is trained.

        It also reads the forecasts in these units, so they must not be tiny where the path misses next to nothing.
        """
        least = LEAST_MISSED * torch.from_numpy(np.nanstd(self.output, 0))
        return torch.maximum(self.path.residual_std, least).clamp(min=1e-12)


def fit_start(
    x: Sequence[NDArray[np.float32]],
    y: Sequence[NDArray[np.float32]],
    train: Sequence[int],
    valid: Sequence[tuple[int, int]],
    targets: int,
    numbers: int,
    skip: int,
    simple: Mapping[str, Sequence[int | None]],
) -> LinearStart:
    """Fit a linear path to the first rows of streams.

    Args:
        x: Tokens [N, input_dim] of each stream; their first numbers are the targets, then those of other columns.
        y: Changes of the targets [≤ N, outputs], NaN where unknown: of each target, those after each horizon.
        train: Number of rows of each stream to fit.
        valid: The first row of each stream to validate on, and the one after the last; the same for none.
        targets: Number of targets.
        numbers: Number of columns of numbers, with the targets.
        skip: Number of rows at the start of a stream that are not fitted, because they lack some of their lags.
        simple: Simpler forecasts by name: for each output, the place in a token of the change that it forecasts; None
            for no change.
    """
    scaler = Scaler(x[0].shape[1], dtype=torch.float64)
    fitted = [place for place, rows in enumerate(train) if rows]
    scaler.fit(torch.from_numpy(_together([x[place][: train[place]] for place in fitted])))
    scaled = [scaler(torch.from_numpy(stream).double()) for stream in x]
    changes = [torch.from_numpy(stream).double() for stream in y]
    checked = [
        (place, max(0, start - max(LAGS)), start, stop) for place, (start, stop) in enumerate(valid) if stop > start
    ]
    known = _together([y[place][start:stop].astype(np.float64) for place, _, start, stop in checked])
    few = int((~np.isnan(known)).sum(0).min()) < MIN_VALID

    def fit(inputs: int, lags: Sequence[int]) -> Ridge:
        return fit_ridge(
            [scaled[place][: train[place]] for place in fitted],
            [changes[place][: train[place]] for place in fitted],
            [scaled[place][context:stop] for place, context, _, stop in checked],
            [changes[place][context:stop] for place, context, _, stop in checked],
            inputs=inputs,
            lags=lags,
            unpenalised=range(targets),
            skip=[min(skip, train[place] // 4) for place in fitted],
            valid_skip=[start - context for _, context, start, _ in checked],
        )

    def validated(outputs: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return _together([outputs[place][start:stop] for place, _, start, stop in checked])

    ridge = fit(targets, LAGS[:1] if few else LAGS)
    if numbers > targets and not few:
        others = fit(numbers, [lag for lag in LAGS if lag <= MAX_LAGS_OF_OTHERS])
        ridge = others if better(others, ridge) else ridge
    output = [ridge.predict(stream).numpy() for stream in scaled]
    name, best, outputs = RIDGE, ridge, output
    y_fitted, x_fitted = (torch.cat([part[place][: train[place]] for place in fitted]) for part in (changes, scaled))
    for other, places in {LAST_VALUE: None, **({} if few else simple)}.items():
        path = _simple(ridge, scaler, y_fitted, x_fitted, places)
        new = [path.predict(stream).numpy() for stream in scaled]
        worse = _errors(validated(outputs), known).mean(1), _errors(validated(new), known).mean(1)
        if few or (worse[1] < worse[0]).all():
            name, best, outputs = other, path, new
    return LinearStart(ridge, best, name, scaler, np.concatenate(outputs), np.concatenate(output))


def _together(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays one after another, without a copy of a single one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _simple(ridge: Ridge, scaler: Scaler, y: Tensor, x: Tensor, places: Sequence[int | None] | None) -> Ridge:
    """A linear path that forecasts no change, or the changes that are at these places of a token."""
    weight, bias = torch.zeros_like(ridge.weight[:, : x.shape[1]]), torch.zeros_like(ridge.bias)
    for output, place in enumerate(places or ()):
        if place is not None:
            weight[output, place], bias[output] = scaler.scale[place], scaler.mean[place]  # forecasts are not scaled
    path = dataclasses.replace(ridge, lags=1, weight=weight, bias=bias)
    error = (path.predict(x) - y).square()
    return dataclasses.replace(path, residual_std=error.nanmean(0).sqrt())


def with_quantiles(
    start: LinearStart, y: NDArray[Any], train: Rows, valid: Rows, quantiles: Sequence[float]
) -> LinearStart:
    """The start with one output for each quantile: what is added to a forecast is that quantile of its residuals.

    They are those of training and validation data: the latter alone are few, and perhaps of a single season. Those of
    the training data are too small if little data were fitted closely, so they are made as large as those of the
    validation data where these are larger.

    Args:
        start: What forecasts one number for each target and horizon.
        y: What it should have forecast [≤ N, outputs], NaN where unknown.
        train, valid: The rows whose residuals count.
        quantiles: The levels.
    """
    count = len(quantiles)

    def spread(path: Ridge, output: NDArray[np.float64]) -> tuple[Ridge, NDArray[np.float64]]:
        fitted, new = y[train] - output[train], y[valid] - output[valid]
        size, new_size = (np.sqrt(np.nanmean(np.square(part), 0)) for part in (fitted, new))  # [outputs]
        fitted *= np.maximum(1.0, np.divide(new_size, size, out=np.ones_like(size), where=size > 0))
        each = np.nanquantile(np.concatenate([fitted, new]), quantiles, axis=0).T.reshape(-1)  # [outputs · quantiles]
        repeated = {
            name: getattr(path, name).repeat_interleave(count, 0)
            for name in ("weight", "bias", "penalties", "mse", "residual_std")
        }
        repeated["bias"] = repeated["bias"] + torch.from_numpy(each)
        return dataclasses.replace(path, **repeated), np.repeat(output, count, 1) + each

    ridge, ridge_output = spread(start.ridge, start.ridge_output)
    path, output = spread(start.path, start.output)
    return start._replace(ridge=ridge, path=path, output=output, ridge_output=ridge_output)


def _errors(output: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute and root mean squared errors [2, targets]."""
    error = output - y
    return np.stack([np.nanmean(np.abs(error), 0), np.sqrt(np.nanmean(np.square(error), 0))])


def better(first: Ridge, second: Ridge) -> bool:
    """Whether one linear path is clearly better than another on validation data."""
    return float((first.mse / second.mse.clamp(min=1e-300)).sqrt().mean()) < 1 - WORTH


def without_path(config: ModelConfig, outputs: int) -> ModelConfig:
    """The model that is trained: instead of a path, it has the outputs of the path as inputs."""
    return dataclasses.replace(config, linear=None, input_dim=config.input_dim + outputs)


def prepare(model: StreamModel, start: LinearStart) -> None:
    """Set the scalers of the model that is trained; its own outputs start at zero."""
    zeros, ones = torch.zeros_like(start.units), torch.ones_like(start.units)
    model.input_scaler.set(torch.cat([start.scaler.mean, zeros]), torch.cat([start.scaler.scale, ones]))
    model.output_scaler.set(zeros, start.units)
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)


def joined(trained: StreamModel, config: ModelConfig, start: LinearStart) -> StreamModel:
    """The model with the linear path and the Transformer that was trained beside it."""
    attention = trained.config.attention
    model = StreamModel(dataclasses.replace(config, attention=attention), trained.info)
    inputs, weights = config.input_dim, trained.state_dict()
    width = weights["input_proj.weight"]
    weights |= {"input_proj.weight": width[:, :inputs], "linear_embed.weight": width[:, inputs:]}
    weights |= {"linear.weight": (start.path.weight / start.units[:, None]).to(width)}
    for name, value in (("mean", start.scaler.mean), ("scale", start.scaler.scale)):
        weights[f"input_scaler.{name}"] = value.to(width)
    weights["output_scaler.mean"] = start.path.bias.to(width)
    model.load_state_dict(weights)
    return model.to(width.device).eval()


def beside(start: LinearStart, data: StreamData, rows: slice | NDArray[np.int64]) -> StreamData:
    """Data of these rows for a Transformer beside the path: it reads what the path gives, and learns what that misses.

    What it reads is in units of what the path misses, without the path's bias, as in the joined model.
    """
    output = torch.from_numpy(start.output[rows])  # [N, outputs]
    path = (output - start.path.bias) / start.units
    new = data.to(data.x.device)
    new.x = torch.cat([data.x, path.to(data.x)], 1)
    shape = (len(output), *[1] * (data.y.dim() - 2), -1)  # the outputs of a teacher are beside the targets
    new.y = (data.y.double() - output.reshape(shape)).to(data.y)
    return new


def best_share(
    path: NDArray[np.float64],
    both: NDArray[np.float64],
    y: NDArray[np.float64],
    quantiles: Sequence[float] = (),
    enough: float = 1.0,
    periods: NDArray[np.int64] | None = None,
) -> tuple[float, float]:
    """The share of the Transformer that is best on validation data, and the error with it relative to the path alone.

    The error is the larger of the relative mean absolute and root mean squared errors, so that neither gets worse; for
    quantiles, the relative pinball loss. A share that makes forecasts worse in one of several periods is not taken, as
    what helps in one season only may harm in the next. If there are few rows, or the path is exact up to rounding, the
    share is 0.

    Args:
        path, both: Outputs without and with the Transformer [N, outputs]; with quantiles, those of each target in turn.
        y: Targets [N, outputs], NaN where unknown.
        quantiles: The levels.
        enough: The least share that has so much of the gain of the best one takes its place.
        periods: The period of every row [N]; by default, all are in one.
    """

    def all_errors(output: NDArray[np.float64], rows: Rows = slice(None)) -> NDArray[np.float64]:
        output, true = output[rows], y[rows]
        if not quantiles:
            return _errors(output, true)
        ordered = np.sort(output.reshape(len(true), -1, len(quantiles)), -1)
        return pinball_loss(ordered, true[:, :: len(quantiles)], quantiles)[None]

    def relative_error(share: float, rows: Rows = slice(None)) -> float:
        return float((all_errors(path + share * (both - path), rows) / all_errors(path, rows)).mean(1).max())

    alone = all_errors(path)
    if (~np.isnan(y)).sum(0).min() < MIN_VALID or (
        alone <= EXACT * np.nanstd(y[:, :: max(1, len(quantiles))], 0)
    ).any():
        return 0.0, 1.0
    of_periods = [] if periods is None else [np.flatnonzero(periods == period) for period in np.unique(periods)]
    of_periods = [rows for rows in of_periods if (~np.isnan(y[rows])).sum(0).min() >= MIN_VALID]
    relative = {
        share: relative_error(share)
        for share in SHARES[1:]
        if not any(relative_error(share, rows) > 1 + LEAST_GAIN for rows in of_periods)
    }
    if not relative:
        return 0.0, 1.0
    most = 1 - min(relative.values())
    share = next(share for share, error in relative.items() if 1 - error >= (enough * most if most > 0 else most))
    return (share, relative[share]) if relative[share] < 1 - LEAST_GAIN else (0.0, 1.0)


def best_shares(
    path: NDArray[np.float64],
    both: NDArray[np.float64],
    y: NDArray[np.float64],
    layout: Layout,
    periods: NDArray[np.int64] | None = None,
) -> tuple[list[float], list[float]]:
    """The best share of each horizon, and the relative errors with them; arguments as in `best_share`."""
    found = []
    for horizon in range(layout.shape[1]):
        alone, together, known = (
            part.reshape(-1, *layout.shape)[:, :, horizon].reshape(len(y), -1) for part in (path, both, y)
        )
        enough = ENOUGH if layout.horizons else 1.0
        found.append(best_share(alone, together, known, layout.quantiles, enough, periods))
    shares, errors = zip(*found, strict=True)
    return list(shares), list(errors)


@torch.no_grad()
def scale_share(model: StreamModel, share: float | Tensor) -> None:
    """Make the Transformer's outputs a share of what they are; one for all, or one of each output [outputs]."""
    each = torch.as_tensor(share, dtype=model.head.bias.dtype, device=model.head.bias.device)
    model.head.weight.mul_(each.unsqueeze(-1) if each.dim() else each)
    model.head.bias.mul_(each)


def linear_only(model: StreamModel) -> StreamModel:
    """A copy of a model whose outputs are those of its linear path alone."""
    copy = StreamModel(model.config, model.info).to(model.head.weight)
    copy.load_state_dict(model.state_dict())
    scale_share(copy, 0.0)
    return copy.eval()


def is_ridge(model: StreamModel) -> bool:
    """Whether the linear path of a forecasting model is ridge regression: simpler ones read one number, or none."""
    return model.config.linear is not None and bool(((model.linear.weight != 0).sum(1) > 1).all())
