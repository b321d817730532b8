"""When each token of a piece arrives, seen from its own stream.

`steps` takes a piece of T tokens a row. A row may have fewer (`lengths`), and a token may open a new stream (`reset`).
The tokens before the piece come from the rings: the extended axis is n carried places, then the T tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Timeline(NamedTuple):
    time: Tensor  # [B, T] number of the token in its stream, from 1
    end: Tensor  # [B, T] number of the last token of its group: the time at which it attends
    lengths: Tensor  # [B] tokens of the piece
    after: Tensor  # [B] tokens of the current stream after the piece

    def window_start(self, n: int) -> Tensor:
        """[B, T]: first place of the window on the extended axis."""
        return self.window_end(n) - self.end.clamp(max=n) + 1

    def window_end(self, n: int) -> Tensor:
        """[B, T]: last place of the window on the extended axis."""
        places = torch.arange(self.time.shape[1], device=self.time.device)
        return n + places + self.end - self.time


def timeline(count: Tensor, length: int, r: int, lengths: Tensor | None, reset: Tensor | None) -> Timeline:
    """`count` [B] tokens so far, then a piece of `length` tokens, r at a time."""
    places = torch.arange(length, device=count.device)
    time = count[:, None] + 1 + places
    if reset is not None:
        opened = torch.where(reset, places, -1).cummax(1).values  # the last place, up to here, that opens a stream
        time = torch.where(opened >= 0, places - opened + 1, time)
    if lengths is None:
        lengths = torch.full_like(count, length)
    last = time.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return Timeline(time, time + r - 1 - places % r, lengths, torch.where(lengths > 0, last, count))
