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


class Band(NamedTuple):
    """First and last place of each run, both inclusive; int32. A run whose last place is before its first is empty."""

    first_key: Tensor  # [B, T], on the extended axis
    last_key: Tensor  # [B, T]
    first_query: Tensor  # [B, n + T]
    last_query: Tensor  # [B, n + T]


def band(when: Timeline, n: int) -> Band:
    first_key, last_key = (x.int().contiguous() for x in (when.window_start(n), when.window_end(n)))
    keys = torch.arange(n + first_key.shape[1], dtype=torch.int32, device=first_key.device)
    keys = keys.expand(first_key.shape[0], -1).contiguous()
    first_query = torch.searchsorted(last_key, keys, out_int32=True)
    last_query = torch.searchsorted(first_key, keys, right=True, out_int32=True) - 1
    return Band(first_key, last_key, first_query, last_query)
