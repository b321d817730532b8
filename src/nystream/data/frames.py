"""Folders of feature files: an array [T, width] each, with labels for every frame or for every file.

Labels of frames are `y` in the .npz, or FILE.labels.npy beside FILE.npy: classes [T] (numbers or names, -1 where not
known), or zeros and ones [T, classes]. Labels of files are a labels.csv with the columns file and label, a single `y`
in the .npz, or the names of subfolders. A classes.txt, a name a line, names classes that are numbers.
"""

from __future__ import annotations

import csv
import hashlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import fields_of, positive_int
from nystream.data.clips import UNKNOWN, Bad, Clip, Clips, Labelling, refuse_none
from nystream.data.reader import Policy, Reader, no_gaps
from nystream.data.settings import TaskName
from nystream.data.vectors import VectorReader
from nystream.progress import track

SUFFIXES = (".npy", ".npz")
LABELS = ".labels.npy"
ALONE = ""
MOST = 1000  # classes that are numbers


@dataclass(frozen=True)
class FramesReader(Reader):
    """A vector of `width` numbers a record."""

    kind: ClassVar[str] = "frames"

    width: int

    def __post_init__(self) -> None:
        positive_int("width", self.width)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"feature {i}" for i in range(self.width))

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> VectorReader:
        no_gaps(gaps)
        return VectorReader(self.width, self.names, missing=missing or "fail")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "width": self.width}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> FramesReader:
        return cls(**fields_of(cls, {name: value for name, value in fields.items() if name != "kind"}, "reader"))


class Found(NamedTuple):
    """A file as it was read."""

    name: str
    x: NDArray[np.float32]
    frames: NDArray[Any] | None  # labels of frames
    file: str | None  # label of the file


def read_frames(folder: Path, task: TaskName = "auto", classes: Sequence[str] = (), show: bool | None = None) -> Clips:
    """The feature files of a folder; those that cannot be used are reported. `classes` are those that are known."""
    paths = files_of(folder)
    by_name, found, bad, seen = _labels_of_files(folder), list[Found](), list[Bad](), dict[bytes, str]()
    there = {key for path in paths for key in (path.relative_to(folder).as_posix(), path.name, path.stem)}
    bad += [Bad(name, "labels.csv has it, but there is no such file") for name in by_name if name not in there]
    with track("reading", len(paths), show) as advance:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            try:
                one = _read(path, name, by_name)
                digest = hashlib.sha256(one.x.tobytes()).digest()
                if digest in seen:
                    raise ValueError(f"it is a copy of {seen[digest]}")
                seen[digest] = name
                found.append(one)
            except (ValueError, OSError) as error:
                bad.append(Bad(name, str(error)))
            advance()
    refuse_none(folder, found, bad)
    width = Counter(one.x.shape[1] for one in found).most_common(1)[0][0]
    bad += [Bad(one.name, f"width {one.x.shape[1]}, but most have {width}") for one in found if one.x.shape[1] != width]
    found = [one for one in found if one.x.shape[1] == width]
    labelling = _labelling(folder, found, task)
    names = tuple(classes) or _class_names(folder)
    usable = [one for one in found if (one.frames if labelling == "detection" else one.file) is not None]
    bad += [Bad(one.name, "it has no label") for one in found if one not in usable]
    make = _of_frames if labelling == "detection" else _of_files
    clips, names = make(usable, names)
    return Clips(folder, clips, names, labelling, FramesReader(width), tuple(bad))


def files_of(folder: Path) -> list[Path]:
    """The feature files of a folder, without those that only have labels."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.endswith(LABELS) and not path.name.startswith(".")
    )


def features(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array [T, width] of a feature file, and `y` where it is an .npz that has one."""
    held = _arrays(path)
    if path.suffix.lower() == ".npy":
        x, y = held[ALONE], None
    else:
        others = [key for key in held if key != "y"]
        if "x" not in others and len(others) != 1:
            raise ValueError(f"it has the arrays {', '.join(held) or 'none'}, but needs one named x")
        x, y = held["x" if "x" in others else others[0]], held.get("y")
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiub":
        raise ValueError(f"{x.dtype} {list(x.shape)}, but must be numbers [T, width]")
    return x, y


def _labels_of_files(folder: Path) -> dict[str, str]:
    path = folder / "labels.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"file", "label"} <= set(rows[0]):
        raise ValueError(f"{path} must have the columns file and label, and at least one row")
    found: dict[str, str] = {}
    for row in rows:
        name, label = (row["file"] or "").strip(), (row["label"] or "").strip()
        if found.setdefault(name, label) != label:
            raise ValueError(f"{path} has two labels for {name!r}: {found[name]!r} and {label!r}")
    return found


