"""Splits of tracks into training, validation and test parts that have no recording in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.train import WindowData

FOLDS = 10  # a tenth of the tracks for testing
VALIDATION_FOLDS = 5  # a fifth of the rest for validation


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
    try:
        from sklearn.model_selection import StratifiedGroupKFold
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "splitting needs scikit-learn: pip install 'nystream[train]'", name="sklearn"
        ) from error
    outer = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    inner = StratifiedGroupKFold(VALIDATION_FOLDS, shuffle=True, random_state=seed)
    splits = []
    for rest, test in list(outer.split(y, y, copies))[:count]:
        train, valid = next(inner.split(rest, y[rest], copies[rest]))
        splits.append((rest[train], rest[valid], test))
    return splits
