"""Files that are streams of their own, with a label for each, or for each of their frames; and how to split them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.problem import SHARES
from nystream.data.reader import Reader
from nystream.data.table import counted

SHOWN = 3  # bad files that a note names
UNKNOWN = -1  # class of a frame that is not labelled

Labelling = Literal["classification", "detection"]


class Clip(NamedTuple):
    """One file."""

    name: str
    x: NDArray[np.float32]  # [T, width]
    y: NDArray[Any]  # [T] classes, or [T, classes] zeros and ones


class Bad(NamedTuple):
    """A file that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Clips:
    """All files of a folder that can be used."""

    folder: Path
    clips: tuple[Clip, ...]
    classes: tuple[str, ...]
    labelling: Labelling
    reader: Reader
    bad: tuple[Bad, ...] = ()
    seconds: float | None = None  # between two tokens
    file_seconds: float | None = None  # of a file that are used, at most

    @property
    def several(self) -> bool:
        """Whether a frame can have several classes at once, or none."""
        hot = [clip.y[np.isfinite(clip.y).all(1)] for clip in self.clips if clip.y.ndim == 2]
        return any((rows.sum(1) != 1).any() for rows in hot)

    @property
    def notes(self) -> tuple[str, ...]:
        frames = sum(len(clip.x) for clip in self.clips)
        per = "a class for every file" if self.labelling == "classification" else "classes of every frame"
        per += ", several at once or none" * self.several
        files = counted(len(self.clips), "file")
        found = f"{files} of {counted(frames, 'token')} in all; {len(self.classes)} classes, {per}"
        if not self.bad:
            return (found,)
        shown = "; ".join(f"{one.name}: {one.reason}" for one in self.bad[:SHOWN])
        more = f"; and {len(self.bad) - SHOWN} more" if len(self.bad) > SHOWN else ""
        return found, f"{counted(len(self.bad), 'file')} left out: {shown}{more}"


def refuse_none(folder: Path, clips: Sequence[Any], bad: Sequence[Bad]) -> None:
    """Say why, where no file can be used."""
    if not clips:
        first = f"; {bad[0].name}: {bad[0].reason}" if bad else ""
        raise ValueError(f"{folder} has no file that can be used{first}")


def split(clips: Clips, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Numbers of the files to train on, to select by and to test with: of every class its share."""
    if len(clips.clips) < 3:
        raise ValueError(f"{clips.folder} has {len(clips.clips)} files that can be used, but a split needs 3 or more")
    strata = _strata(clips)
    if clips.labelling == "classification":
        for name, count in sorted(Counter(strata).items()):
            if count < 3:
                raise ValueError(
                    f"class {name!r} has {count} files that can be used, but needs 3: to train, to select by, to test"
                )
    parts = _dealt(strata, seed)
    if not (parts[1] and parts[2]):  # too few files of any one kind: split without regard to kinds
        parts = _dealt([""] * len(strata), seed)
    return parts


def _strata(clips: Clips) -> list[str]:
    """The class of every file; of several, the one that the fewest files have."""
    held = []
    for clip in clips.clips:
        if clip.y.ndim == 2:
            held.append([i for i in range(clip.y.shape[1]) if (clip.y[:, i] > 0).any()])
        else:
            held.append([int(i) for i in np.unique(clip.y) if i != UNKNOWN])
    files = Counter(place for places in held for place in places)
    return [clips.classes[min(places, key=lambda i: (files[i], i))] if places else "" for places in held]


def _dealt(strata: Sequence[str], seed: int) -> tuple[list[int], list[int], list[int]]:
    rng = np.random.default_rng(seed)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for name in sorted(set(strata)):
        members = rng.permutation([i for i, one in enumerate(strata) if one == name]).tolist()
        if len(members) < 3:
            parts[0].extend(members)
            continue
        valid, test = (max(1, round(share * len(members))) for share in SHARES[1:])
        parts[1].extend(members[:valid])
        parts[2].extend(members[valid : valid + test])
        parts[0].extend(members[valid + test :])
    return sorted(parts[0]), sorted(parts[1]), sorted(parts[2])
