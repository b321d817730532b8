"""Circular positions: token number t of a stream gets position (t − 1) mod P, however long it runs.

A table of P rows is enough for a stream without end, and a token keeps the position it came with, so nothing that was
computed for it need be computed again. The window is then some rotation of the table: a model that is to be streamed
must meet all of them in training, which is what `offset` is for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class CircularPositions(nn.Module):
    """Adds row (start + i) mod P of a table to token i.

    "learned" rows are parameters. "sinusoidal" ones are sines and cosines of whole numbers of turns around the circle,
    so that two rows know their distance around it and nothing else: no rotation of the window is special.
    """

    table: Tensor

    def __init__(
        self,
        num_positions: int,
        embed_dim: int,
        kind: str = "learned",
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.num_positions = num_positions
        if kind == "learned":
            self.table = nn.Parameter(torch.empty(num_positions, embed_dim, device=device, dtype=dtype))
            nn.init.normal_(self.table, std=0.02)
        elif kind == "sinusoidal":
            self.register_buffer("table", torch.empty(num_positions, embed_dim, device=device, dtype=dtype), False)
            self._derive()

    def forward(self, x: Tensor, start: Tensor | int) -> Tensor:
        """x [B, T, E] whose first token has position `start`: a number, [B], or [B, T], one for every token."""
        if self.kind == "none":
            return x
        places = torch.arange(x.shape[1], device=x.device)
        if isinstance(start, Tensor):
            places = start if start.dim() == 2 else start[:, None] + places
        else:
            places = places + start
        return x + self.table[places % self.num_positions].to(x.dtype)

    def _derive(self) -> None:
        if self.kind == "sinusoidal":
            self.table = sinusoids(self.num_positions, self.table.shape[1]).to(self.table)

    def _apply(self, fn: Any, recurse: bool = True) -> CircularPositions:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._derive()  # not saved, so always as if made anew: a cast to bfloat16 and back leaves no trace
        return self

    def extra_repr(self) -> str:
        return f"{self.num_positions}, {self.kind!r}"


def sinusoids(num_positions: int, width: int) -> Tensor:
    """[P, E] sines and cosines of whole turns around the circle: 1, 2, ... up to P / 2, spread geometrically."""
    pairs = (width + 1) // 2
    most = max(num_positions // 2, 1)
    turns = torch.logspace(0, 1, pairs, base=float(most), dtype=torch.float64, device="cpu").round()
    # Rounding repeats the small numbers: where there are enough whole numbers, each is used once.
    for i in range(1, pairs):
        turns[i] = turns[i].clamp(min=min(float(turns[i - 1]) + 1, most))
    places = torch.arange(num_positions, dtype=torch.float64, device="cpu")
    angle = 2 * torch.pi * places[:, None] * turns / num_positions
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]
