"""What a source is, by its name and what is in it."""

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
    tables = "; it has tables, which are given one by one, as files" if suffixes & set(TABLES) else ""
    raise ValueError(f"{path} has neither feature files ({', '.join(FRAMES)}) nor audio ({', '.join(SOUNDS)}){tables}")


def open_source(settings: Settings, show: bool | None = None, given: Collection[str] = ()) -> Problem:
    """What there is to learn from a source. `given` names settings that were typed, be they the usual ones."""
    path = Path(settings.source)
    kind = kind_of(path)
    typed = {name for name in ONLY if name in given or getattr(settings, name) != getattr(Settings, name)}
    _refuse_others({name: getattr(settings, name) for name in typed}, path, kind)
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
    background: str | None = None,
    seconds: float | None = None,
    show: bool | None = None,
) -> Problem:
    """A source as the reader of a trained model reads it, scored as in training.

    Args:
        info: of the model.
        path: the source.
        missing, gaps, background, seconds: as in `Settings`; as in training unless told. A background of "" is none.
        show: a progress bar: True, False, or None for one on a terminal.
    """
    if info.reader is None:
        raise ValueError("the model has no reader: it was not trained by nystream train, so give it tokens yourself")
    reader, kind = reader_from_dict(info.reader), kind_of(path)
    if kind != reader.kind:
        raise ValueError(f"the model reads {KINDS[reader.kind]}, but {path} is {KINDS[kind]}")
    told = {"missing": missing, "gaps": gaps, "background": background or None, "seconds": seconds}
    _refuse_others({name: value for name, value in told.items() if value is not None}, path, kind)
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
        read_sounds(path, seconds or info.file_seconds or Settings.seconds, info.labels, show)
        if kind == "audio"
        else read_frames(path, "detection" if info.task == "detection" else "classification", info.labels, show)
    )
    if clips.reader != reader:
        raise ValueError(
            f"{path} has tokens of {len(clips.reader.names)} numbers, but the model reads {len(reader.names)}"
        )
    chosen = info.background if background is None else background
    return labelled(clips, chosen or "", several=info.several)


def _refuse_others(options: Mapping[str, Any], path: Path, kind: Kind) -> None:
    """Refuse options that mean nothing for a source of this kind."""
    for name, value in options.items():
        if kind not in ONLY[name]:
            what = " or ".join(KINDS[one] for one in ONLY[name])
            raise ValueError(f"{name}={value!r} is for {what}, but {path} is {KINDS[kind]}")
