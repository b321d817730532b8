"""Where records come from: standard input, files, sound."""

from __future__ import annotations

from pathlib import Path

from nystream.data.frames import SUFFIXES as FRAMES
from nystream.data.frames import files_of as frame_files
from nystream.data.sounds import SUFFIXES as SOUNDS
from nystream.data.sounds import files_of as sound_files
from nystream.live.sources.folder import Folder
from nystream.live.sources.formats import Format
from nystream.live.sources.frames import FrameFile
from nystream.live.sources.lines import LineFile, PipedLines
from nystream.live.sources.microphone import Microphone
from nystream.live.sources.sample import NAME as SAMPLE
from nystream.live.sources.sample import Sample
from nystream.live.sources.sound import SoundFile
from nystream.live.sources.source import Feed, Item, Source
from nystream.live.sources.table import TableFile

__all__ = ["Feed", "Format", "Item", "Source", "open_source"]

TABLES = (".parquet", ".pq")
NEITHER = (".zip", ".gz", ".xlsx")  # that somebody might give


def open_source(name: str, form: Format = "auto", follow: bool = False, rate: int | None = None) -> Source:
    """The source of a name.

    Args:
        name: "-" for standard input, "mic" for the microphone, a file (sound, .npy, .npz, .parquet, or lines of JSON or
            CSV), a folder of feature or audio files, or "sample" for the demand that comes with the package, unless
            there is a file of that name.
        form: of lines; found out from the first one.
        follow: wait for more lines where a file ends.
        rate: samples a second that the model wants; None if it does not read sound.
    """
    path = Path(name)
    suffix = path.suffix.lower()
    piped = name == "-" or (path.exists() and not path.is_file() and not path.is_dir())
    lines = name != "mic" and suffix not in (*SOUNDS, *FRAMES, *TABLES) and not path.is_dir()
    if follow and (not lines or piped):
        raise ValueError(f"follow: only a file of lines can be followed, and {name} is none")
    if form != "auto" and not lines:
        raise ValueError(f"format={form!r} is for lines, and {name} has none")
    if piped:
        return PipedLines(name, form)
    if name == "mic":
        return Microphone(_needed(name, rate))
    if name == SAMPLE and not path.exists():
        if follow or form not in ("auto", "csv"):
            raise ValueError("sample is CSV and ends: it takes neither follow nor another format")
        return Sample()
    if not path.exists():
        raise FileNotFoundError(f"{name} does not exist; a source is a file, a folder, - for standard input, or mic")
    if path.is_dir():
        return _folder(path, rate)
    if suffix in NEITHER:
        raise ValueError(f"{name} cannot be streamed; give .jsonl, .csv, .parquet, .npy, .npz or sound")
    return _file(path, rate) or LineFile(path, form, follow)


def _file(path: Path, rate: int | None) -> Source | None:
    """A file that does not have lines."""
    suffix = path.suffix.lower()
    if suffix in SOUNDS:
        return SoundFile(path, _needed(str(path), rate))
    if suffix in FRAMES:
        return FrameFile(path)
    return TableFile(path) if suffix in TABLES else None


def _folder(path: Path, rate: int | None) -> Folder:
    paths = frame_files(path) if rate is None else sound_files(path)
    if not paths:
        what = "no feature files" if rate is None else "no audio files in subfolders"
        raise ValueError(f"{path} is a folder with {what}, as the model would need")
    if rate is None:
        return Folder(path, paths, FrameFile, FrameFile.unit)
    return Folder(path, paths, lambda one: SoundFile(one, rate), SoundFile.unit)


def _needed(name: str, rate: int | None) -> int:
    if rate is None:
        raise ValueError(f"{name} is sound, but the model was not trained to read sound")
    return rate
