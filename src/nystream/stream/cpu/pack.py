"""Pack a model for the kernels: its plan, and all its weights in one array."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nystream.layers.attention import MultiheadAttention
from nystream.layers.block import EncoderBlock
from nystream.layers.encoder import StreamEncoder
from nystream.models import StreamModel
from nystream.ops.cut import cut
from nystream.stream.cpu import int8, inverse, sliding
from nystream.stream.cpu import path as linear_path
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.dense import PANEL, panels
from nystream.stream.cpu.plan import BlockPlan, Features, Layer, ModelPlan
from nystream.stream.cpu.simd import wide_registers
from nystream.stream.cpu.sums import TOTALS
from nystream.stream.cpu.support import KINDS, PINVS, Model
from nystream.stream.cpu.weights import pack_layer

Array = np.ndarray[Any, Any]

KIND_NAMES = {kind: name for name, kind in KINDS.items()}

LINE = 16  # float32 per cache line: whatever is read together begins at one


class Packed(NamedTuple):
    """A model as the kernels see it. They know `records` and `weights` by address, so these must stay alive."""

    plan: ModelPlan
    blocks: tuple[BlockPlan, ...]
    weights: Array  # float32
    records: tuple[Array, ...]  # the plans, in the layout that the kernels read, and what else they refer to
    features: Features  # of the kernels

    @property
    def address(self) -> int:
        """Address of the plan, for the kernels."""
        return int(self.records[0].ctypes.data)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a step reads: all of them, but only one of the positions."""
        return int(self.weights.nbytes) - 4 * max(self.plan.positions - 1, 0) * self.plan.embed_dim

    @property
    def multiplications(self) -> int:
        """Multiplications of weights in one step of one stream."""
        plan = self.plan
        layers = [plan.input_proj, plan.head, plan.path_embed]
        layers += [layer for b in self.blocks for layer in (b.qkv, b.out, b.linear1, b.linear2)]
        dense = sum(layer.inputs * layer.panels * PANEL for layer in layers)
        return plan.update_size * (dense + plan.has_path * plan.path_features * plan.output_dim)

    def room(self, rows: int) -> Array:
        """Scratch memory to step `rows` tokens at once."""
        widths = 2 * (self.plan.stride + self.plan.wide_stride) + self.plan.path_stride + self.plan.integers_stride
        return self.scratch(rows * widths + self.plan.path_features)

    def scratch(self, size: int) -> Array:
        """The float64 scratch memory of an attention, then `size` float32, then its float32 scratch memory."""
        return aligned(2 * self.plan.scratch_doubles + size + self.plan.scratch_floats)


