"""Features of a token: all its numbers, and the first few numbers of the tokens before it.

With p tokens and `inputs` = c, token t has the features

    [x_t, x_{t−1}[:c], …, x_{t−p+1}[:c]],   input_dim + (p − 1) c numbers,

where tokens before the start of a stream are zero. The features of a smaller p are a prefix of those of a larger one,
so sums over them are, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

CHUNK = 4096  # rows whose features are in memory at once


def feature_count(input_dim: int, lags: int, inputs: int) -> int:
    """The number of features of a token."""
    return input_dim + (lags - 1) * inputs


def lagged_features(x: Tensor, lags: int, inputs: int, rows: Tensor | None = None) -> Tensor:
    """The features [N, features] of all tokens of a stream [T, input_dim], or of the tokens at `rows` [N]."""
    rows = torch.arange(len(x)) if rows is None else rows
    padded = torch.cat([x.new_zeros(lags - 1, inputs), x[:, :inputs]])
    place = rows[:, None] + torch.arange(lags - 2, -1, -1)  # from the previous token to the oldest
    return torch.cat([x[rows], padded[place].flatten(1)], 1)


class Lagged:
    """The features of several streams, built in chunks of rows."""

    def __init__(self, streams: Sequence[Tensor], lags: int, inputs: int) -> None:
        self.streams, self.lags, self.inputs = streams, lags, inputs
        self.width = feature_count(streams[0].shape[1], lags, inputs)

    def chunks(self, used: Sequence[Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield stream, rows [N] and their features [N, width], for the rows where `used` [T] of their stream holds."""
        for stream, (x, mask) in enumerate(zip(self.streams, used, strict=True)):
            for rows in mask.nonzero()[:, 0].split(CHUNK):
                if len(rows):
                    yield stream, rows, lagged_features(x, self.lags, self.inputs, rows)
