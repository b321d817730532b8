"""Files that are separate streams, labelled per file or per frame."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import HeldOut
from nystream.data.reader import Reader
from nystream.data.table import counted, shortened
from nystream.progress import track

MAX_NOTED = 3  # unusable files that a note names
UNKNOWN = -1  # class of a frame without a label

UNKNOWN_CLASS = "class"  # first word of the reason why a file of an unknown class cannot be used

Labelling = Literal["classification", "detection"]
T = TypeVar("T")


class Clip(NamedTuple):
    """One file."""

    name: str
    x: NDArray[np.float32]  # [T, width]
    y: NDArray[Any]  # classes [T], or zeros and ones [T, classes]


@dataclass(frozen=True, eq=False)
class Clips:
    """All usable files of a folder."""

    folder: Path
    clips: tuple[Clip, ...]
    classes: tuple[str, ...]
    labelling: Labelling
    reader: Reader
    bad: Mapping[str, str] = field(default_factory=dict)  # files that cannot be used -> why
    seconds: float | None = None  # between two tokens
    file_seconds: float | None = None  # used of each file, at most
    groups: tuple[str, ...] = ()  # of each file: those of one group belong to one part; empty if there are none
    group: str = ""  # what the groups are
    parts: tuple[HeldOut | None, ...] = ()  # of each file: given, or None if it is drawn; empty if all are drawn
    copies: int = 0  # files that were dropped because they are also among the given ones
    frames_per_token: int = 1

    @property
    def several(self) -> bool:
        """Whether a frame can have several classes at once, or none."""
        hot = [clip.y[np.isfinite(clip.y).all(1)] for clip in self.clips if clip.y.ndim == 2]
        return any((rows.sum(1) != 1).any() for rows in hot)

    @property
    def notes(self) -> tuple[str, ...]:
        tokens = sum(len(clip.x) for clip in self.clips)
        per = "one per file" if self.labelling == "classification" else "labelled per frame"
        per += ", several at once or none" * self.several
        size = f"{counted(len(self.clips), 'file')} with {counted(tokens, 'token')} in total"
        if self.frames_per_token > 1:
            size += f", each of {self.frames_per_token} frames (`hop`)"
        summary = f"{size}; {len(self.classes)} classes, {per}"
        if not self.bad:
            return (summary,)
        named = shortened([f"{name}: {reason}" for name, reason in self.bad.items()], MAX_NOTED, "; ")
        return summary, f"{counted(len(self.bad), 'file')} dropped: {named}"


def read_files(
    folder: Path,
    paths: Sequence[Path],
    read: Callable[[Path, str], tuple[T, NDArray[Any]]],
    bad: dict[str, str],
    show: bool | None = None,
) -> list[T]:
    """Read the files of a folder; those that cannot be read and copies of others are added to `bad`, with the reason.

    `read` takes a path and its name within the folder, and returns the file and an array by which copies are detected.
    """
    usable, seen = list[T](), dict[bytes, str]()
    with track("reading", len(paths), show) as advance:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            try:
                file, content = read(path, name)
                original = seen.setdefault(hashlib.sha256(content.tobytes()).digest(), name)
                if original != name:
                    raise ValueError(f"it is a copy of {original}")
                usable.append(file)
            except (ValueError, OSError) as error:
                bad[name] = str(error)
            advance()
    if not usable:
        reasons = [f"; {name}: {reason}" for name, reason in bad.items()]
        raise ValueError(f"{folder} has no usable file{''.join(reasons[:1])}")
    return usable
