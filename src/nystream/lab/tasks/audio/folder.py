"""Audio in the layout of GTZAN: a folder with one subfolder of .au or .wav files per genre."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from nystream.data.audio_file import SAMPLE_RATE, read, require
from nystream.progress import track

log = logging.getLogger("nystream")

SECONDS = 30.0  # per track
SUFFIXES = (".au", ".wav")


class Skipped(NamedTuple):
    """A file that could not be used, and the reason."""

    path: Path
    reason: str


class Track(NamedTuple):
    """A recording of one genre."""

    name: str
    genre: str
    samples: NDArray[Any]  # [seconds * 16000] float32, mono, -1 to 1


class AudioFolder:
    """The recordings in a folder, read one by one.

    Every subfolder is a genre, and its .au and .wav files are the tracks. A track is mixed to mono, resampled to 16 kHz
    and cut to `seconds`, or padded with silence if it is slightly shorter. Files that are broken, empty or much too
    short are skipped, logged as warnings and listed in `skipped`.

    Args:
        folder: The folder with the subfolders.
        seconds: Length of a track.
        show: True for a progress bar, False for none, None for a bar if standard error is a terminal.
    """

    def __init__(self, folder: str | Path, seconds: float = SECONDS, show: bool | None = None) -> None:
        self.folder, self.show = Path(folder), show
        if not self.folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder; give the folder that has a subfolder per genre")
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds}, but must be greater than 0")
        self.length = round(seconds * SAMPLE_RATE)
        self.files = sorted(
            path
            for path in self.folder.glob("*/*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
        if not self.files:
            raise ValueError(f"{folder} has no {' or '.join(SUFFIXES)} files in its subfolders, one per genre")
        self.genres = tuple(sorted({path.parent.name for path in self.files}))
        self.skipped: list[Skipped] = []

    def __len__(self) -> int:
        """Number of files, usable or not."""
        return len(self.files)

    def __iter__(self) -> Iterator[Track]:
        require()
        self.skipped.clear()
        with track("tracks", len(self), self.show) as advance:
            for path in self.files:
                try:
                    samples = read(path, self.length)
                except ValueError as error:
                    self.skipped.append(Skipped(path, str(error)))
                    log.warning("skipped %s: %s", path, error)
                else:
                    yield Track(track_name(path), path.parent.name, samples)
                advance(note=f"{len(self.skipped)} skipped" if self.skipped else "")


def track_name(path: Path) -> str:
    """The name of the file, prefixed with its genre unless it already is, as in "blues.00000"."""
    genre = path.parent.name
    return path.stem if path.stem.startswith(f"{genre}.") else f"{genre}/{path.stem}"