def packed(model: Model, fold: bool = True, weights: str = "float32", rings: str = "float32") -> Packed:
    """Pack a supported model. With `fold`, fixed landmarks become part of the projections where that is smaller.

    Layers have this kind of `weights`; everything else is float32.
    """
    packer = _Packer(fold, weights, rings)
    encoder = model.encoder if isinstance(model, StreamModel) else model
    blocks = tuple(packer.block(b) for b in (encoder.blocks if isinstance(encoder, StreamEncoder) else [encoder]))
    width = model.config.embed_dim
    ends = packer.ends(model) if isinstance(model, StreamModel) else {"input_dim": width, "output_dim": width}
    runs = np.zeros((0, 2), np.int64)
    if isinstance(model, StreamModel) and model.config.linear is not None:
        runs = linear_path.runs(model.config.linear)
        ends |= packer.path(model) | {"path_runs": runs.ctypes.data, "path_run_count": len(runs)}
    if isinstance(encoder, StreamEncoder) and isinstance(encoder.norm, nn.LayerNorm):
        ends |= {"has_norm": 1, "norm_at": packer.norm(encoder.norm)}
    values = aligned(packer.weights_size)
    np.concatenate(packer.weights, out=values)
    blocks = tuple(b._replace(decay=values.ctypes.data + b.decay) for b in blocks)  # so far an offset in bytes
    block_records = np.array([*blocks], p.BLOCK)
    plan = ModelPlan(
        weights=values.ctypes.data,
        blocks=block_records.ctypes.data,
        depth=len(blocks),
        update_size=model.config.update_size,
        embed_dim=width,
        stride=PANEL * panels(width),
        wide_stride=PANEL * max(panels(max(width, ends["input_dim"], ends["output_dim"])), *map(_wide_panels, blocks)),
        state_size=packer.state_size,
        scratch_floats=max(map(_scratch_floats, blocks)),
        scratch_doubles=max(inverse.doubles(b.landmarks) if b.kind == p.CONTINUAL else 0 for b in blocks),
        norm_eps=getattr(model.config, "norm_eps", 0.0),
        integers_stride=int8.row_size(packer.widest) if weights == "int8" else 0,
        **ends,
    )
    kinds = {KIND_NAMES[block.kind] for block in blocks}
    wide = wide_registers() and all(block.tile % 16 == 0 for block in blocks)
    features = Features(weights, rings, kinds.pop() if len(kinds) == 1 else "mixed", bool(plan.has_path), wide)
    return Packed(plan, blocks, values, (np.array([plan], p.MODEL), block_records, runs, *packer.tables), features)


