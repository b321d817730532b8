"""Where records come from: standard input, files, audio."""

from __future__ import annotations

from pathlib import Path

from nystream.config.checks import whole
from nystream.data.frames import SUFFIXES as FRAMES
from nystream.data.frames import feature_files
from nystream.data.reader import Reader
from nystream.data.series import table_files
from nystream.data.sounds import SUFFIXES as SOUNDS
from nystream.data.sounds import sound_files
from nystream.data.table import PARQUET
from nystream.data.table import SUFFIXES as TABLES
from nystream.data.table_reader import TableReader
from nystream.live.sources.formats import Format
from nystream.live.sources.lines import SAMPLE, LineFile, PipedLines, SampleLines
from nystream.live.sources.rows import FrameFile, TableFile
from nystream.live.sources.sound import Microphone, SoundFile
from nystream.live.sources.source import Feed, Folder, Item, Source

__all__ = ["Feed", "Format", "Item", "Source", "open_source"]

UNSUPPORTED = (".zip", ".gz", ".xlsx")  # which would otherwise be read as lines


def open_source(
    name: str,
    form: Format = "auto",
    follow: bool = False,
    rate: int | None = None,
    skip_lines: int = 0,
    reader: Reader | None = None,
) -> Source:
    """Open a source by name.

    Args:
        name: "-" for standard input, "mic" for the microphone, a file (audio, .npy, .npz, .parquet, or lines of JSON or
            CSV), a folder of tables, feature or audio files, or "sample" for the sample data set of the package, unless
            there is a file of that name.
        form: Format of lines; detected from the first line by default.
        follow: Wait for more lines at the end of a file.
        rate: Samples per second that the model reads; None if it does not read audio.
        skip_lines: The number of lines before the header or the first record.
        reader: The reader of the model. If it reads columns that are known in advance, they are read ahead in a table
            that does not have them as live records do.
    """
    whole("skip_lines", skip_lines)
    path = Path(name)
    suffix = path.suffix.lower()
    piped = name == "-" or (path.exists() and not path.is_file() and not path.is_dir())
    lines = name != "mic" and suffix not in (*SOUNDS, *FRAMES, *PARQUET) and not path.is_dir()
    if follow and (not lines or piped):
        raise ValueError(f"follow: only a file of lines can be followed, which {name} is not")
    if form != "auto" and not lines:
        raise ValueError(f"format={form!r} is for lines, which {name} does not have")
    if skip_lines and (not lines or (name == SAMPLE and not path.exists())):
        raise ValueError(f"skip_lines={skip_lines} is for files of lines and standard input, which {name} is not")
    if piped:
        return PipedLines(name, form, skip_lines)
    if name == "mic":
        return Microphone(_required(name, rate))
    if name == SAMPLE and not path.exists():
        if follow or form not in ("auto", "csv"):
            raise ValueError("sample is CSV and ends: neither follow nor another format is possible")
        return SampleLines()
    if not path.exists():
        raise FileNotFoundError(f"{name} does not exist; a source is a file, a folder, - for standard input, or mic")
    if path.is_dir():
        return _folder(path, rate, reader)
    if suffix in UNSUPPORTED:
        raise ValueError(f"{name} cannot be streamed; give .jsonl, .csv, .parquet, .npy, .npz or audio")
    if suffix in SOUNDS:
        return SoundFile(path, _required(name, rate))
    if suffix in FRAMES:
        return FrameFile(path)
    if isinstance(reader, TableReader) and reader.known_places and suffix in TABLES and not follow and form != "json":
        return TableFile(path, reader, skip_lines)
    return TableFile(path) if suffix in PARQUET else LineFile(path, form, follow, skip_lines)


def _folder(path: Path, rate: int | None, reader: Reader | None) -> Folder:
    if isinstance(reader, TableReader):
        tables = list(table_files(path).values())
        if not tables:
            raise ValueError(f"{path} is a folder with no tables, which the model needs")
        return Folder(path, tables, lambda file: open_source(str(file), reader=reader), LineFile.unit)
    paths = feature_files(path) if rate is None else sound_files(path)
    if not paths:
        missing = "no feature files" if rate is None else "no audio files in subfolders"
        raise ValueError(f"{path} is a folder with {missing}, which the model needs")
    if rate is None:
        return Folder(path, paths, FrameFile, FrameFile.unit)
    return Folder(path, paths, lambda file: SoundFile(file, rate), SoundFile.unit)


def _required(name: str, rate: int | None) -> int:
    if rate is None:
        raise ValueError(f"{name} is audio, but the model was not trained on audio")
    return rate
