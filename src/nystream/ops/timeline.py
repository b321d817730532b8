"""The time of every token of a piece, in its own stream.

`steps` takes a piece of T tokens per row. A row may have fewer (`lengths`), and a token may start a new stream
(`reset`). The tokens before the piece come from the rings: the extended axis has n places for them, then the T tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Timeline(NamedTuple):
    time: Tensor  # [B, T] number of each token in its stream, from 1
    end: Tensor  # [B, T] number of the last token of its group: the time at which it attends
    lengths: Tensor  # [B] tokens of the piece
    after: Tensor  # [B] time of the current stream after the piece

    def window_start(self, n: int) -> Tensor:
        """[B, T]: first place of each token's window on the extended axis."""
        return self.window_end(n) - self.end.clamp(max=n) + 1

    def window_end(self, n: int) -> Tensor:
        """[B, T]: last place of each token's window on the extended axis."""
        places = torch.arange(self.time.shape[1], device=self.time.device)
        return n + places + self.end - self.time


def timeline(time: Tensor, length: int, r: int, lengths: Tensor | None, reset: Tensor | None) -> Timeline:
    """The timeline of a piece of `length` tokens, r at a time, after `time` [B] tokens."""
    numbers = time[:, None] + torch.arange(1, length + 1, device=time.device)
    if r > 1 or reset is not None:
        places = torch.arange(length, device=time.device)
    if reset is not None:
        started = torch.where(reset, places, -1).cummax(1).values  # the last place, up to here, that starts a stream
        numbers = torch.where(started >= 0, places - started + 1, numbers)
    end = numbers if r == 1 else numbers + r - 1 - places % r
    if lengths is None:
        after = time + length if reset is None else numbers[:, -1].clone()
        return Timeline(numbers, end, torch.full_like(time, length), after)
    last = numbers.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return Timeline(numbers, end, lengths, torch.where(lengths > 0, last, time))
