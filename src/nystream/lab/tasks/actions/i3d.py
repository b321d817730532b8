"""THUMOS14 in one small file: two-stream I3D tokens of 0.64 s, reduced to 256 numbers and stored as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nystream.lab.tasks.actions.videos import CLASSES, Actions, Videos, targets
from nystream.lab.tasks.archive import read_archive
from nystream.train import StreamData

PARTS = ("train", "test")
NEEDED = ("scale", "classes", "token_sec", *(f"{name}_{part}" for part in PARTS for name in ("x", "y", "len", "vid")))


def read(path: Path) -> Actions:
    """Read the videos: tokens x · scale as float32; the labels of ambiguous frames are NaN."""
    arrays = read_archive(path, NEEDED)
    classes = tuple(str(name) for name in np.atleast_1d(arrays["classes"]))
    if classes != CLASSES:
        raise ValueError(f"{path} has the classes {list(classes)}, but THUMOS14 has {list(CLASSES)}")
    scale, seconds = arrays["scale"], arrays["token_sec"]
    if scale.dtype.kind != "f" or scale.ndim != 1:
        raise ValueError(f"{path} has scale {scale.dtype} {list(scale.shape)}, but it must be floats [input_dim]")
    if seconds.ndim != 0 or not float(seconds) > 0:
        raise ValueError(f"{path} has token_sec {seconds!r}, but it must be one number greater than 0")
    train, test = (_videos(path, arrays, part, scale.astype(np.float32)) for part in PARTS)
    return Actions(train, test, token_seconds=round(float(seconds), 6))


def _videos(path: Path, arrays: Mapping[str, NDArray[Any]], part: str, scale: NDArray[np.float32]) -> Videos:
    x, y, length, names = (arrays[f"{name}_{part}"] for name in ("x", "y", "len", "vid"))
    if x.dtype != np.int8 or x.ndim != 2 or x.shape[1] != len(scale):
        raise ValueError(f"{path} has x_{part} {x.dtype} {list(x.shape)}, but it must be int8 [N, {len(scale)}]")
    if length.dtype.kind not in "iu" or length.shape != names.shape or names.ndim != 1 or not bool((length > 0).all()):
        raise ValueError(
            f"{path} has len_{part} {length.dtype} {list(length.shape)} and vid_{part} {list(names.shape)}, "
            f"but they must be whole numbers greater than 0 and names, one per video"
        )
    if not len(x) == len(y) == int(length.sum()):
        raise ValueError(
            f"{path} has {len(x)} tokens x_{part} and {len(y)} labels y_{part}, "
            f"but the videos of len_{part} have {int(length.sum())}"
        )
    tokens = torch.from_numpy(x.astype(np.float32) * scale)
    labels = targets(y, f"y_{part} of {path}")
    return Videos(tuple(map(str, names)), StreamData(tokens.split(length.tolist()), labels.split(length.tolist())))
