"""Circular positions: token t of a stream, counted from 1, gets position (t − 1) mod P.

A table of P rows serves a stream of any length, and a token keeps its position while the window slides, so nothing
computed for it has to be recomputed. A window may therefore start at any row of the table. Training draws the starting
position at random (`offset`), so that the model learns to work with all of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding


class CircularPositions(nn.Module):
    """Add row (start + i) mod P of a table to token i.

    With kind="learned" the rows are parameters. With kind="sinusoidal" they are sines and cosines with a whole number
    of periods in P positions, so that the inner product of two rows depends only on their circular distance. With
    kind="none" nothing is added.
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
        """Add positions to x [B, T, E].

        `start` is the position of the first token, an integer or [B]; or [B, T], the positions of all tokens.
        """
        if self.kind == "none":
            return x
        places = torch.arange(x.shape[1], device=x.device)
        if isinstance(start, Tensor):
            places = start if start.dim() == 2 else start[:, None] + places
        else:
            places = places + start
        # Indexing the table would add up its gradients in any order: see `nystream.ops.gather`.
        return x + embedding(places % self.num_positions, self.table).to(x.dtype)

    def _derive(self) -> None:
        if self.kind == "sinusoidal":
            self.table = sinusoids(self.num_positions, self.table.shape[1]).to(self.table)

    def _apply(self, fn: Any, recurse: bool = True) -> CircularPositions:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._derive()  # recomputed rather than converted, so that a cast to bfloat16 and back loses nothing
        return self

    def extra_repr(self) -> str:
        return f"{self.num_positions}, {self.kind!r}"


def sinusoids(num_positions: int, width: int) -> Tensor:
    """Return a table [P, E] of sines and cosines with 1 to P / 2 periods, spaced geometrically."""
    pairs = (width + 1) // 2
    max_periods = max(num_positions // 2, 1)
    periods = torch.logspace(0, 1, pairs, base=float(max_periods), dtype=torch.float64, device="cpu").round()
    # Rounding repeats small numbers; while there are unused ones, use each only once.
    for i in range(1, pairs):
        periods[i] = periods[i].clamp(min=min(float(periods[i - 1]) + 1, max_periods))
    places = torch.arange(num_positions, dtype=torch.float64, device="cpu")
    angle = 2 * torch.pi * places[:, None] * periods / num_positions
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]
