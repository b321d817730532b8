"""Tokens of several frames each, for streams that are faster than a window can span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import LiveReader, Token
from nystream.data.vectors import LiveVectors

STATISTICS = ("mean", "standard deviation", "minimum", "maximum")
MAX_WIDTH = 64  # of frames that are worth it: wide ones are features that summarise already
TOKENS = 64  # of the usual window
MAX_HOP = 64


def names_of(features: Sequence[str]) -> tuple[str, ...]:
    """The names of the numbers of a token."""
    return tuple(f"{statistic} of {name}" for statistic in STATISTICS for name in features)


def tokens(x: NDArray[np.float32], hop: int) -> NDArray[np.float32]:
    """Tokens [T // hop, 4 width] of frames [T, width]; frames at the end that do not fill a token are left out."""
    groups = x[: len(x) // hop * hop].reshape(-1, hop, x.shape[1])
    return np.stack([_statistics(group) for group in groups])


def _statistics(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """The statistics [4 width] of frames [hop, width], the same to the bit for a file and for a live stream."""
    wide = frames.astype(np.float64)
    return np.concatenate([wide.mean(0), wide.std(0), wide.min(0), wide.max(0)]).astype(np.float32)


def choose_hop(width: int, labels: Sequence[NDArray[Any]]) -> int:
    """A power of two for which a class typically lasts for about two windows; 1 for wide or slow streams.

    Args:
        width: The number of features.
        labels: The labels of every file: classes [T], or zeros and ones [T, classes].
    """
    if width > MAX_WIDTH:
        return 1
    lengths = []
    for y in labels:
        changes = y[1:] != y[:-1]
        changes = changes.any(1) if changes.ndim == 2 else changes
        lengths += np.diff(np.r_[0, np.flatnonzero(changes) + 1, len(y)]).tolist()
    # Half of all frames are in stretches at least this long.
    order = np.sort(lengths)
    typical = order[np.searchsorted(order.cumsum(), order.sum() / 2)]
    hop = 1
    while hop < MAX_HOP and typical >= 4 * TOKENS and typical >= 3 * hop * TOKENS:
        hop *= 2
    return hop


class HopState(NamedTuple):
    """What is remembered between records."""

    last: Any  # the state of the reader of frames
    frames: tuple[NDArray[np.float32], ...]  # of the token that is not complete yet


class LiveHops(LiveReader):
    """Reads frames as `LiveVectors` does, and gives a token after every `hop` of them."""

    state: HopState

    def __init__(self, frames: LiveVectors, hop: int) -> None:
        self._frames, self.hop, self.missing = frames, hop, frames.missing
        self.state = HopState(frames.state, ())

    def read(self, record: Any) -> list[Token]:
        reader, before = self._frames, self.state
        reader.state = before.last
        found = reader.read(record)
        self.note, self.note_kind, self.lost = reader.note, reader.note_kind, reader.lost
        frames = (*before.frames, *(token.x for token in found))
        filled = found[-1].filled if found else ()
        if len(frames) < self.hop:
            self.state = HopState(reader.state, frames)
            return []
        self.state = HopState(reader.state, ())
        return [Token(_statistics(np.stack(frames)), filled=filled)]

    def memory(self) -> dict[str, Any]:
        self._frames.state = self.state.last
        return {**self._frames.memory(), "frames": [frame.tolist() for frame in self.state.frames]}

    def remember(self, memory: dict[str, Any]) -> None:
        self._frames.remember(memory)
        frames = tuple(np.array(frame, np.float32) for frame in memory["frames"])
        if len(frames) >= self.hop or any(frame.shape != (self._frames.width,) for frame in frames):
            raise ValueError(f"the memory has {len(frames)} frames that do not fit a token of {self.hop}")
        self.state = HopState(self._frames.state, frames)

    def check(self, columns: Sequence[str] | None, width: int) -> None:
        self._frames.check(columns, width)
