"""Files that are separate streams, labelled per file or per frame, and how to split them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import SHARES
from nystream.data.reader import Reader
from nystream.data.table import counted, shortened
from nystream.progress import track

MAX_NOTED = 3  # unusable files that a note names
MIN_FILES = 3  # one each for training, validation and testing
UNKNOWN = -1  # class of a frame without a label

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


def split(clips: Clips, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Return the numbers of the files for training, validation and testing, stratified by class."""
    if len(clips.clips) < MIN_FILES:
        raise ValueError(f"{clips.folder} has {len(clips.clips)} usable files, but a split needs {MIN_FILES} or more")
    strata = _strata(clips)
    if clips.labelling == "classification":
        for name, count in sorted(Counter(strata).items()):
            if count < MIN_FILES:
                raise ValueError(
                    f"class {name!r} has {count} usable files, but needs {MIN_FILES}: for training, validation and "
                    f"testing"
                )
    parts = _split(strata, seed)
    if not (parts[1] and parts[2]):  # every stratum is too small: split without them
        parts = _split([""] * len(strata), seed)
    return parts


def _strata(clips: Clips) -> list[str]:
    """The class of every file; of several classes, the one that the fewest files have."""
    present = []
    for clip in clips.clips:
        if clip.y.ndim == 2:
            present.append([i for i in range(clip.y.shape[1]) if (clip.y[:, i] > 0).any()])
        else:
            present.append([int(i) for i in np.unique(clip.y) if i != UNKNOWN])
    files = Counter(number for numbers in present for number in numbers)
    return [clips.classes[min(numbers, key=lambda i: (files[i], i))] if numbers else "" for numbers in present]


def _split(strata: Sequence[str], seed: int) -> tuple[list[int], list[int], list[int]]:
    rng = np.random.default_rng(seed)
    train, valid, test = list[int](), list[int](), list[int]()
    for name in sorted(set(strata)):
        members = rng.permutation([i for i, stratum in enumerate(strata) if stratum == name]).tolist()
        if len(members) < MIN_FILES:
            train += members
            continue
        valid_count, test_count = (max(1, round(share * len(members))) for share in SHARES[1:])
        valid += members[:valid_count]
        test += members[valid_count : valid_count + test_count]
        train += members[valid_count + test_count :]
    return sorted(train), sorted(valid), sorted(test)