class _Packer:
    """Assigns offsets to weights and to the contents of a state."""

    def __init__(self, fold: bool, weights: str, rings: str) -> None:
        self.fold = fold
        self.kind = weights
        self.rings = rings
        self.widest = 0  # most inputs of a layer
        self.weights: list[Array] = []
        self.weights_size = 0
        self.tables: list[Array] = []  # that the plan refers to by address
        self.state_size = LINE  # the time has a cache line to itself

    def put(self, values: Array) -> int:
        """Add weights; return their offset."""
        at, flat = self.weights_size, values.ravel().astype(np.float32)
        room = -(-flat.size // LINE) * LINE
        self.weights += [flat, np.zeros(room - flat.size, np.float32)]
        self.weights_size += room
        return at

    def keep(self, *shape: int) -> int:
        """Reserve room in the state; return its offset."""
        at = self.state_size
        self.state_size += -(-math.prod(shape) // LINE) * LINE
        return at

    def layer(self, weight: Array, bias: Array | None, fine: int = 0) -> Layer:
        """Add a layer whose first `fine` outputs are sensitive to errors."""
        self.widest = max(self.widest, weight.shape[1])
        values, count = pack_layer(self.kind, weight, np.zeros(len(weight)) if bias is None else bias, fine)
        return Layer(self.put(values), weight.shape[1], panels(len(weight)), count)

    def linear(self, linear: nn.Linear, fine: bool = False) -> Layer:
        weight, bias = double(linear.weight), None if linear.bias is None else double(linear.bias)
        return self.layer(weight, bias, len(weight) if fine else 0)

    def norm(self, norm: nn.LayerNorm) -> int:
        return self.put(np.concatenate([double(norm.weight), double(norm.bias)]))

    def ends(self, model: StreamModel) -> dict[str, Any]:
        """Input scaler, projection and positions; head and output scaler."""
        scaler, unscaler = model.input_scaler, model.output_scaler
        fields: dict[str, Any] = {
            "has_ends": 1,
            "input_dim": model.config.input_dim,
            "output_dim": model.config.output_dim,
            "scaler_at": self.put(np.concatenate([double(scaler.mean), double(scaler.scale)])),
            "input_proj": self.linear(model.input_proj, fine=True),
            "head": self.linear(model.head, fine=True),
            "unscaler_at": self.put(np.concatenate([double(unscaler.scale), double(unscaler.mean)])),
        }
        if model.config.positions != "none":
            fields |= {"positions": model.positions.num_positions}
            fields |= {"positions_at": self.put(double(model.positions.table))}
        return fields

    def path(self, model: StreamModel) -> dict[str, Any]:
        """The linear path, its ring and the projection of its outputs."""
        linear, path = model.config.linear, model.linear
        assert linear is not None
        weight = double(path.weight)[:, linear_path.columns(linear, model.config.input_dim)]
        outputs, features = weight.shape
        size = -(-features // LINE) * LINE
        fields: dict[str, Any] = {
            "has_path": 1,
            "path_at": self.put(np.pad(weight, ((0, 0), (0, size - features)))),
            "path_features": size,
            "path_stride": -(-outputs // LINE) * LINE,
            "path_slots": path.tokens - 1,
            "path_width": path.width,
            "recent_at": self.keep(path.tokens - 1, path.width),
        }
        if linear.embedded:
            fields |= {"path_embedded": 1, "path_embed": self.linear(model.linear_embed, fine=True)}
        return fields

    def block(self, block: nn.Module) -> BlockPlan:
        if isinstance(block, MultiheadAttention):
            return self.attention(block)
        assert isinstance(block, EncoderBlock)
        return self.attention(block.attention)._replace(
            has_feed_forward=1,
            pre_norm=int(block.pre_norm),
            gelu=int(block.activation is nn.functional.gelu),
            norm1_at=self.norm(block.norm1),
            norm2_at=self.norm(block.norm2),
            linear1=self.linear(block.linear1),
            linear2=self.linear(block.linear2),
        )

    def attention(self, attn: MultiheadAttention) -> BlockPlan:
        cfg = attn.config
        assert cfg.record.kernel is not None  # checked by `unsupported`
        heads, dim, kind = cfg.num_heads, cfg.head_dim, KINDS[cfg.record.kernel]
        width, folded = p.width(heads, dim), self.fold and cfg.fixed and cfg.m <= dim
        weight, bias = _folded(attn) if folded else _plain(attn)
        # Rows that are a multiple of 1 kB apart share a few sets of the cache: one more line spreads them.
        per_word = 2 if self.rings == "bfloat16" else 1
        stride = width + (LINE * per_word if width % (256 * per_word) == 0 else 0)
        keys_at = 0 if kind == p.FIXED else per_word * self.keep(cfg.window, stride // per_word)
        out = p.to_lanes(double(attn.out_proj.weight).reshape(-1, heads, dim))
        plan = BlockPlan(
            kind=kind,
            window=cfg.window,
            update_size=cfg.update_size,
            groups=cfg.window // cfg.update_size,
            heads=heads,
            tile=p.tile_size(heads),
            width=width,
            stride=stride,
            scale=cfg.scale,
            decays=int(cfg.decay),
            decay=4
            * self.put(p.spread(double(attn.decay)) if attn.decay is not None else np.zeros(p.tile_size(heads))),
            folded=int(folded),
            qkv=self.layer(weight, bias, fine=len(weight) - width),  # all but v
            out=self.layer(out, None if attn.out_proj.bias is None else double(attn.out_proj.bias)),
            keys_at=keys_at,
            values_at=per_word * self.keep(cfg.window, stride // per_word),
        )
        return plan if kind == p.FULL else self.low_rank(attn, plan)

    def low_rank(self, attn: MultiheadAttention, plan: BlockPlan) -> BlockPlan:
        cfg, m, width, tile = attn.config, attn.config.m, plan.width, plan.tile
        window = cut(plan.groups, cfg.update_size, m)
        counts = np.array([window.groups, *window.tiers])
        ends = [cfg.update_size * window.bounds(tier)[1:] - 1 for tier in range(1, len(window.tiers) + 1)]
        newest = np.concatenate([np.zeros(TOTALS, np.int64), *ends])
        together = sliding.together(m)
        block_size = window.groups // window.blocks
        shifts = np.arange(m) // together * together * (block_size + np.arange(2)[:, None]) // m
        self.tables += [counts, newest, shifts]
        near = min(window.groups, 2 * -(-window.groups // window.tiers[0])) if window.tiers else window.groups
        part_size = -(-m * (2 * tile + width) // LINE) * LINE
        plan = plan._replace(
            landmarks=m,
            blocks=window.blocks,
            block_size=block_size,
            together=together,
            shifts=shifts.ctypes.data,
            tiers=len(window.tiers),
            counts=counts.ctypes.data,
            newest=newest.ctypes.data,
            most_items=near * cfg.update_size + window.totals,
            slots=len(newest),
            part_size=part_size,
            logits_at=self.keep(cfg.window, m, tile),
            parts_at=self.keep(len(newest), part_size),
            edges_at=self.keep(window.longest_edges * cfg.update_size, m, tile),
        )
        if not cfg.fixed:
            return plan._replace(
                pinv=PINVS[cfg.pinv],
                pinv_iters=cfg.pinv_iters,
                pinv_ridge=cfg.pinv_ridge,
                q_tilde_at=self.keep(m, width),
                k_tilde_at=self.keep(m, width),
                pending_at=self.keep(2, width),
                gamma_pinv_at=self.keep(m, m, tile),
            )
        if not plan.folded:
            q_tilde, k_tilde = (
                self.put(p.to_lanes(double(landmarks).transpose(1, 0, 2))) for landmarks in (attn.q_tilde, attn.k_tilde)
            )
            plan = plan._replace(q_tilde_at=q_tilde, k_tilde_at=k_tilde)
        return plan._replace(gamma_pinv_at=self.put(p.spread(double(attn.gamma_pinv).transpose(1, 2, 0))))


def _wide_panels(block: BlockPlan) -> int:
    """Panels of the widest row of a block."""
    return max(block.qkv.panels, panels(block.width), block.linear1.panels)


def _scratch_floats(block: BlockPlan) -> int:
    """Γ or the logits of the landmarks, or the logits of the window for exact attention."""
    m, tile = block.landmarks, block.tile
    exact = 0 if block.kind == p.FIXED else block.window * tile
    r, room = block.update_size, 3 * -(-block.groups // max(block.blocks, 1)) * block.update_size
    sums = block.most_items * (block.together * tile + 2)
    reads = (r * m + m + r * (room + m)) * tile + 2 * (room + m) + 16 * room
    return max(m**2 * tile, exact, sums, reads)


def _projections(attn: MultiheadAttention) -> tuple[list[Array], list[Array]]:
    """Weights [H, D, E] and biases [H, D] of q, k and v."""
    shape = (attn.config.num_heads, attn.config.head_dim)
    layers = (attn.q_proj, attn.k_proj, attn.v_proj)
    weights = [double(layer.weight).reshape(*shape, -1) for layer in layers]
    return weights, [np.zeros(shape) if layer.bias is None else double(layer.bias).reshape(shape) for layer in layers]


def _plain(attn: MultiheadAttention) -> tuple[Array, Array]:
    """Weight and bias of the projection to [q, k, v]."""
    weights, biases = _projections(attn)
    rows = [p.to_lanes(np.moveaxis(weight, -1, 0)).T for weight in weights]
    return np.concatenate(rows), np.concatenate([p.to_lanes(bias) for bias in biases])


def _folded(attn: MultiheadAttention) -> tuple[Array, Array]:
    """Weight and bias of the projection to [δ, β, v], in float64.

    With fixed landmarks, q and k are needed only for their products with the landmarks. The products of those with the
    weights of q and k are computed here once.
    """
    (q, k, v), (q_bias, k_bias, v_bias) = _projections(attn)
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
    raw = np.empty(size * item + 64, np.uint8)  # not np.zeros: NumPy requests huge pages for np.empty only
    raw[...] = 0
    start = -raw.ctypes.data % 64
    return raw[start : start + size * item].view(dtype)


def double(x: Tensor) -> Array:
    return x.detach().to("cpu", torch.float64).numpy()
