"""Folders of feature files: one array [T, width] each, labelled per frame or per file.

Labels of frames are `y` in the .npz, or FILE.labels.npy next to FILE.npy: classes [T] (numbers or names, -1 if
unknown), or zeros and ones [T, classes]. Labels of files are in a labels.csv with the columns file and label, a single
`y` in the .npz, or the names of subfolders. A classes.txt, with one name per line, names classes that are numbers.

Features have names if an .npz has an array `names` [width], or the folder a features.txt with one name per line.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config.checks import positive_int
from nystream.data import hops
from nystream.data.clips import UNKNOWN, Clip, Clips, Labelling, read_files
from nystream.data.labels_file import keys_of, read_labels, value_of
from nystream.data.option_groups import TaskName
from nystream.data.reader import LiveReader, Policy, Reader, reject_gaps
from nystream.data.vectors import LiveVectors

SUFFIXES = (".npy", ".npz")
LABELS = ".labels.npy"
FEATURES = "features.txt"  # names of the features, one per line
NAMES = "names"  # an array of an .npz, likewise
UNNAMED = ""  # the array of a .npy file
MAX_CLASSES = 1000  # that are numbers


@dataclass(frozen=True)
class FramesReader(Reader):
    """Reads records that are vectors of `width` numbers.

    Args:
        width: The number of features.
        features: Their names; empty if they have none.
        hop: The number of records per token, which has their statistics (`nystream.data.hops`) if there are several.
    """

    kind: ClassVar[str] = "frames"

    width: int
    features: tuple[str, ...] = ()
    hop: int = 1

    def __post_init__(self) -> None:
        positive_int("width", self.width)
        positive_int("hop", self.hop)
        object.__setattr__(self, "features", tuple(self.features))
        if self.features:
            check_features("features", self.features, self.width)

    @property
    def names(self) -> tuple[str, ...]:
        return self.fields if self.hop == 1 else hops.names_of(self.fields)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the numbers of a record."""
        return self.features or tuple(f"feature {i}" for i in range(self.width))

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        if not self.features:
            del fields["features"]  # as older versions wrote it
        if self.hop == 1:
            del fields["hop"]
        return fields

    def live(self, missing: Policy | None = None, gaps: Policy | None = None) -> LiveReader:
        reject_gaps(gaps)
        frames = LiveVectors(self.width, self.fields, missing=missing or "fail")
        return frames if self.hop == 1 else hops.LiveHops(frames, self.hop)


def hop_of(reader: Reader | None) -> int:
    """The number of frames per token."""
    return reader.hop if isinstance(reader, FramesReader) else 1


class FeatureFile(NamedTuple):
    """A file and its labels."""

    name: str
    x: NDArray[np.float32]
    frame_labels: NDArray[Any] | None
    label: str | None  # of the whole file
    features: tuple[str, ...] = ()  # names of the columns of x, if it has them


def read_frames(
    folder: Path, task: TaskName = "auto", classes: Sequence[str] = (), show: bool | None = None, hop: int = 1
) -> Clips:
    """Read the feature files of a folder.

    Args:
        folder: The folder.
        task: Whether files or frames have classes; "auto" decides by the labels.
        classes: The names of known classes, if any.
        show: Whether to show a progress bar; None for only on a terminal.
        hop: Number of frames per token; 0 to choose it from the files.
    """
    paths, labels = feature_files(folder), read_labels(folder)
    names = {key for path in paths for key in keys_of(path.relative_to(folder).as_posix())}
    bad = {name: "it is in labels.csv, but does not exist" for name in labels if name not in names}

    def read(path: Path, name: str) -> tuple[FeatureFile, NDArray[Any]]:
        file = _read(path, name, labels)
        return file, file.x

    files = read_files(folder, paths, read, bad, show)
    width = Counter(file.x.shape[1] for file in files).most_common(1)[0][0]
    feature_names = _feature_names(folder, [file for file in files if file.x.shape[1] == width], width)
    labelling = _labelling(folder, [file for file in files if file.x.shape[1] == width], task)
    usable = list[FeatureFile]()
    for file in files:
        if file.x.shape[1] != width:
            bad[file.name] = f"width {file.x.shape[1]}, but most files have {width}"
        elif file.features and file.features != feature_names:
            place = next(i for i, name in enumerate(feature_names) if file.features[i] != name)
            bad[file.name] = f"feature {place} is {file.features[place]!r}, but {feature_names[place]!r} in other files"
        elif (file.frame_labels if labelling == "detection" else file.label) is None:
            bad[file.name] = "it has no label"
        else:
            usable.append(file)
    class_names = tuple(classes) or _class_names(folder)
    if labelling == "detection":
        y, class_names = _frame_classes(usable, class_names)
    else:
        class_names = class_names or tuple(sorted({str(file.label) for file in usable}))
        y = [np.full(len(file.x), _class_number(str(file.label), class_names)) for file in usable]
    hop = hop or hops.choose_hop(width, y)
    clips = [Clip(file.name, file.x, target) for file, target in zip(usable, y, strict=True)]
    if hop > 1:
        bad |= {clip.name: f"{len(clip.x)} frames, fewer than `hop={hop}`" for clip in clips if len(clip.x) < hop}
        clips = [_hopped(clip, hop) for clip in clips if len(clip.x) >= hop]
    if not clips:
        raise ValueError(f"hop={hop}: no file of {folder} has as many frames")
    reader = FramesReader(width, feature_names, hop)
    return Clips(folder, tuple(clips), class_names, labelling, reader, bad, frames_per_token=hop)


