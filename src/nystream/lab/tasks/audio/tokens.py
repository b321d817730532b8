"""Tracks as tokens with one genre each, and the token file of GTZAN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nystream.lab.tasks.archive import read_archive
from nystream.lab.tasks.audio.folder import Skipped
from nystream.lab.tasks.audio.splits import Split, stratified
from nystream.train import WindowData

ARRAYS = (
    "tokens",
    "dequant_scale",
    "dequant_offset",
    "labels",
    "genre_names",
    "track_names",
    "duplicate_group",
    "split_filtered",
)


@dataclass(frozen=True, eq=False)
class GenreTokens:
    """Tracks as tokens, with what is needed to split them fairly.

    Attributes:
        x: [N, T, D] float32, oldest token first.
        y: [N] the genre of every track, an index into `genres`.
        genres: Names of the genres.
        tracks: Names of the tracks.
        copies: [N] a group number per track, shared by copies.
        filtered: [N] the fault-filtered split: 0 train, 1 validation, 2 test, -1 unused; None if unknown.
        skipped: Files of a folder of audio that could not be used.
    """

    x: Tensor
    y: Tensor
    genres: tuple[str, ...]
    tracks: tuple[str, ...]
    copies: NDArray[Any]
    filtered: NDArray[Any] | None = None
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        if self.x.dim() != 3 or not self.x.numel():
            raise ValueError(f"x is {list(self.x.shape)}, but must be [N, T, D], with at least one track")
        rows: dict[str, Any] = {"y": self.y, "tracks": self.tracks, "copies": self.copies, "filtered": self.filtered}
        for name, value in rows.items():
            if value is not None and (len(value) != len(self.x) or getattr(value, "ndim", 1) != 1):
                shape = list(getattr(value, "shape", [len(value)]))
                raise ValueError(f"{name} is {shape}, but x has {len(self.x)} tracks; it needs one entry per track")
        if not 0 <= int(self.y.min()) <= int(self.y.max()) < len(self.genres):
            raise ValueError(
                f"y goes from {int(self.y.min())} to {int(self.y.max())}, but with {len(self.genres)} genres it must "
                f"be between 0 and {len(self.genres) - 1}"
            )
        if self.filtered is not None and not np.isin(self.filtered, (-1, 0, 1, 2)).all():
            raise ValueError(f"filtered has {np.unique(self.filtered).tolist()}, but its entries must be -1, 0, 1 or 2")

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def data(self) -> WindowData:
        """All tracks, as training data."""
        return WindowData(self.x, self.y)

    @property
    def fingerprint(self) -> str:
        """A hash of all tokens and genres."""
        return self.data.fingerprint

    def splits(self, count: int = 5, seed: int = 0) -> list[Split]:
        """`count` stratified splits into 72 / 18 / 10 percent, copies of a track kept together.

        The test parts have no track in common, so there are at most ten splits per seed.
        """
        parts = stratified(self.y.numpy(), self.copies, self.genres, count, seed)
        return [Split(*(self.data.subset(index) for index in part)) for part in parts]

    def filtered_split(self) -> Split:
        """The fault-filtered split, without copies and distortions, and with no artist in two parts."""
        if self.filtered is None:
            raise ValueError("the fault-filtered split of these tracks is not known: it needs the names of GTZAN")
        for part, name in enumerate(("training", "validation", "test")):
            if not (self.filtered == part).any():
                raise ValueError(f"none of the {len(self)} tracks is in the {name} part of the fault-filtered split")
        return Split(*(self.data.subset(self.filtered == part) for part in range(3)))


def load_tokens(path: str | Path) -> GenreTokens:
    """Read the token file, `gtzan_yamnet_tokens.npz`, whose tokens are stored as bytes."""
    arrays = read_archive(Path(path), ARRAYS)
    tokens, labels = arrays["tokens"], arrays["labels"]
    if tokens.ndim != 3 or not np.issubdtype(tokens.dtype, np.number):
        raise ValueError(f"{path}: tokens is {tokens.dtype} {list(tokens.shape)}, but must be numbers [N, T, D]")
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{path}: labels is {labels.dtype}, but must be whole numbers")
    try:
        x = tokens.astype(np.float32) * np.float32(arrays["dequant_scale"]) + np.float32(arrays["dequant_offset"])
        return GenreTokens(
            x=torch.from_numpy(x),
            y=torch.from_numpy(labels.astype(np.int64)),
            genres=tuple(map(str, arrays["genre_names"])),
            tracks=tuple(map(str, arrays["track_names"])),
            copies=arrays["duplicate_group"],
            filtered=arrays["split_filtered"],
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
