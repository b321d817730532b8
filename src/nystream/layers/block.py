"""One encoder block: attention and feed-forward, each with a residual and a LayerNorm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nystream.config import AttentionConfig, EncoderConfig
from nystream.layers.attention import MultiheadAttention

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": nn.functional.gelu, "relu": nn.functional.relu}


class EncoderBlock(nn.Module):
    """An encoder block, pre-norm or post-norm.

    Pre-norm: h = x + attention(norm1(x)), y = h + feed_forward(norm2(h)).
    Post-norm: h = norm1(x + attention(x)), y = norm2(h + feed_forward(h)).

    Everything except the attention acts on each row separately. Streaming code therefore calls the attention's `step`
    or `steps` on `attended(x)`, and passes the rows it needs to `finish`.
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
        """Process a window x [B, n, E], whose last `lengths` [B] positions have tokens. Returns [B, rows, E]."""
        rows = self.attention(self.attended(x), lengths=lengths)
        return self.finish(x, rows)

    def attended(self, x: Tensor) -> Tensor:
        """Return the input of the attention."""
        return self.norm1(x) if self.pre_norm else x

    def finish(self, x: Tensor, rows: Tensor) -> Tensor:
        """Compute the block's output from `rows`, the attention's output for the last rows of x [..., rows, E]."""
        if rows.dim() == 3 and x.shape[1] != rows.shape[1]:
            if x.shape[1] > rows.shape[1]:
                x = x[:, -rows.shape[1] :]
            else:  # the window is not full: rows before its first token are zero
                x = nn.functional.pad(x, (0, 0, rows.shape[1] - x.shape[1], 0))
        x = x + self.dropout(rows)
        if not self.pre_norm:
            x = self.norm1(x)
        inner = self.activation(self.linear1(self.norm2(x) if self.pre_norm else x))
        y = x + self.dropout(self.linear2(self.dropout(inner)))
        return y if self.pre_norm else self.norm2(y)
