"""Training data as tensors: windows with one target each, or streams with a target for every token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor


class Batch(NamedTuple):
    """What one update sees."""

    x: Tensor  # [B, T, input_dim]
    y: Tensor  # [B, ...] for windows, [B, T, ...] for pieces of streams
    offset: Tensor  # [B] position of the first place
    lengths: Tensor  # [B] tokens that exist: the last ones of a window, the first ones of a piece


class WindowData:
    """Whole windows and one target for each: tracks and their genres.

    Args:
        x: [N, T, input_dim], oldest first, T at most the model's window (any T for deep stacks).
        y: [N, ...]: classes, or numbers.
    """

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = _tokens("x", x), _targets("y", y)
        if self.x.dim() != 3:
            raise ValueError(f"x is {list(self.x.shape)}, but must be [N, T, input_dim]")
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
        return _hash(self.x, self.y)

    def to(self, device: torch.device | str) -> Self:
        """The same data on another device."""
        return type(self)(self.x.to(device), self.y.to(device))

    def subset(self, index: Any) -> Self:
        """Some of the windows."""
        chosen = torch.as_tensor(index)
        return type(self)(self.x[chosen], self.y[chosen])

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """x in order, for landmark fitting."""
        return iter(self.x.split(batch_size))


class StreamData:
    """Streams of any length and a target for every token: videos and what happens in each frame, hours of demand.

    Args:
        x: the streams, each [T, input_dim].
        y: their targets, each [T, ...].
    """

    def __init__(self, x: Sequence[Any], y: Sequence[Any]) -> None:
        if getattr(x, "ndim", 0) == 2:
            raise ValueError("x is one stream, but must be a list of streams: StreamData([x], [y])")
        if len(x) == 0 or len(x) != len(y):
            raise ValueError(f"x has {len(x)} streams and y {len(y)}; both need the same number, at least one")
        xs, ys = [_tokens("x", part) for part in x], [_targets("y", part) for part in y]
        for i, (a, b) in enumerate(zip(xs, ys, strict=True)):
            if a.dim() != 2 or len(a) == 0 or len(a) != len(b):
                raise ValueError(
                    f"stream {i} has x {list(a.shape)} and y {list(b.shape)}, "
                    f"but they must be [T, input_dim] and [T, ...]"
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
        return _hash(self.x, self.y, self.length)

    def to(self, device: torch.device | str) -> Self:
        """The same data on another device."""
        new = object.__new__(type(self))
        new._set(self.x.to(device), self.y.to(device), self.length)
        return new

    def stream(self, i: int) -> tuple[Tensor, Tensor]:
        """x [T, input_dim] and y [T, ...] of one stream."""
        at, length = int(self.start[i]), int(self.length[i])
        return self.x[at : at + length], self.y[at : at + length]

    def subset(self, index: Any) -> Self:
        """Some of the streams."""
        chosen = [self.stream(i) for i in torch.as_tensor(index).tolist()]
        return type(self)([x for x, _ in chosen], [y for _, y in chosen])

    def batches(self, batch_size: int, piece: int = 1024) -> Iterator[Tensor]:
        """x in order, for landmark fitting: one stream at a time, in pieces of at most so many tokens."""
        for i in range(len(self)):
            for part in self.stream(i)[0].split(piece):
                yield part[None]


Data = WindowData | StreamData


def seeded(*numbers: int) -> torch.Generator:
    """A generator that these numbers determine, unlike that of any other numbers."""
    state = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 31 ^ int(state[1]))


def _hash(*tensors: Tensor) -> str:
    found = hashlib.sha256()
    for x in tensors:
        found.update(f"{x.dtype}{list(x.shape)}".encode())
        found.update(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


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
