"""What a source is, by its name and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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

Kind = Literal["table", "frames", "audio"]
KINDS = {"table": "a table", "frames": "a folder of feature files", "audio": "a folder of audio files"}
# options that only some sources have
ONLY: dict[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("target", "horizon", "time", "time_format", "decimal"), ("table",)),
    **dict.fromkeys(("columns", "categorical", "units", "missing", "gaps"), ("table",)),
    **dict.fromkeys(("task", "background"), ("frames",)),
    "seconds": ("audio",),
}


def kind_of(path: Path) -> Kind:
    """A table, a folder of feature files, or a folder of audio files."""
    if path.is_file():
        if path.suffix.lower() in TABLES:
            return "table"
        raise ValueError(f"{path} is no table: its name must end in one of {', '.join(TABLES)}")
    if not path.is_dir():
        raise FileNotFoundError(f"source={path} does not exist")
    suffixes = {one.suffix.lower() for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")}
    frames, sounds = bool(suffixes & set(FRAMES)), bool(suffixes & set(SOUNDS))
    if frames and sounds:
        raise ValueError(f"{path} has feature files and audio files; give a folder with one kind")
    if frames or sounds:
        return "frames" if frames else "audio"
    raise ValueError(f"{path} has neither feature files ({', '.join(FRAMES)}) nor audio ({', '.join(SOUNDS)})")


def open_source(settings: Settings, show: bool | None = None) -> Problem:
    """What there is to learn from a source."""
    path = Path(settings.source)
    kind = kind_of(path)
    for name, kinds in ONLY.items():
        if kind not in kinds and getattr(settings, name) != getattr(Settings, name):
            what = " or ".join(KINDS[one] for one in kinds)
            raise ValueError(f"{name}={getattr(settings, name)!r} is for {what}, but {path} is {KINDS[kind]}")
    if kind == "table":
        table = read_table(path, show)
        targets = names_in(settings.target, table.names)
        units = settings.units
        return forecast(
            table,
            targets,
            settings.horizon,
            time=settings.time or None,
            time_format=settings.time_format,
            decimal=settings.decimal,
            columns=names_in(settings.columns, table.names),
            categorical=names_in(settings.categorical, table.names),
            units=(units,) if isinstance(units, str) and units and len(targets) == 1 else names_in(units),
            missing=settings.missing,
            gaps=settings.gaps,
        )
    if kind == "frames":
        return labelled(read_frames(path, settings.task, show=show), settings.background, settings.seed)
    return labelled(read_sounds(path, settings.seconds, show=show), seed=settings.seed)


def open_for(
    info: ModelInfo,
    path: Path,
    *,
    missing: Policy | None = None,
    gaps: Policy | None = None,
    background: str = "",
    seconds: float = Settings.seconds,
    show: bool | None = None,
) -> Problem:
    """A source as the reader of a trained model reads it."""
    if info.reader is None:
        raise ValueError("the model has no reader: it was not trained by nystream train, so give it tokens yourself")
    reader, kind = reader_from_dict(info.reader), kind_of(path)
    if kind != reader.kind:
        raise ValueError(f"the model reads {KINDS[reader.kind]}, but {path} is {KINDS[kind]}")
    if isinstance(reader, TableReader):
        return forecast(
            read_table(path, show),
            horizon=info.horizon or 1,
            units=info.units,
            missing=missing,
            gaps=gaps,
            reader=reader,
        )
    clips = (
        read_sounds(path, seconds, info.labels, show)
        if kind == "audio"
        else read_frames(path, "detection" if info.task == "detection" else "classification", info.labels, show)
    )
    if clips.reader != reader:
        raise ValueError(
            f"{path} has tokens of {len(clips.reader.names)} numbers, but the model reads {len(reader.names)}"
        )
    return labelled(clips, background, several=info.several)