def _hopped(clip: Clip, hop: int) -> Clip:
    """A file with several frames per token; its class is that of the last of them."""
    x = hops.tokens(clip.x, hop)
    return Clip(clip.name, x, clip.y[hop - 1 :: hop][: len(x)])


def feature_files(folder: Path) -> list[Path]:
    """Return the feature files of a folder, without files of labels."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.endswith(LABELS) and not path.name.startswith(".")
    )


def features(path: Path, dims: Sequence[int] = (2,), mmap: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the array [T, width] of a feature file, and `y` of an .npz that has one.

    `mmap` maps a .npy into memory instead of reading it.
    """
    return _features_in(_arrays(path, mmap), dims)


def _features_in(
    arrays: Mapping[str, NDArray[Any]], dims: Sequence[int] = (2,)
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    others = [key for key in arrays if key not in ("y", NAMES)]
    if "x" not in others and len(others) != 1:
        raise ValueError(f"it has the arrays {', '.join(arrays) or 'none'}, but needs one named x")
    x = arrays["x" if "x" in others else others[0]]
    if x.ndim not in dims or 0 in x.shape or x.dtype.kind not in "fiub":
        raise ValueError(f"it is {x.dtype} {list(x.shape)}, but must be numbers [T, width], one row per token")
    return x, arrays.get("y")


def _arrays(path: Path, mmap: bool = False) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name; that of a .npy is UNNAMED."""
    try:
        if mmap and path.suffix.lower() == ".npy":
            return {UNNAMED: np.load(path, mmap_mode="r", allow_pickle=False)}
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return (
                {UNNAMED: loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
            )
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not a complete file of numeric arrays") from error


def _read(path: Path, name: str, labels: dict[str, str]) -> FeatureFile:
    arrays = _arrays(path)
    x, y = _features_in(arrays)
    names = _names_in(arrays, x.shape[1])
    label = value_of(labels, name)
    labels_file = path.with_name(path.stem + LABELS)
    if path.suffix.lower() == ".npy" and labels_file.is_file():
        y = _arrays(labels_file)[UNNAMED]
    elif y is not None and y.ndim == 0:
        label, y = str(y.item()), None
    if label is None and not labels and "/" in name:
        label = name.split("/")[0]
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError("it has numbers that are not finite, or too large for float32")
    if y is not None and (len(y) != len(x) or y.ndim not in (1, 2)):
        raise ValueError(f"its labels are {list(y.shape)}, but it has {len(x)} frames")
    return FeatureFile(name, x, y, label, names)


def _names_in(arrays: Mapping[str, NDArray[Any]], width: int) -> tuple[str, ...]:
    """The names of the features in an .npz that has them."""
    names = arrays.get(NAMES)
    if names is None:
        return ()
    if names.ndim != 1 or names.dtype.kind != "U":
        raise ValueError(f"its names are {names.dtype} {list(names.shape)}, but must be text [{width}]")
    return check_features("names", tuple(names.tolist()), width)


def _feature_names(folder: Path, files: Sequence[FeatureFile], width: int) -> tuple[str, ...]:
    """The names of the features: those of features.txt, or those that most files have; empty if there are none."""
    path = folder / FEATURES
    if path.is_file():
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return check_features(str(path), tuple(line.strip() for line in lines if line.strip()), width)
    named = Counter(file.features for file in files if file.features)
    return named.most_common(1)[0][0] if named else ()


def check_features(what: str, names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Return the names of features; raise if they are not one for each, or not all different."""
    if len(names) != width:
        raise ValueError(f"{what} has {len(names)} names, but there are {width} features")
    twice = [name for name, count in Counter(names).items() if count > 1 or not name]
    if twice:
        raise ValueError(f"{what} has the name {twice[0]!r} {'twice' if twice[0] else 'for a feature'}")
    return names


def _labelling(folder: Path, files: Sequence[FeatureFile], task: TaskName) -> Labelling:
    per_frame = any(file.frame_labels is not None for file in files)
    if task == "detection" or (task == "auto" and per_frame):
        if not per_frame:
            raise ValueError(f"task=detection needs labels of frames: `y` in the .npz, or FILE{LABELS}")
        return "detection"
    if all(file.label is None for file in files):
        raise ValueError(
            f"{folder} has no labels: for labels per frame, give `y` in every .npz, or FILE{LABELS} next to every "
            f".npy; for labels per file, a labels.csv (file,label) or one subfolder per class"
        )
    return "classification"


def _class_names(folder: Path) -> tuple[str, ...]:
    path = folder / "classes.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return tuple(line.strip() for line in lines if line.strip())


def _class_number(label: str, classes: Sequence[str]) -> int:
    """The number of a class, given its name or that number."""
    if label in classes:
        return classes.index(label)
    if label.isdigit() and int(label) < len(classes):
        return int(label)
    raise ValueError(f"class {label!r} is not known; the classes are {', '.join(classes)}")


def _frame_classes(files: Sequence[FeatureFile], names: tuple[str, ...]) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The labels of every file as numbers, and the class names."""
    arrays = {file.name: file.frame_labels for file in files if file.frame_labels is not None}
    kinds = {(array.ndim, array.dtype.kind in "US") for array in arrays.values()}
    if len(kinds) > 1:
        raise ValueError("labels of frames must be of the same kind in all files: numbers, names, or zeros and ones")
    ndim, text = kinds.pop()
    if ndim == 2:
        y, count = _zeros_and_ones(arrays)
    elif text:
        names = names or tuple(sorted({str(label) for array in arrays.values() for label in np.unique(array)}))
        y = [np.array([_class_number(str(label), names) for label in array]) for array in arrays.values()]
        count = len(names)
    else:
        y = [_whole_numbers(name, array) for name, array in arrays.items()]
        count = 1 + max(int(array.max()) for array in y)
    if names and count > len(names):
        raise ValueError(f"labels of frames have {count} classes, but only {len(names)} have names")
    return y, names or tuple(map(str, range(count)))


def _zeros_and_ones(arrays: dict[str, NDArray[Any]]) -> tuple[list[NDArray[Any]], int]:
    """Labels [T, classes], and the number of classes."""
    first, width = next((name, array.shape[1]) for name, array in arrays.items())
    for name, array in arrays.items():
        if array.shape[1] != width:
            raise ValueError(f"{name}: labels of {array.shape[1]} classes, but {first} has {width}")
        if not np.isin(array[np.isfinite(array)] if array.dtype.kind == "f" else array, (0, 1)).all():
            raise ValueError(f"{name}: labels [T, classes] must be zeros and ones")
    return [array.astype(np.float32) for array in arrays.values()], width


def _whole_numbers(name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    """Labels [T] that are numbers of classes."""
    if array.dtype.kind not in "fiub" or (array != np.round(array)).any():
        raise ValueError(f"{name}: labels must be whole numbers, one per frame, but are {array.dtype}")
    whole = array.astype(np.int64)
    if whole.min() < UNKNOWN or whole.max() >= MAX_CLASSES:
        raise ValueError(
            f"{name}: labels range from {whole.min()} to {whole.max()}, but classes are 0 to {MAX_CLASSES - 1}"
        )
    return whole