def _read(path: Path, name: str, by_name: dict[str, str]) -> Found:
    x, y = features(path)
    frames, file = None, by_name.get(name) or by_name.get(path.name) or by_name.get(path.stem)
    beside = path.with_name(path.stem + LABELS)
    if path.suffix.lower() == ".npy":
        frames = _arrays(beside)[ALONE] if beside.is_file() else None
    elif y is not None and y.ndim == 0:
        file = str(y.item())
    else:
        frames = y
    if file is None and not by_name and "/" in name:
        file = name.split("/")[0]
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError("it has numbers that are not finite, or beyond float32")
    if frames is not None and (len(frames) != len(x) or frames.ndim not in (1, 2)):
        raise ValueError(f"its labels are {list(frames.shape)}, but it has {len(x)} frames")
    return Found(name, x, frames, file)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name; that of a .npy is ALONE."""
    try:
        with path.open("rb") as file:
            held = np.load(file, allow_pickle=False)
            return {ALONE: held} if isinstance(held, np.ndarray) else {name: held[name] for name in held.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is no whole file of arrays of numbers") from error


def _labelling(folder: Path, found: Sequence[Found], task: TaskName) -> Labelling:
    frames = any(one.frames is not None for one in found)
    files = any(one.file is not None for one in found)
    if task == "detection" or (task == "auto" and frames):
        if not frames:
            raise ValueError(f"task=detection needs labels of frames: `y` in the .npz, or FILE{LABELS}")
        return "detection"
    if not files:
        raise ValueError(
            f"{folder} has no labels: give `y` in every .npz, or FILE{LABELS} beside every .npy, for each frame; "
            f"or a labels.csv (file,label) or a subfolder for every class, for each file"
        )
    return "classification"


def _class_names(folder: Path) -> tuple[str, ...]:
    path = folder / "classes.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return tuple(line.strip() for line in lines if line.strip())


def _of_files(found: Sequence[Found], names: tuple[str, ...]) -> tuple[tuple[Clip, ...], tuple[str, ...]]:
    classes = names or tuple(sorted({str(one.file) for one in found}))
    clips = [Clip(one.name, one.x, np.full(len(one.x), _place(str(one.file), classes))) for one in found]
    return tuple(clips), classes


def _place(label: str, classes: Sequence[str]) -> int:
    """The number of a class, by its name, or by that number itself."""
    if label in classes:
        return classes.index(label)
    if label.isdigit() and int(label) < len(classes):
        return int(label)
    raise ValueError(f"class {label!r} is not known; the classes are {', '.join(classes)}")


def _of_frames(found: Sequence[Found], names: tuple[str, ...]) -> tuple[tuple[Clip, ...], tuple[str, ...]]:
    arrays = [one.frames for one in found if one.frames is not None]
    kinds = {(array.ndim, array.dtype.kind in "US") for array in arrays}
    if len(kinds) > 1:
        raise ValueError("labels of frames must be of one kind in all files: numbers, names, or zeros and ones")
    two, text = kinds.pop()
    if two == 2:
        labels, count = _several(found, arrays)
    elif text:
        names = names or tuple(sorted({str(one) for array in arrays for one in np.unique(array)}))
        labels = [np.array([_place(str(one), names) for one in array]) for array in arrays]
        count = len(names)
    else:
        labels = [_whole(one.name, array) for one, array in zip(found, arrays, strict=True)]
        count = 1 + max(int(array.max()) for array in labels)
    if names and count > len(names):
        raise ValueError(f"labels of frames have {count} classes, but only {len(names)} are known by name")
    classes = names or tuple(map(str, range(count)))
    return tuple(Clip(one.name, one.x, y) for one, y in zip(found, labels, strict=True)), classes


def _several(found: Sequence[Found], arrays: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], int]:
    """Zeros and ones [T, classes]."""
    width = arrays[0].shape[1]
    for one, array in zip(found, arrays, strict=True):
        if array.shape[1] != width:
            raise ValueError(f"{one.name}: labels of {array.shape[1]} classes, but {found[0].name} has {width}")
        if not np.isin(array[np.isfinite(array)] if array.dtype.kind == "f" else array, (0, 1)).all():
            raise ValueError(f"{one.name}: labels [T, classes] must be zeros and ones")
    return [array.astype(np.float32) for array in arrays], width


def _whole(name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    """Classes [T] that are numbers."""
    if array.dtype.kind not in "fiub" or (array != np.round(array)).any():
        raise ValueError(f"{name}: labels must be whole numbers, one a frame, but are {array.dtype}")
    whole = array.astype(np.int64)
    if whole.min() < UNKNOWN or whole.max() >= MOST:
        raise ValueError(f"{name}: labels go from {whole.min()} to {whole.max()}, but classes are 0 to {MOST - 1}")
    return whole


READER = FramesReader
