"""The plan of a model: its sizes, and where its weights and the state of a stream are in memory.

The kernels read plans as records (`memory.model_at`, `memory.block_at`). A plan is all they know about a model, so
they are compiled once for all models. Weights, state and scratch memory are float32; a field that ends in `_at` is an
offset into the weights or into the state.

Lanes. Heads may have any width, so vectors run across heads: number x of head h is at
(x // g) · T + (x mod g) · H + h, where T = lcm(H, 8) and g = T / H. A tile of T numbers has g numbers of every head, so
a vector of eight lanes meets the same eight heads in every tile, and so does one of sixteen where 16 divides T. A
number that belongs to a head, such as a logit, is repeated in every lane of that head. With 8 or 16 heads, g = 1 and
nothing is repeated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, get_type_hints

import numpy as np

FIXED, CONTINUAL, FULL = range(3)  # kinds of attention
NEWTON, RIDGE, NONE = range(3)  # kinds of inverse


class Features(NamedTuple):
    """What a model needs of the kernels: the rest is not compiled."""

    weights: str = "float32"
    rings: str = "float32"
    attentions: str = "mixed"  # "fixed", "continual" or "full" if all blocks are of that kind
    path: bool = False
    wide: bool = False  # vectors of sixteen lanes in attentions instead of eight


class Layer(NamedTuple):
    """A dense layer, packed by `weights.pack_layer`."""

    at: int = 0
    inputs: int = 0
    panels: int = 0
    fine: int = 0  # the first panels, which are in bfloat16 if the others are in int8


class BlockPlan(NamedTuple):
    """One block of a model. Landmarks and Γ† are weights if they are fixed, part of the state if continual."""

    kind: int = FULL
    window: int = 0  # n
    update_size: int = 1  # r
    groups: int = 0  # N = n / r
    heads: int = 0  # H
    tile: int = 0  # T
    width: int = 0  # numbers of all heads, in whole tiles
    stride: int = 0  # of the rings of keys and values
    scale: float = 0.0  # 1 / √D
    landmarks: int = 0  # m
    folded: int = 0  # whether the projections give logits instead of queries and keys
    blocks: int = 0  # of the window's cut
    block_size: int = 0  # groups of a block; some have one more
    together: int = 1  # landmarks that begin a block together
    shifts: int = 0  # address of ⌊i size / m⌋ for both sizes, [2, m]; i is the first of those landmarks
    tiers: int = 0
    counts: int = 0  # address of the number of groups, then of blocks of each tier
    newest: int = 0  # address of the newest token of every slot, by its place in the ring
    slots: int = 0  # of partials
    most_items: int = 0  # of one sum
    decays: int = 0  # whether logits fall with age
    decay: int = 0  # address of the rates λ [T], which are zero if they do not
    part_size: int = 0
    keys_at: int = 0
    values_at: int = 0
    logits_at: int = 0
    parts_at: int = 0
    edges_at: int = 0
    q_tilde_at: int = 0
    k_tilde_at: int = 0
    pending_at: int = 0
    gamma_pinv_at: int = 0
    pinv: int = NONE
    pinv_iters: int = 0
    pinv_ridge: float = 0.0
    qkv: Layer = Layer()
    out: Layer = Layer()
    has_feed_forward: int = 0  # and norms; an attention alone has neither
    pre_norm: int = 0
    gelu: int = 0
    norm1_at: int = 0
    norm2_at: int = 0
    linear1: Layer = Layer()
    linear2: Layer = Layer()


class ModelPlan(NamedTuple):
    """The model around the blocks."""

    weights: int  # address
    blocks: int  # address of the first block's plan
    depth: int  # number of blocks
    update_size: int  # r
    input_dim: int
    output_dim: int
    embed_dim: int
    stride: int  # of rows of embed_dim numbers in scratch memory
    wide_stride: int  # of rows of projections, attention outputs and hidden units
    state_size: int  # of a stream, in float32; the first eight bytes are its time, an int64
    scratch_floats: int  # scratch memory of an attention
    scratch_doubles: int
    norm_eps: float
    integers_stride: int = 0  # of rows of integers in scratch memory, if weights are in int8
    has_ends: int = 0  # input projection and head
    positions: int = 0  # P, or 0 if there are none
    scaler_at: int = 0  # mean, scale
    positions_at: int = 0
    input_proj: Layer = Layer()
    has_norm: int = 0
    norm_at: int = 0
    head: Layer = Layer()
    unscaler_at: int = 0  # scale, mean
    has_path: int = 0  # linear path
    path_at: int = 0  # weights, a row of `path_features` numbers per output
    path_features: int = 0  # in whole cache lines
    path_stride: int = 0  # of rows of outputs in scratch memory
    path_slots: int = 0  # of the ring of last inputs
    path_width: int = 0  # of a slot
    recent_at: int = 0  # the ring
    path_runs: int = 0  # address of `path.runs`
    path_run_count: int = 0
    path_embedded: int = 0  # whether the outputs are embedded, too
    path_embed: Layer = Layer()


def _record(plan: type[Any]) -> np.dtype[Any]:
    kinds: dict[type[Any], Any] = {int: np.int64, float: np.float32}
    fields = [(name, kinds.get(kind) or LAYER) for name, kind in get_type_hints(plan).items()]
    return np.dtype(fields, align=True)


LAYER = _record(Layer)
BLOCK = _record(BlockPlan)
MODEL = _record(ModelPlan)


def tile_size(heads: int) -> int:
    """T: the smallest multiple of both the number of heads and eight."""
    return math.lcm(heads, 8)


def width(heads: int, head_dim: int) -> int:
    """Numbers of all heads, in whole tiles."""
    tile = tile_size(heads)
    return -(-head_dim // (tile // heads)) * tile


def places(heads: int, head_dim: int) -> np.ndarray[Any, Any]:
    """[H, D]: where each number is."""
    tile = tile_size(heads)
    x = np.arange(head_dim)
    group = tile // heads
    return np.arange(heads)[:, None] + x // group * tile + x % group * heads


def to_lanes(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[..., H, D] -> [..., width], with zeros where the last tile is not full."""
    *lead, heads, dim = x.shape
    out = np.zeros((*lead, width(heads, dim)), x.dtype)
    out[..., places(heads, dim)] = x
    return out


def from_lanes(x: np.ndarray[Any, Any], heads: int, head_dim: int) -> np.ndarray[Any, Any]:
    """[..., width] -> [..., H, D]."""
    return np.ascontiguousarray(x[..., places(heads, head_dim)])


def spread(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[..., H] -> [..., T]: each head's number in every lane of that head."""
    heads = x.shape[-1]
    return x[..., np.arange(tile_size(heads)) % heads]
