"""One encoder block: attention and feed-forward, each with a residual and a LayerNorm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nystream.config import AttentionConfig, EncoderConfig
from nystream.layers.attention import MultiheadAttention

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": nn.functional.gelu, "relu": nn.functional.relu}


class EncoderBlock(nn.Module):
    """h = x + attention(norm(x)), y = h + feed_forward(norm(h)); or, post-norm, the norms after the sums.

    Everything but the attention works on each row alone. So a stream runs the attention with whatever face fits, on
    `attended(x)`, and finishes the rows that it wants with `finish`.
    """

    def __init__(
        self,
        attention: AttentionConfig,
        config: EncoderConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        width, inner = config.embed_dim, config.ff_dim
        assert inner is not None
        self.pre_norm = config.norm == "pre"
        self.activation = ACTIVATIONS[config.activation]
        self.attention = MultiheadAttention(attention, device=device, dtype=dtype)
        self.norm1, self.norm2 = (
            nn.LayerNorm(width, eps=config.norm_eps, device=device, dtype=dtype) for _ in range(2)
        )
        self.linear1 = nn.Linear(width, inner, device=device, dtype=dtype)
        self.linear2 = nn.Linear(inner, width, device=device, dtype=dtype)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Over one window x [B, n, E], of which the last `lengths` [B] places exist: its rows [B, rows, E]."""
        rows = self.attention(self.attended(x), lengths=lengths)
        return self.finish(x, rows)

    def attended(self, x: Tensor) -> Tensor:
        """What the attention sees of x."""
        return self.norm1(x) if self.pre_norm else x

    def finish(self, x: Tensor, rows: Tensor) -> Tensor:
        """The block's output from what the attention returned for the last rows of x [..., rows, E]."""
        if rows.dim() == 3 and x.shape[1] != rows.shape[1]:
            if x.shape[1] > rows.shape[1]:
                x = x[:, -rows.shape[1] :]
            else:  # a window that is not full: rows before its first token are zeros
                x = nn.functional.pad(x, (0, 0, rows.shape[1] - x.shape[1], 0))
        x = x + self.dropout(rows)
        if not self.pre_norm:
            x = self.norm1(x)
        y = x + self.dropout(self.linear2(self.dropout(self.activation(self.linear1(self._fed(x))))))
        return y if self.pre_norm else self.norm2(y)

    def _fed(self, x: Tensor) -> Tensor:
        return self.norm2(x) if self.pre_norm else x
