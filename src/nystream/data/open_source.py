"""Opening a source for training or evaluation: a table, a folder of feature files, or a folder of audio files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from nystream.config import ModelInfo
from nystream.data.forecast import forecast
from nystream.data.frames import SUFFIXES as FRAMES
from nystream.data.frames import read_frames
from nystream.data.labelled import labelled
from nystream.data.problem import Problem
from nystream.data.reader import Policy, reader_from_dict
from nystream.data.settings import Settings, names_in
from nystream.data.sounds import SUFFIXES as SOUNDS
from nystream.data.sounds import read_sounds
from nystream.data.table import SUFFIXES as TABLES
from nystream.data.table import read_table
from nystream.data.table_reader import TableReader

SourceKind = Literal["table", "frames", "audio"]
DESCRIPTIONS = {"table": "a table", "frames": "a folder of feature files", "audio": "a folder of audio files"}
# options that apply to one kind of source
OPTIONS: dict[SourceKind, tuple[str, ...]] = {
    "table": (
        *("target", "horizon", "time", "time_format", "timezone", "skip_lines", "skip_end", "decimal"),
        *("columns", "categorical", "known", "units", "missing", "gaps"),
    ),
    "frames": ("task", "background"),
    "audio": ("seconds",),
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
    tables = "; it has tables: give the path of one of them" if suffixes & set(TABLES) else ""
    raise ValueError(f"{path} has neither feature files ({', '.join(FRAMES)}) nor audio ({', '.join(SOUNDS)}){tables}")


def open_for_training(settings: Settings, show: bool | None = None, given: Collection[str] = ()) -> Problem:
    """Read the source of a training run. `given` names the settings that the user gave, even if they are defaults."""
    path = Path(settings.source)
    kind = source_kind(path)
    values = {name: getattr(settings, name) for names in OPTIONS.values() for name in names}
    changed = {name: value for name, value in values.items() if name in given or value != getattr(Settings, name)}
    _check_options(changed, path, kind)
    if kind == "table":
        table = read_table(path, show, settings.skip_lines, settings.skip_end)
        targets = names_in(settings.target, table.names)
        units = settings.units
        return forecast(
            table,
            targets,
            settings.horizon,
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
            linear=_linear(settings),
        )
    if kind == "frames":
        clips = read_frames(path, settings.task, show=show)
        return labelled(clips, settings.background, settings.seed, linear=_linear(settings))
    return labelled(read_sounds(path, settings.seconds, show=show), seed=settings.seed, linear=_linear(settings))


def _linear(settings: Settings) -> bool:
    """Whether the model has a linear path."""
    deep = settings.stack == "deep"  # the path may read more tokens than the window, which only deep stacks can
    if settings.linear == "yes" and not deep:
        raise ValueError("linear='yes' does not go with --stack paper: give --stack deep")
    return settings.linear == "yes" or (settings.linear == "auto" and deep)


def open_for(
    info: ModelInfo,
    path: Path,
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
        path: The source.
        missing, gaps, background, seconds: As in `Settings`, by default as in training; "" is no background.
        skip_lines, skip_end: As in `Settings`; they depend on the file, not on the training.
        show: Whether to show a progress bar; None for only on a terminal.
    """
    if info.reader is None:
        raise ValueError(
            "the model has no reader, because it was not trained by nystream train; give it tokens instead"
        )
    reader, kind = reader_from_dict(info.reader), source_kind(path)
    if kind != reader.kind:
        raise ValueError(f"the model reads {DESCRIPTIONS[reader.kind]}, but {path} is {DESCRIPTIONS[kind]}")
    options = {"missing": missing, "gaps": gaps, "background": background or None, "seconds": seconds}
    options |= {"skip_lines": skip_lines or None, "skip_end": skip_end or None}
    _check_options({name: value for name, value in options.items() if value is not None}, path, kind)
    if isinstance(reader, TableReader):
        table, horizon = read_table(path, show, skip_lines, skip_end), info.horizon or 1
        return forecast(table, horizon=horizon, units=info.units, missing=missing, gaps=gaps, reader=reader)
    if kind == "audio":
        clips = read_sounds(path, seconds or info.file_seconds or Settings.seconds, info.labels, show)
    else:
        clips = read_frames(path, "detection" if info.task == "detection" else "classification", info.labels, show)
    if clips.reader != reader:
        raise ValueError(
            f"{path} has tokens of {len(clips.reader.names)} numbers, but the model reads {len(reader.names)}"
        )
    background = info.background if background is None else background
    return labelled(clips, background or "", several=info.several)


def _check_options(options: Mapping[str, Any], path: Path, kind: SourceKind) -> None:
    """Raise if an option does not apply to this kind of source."""
    for name, value in options.items():
        needed = next(other for other, names in OPTIONS.items() if name in names)
        if kind != needed:
            raise ValueError(f"{name}={value!r} is for {DESCRIPTIONS[needed]}, but {path} is {DESCRIPTIONS[kind]}")
