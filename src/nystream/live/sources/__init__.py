"""Where records come from: standard input, files, sound."""

from __future__ import annotations

from pathlib import Path

from nystream.live.sources.formats import Format
from nystream.live.sources.frames import FrameFile
from nystream.live.sources.lines import LineFile, PipedLines
from nystream.live.sources.microphone import Microphone
from nystream.live.sources.sample import NAME as SAMPLE
from nystream.live.sources.sample import Sample
from nystream.live.sources.sound import SoundFile
from nystream.live.sources.source import Feed, Item, Source

__all__ = ["Feed", "Format", "Item", "Source", "open_source"]

SOUND = (".aif", ".aiff", ".au", ".flac", ".mp3", ".ogg", ".wav")
NOT_LINES = (".npz", ".parquet", ".zip", ".gz", ".xlsx")


def open_source(name: str, form: Format = "auto", follow: bool = False, rate: int | None = None) -> Source:
    """The source of a name.

    Args:
        name: "-" for standard input, "mic" for the microphone, a file (sound, .npy, or lines of JSON or CSV), or
            "sample" for the demand that comes with the package, unless there is a file of that name.
        form: of lines; found out from the first one.
        follow: wait for more lines where a file ends.
        rate: samples a second that the model wants; None if it does not read sound.
    """
    path = Path(name)
    piped = name == "-" or (path.exists() and not path.is_file() and not path.is_dir())
    lines = name != "mic" and path.suffix.lower() not in (*SOUND, ".npy")
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
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a folder, but a source is a file, - or mic")
    if not path.exists():
        raise FileNotFoundError(f"{name} does not exist; a source is a file, - for standard input, mic, or sample")
    if path.suffix.lower() in SOUND:
        return SoundFile(path, _needed(name, rate))
    if path.suffix.lower() == ".npy":
        return FrameFile(path)
    if path.suffix.lower() in NOT_LINES:
        raise ValueError(f"{name} is not a file of lines; give .jsonl, .csv, .npy or sound")
    return LineFile(path, form, follow)


def _needed(name: str, rate: int | None) -> int:
    if rate is None:
        raise ValueError(f"{name} is sound, but the model was not trained to read sound")
    return rate
