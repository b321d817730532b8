"""Training data as tensors: windows with one target each, or streams with one target per token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor


class TrainingBatch(NamedTuple):
    """The input of one update."""

    x: Tensor  # [B, T, input_dim]
    y: Tensor  # [B, ...] for windows, [B, T, ...] for pieces of streams
    offset: Tensor  # [B] position of the first row
    lengths: Tensor  # [B] number of tokens: the last ones of a window, the first ones of a piece
    unscored: Tensor  # [B] number of tokens at the start of a piece whose loss does not count; 0 for windows


class WindowData:
    """Whole windows with one target each, such as tracks and their genres.

    Args:
        x: [N, T, input_dim], oldest first, T at most the model's window. To train several blocks with stack="deep", T
            must be more than their window, or use `StreamData`.
        y: [N, ...] classes or numbers.

    Example:
        >>> import torch, nystream as ns
        >>> tracks = ns.train.WindowData(torch.randn(10, 120, 128), torch.randint(5, (10,)))
        >>> len(tracks), tracks.input_dim, len(tracks.subset([0, 3]))
        (10, 128, 2)
    """

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = _tokens("x", x), _targets("y", y)
        if self.x.dim() != 3 or not self.x.numel():
            raise ValueError(f"x is {list(self.x.shape)}, but must be [N, T, input_dim], with at least one window")
        if self.y.dim() == 0:
            raise ValueError("y is a single number, but must be [N, ...], one target per window")
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} windows, but y has {len(self.y)} targets")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def input_dim(self) -> int:
        return self.x.shape[-1]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all tokens and targets."""
        return fingerprint(self.x, self.y)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self:
        """The data on another device, with tokens in another dtype."""
        return type(self)(self.x.to(device, dtype), self.y.to(device))

    def subset(self, index: Any) -> Self:
        """Some of the windows, by index or mask."""
        chosen = _index(index)
        return type(self)(self.x[chosen], self.y[chosen])

    def batches(self, batch_size: int = 32, update_size: int = 1) -> Iterator[Tensor]:
        """The inputs in order, for fitting landmarks."""
        return iter(self.x.split(batch_size))


class StreamData:
    """Streams of any length with one target per token, such as videos and the action in every frame.

    Args:
        x: The streams, each [T, input_dim].
        y: Their targets, each [T, ...].

    Example:
        >>> import torch, nystream as ns
        >>> videos = [torch.randn(300, 16), torch.randn(500, 16)]
        >>> actions = [torch.randint(4, (300,)), torch.randint(4, (500,))]
        >>> data = ns.train.StreamData(videos, actions)
        >>> len(data), data.length.tolist(), data.input_dim
        (2, [300, 500], 16)
    """

    def __init__(self, x: Sequence[Any], y: Sequence[Any]) -> None:
        if getattr(x, "ndim", 0) == 2:
            raise ValueError("x is one stream, but must be a list of streams: StreamData([x], [y])")
        if not hasattr(x, "__len__") or not hasattr(y, "__len__"):
            raise TypeError("x and y must be lists of streams: StreamData([x], [y])")
        if len(x) == 0 or len(x) != len(y):
            raise ValueError(f"x has {len(x)} streams and y {len(y)}; both need the same number, at least one")
        xs, ys = [_tokens("x", part) for part in x], [_targets("y", part) for part in y]
        for i, (a, b) in enumerate(zip(xs, ys, strict=True)):
            if a.dim() != 2 or len(a) == 0 or b.dim() == 0 or len(a) != len(b):
                raise ValueError(
                    f"stream {i} has x {list(a.shape)} and y {list(b.shape)}, "
                    f"but they must be [T, input_dim] and [T, ...]"
                )
            if a.shape[1] != xs[0].shape[1] or b.shape[1:] != ys[0].shape[1:]:
                raise ValueError(
                    f"stream {i} has x {list(a.shape)} and y {list(b.shape)}, but stream 0 has {list(xs[0].shape)} and "
                    f"{list(ys[0].shape)}; all need the same widths"
                )
        self._set(torch.cat(xs), torch.cat(ys), torch.tensor([len(part) for part in xs]))

    def _set(self, x: Tensor, y: Tensor, length: Tensor) -> None:
        self.x, self.y = x, y  # [tokens, input_dim], [tokens, ...]: all streams, one after another
        self.length = length  # [streams], on the CPU
        self.start = length.cumsum(0) - length  # [streams]

    def __len__(self) -> int:
        """Number of streams."""
        return len(self.length)

    @property
    def input_dim(self) -> int:
        return self.x.shape[-1]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all tokens and targets."""
        return fingerprint(self.x, self.y, self.length)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self:
        """The data on another device, with tokens in another dtype."""
        new = object.__new__(type(self))
        new._set(self.x.to(device, dtype), self.y.to(device), self.length)
        return new

    def stream(self, i: int) -> tuple[Tensor, Tensor]:
        """x [T, input_dim] and y [T, ...] of one stream."""
        at, length = int(self.start[i]), int(self.length[i])
        return self.x[at : at + length], self.y[at : at + length]

    def subset(self, index: Any) -> Self:
        """Some of the streams, by index or mask."""
        chosen = [self.stream(i) for i in torch.arange(len(self))[_index(index)].tolist()]
        return type(self)([x for x, _ in chosen], [y for _, y in chosen])

    def batches(self, batch_size: int = 32, update_size: int = 1) -> Iterator[Tensor]:
        """The inputs in order, for fitting landmarks: pieces of streams, in whole groups of `update_size` tokens."""
        piece = max(PIECE // update_size, 1) * update_size
        for i in range(len(self)):
            x, _ = self.stream(i)
            whole, rest = len(x) // piece, len(x) % piece // update_size * update_size
            if whole:
                yield from x[: whole * piece].unflatten(0, (whole, piece)).split(batch_size)
            if rest:
                yield x[None, whole * piece : whole * piece + rest]


Data = WindowData | StreamData

PIECE = 1024  # tokens of a stream in a batch


def seeded(*numbers: int) -> torch.Generator:
    """A random generator that is determined by these numbers, and different for different ones."""
    state = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 31 ^ int(state[1]))


def fingerprint(*tensors: Tensor) -> str:
    """A hash of dtypes, shapes and values."""
    digest = hashlib.sha256()
    for x in tensors:
        digest.update(f"{x.dtype}{list(x.shape)}".encode())
        digest.update(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _index(index: Any) -> Tensor:
    """Integers or a mask, as a tensor to index with."""
    chosen = torch.as_tensor(index)
    return chosen if chosen.dtype == torch.bool else chosen.long()


def _tokens(name: str, x: Any) -> Tensor:
    x = torch.as_tensor(x)
    if not x.is_floating_point():
        raise ValueError(f"{name} is {x.dtype}, but tokens must be floating-point numbers")
    if not bool(x.isfinite().all()):
        raise ValueError(f"{name} has values that are not finite; fill or drop them first")
    return x


def _targets(name: str, y: Any) -> Tensor:
    y = torch.as_tensor(y)
    return y if y.is_floating_point() else y.long()
