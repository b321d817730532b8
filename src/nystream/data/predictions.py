"""Tables of predictions and their truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nystream import extras, files
from nystream.data.forecast_options import level_name
from nystream.data.forecast_problem import Forecast, levels
from nystream.data.labelled import Labelled
from nystream.data.problem import PartName, Problem
from nystream.data.series import FILE
from nystream.data.table import PARQUET
from nystream.train import metrics

SEPARATORS = {".csv": ",", ".tsv": "\t"}
THRESHOLD = 0.5  # probability from which a class is predicted, if there can be several
SEVERAL = "|"  # between classes that apply at once


def require_writable(path: Path) -> None:
    """Raise if predictions cannot be written to a file, before the work that makes them."""
    suffixes = (*SEPARATORS, *PARQUET)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"out={path} must end in one of {', '.join(suffixes)}")
    extras.require("a table of predictions", "polars")
    files.require_writable("out", path)


def write(path: Path, problem: Problem, part: PartName, warm: int, output: Tensor) -> None:
    """Write the predictions of a part to a table.

    For forecasts, it has one row for each target of each row that is forecast: time (or the number of the row, from
    0), target, forecast, truth, error; of several series, their name comes first. Several horizons have a row each,
    and a column with the number of rows ahead; quantiles have a column each, and the forecast is the median. For
    classes, it has one row per frame, or for the last frame of each token that stands for several: file, frame
    (from 0), truth, predicted, and the probability of each class. Classes that apply at once are separated by "|".
    What is not known is empty.

    Args:
        path: The file; its suffix selects the format.
        problem: The source.
        part: The part of the source.
        warm: The number of tokens at the start of each stream that are not scored.
        output: The outputs for the scored tokens, as `nystream.data.scoring.scored` returns them.
    """
    require_writable(path)
    import polars as pl

    if isinstance(problem, Forecast):
        frame = pl.DataFrame(_forecasts(problem, part, warm, output))
        frame = frame.with_columns(pl.col("truth", "error").fill_nan(None))
        if problem.rows.time is not None and problem.reader.timezone:
            zone = problem.reader.timezone
            frame = frame.with_columns(pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
        elif problem.rows.time is not None and problem.reader.zoned:
            frame = frame.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
    else:
        assert isinstance(problem, Labelled)
        frame = pl.DataFrame(_classes(problem, part, output))
    if path.suffix.lower() in PARQUET:
        files.replace(path, frame.write_parquet)
        return
    kind = frame.schema.get("time")
    named = kind.time_zone if isinstance(kind, pl.Datetime) else None
    zone = "" if named is None else "Z" if named == "UTC" else "%:z"
    separator = SEPARATORS[path.suffix.lower()]
    files.replace(
        path,
        lambda partial: frame.write_csv(partial, separator=separator, datetime_format=f"%Y-%m-%dT%H:%M:%S%.f{zone}"),
    )


def _forecasts(problem: Forecast, part: PartName, warm: int, output: Tensor) -> dict[str, Any]:
    """The columns of a table of forecasts, row after row, target after target and horizon after horizon."""
    quantiles, forecast, truth = levels(problem, part, warm, output)
    targets, horizons = problem.reader.targets, np.array(problem.horizons)
    rows = problem.scored(part, warm)[:, None, None] + horizons  # the rows that are forecast
    rows = np.broadcast_to(rows, truth.shape).reshape(-1)
    columns: dict[str, Any] = {"row": rows} if problem.rows.time is None else {"time": problem.rows.time[rows]}
    if problem.split.series:
        tables, first = problem.split.table_of(rows), np.asarray(problem.split.tables)
        names = np.array(problem.split.series, dtype=object)[tables]
        columns = {problem.reader.series or FILE: names} | (
            columns if "time" in columns else {"row": rows - first[tables]}
        )
    if problem.info.horizons:
        columns["horizon"] = np.tile(horizons, len(rows) // len(horizons))
    columns["target"] = [name for name in targets for _ in horizons] * len(truth)
    columns["forecast"] = forecast.reshape(-1)
    for place, level in enumerate(problem.info.quantiles):
        columns[f"quantile {level_name(level)}"] = quantiles[..., place].reshape(-1)
    return columns | {"truth": truth.reshape(-1), "error": (forecast - truth).reshape(-1)}


def _classes(problem: Labelled, part: PartName, output: Tensor) -> dict[str, Any]:
    """The columns of a table of classes, file after file and frame after frame."""
    clips = [problem.clips.clips[i] for i in problem.numbers(part)]
    y, probabilities = problem.part(part, 0).y, problem.probabilities(output)
    hot, known = metrics.one_hot(y, problem.output_dim).bool(), metrics.known(y)
    labels, several, hop = problem.info.labels, problem.info.several, problem.clips.frames_per_token
    # A class is predicted only if the output is finite.
    usable = probabilities.isfinite().all(1)
    if several:
        guessed = probabilities >= THRESHOLD
    else:
        guessed = metrics.one_hot(probabilities.argmax(1), problem.output_dim).bool()
    return {
        "file": [clip.name for clip in clips for _ in clip.x],
        "frame": [hop * token + hop - 1 for clip in clips for token in range(len(clip.x))],
        "truth": _named(hot, known, labels),
        "predicted": _named(guessed, usable, labels),
        **{f"probability of {name}": probabilities[:, place].numpy() for place, name in enumerate(labels)},
    }


def _named(hot: Tensor, known: Tensor, labels: tuple[str, ...]) -> list[str | None]:
    """The names of the classes of each row [N, classes]; None if they are not known."""
    return [
        SEVERAL.join(name for name, present in zip(labels, row, strict=True) if present) if is_known else None
        for row, is_known in zip(hot.tolist(), known.tolist(), strict=True)
    ]
