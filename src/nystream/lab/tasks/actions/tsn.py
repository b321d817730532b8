"""THUMOS14 as published by OadTR: pickles of features of a Temporal Segment Network, five frames per second.

A pickle of features is {video: {"rgb": [T, 2048], "flow": [T, 1024]}}, one for the training videos ("val") and one for
the test videos. Labels are {video: {"anno": [T, 22]}} in a separate pickle, or "anno" next to the features, or packed
bits in an .npz file of both parts. A token is the rgb features of a frame followed by its flow features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.lab.tasks.actions.unpickle import read_pickle
from nystream.lab.tasks.actions.videos import CLASSES, Actions, Videos, targets
from nystream.lab.tasks.archive import is_archive, read_archive
from nystream.train import StreamData

WIDTHS = {"rgb": 2048, "flow": 1024}
PARTS = ("val", "test")
TOKEN_SECONDS = 0.2


@dataclass(frozen=True)
class Files:
    """Paths of the two parts. Labels: an .npz of both, one pickle per part, or None if they are in the features."""

    train: Path
    test: Path
    annotation: Path | tuple[Path, Path] | None = None


def read(files: Files) -> Actions:
    """Read the videos of both pickles into memory, each part twice while it is read: 8 GB for the public files."""
    train, test = (_videos(path, _labels(files.annotation, i)) for i, path in enumerate((files.train, files.test)))
    return Actions(train, test, TOKEN_SECONDS)


def _labels(annotation: Path | tuple[Path, Path] | None, part: int) -> dict[str, NDArray[Any]] | None:
    if isinstance(annotation, tuple):
        return _annotation(annotation[part])
    return None if annotation is None else read_bits(annotation, PARTS[part])


def read_bits(path: Path, part: str) -> dict[str, NDArray[Any]]:
    """Labels {video: [T, 22]} of "val" or "test" from an .npz file with eight labels per byte."""
    needed = ("classes", *(f"{name}_{part}" for name in ("vid", "len", "y")))
    classes, names, length, y = read_archive(path, needed).values()
    if tuple(map(str, np.atleast_1d(classes))) != CLASSES:
        raise ValueError(f"{path} has the classes {classes.tolist()}, but THUMOS14 has {list(CLASSES)}")
    if y.dtype != np.uint8 or y.ndim != 2 or y.shape[1] != 3:
        raise ValueError(f"{path} has y_{part} {y.dtype} {list(y.shape)}, but it must be uint8 [N, 3], 22 bits each")
    if length.shape != names.shape or length.dtype.kind not in "iu" or int(length.sum()) != len(y):
        raise ValueError(
            f"{path} has {len(y)} frames y_{part}, but len_{part} of {len(names)} videos does not fit them"
        )
    bits = np.unpackbits(y, axis=1)[:, : len(CLASSES)]
    return dict(zip(map(str, names), np.split(bits, np.cumsum(length)[:-1]), strict=True))


def _annotation(path: Path) -> dict[str, NDArray[Any]]:
    if is_archive(path):
        raise ValueError(f"{path} is an .npz file, which has both parts: give it alone, not for one part")
    return {name: _array(path, name, video, "anno") for name, video in _by_video(path).items()}


def _videos(path: Path, labels: Mapping[str, NDArray[Any]] | None) -> Videos:
    videos = _by_video(path)
    names = sorted(videos)
    xs, ys = [], []
    for name in names:
        x, y = _video(path, name, videos.pop(name), labels)
        xs.append(x)
        ys.append(y)
    return Videos(tuple(names), StreamData(xs, ys))


def _video(path: Path, name: str, video: Any, labels: Mapping[str, NDArray[Any]] | None) -> tuple[Any, Any]:
    arrays = [_array(path, name, video, kind) for kind in WIDTHS]
    for kind, part in zip(WIDTHS, arrays, strict=True):
        if part.dtype.kind != "f" or part.ndim != 2 or part.shape[1] != WIDTHS[kind]:
            raise ValueError(
                f"{kind} of {name} in {path} is {part.dtype} {list(part.shape)}, but must be floats [T, {WIDTHS[kind]}]"
            )
    if labels is None:
        if "anno" not in video:
            raise ValueError(f"{name} in {path} has no anno; give the labels as annotation")
        label = _array(path, name, video, "anno")
    elif name in labels:
        label = labels[name]
    else:
        raise ValueError(f"{name} is in {path}, but not in the annotation, which has {len(labels)} videos")
    y = targets(label, f"anno of {name} for {path}")
    if not len(arrays[0]) == len(arrays[1]) == len(y) > 0:
        raise ValueError(
            f"{name} in {path} has {len(arrays[0])} frames of rgb, {len(arrays[1])} of flow and {len(y)} of labels, "
            f"but must have the same number of each, at least one"
        )
    x = torch.from_numpy(np.concatenate(arrays, axis=1, dtype=np.float32))
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name} in {path} has features that are not finite")
    return x, y


def _by_video(path: Path) -> dict[str, Any]:
    videos = read_pickle(path)
    if not isinstance(videos, dict) or not videos or not all(isinstance(name, str) for name in videos):
        raise ValueError(f"{path} has a {type(videos).__name__}, but must have {{video: ...}}, with at least one video")
    return videos


def _array(path: Path, name: str, video: Any, kind: str) -> NDArray[Any]:
    if not isinstance(video, dict):
        raise ValueError(f"{name} in {path} is a {type(video).__name__}, but must be a dict of arrays")
    if not isinstance(video.get(kind), np.ndarray):
        raise ValueError(f"{name} in {path} has no array {kind}; it has {', '.join(map(str, video)) or 'nothing'}")
    return video[kind]
