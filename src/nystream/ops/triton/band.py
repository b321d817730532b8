"""The band of a piece: which query sees which key.

The window of a query is a run of keys, and both its ends only move forward, so the queries that see a key are a run as
well. Kernels that sum over keys read the runs of the queries, and those that sum over queries the runs of the keys.
Neither needs to know about update_size, warm-up, or streams that start inside the piece.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.ops.timeline import Timeline
from nystream.ops.triton import input_kernels as kernels
from nystream.ops.triton import launch

BLOCK = 256


class Band(NamedTuple):
    """First and last place of each run, both inclusive; int32. A run whose last place is before its first is empty."""

    first_key: Tensor  # [B, T], on the extended axis
    last_key: Tensor  # [B, T]
    first_query: Tensor  # [B, n + T]
    last_query: Tensor  # [B, n + T]


def band(when: Timeline, n: int) -> Band:
    time, end = when.time.contiguous(), when.end.contiguous()
    (B, T), S = time.shape, n + time.shape[1]
    out = Band(*(time.new_empty(B, size, dtype=torch.int32) for size in (T, T, S, S)))
    with launch.on(time):
        kernels.runs[launch.programs(S, BLOCK, B)](time, end, *out, n, T, T.bit_length(), BLOCK=BLOCK)
    return out
