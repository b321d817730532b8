"""Splits of tracks into parts that have no recording in common, and a baseline on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream import extras
from nystream.train import WindowData

FOLDS = 10  # a tenth of the tracks for testing
VALIDATION_FOLDS = 5  # a fifth of the rest for validation
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # C: weight of the data relative to the penalty


class Split(NamedTuple):
    """Training, validation and test data."""

    train: WindowData
    valid: WindowData
    test: WindowData


def stratified(
    y: NDArray[Any], copies: NDArray[Any], genres: tuple[str, ...], count: int, seed: int
) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Indices of the three parts of `count` splits, stratified by genre, with all copies of a track in one part."""
    if not 1 <= count <= FOLDS:
        raise ValueError(f"count is {count}, but must be 1 to {FOLDS}: the test parts have no track in common")
    for number, genre in enumerate(genres):
        different = len(np.unique(copies[y == number]))
        if different < FOLDS:
            raise ValueError(f"genre {genre!r} has {different} different tracks, but a split needs {FOLDS} or more")
    extras.require("splitting", "sklearn")
    from sklearn.model_selection import StratifiedGroupKFold

    outer = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    inner = StratifiedGroupKFold(VALIDATION_FOLDS, shuffle=True, random_state=seed)
    splits = []
    for rest, test in list(outer.split(y, y, copies))[:count]:
        train, valid = next(inner.split(rest, y[rest], copies[rest]))
        splits.append((rest[train], rest[valid], test))
    return splits


def mean_token_accuracy(split: Split) -> dict[str, float]:
    """Validation and test accuracy of logistic regression on the mean token, with C chosen on validation data."""
    extras.require("logistic regression", "sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    (x, y), (x_valid, y_valid), (x_test, y_test) = ((part.x.mean(1).numpy(), part.y.numpy()) for part in split)
    best: dict[str, float] = {}
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(x, y)
        valid = float(model.score(x_valid, y_valid))
        if not best or valid > best["valid"]:
            best = {"valid": valid, "test": float(model.score(x_test, y_test)), "C": strength}
    return best
