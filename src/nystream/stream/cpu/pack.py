"""A model as the kernels see it: its plan, its weights in one array, and where a stream's state keeps what."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nystream.config import AttentionConfig
from nystream.layers.attention import MultiheadAttention
from nystream.layers.block import EncoderBlock
from nystream.layers.encoder import StreamEncoder
from nystream.models import StreamModel
from nystream.ops.sliding import cut
from nystream.stream.cpu import inverse
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.dense import PANEL, pack, panels
from nystream.stream.cpu.sliding import TOTALS
from nystream.stream.cpu.support import KINDS, PINVS, Model

Array = np.ndarray[Any, Any]

LINE = 16  # float32 of a cache line: what is read together begins at one


class Packed(NamedTuple):
    """What the kernels need of a model. The plan holds the address of the weights, so the two must stay together."""

    plan: Array  # int64
    weights: Array  # float32

    @property
    def weight_bytes(self) -> int:
        """What a step reads of the weights: all but the positions, of which it reads one."""
        spared = max(int(self.plan[p.POSITIONS]) - 1, 0) * int(self.plan[p.EMBED])
        return int(self.weights.nbytes) - 4 * spared

    def room(self, rows: int) -> Array:
        """Scratch memory to step so many rows at once."""
        return self.scratch(rows * 2 * int(self.plan[p.STRIDE] + self.plan[p.WIDE]))

    def scratch(self, size: int) -> Array:
        """So many float32 and what a stream needs beside them, its float64 first."""
        return aligned(int(2 * self.plan[p.DOUBLES] + size + self.plan[p.SHARED]))


def packed(model: Model, fold: bool = True) -> Packed:
    """The plan and the weights of a model that is supported.

    With `fold`, fixed landmarks are folded into the projections where that makes them smaller.
    """
    return _Packer(model, fold).done()


class _Packer:
    """Lays out weights and state, one thing after the other, and keeps the books in the plan."""

    def __init__(self, model: Model, fold: bool) -> None:
        self.fold = fold
        encoder = model.encoder if isinstance(model, StreamModel) else model
        blocks: list[EncoderBlock | MultiheadAttention] = (
            list(encoder.blocks) if isinstance(encoder, StreamEncoder) else [encoder]
        )
        self.plan = np.zeros(p.MODEL + p.BLOCK * len(blocks), np.int64)
        self.weights: list[Array] = []
        self.filled = 0
        self.state = LINE  # the time has a line of its own
        width = model.config.embed_dim
        wide = PANEL * panels(max(width, model.config.input_dim if isinstance(model, StreamModel) else 0))
        self.head = {p.COUNT: len(blocks), p.TOGETHER: model.config.update_size, p.EMBED: width}
        self.head |= {p.INPUT: width, p.OUTPUT: width, p.STRIDE: PANEL * panels(width)}
        self.head[p.EPS_AT] = self.put(np.array([getattr(model.config, "norm_eps", 0.0)]))
        scratch, doubles = 0, 0
        for index, block in enumerate(blocks):
            record = self.block(block)
            self.plan[p.MODEL + index * p.BLOCK : p.MODEL + (index + 1) * p.BLOCK] = [
                record.get(f, 0) for f in range(p.BLOCK)
            ]
            rows, tile, m = record[p.WIDTH], record[p.LANES], record.get(p.LANDMARKS, 0)
            wide = max(wide, PANEL * max(record[p.QKV], panels(rows), panels(record.get(p.INNER, 0))))
            exact = 0 if record[p.KIND] == p.FIXED else record[p.WINDOW] * tile
            scratch = max(scratch, exact, m * tile, m * m * tile)
            doubles = max(doubles, inverse.doubles(m) if record[p.KIND] == p.CONTINUAL else 0)
        if isinstance(encoder, StreamEncoder) and isinstance(encoder.norm, nn.LayerNorm):
            self.head |= {p.HAS_NORM: 1, p.NORM_AT: self.norm(encoder.norm)}
        if isinstance(model, StreamModel):
            wide = max(wide, PANEL * panels(model.config.output_dim))
            self.ends(model)
        self.head |= {p.WIDE: wide, p.SIZE: self.state, p.DOUBLES: doubles, p.SHARED: scratch}
        self.plan[: p.MODEL] = [self.head.get(field, 0) for field in range(p.MODEL)]

    def done(self) -> Packed:
        weights = aligned(self.filled)
        np.concatenate(self.weights, out=weights)
        self.plan[p.WEIGHTS], self.plan[p.WEIGHED] = weights.ctypes.data, weights.size
        return Packed(self.plan, weights)

    def put(self, values: Array) -> int:
        """Where the values lie among the weights."""
        at, flat = self.filled, values.ravel().astype(np.float32)
        room = -(-flat.size // LINE) * LINE
        self.weights += [flat, np.zeros(room - flat.size, np.float32)]
        self.filled += room
        return at

    def keep(self, *sizes: int) -> int:
        """Where a state keeps so many numbers."""
        at = self.state
        self.state += -(-math.prod(sizes) // LINE) * LINE
        return at

    def linear(self, weight: Array, bias: Array | None) -> int:
        return self.put(pack(weight, np.zeros(len(weight)) if bias is None else bias))

    def norm(self, norm: nn.LayerNorm) -> int:
        return self.put(np.concatenate([double(norm.weight), double(norm.bias)]))

    def ends(self, model: StreamModel) -> None:
        """Input projection and positions; head and scalers."""
        inward, outward = model.input_scaler, model.output_scaler
        self.head |= {p.HAS_EMBED: 1, p.HAS_HEAD: 1, p.INPUT: model.config.input_dim, p.OUTPUT: model.config.output_dim}
        self.head[p.SCALER_AT] = self.put(np.concatenate([double(inward.mean), double(inward.scale)]))
        self.head[p.EMBED_AT] = self.linear(double(model.input_proj.weight), double(model.input_proj.bias))
        if model.config.positions != "none":
            self.head |= {p.POSITIONS: model.positions.num_positions}
            self.head[p.TABLE_AT] = self.put(double(model.positions.table))
        self.head[p.HEAD_AT] = self.linear(double(model.head.weight), double(model.head.bias))
        self.head[p.RESTORE_AT] = self.put(np.concatenate([double(outward.scale), double(outward.mean)]))

    def block(self, block: EncoderBlock | MultiheadAttention) -> dict[int, int]:
        attn = block if isinstance(block, MultiheadAttention) else block.attention
        record = self.attention(attn)
        if isinstance(block, EncoderBlock):
            record |= {p.HAS_REST: 1, p.PRE_NORM: int(block.pre_norm), p.INNER: block.linear1.out_features}
            record |= {p.NORM1_AT: self.norm(block.norm1), p.NORM2_AT: self.norm(block.norm2)}
            record[p.GELU] = int(block.activation is nn.functional.gelu)
            record[p.IN_AT] = self.linear(double(block.linear1.weight), double(block.linear1.bias))
            record[p.BACK_AT] = self.linear(double(block.linear2.weight), double(block.linear2.bias))
        return record

    def attention(self, attn: MultiheadAttention) -> dict[int, int]:
        cfg = attn.config
        n, heads, dim, tile = cfg.window, cfg.num_heads, cfg.head_dim, p.lanes(cfg.num_heads)
        assert cfg.record.kernel is not None  # as `unsupported` has made sure
        width, kind = p.width(heads, dim), KINDS[cfg.record.kernel]
        record = {p.KIND: kind, p.WINDOW: n, p.HEADS: heads, p.LANES: tile, p.WIDTH: width}
        record[p.SCALE_AT] = self.put(np.array([cfg.scale, cfg.pinv_ridge]))
        folded = self.fold and cfg.fixed and cfg.m <= dim
        record[p.FOLDED] = int(folded)
        weight, bias = _folded(attn) if folded else _plain(attn)
        record |= {p.QKV_AT: self.linear(weight, bias), p.QKV: panels(len(weight))}
        out = p.to_lanes(double(attn.out_proj.weight).reshape(-1, heads, dim))
        record[p.OUT_AT] = self.linear(out, None if attn.out_proj.bias is None else double(attn.out_proj.bias))
        if kind != p.FIXED:
            record[p.KEYS_AT] = self.keep(n, width)
        record[p.VALUES_AT] = self.keep(n, width)
        return record if kind == p.FULL else record | self.low_rank(attn, width, tile, folded)

    def low_rank(self, attn: MultiheadAttention, width: int, tile: int, folded: bool) -> dict[int, int]:
        cfg = attn.config
        m = cfg.m
        segments, part = segments_of(cfg), m * (2 * tile + width)
        record = {p.LANDMARKS: m, p.SEGMENTS: segments, p.PART: -(-part // LINE) * LINE}
        record[p.LONGEST] = -(-(cfg.window // cfg.update_size) // segments)
        record[p.LOGITS_AT] = self.keep(cfg.window, m, tile)
        record[p.PARTS_AT] = self.keep(TOTALS + segments + record[p.LONGEST], record[p.PART])
        if cfg.fixed:
            for field, landmarks in ((p.Q_TILDE_AT, attn.q_tilde), (p.K_TILDE_AT, attn.k_tilde)):
                if not folded:
                    record[field] = self.put(p.to_lanes(double(landmarks).transpose(1, 0, 2)))
            record[p.GAMMA_AT] = self.put(p.spread(double(attn.gamma_pinv).transpose(1, 2, 0)))
            return record
        record |= {p.PINV: PINVS[cfg.pinv], p.ITERATIONS: cfg.pinv_iters}
        record |= {p.Q_TILDE_AT: self.keep(m, width), p.K_TILDE_AT: self.keep(m, width)}
        return record | {p.PENDING_AT: self.keep(2, width), p.GAMMA_AT: self.keep(m, m, tile)}


def segments_of(cfg: AttentionConfig) -> int:
    """K: as in torch, and one for a window of one group."""
    groups = cfg.window // cfg.update_size
    return cut(groups).segments if groups > 1 else 1


def _projected(attn: MultiheadAttention) -> tuple[list[Array], list[Array]]:
    """Weights [H, D, E] and biases [H, D] of q, k and v."""
    shape = (attn.config.num_heads, attn.config.head_dim)
    layers = (attn.q_proj, attn.k_proj, attn.v_proj)
    weights = [double(layer.weight).reshape(*shape, -1) for layer in layers]
    return weights, [np.zeros(shape) if layer.bias is None else double(layer.bias).reshape(shape) for layer in layers]


def _plain(attn: MultiheadAttention) -> tuple[Array, Array]:
    """The rows of [q, k, v]."""
    weights, biases = _projected(attn)
    rows = [p.to_lanes(np.moveaxis(weight, -1, 0)).T for weight in weights]
    return np.concatenate(rows), np.concatenate([p.to_lanes(bias) for bias in biases])


def _folded(attn: MultiheadAttention) -> tuple[Array, Array]:
    """The rows of [δ, β, v]: with fixed landmarks nothing needs q and k but their products with the landmarks.

    Where those are fewer numbers they are projected to at once. In float64, so that nothing is lost.
    """
    (q, k, v), (q_bias, k_bias, v_bias) = _projected(attn)
    rows, biases = [], []
    for landmarks, weight, bias in ((attn.q_tilde, k, k_bias), (attn.k_tilde, q, q_bias)):
        scaled = double(landmarks) * attn.config.scale  # [H, m, D]
        rows.append(np.einsum("hmd,hdk->mhk", scaled, weight).reshape(-1, weight.shape[-1]))
        biases.append(np.einsum("hmd,hd->mh", scaled, bias).ravel())
    rows.append(p.to_lanes(np.moveaxis(v, -1, 0)).T)
    return np.concatenate(rows), np.concatenate([*biases, p.to_lanes(v_bias)])


def aligned(size: int, dtype: Any = np.float32) -> Array:
    """Zeros that begin at a cache line."""
    item = np.dtype(dtype).itemsize
    held = np.empty(size * item + 64, np.uint8)  # not zeros: NumPy asks for huge pages here, and not there
    held[...] = 0
    start = -held.ctypes.data % 64
    return held[start : start + size * item].view(dtype)


def double(x: Tensor) -> Array:
    return x.detach().to("cpu", torch.float64).numpy()
