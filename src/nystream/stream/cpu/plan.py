"""Where everything lies: the fields of the plan that the kernels read.

A plan is one array of int64: the model's fields, then those of each block, BLOCK numbers apart. Weights, state and
scratch are arrays of float32; every field that ends in _AT is a place in one of them. A plan says all that the kernels
need to know of a model, so they are compiled once, for every model there is.

Lanes. A head's width may be anything, so the vectors run across the heads: number x of head h lies at
(x // g) · T + (x mod g) · H + h, where T = lcm(H, 8) and g = T / H. A tile of T numbers holds g numbers of every head,
so a vector of eight lanes meets the same eight heads in every tile. What belongs to a head and a landmark is held once
for each lane of a tile. With 8 or 16 heads, g = 1: nothing is held twice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

(
    COUNT,  # blocks
    TOGETHER,  # r
    INPUT,
    OUTPUT,
    EMBED,  # E
    STRIDE,  # of a row of the embedding in scratch
    WIDE,  # stride of a row of what a block makes of it: projections, the inner layer
    HAS_EMBED,
    HAS_NORM,
    HAS_HEAD,
    POSITIONS,  # P, 0 for none
    SCALER_AT,  # mean, scale
    EMBED_AT,
    TABLE_AT,
    NORM_AT,
    HEAD_AT,
    RESTORE_AT,  # scale, mean
    EPS_AT,
    SIZE,  # of a stream's state; its first two places hold the time, an int64
    DOUBLES,  # float64 that the scratch memory begins with
    SHARED,  # float32 of it beside what each row has to itself
    WEIGHTS,  # the address of the weights: one array less to be handed over at every step
    WEIGHED,  # how many there are
) = range(23)
MODEL = 23

(
    KIND,
    WINDOW,  # n
    HEADS,  # H
    LANES,  # T
    WIDTH,  # of the numbers of all heads, in tiles
    LANDMARKS,  # m
    FOLDED,  # whether the projections give logits at once
    SEGMENTS,  # K
    LONGEST,  # L
    PART,  # size of one part
    KEYS_AT,
    VALUES_AT,
    LOGITS_AT,
    PARTS_AT,
    Q_TILDE_AT,  # in the weights where they are fixed, in the state where they are not
    K_TILDE_AT,
    PENDING_AT,
    GAMMA_AT,
    HAS_REST,  # whether norms and a feed-forward go with the attention
    PRE_NORM,
    NORM1_AT,
    QKV_AT,
    QKV,  # panels
    OUT_AT,
    NORM2_AT,
    INNER,  # width of the feed-forward
    IN_AT,
    BACK_AT,
    GELU,
    PINV,
    ITERATIONS,
    SCALE_AT,  # 1 / √D, λ
) = range(32)
BLOCK = 32

FIXED, CONTINUAL, FULL = range(3)
NEWTON, RIDGE, NONE = range(3)


def lanes(heads: int) -> int:
    """T: the least number of lanes that both the heads and a vector of eight divide."""
    return math.lcm(heads, 8)


def width(heads: int, head_dim: int) -> int:
    """Numbers of all heads, in whole tiles."""
    tile = lanes(heads)
    return -(-head_dim // (tile // heads)) * tile


def places(heads: int, head_dim: int) -> np.ndarray[Any, Any]:
    """[H, D]: where each number lies."""
    tile = lanes(heads)
    x = np.arange(head_dim)
    group = tile // heads
    return np.arange(heads)[:, None] + x // group * tile + x % group * heads


def to_lanes(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[..., H, D] -> [..., width], zero where a tile has room to spare."""
    *lead, heads, dim = x.shape
    out = np.zeros((*lead, width(heads, dim)), x.dtype)
    out[..., places(heads, dim)] = x
    return out


def from_lanes(x: np.ndarray[Any, Any], heads: int, head_dim: int) -> np.ndarray[Any, Any]:
    """The inverse."""
    return np.ascontiguousarray(x[..., places(heads, head_dim)])


def spread(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[..., H] -> [..., T]: a number of each head, in every lane of a tile."""
    heads = x.shape[-1]
    return x[..., np.arange(lanes(heads)) % heads]
