"""Opening a source for training or evaluation: a table, a folder of feature files, or a folder of audio files."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from nystream.config import ModelInfo
from nystream.data.clips import Clips
from nystream.data.file_splits import check_features, check_match, joined, with_groups
from nystream.data.forecast import forecast
from nystream.data.forecast_problem import Forecast
from nystream.data.frames import SUFFIXES as FRAMES
from nystream.data.frames import hop_of, read_frames
from nystream.data.labelled import labelled, with_split
from nystream.data.option_groups import TaskName
from nystream.data.problem import HELD_OUT, HeldOut, Problem
from nystream.data.reader import Policy, reader_from_dict
from nystream.data.series import SeriesTables, read_for, read_series, read_tables
from nystream.data.settings import Settings, names_in, paths_in
from nystream.data.sounds import SUFFIXES as SOUNDS
from nystream.data.sounds import read_sounds
from nystream.data.table import SUFFIXES as TABLES
from nystream.data.table import Table, read_table
from nystream.data.table_reader import TableReader

SourceKind = Literal["table", "frames", "audio"]
DESCRIPTIONS = {"table": "a table", "frames": "a folder of feature files", "audio": "a folder of audio files"}
# options that apply to one kind of source
OPTIONS: dict[SourceKind, tuple[str, ...]] = {
    "table": (
        *("target", "series", "horizon", "quantiles", "minimum", "time", "time_format", "timezone", "decimal"),
        *("skip_lines", "skip_end"),
        *("columns", "categorical", "known", "units", "missing", "gaps", "split"),
    ),
    "frames": ("task", "background", "group", "hop"),
    "audio": ("seconds", "group"),
}


def source_kind(path: Path) -> SourceKind:
    """Determine the kind of a source from its name and contents."""
    if path.is_file():
        if path.suffix.lower() in TABLES:
            return "table"
        raise ValueError(f"{path} is not a table: its name must end in one of {', '.join(TABLES)}")
    if not path.is_dir():
        raise FileNotFoundError(f"source={path} does not exist")
    suffixes = {file.suffix.lower() for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")}
    frames, sounds = bool(suffixes & set(FRAMES)), bool(suffixes & set(SOUNDS))
    if frames and sounds:
        raise ValueError(f"{path} has feature files and audio files; give a folder with only one kind")
    if frames or sounds:
        return "frames" if frames else "audio"
    if suffixes & set(TABLES):
        return "table"
    raise ValueError(
        f"{path} has neither tables ({', '.join(TABLES)}) nor feature files ({', '.join(FRAMES)}) nor audio "
        f"({', '.join(SOUNDS)})"
    )


def kind_of(paths: Sequence[Path]) -> SourceKind:
    """The kind of one path, or of several, which must be tables."""
    if len(paths) == 1:
        return source_kind(paths[0])
    for path in paths:
        if path.is_dir() or source_kind(path) != "table":
            raise ValueError(f"{path} is not a table, but of several sources each must be one, which is then a series")
    return "table"


def open_for_training(settings: Settings, show: bool | None = None, given: Collection[str] = ()) -> Problem:
    """Read the source of a training run. `given` names the settings that the user gave, even if they are defaults."""
    paths = paths_in(settings.source)
    path, kind = paths[0], kind_of(paths)
    values = {name: getattr(settings, name) for names in OPTIONS.values() for name in names}
    changed = {name: value for name, value in values.items() if name in given or value != getattr(Settings, name)}
    _check_options(changed, path, kind)
    others = {name: _other(name, getattr(settings, name), kind) for name in HELD_OUT if getattr(settings, name)}
    if kind == "table":
        lines = (show, settings.skip_lines, settings.skip_end)
        source = read_tables(paths, settings.series, *lines)
        if isinstance(source, Table):
            return forecast_table(settings, source, {name: read_table(other, *lines) for name, other in others.items()})
        series = {name: read_series((other,), source.column, *lines) for name, other in others.items()}
        return forecast_table(settings, source, series)
    clips = with_groups(_read_files(settings, path, kind, show=show), settings.group)
    held_out = {
        name: with_groups(_read_files(settings, other, kind, name, clips, show), settings.group)
        for name, other in others.items()
    }
    problem = labelled(joined(clips, held_out), settings.background, settings.seed, linear=linear_path(settings))
    return with_split(problem)


def _other(name: str, given: str, kind: SourceKind) -> Path:
    """The path of validation or test data, which must be of the same kind as the source."""
    path = Path(given)
    if not path.exists():
        raise FileNotFoundError(f"{name}={path} does not exist")
    if source_kind(path) != kind:
        raise ValueError(f"{name}={path} is {DESCRIPTIONS[source_kind(path)]}, but the source is {DESCRIPTIONS[kind]}")
    return path


def _read_files(
    settings: Settings,
    path: Path,
    kind: SourceKind,
    part: HeldOut | None = None,
    source: Clips | None = None,
    show: bool | None = None,
) -> Clips:
    """Read a folder; with a `part`, one that is the validation or test data of a `source`."""
    classes = () if source is None else source.classes
    try:
        if kind == "audio":
            clips = read_sounds(path, settings.seconds, classes, show)
        else:
            task = settings.task if source is None else source.labelling
            clips = read_frames(path, task, classes, show, settings.hop if source is None else hop_of(source.reader))
    except ValueError as error:
        raise ValueError(f"{part}={path} cannot be used: {error}" if part else str(error)) from error
    if part is not None and source is not None:
        check_match(part, clips, source)
    return clips


def forecast_table(
    settings: Settings, table: Table | SeriesTables, held_out: Mapping[HeldOut, Table | SeriesTables] | None = None
) -> Forecast:
    """Set up the forecast of a table or of series that have been read, and of others to validate or test on."""
    targets = names_in(settings.target, table.names)
    units = settings.units
    return forecast(
        table,
        targets,
        settings.horizon,
        quantiles=settings.quantiles,
        minimum=least(settings),
        time=settings.time or None,
        time_format=settings.time_format,
        timezone=settings.timezone,
        decimal=settings.decimal,
        columns=names_in(settings.columns, table.names),
        categorical=names_in(settings.categorical, table.names),
        known=names_in(settings.known, table.names),
        units=(units,) if isinstance(units, str) and units and len(targets) == 1 else names_in(units),
        missing=settings.missing,
        gaps=settings.gaps,
        linear=linear_path(settings),
        split=names_in(settings.split),
        held_out=held_out or {},
    )


def least(settings: Settings) -> float | None:
    """The least value of a forecast; None if there is none."""
    return None if settings.minimum == -math.inf else settings.minimum


def linear_path(settings: Settings) -> bool:
    """Whether the model has a linear path."""
    deep = settings.stack == "deep"  # the path may read more tokens than the window, which only deep stacks can
    if settings.linear == "yes" and not deep:
        raise ValueError("linear='yes' does not go with `stack='paper'`: give `stack='deep'`")
    return settings.linear == "yes" or (settings.linear == "auto" and deep)


def open_for(
    info: ModelInfo,
    path: Path | Sequence[Path],
    *,
    missing: Policy | None = None,
    gaps: Policy | None = None,
    background: str | None = None,
    seconds: float | None = None,
    skip_lines: int = 0,
    skip_end: int = 0,
    show: bool | None = None,
) -> Problem:
    """Read a source with the reader of a trained model, to score it as in training.

    Args:
        info: The model's info.
        path: The source; several tables are a series each.
        missing, gaps, background, seconds: As in `Settings`, by default as in training; "" is no background.
        skip_lines, skip_end: As in `Settings`; they depend on the file, not on the training.
        show: Whether to show a progress bar; None for only on a terminal.
    """
    if info.reader is None:
        raise ValueError(
            "the model has no reader, because it was not trained by nystream train; give it tokens instead"
        )
    paths = (path,) if isinstance(path, Path) else tuple(path)
    reader, kind, path = reader_from_dict(info.reader), kind_of(paths), paths[0]
    if kind != reader.kind:
        raise ValueError(f"the model reads {DESCRIPTIONS[reader.kind]}, but {path} is {DESCRIPTIONS[kind]}")
    options = {"missing": missing, "gaps": gaps, "background": background or None, "seconds": seconds}
    options |= {"skip_lines": skip_lines or None, "skip_end": skip_end or None}
    _check_options({name: value for name, value in options.items() if value is not None}, path, kind)
    if isinstance(reader, TableReader):
        return forecast_again(info, read_for(reader, paths, show, skip_lines, skip_end), missing, gaps)
    if kind == "audio":
        clips = read_sounds(path, seconds or info.file_seconds or Settings.seconds, info.labels, show)
    else:
        task: TaskName = "detection" if info.task == "detection" else "classification"
        clips = read_frames(path, task, info.labels, show, hop_of(reader))
    check_features(path, clips.reader, reader)
    background = info.background if background is None else background
    return labelled(clips, background or "", several=info.several)


def forecast_again(
    info: ModelInfo, table: Table | SeriesTables, missing: Policy | None = None, gaps: Policy | None = None
) -> Forecast:
    """Set up the forecast of another table as a model was trained."""
    reader = reader_from_dict(info.reader or {})
    assert isinstance(reader, TableReader)
    return forecast(
        table,
        horizon=info.horizons or info.horizon or 1,
        quantiles=info.quantiles,
        minimum=info.minimum,
        units=info.units,
        missing=missing,
        gaps=gaps,
        reader=reader,
    )


def _check_options(options: Mapping[str, Any], path: Path, kind: SourceKind) -> None:
    """Raise if an option does not apply to this kind of source."""
    for name, value in options.items():
        needed = [other for other, names in OPTIONS.items() if name in names]
        if kind not in needed:
            kinds = " or ".join(DESCRIPTIONS[other] for other in needed)
            raise ValueError(f"{name}={value!r} is for {kinds}, but {path} is {DESCRIPTIONS[kind]}")
