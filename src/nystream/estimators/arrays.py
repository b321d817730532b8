"""Arrays as data: the last fifth of a stream, or a fifth of the streams, is kept for validation; nothing for a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.config import ModelInfo
from nystream.data.clips import Clip, Clips, Labelling
from nystream.data.forecast_problem import Forecast
from nystream.data.frames import FramesReader
from nystream.data.labelled import Labelled
from nystream.data.linear_start import RIDGE, LinearStart, with_quantiles
from nystream.data.problem import PartName, Scores
from nystream.data.row_splits import RowSplit
from nystream.data.table_rows import TableRows
from nystream.layers.scaler import Scaler
from nystream.train import Classification, Detection
from nystream.train.ridge import LAGS, fit_ridge

VALID = 0.2  # share of the data
NAME = "data"  # of arrays, in messages


@dataclass(frozen=True, eq=False)
class Aligned(Forecast):
    """One stream of tokens, with the targets of each."""

    target: NDArray[np.float64] = field(kw_only=True)  # [N, targets]

    short = 1.0
    parts_scored = ("valid",)

    @cached_property
    def ahead(self) -> NDArray[np.float32]:
        return self.target.astype(np.float32)

    def truth(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.target[rows][..., None]

    def baselines(self, name: PartName, warm: int) -> dict[str, Scores]:
        return {}

    @cached_property
    def trees(self) -> tuple[None, str]:
        return None, ""


def aligned(
    x: NDArray[np.float32],
    y: NDArray[np.float64],
    names: Sequence[str],
    linear: bool,
    quantiles: Sequence[float] = (),
    minimum: float | None = None,
) -> Aligned:
    """A stream [N, width] and its targets [N, targets]."""
    reader = FramesReader(x.shape[1], tuple(names))
    labels = tuple(f"target {i}" for i in range(y.shape[1])) if y.shape[1] > 1 else ("target",)
    info = ModelInfo(
        task="forecasting",
        inputs=reader.names,
        labels=labels,
        reader=reader.to_dict(),
        quantiles=tuple(quantiles),
        minimum=minimum,
    )
    train = _train_rows(len(x))
    split = RowSplit((0,), {"train": ((0, train),), "valid": ((train, len(x)),)}, {}, "")
    rows = TableRows(x, None, np.zeros_like(y), np.ones(y.shape, bool), ())
    start = _ridge(x, y, train) if linear else None
    if start is not None and quantiles:
        start = with_quantiles(start, y, slice(train), slice(train, None), quantiles)
    return Aligned(reader, rows, 0, info, (), split, start, target=y)  # type: ignore[arg-type]


def _ridge(x: NDArray[np.float32], y: NDArray[np.float64], train: int) -> LinearStart:
    scaler = Scaler(x.shape[1], dtype=torch.float64)
    scaler.fit(torch.from_numpy(x[:train]))
    scaled, targets = scaler(torch.from_numpy(x).double()), torch.from_numpy(y)
    context = max(0, train - max(LAGS))
    most = max(1, train // 4)  # more tokens than that cannot be fitted
    ridge = fit_ridge(
        [scaled[:train]],
        [targets[:train]],
        [scaled[context:]],
        [targets[context:]],
        inputs=x.shape[1],
        lags=[lag for lag in LAGS if lag <= most and lag * x.shape[1] <= max(x.shape[1], train)],
        valid_skip=train - context,
    )
    output = ridge.predict(scaled).numpy()
    return LinearStart(ridge, ridge, RIDGE, scaler, output, output)


@dataclass(frozen=True, eq=False)
class LabelledArrays(Labelled):
    """Streams of which the last ones, as many as `valid` says, are the validation data."""

    valid: tuple[int, ...] = field(kw_only=True)

    parts_scored = ("valid",)

    @cached_property
    def parts(self) -> dict[PartName, list[int]]:
        kept = set(self.valid)
        train = [i for i in range(len(self.clips.clips)) if i not in kept]
        return {"train": train or list(self.valid), "valid": list(self.valid), "test": []}


def labelled_arrays(
    streams: Sequence[NDArray[np.float32]],
    y: Sequence[NDArray[Any]],
    classes: Sequence[Any],
    labelling: Labelling,
    names: Sequence[str],
    seed: int,
    linear: bool,
    background: int | None = None,
) -> LabelledArrays:
    """Streams [T, width] with numbers of classes [T], or zeros and ones [T, classes]."""
    if len(classes) < 2:
        raise ValueError(f"y has only one class, {classes[0]!r}, so there is nothing to tell apart")
    if labelling == "detection" and len(streams) == 1:
        cut = _train_rows(len(streams[0]))
        streams, y = [streams[0][:cut], streams[0][cut:]], [y[0][:cut], y[0][cut:]]
        valid = [1]
    else:
        valid = _stratified(
            [int(one.reshape(len(one), -1)[0].argmax() if one.ndim == 2 else one[0]) for one in y], seed
        )
    clips = tuple(Clip(str(i), x, target) for i, (x, target) in enumerate(zip(streams, y, strict=True)))
    reader = FramesReader(streams[0].shape[1], tuple(names))
    found = Clips(Path(NAME), clips, tuple(map(str, classes)), labelling, reader)
    several = any(target.ndim == 2 for target in y)
    task: Classification | Detection = Classification()
    if labelling == "detection":
        task = Detection("sigmoid" if several else "softmax", background)
    info = ModelInfo(
        task=labelling,
        inputs=reader.names,
        labels=found.classes,
        reader=reader.to_dict(),
        several=several,
        background=None if background is None else found.classes[background],
    )
    return LabelledArrays(found, info, (), task, seed, linear, valid=tuple(valid))


def _train_rows(rows: int) -> int:
    return max(1, rows - max(1, round(VALID * rows)))


def _stratified(classes: Sequence[int], seed: int) -> list[int]:
    """Numbers of the streams to validate on: a share of each class that has several."""
    rng, valid = np.random.default_rng(seed), list[int]()
    for number in sorted(set(classes)):
        members = rng.permutation([i for i, other in enumerate(classes) if other == number]).tolist()
        valid += members[: round(VALID * len(members)) or int(len(members) > 1)]
    return sorted(valid) or [len(classes) - 1]
