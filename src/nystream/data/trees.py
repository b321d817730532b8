"""Boosted trees, a baseline for forecasts: scikit-learn's HistGradientBoostingRegressor, one for each output.

It is there to be compared with, so it may take only so long: about 20 seconds on one core. The time of an iteration is
about outputs × features × (rows + 7,500) × 12 ns, so there is a limit on that product. A random sample of the rows is
fitted where all of them are too many, and nothing where the sample would be too small to be a fair comparison.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nystream import extras

ITERATIONS, LEARNING_RATE = 300, 0.05
PATIENCE = 50  # iterations without a smaller validation error after which boosting stops
SECONDS = 20
MAX_WORK = 4_000_000  # outputs × features × (rows + OVERHEAD): what takes so long on a core of an AMD EPYC
OVERHEAD = 7_500  # rows that take as long as the rest of an iteration
MIN_ROWS = 2_000  # fewer are fitted only if there are no more
MAX_VALID_ROWS = 5_000  # the error of every iteration is computed on them

Array = NDArray[np.float64]


class Trees(NamedTuple):
    """Fitted trees.

    Attributes:
        models: One regressor per output.
        iterations: The number of trees of each that had the smallest validation error.
    """

    models: list[Any]
    iterations: list[int]

    def predict(self, x: ArrayLike) -> Array:
        """The outputs [N, outputs] for features [N, features]."""
        features = np.asarray(x, dtype=np.float64)
        if not len(features):
            return np.zeros((0, len(self.models)))
        pairs = zip(self.models, self.iterations, strict=True)
        return np.stack([next(islice(model.staged_predict(features), count - 1, None)) for model, count in pairs], 1)


def fit_trees(
    x: ArrayLike, y: ArrayLike, valid_x: ArrayLike, valid_y: ArrayLike, seed: int = 0
) -> tuple[Trees | None, str]:
    """Fit boosted trees, and return them with a note: which rows were used, or why there are no trees (None).

    The note is empty if there is nothing to say. The number of trees is the one with the smallest squared error on
    validation data, or on 5,000 of its rows; boosting stops when that error no longer falls.

    Args:
        x: Features [N, features]; NaN where unknown.
        y: Targets [N, outputs]; NaN where unknown.
        valid_x, valid_y: Likewise, for validation.
        seed: Seed of the samples of rows.
    """
    data = [np.asarray(part, dtype=np.float64) for part in (x, y, valid_x, valid_y)]
    _check(*data)
    (rows, features), outputs = data[0].shape, data[1].shape[1]
    limit = MAX_WORK // (features * outputs) - OVERHEAD
    if limit < min(rows, MIN_ROWS):
        return None, (
            f"boosted trees are left out: {features:,} features and {outputs:,} outputs would take much longer than "
            f"{SECONDS} seconds"
        )
    try:
        ensemble = extras.require("the baseline", "sklearn.ensemble")
    except ModuleNotFoundError as error:
        return None, f"boosted trees are left out: {error}"
    random, note = np.random.default_rng(seed), ""
    if len(data[2]) > MAX_VALID_ROWS:
        data[2:] = _sample(random, MAX_VALID_ROWS, *data[2:])
    if rows > limit:
        data[:2] = _sample(random, limit, *data[:2])
        note = (
            f"boosted trees are fitted to {limit:,} of {rows:,} rows, so that they take at most about {SECONDS} seconds"
        )
    trees = Trees([], [])
    tokens, targets, valid_tokens, valid_targets = data
    for target, valid_target in zip(targets.T, valid_targets.T, strict=True):
        model, count = _fit(ensemble, *_known(tokens, target), *_known(valid_tokens, valid_target))
        trees.models.append(model)
        trees.iterations.append(count)
    return trees, note


def _fit(ensemble: Any, x: Array, y: Array, valid_x: Array, valid_y: Array) -> tuple[Any, int]:
    """Boost for a target until its validation error has not fallen for a while; return the best number of trees."""
    model = ensemble.HistGradientBoostingRegressor(
        learning_rate=LEARNING_RATE,
        early_stopping=False,  # it would set training rows aside, and does not take them in order of time
        warm_start=True,
        random_state=0,
    )
    count = 0
    for total in range(PATIENCE, ITERATIONS + 1, PATIENCE):
        model.set_params(max_iter=total).fit(x, y)
        errors = [float(np.square(output - valid_y).mean()) for output in model.staged_predict(valid_x)]
        count = int(np.argmin(errors)) + 1
        if count <= total - PATIENCE:
            break
    return model, count


def _sample(random: np.random.Generator, count: int, x: Array, y: Array) -> tuple[Array, Array]:
    """Some of the rows, in order."""
    chosen = np.sort(random.choice(len(x), count, replace=False))
    return x[chosen], y[chosen]


def _known(x: Array, y: Array) -> tuple[Array, Array]:
    known = ~np.isnan(y)
    return x[known], y[known]


def _check(x: Array, y: Array, valid_x: Array, valid_y: Array) -> None:
    for name, features, targets in (("", x, y), ("valid_", valid_x, valid_y)):
        if features.ndim != 2 or targets.ndim != 2 or len(features) != len(targets):
            raise ValueError(
                f"{name}x is {list(features.shape)} and {name}y is {list(targets.shape)}, but they must be "
                f"[N, features] and [N, outputs]"
            )
        if np.isinf(features).any() or np.isinf(targets).any():
            raise ValueError(f"{name}x or {name}y has an infinite number; use NaN for what is not known")
        unknown = np.isnan(targets).all(0)
        if unknown.any():
            raise ValueError(f"{name}y has no known target in column {int(unknown.argmax())}")
    if x.shape[1] != valid_x.shape[1] or y.shape[1] != valid_y.shape[1]:
        raise ValueError(
            f"valid_x and valid_y have {valid_x.shape[1]} and {valid_y.shape[1]} columns, but x and y have "
            f"{x.shape[1]} and {y.shape[1]}"
        )
