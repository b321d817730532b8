"""Convert between the state of a torch module and the block of float32 that the kernels work in.

Rings and landmarks are copied. The partials are a cache of them and are rebuilt on either side, so the two sides may
divide their windows differently.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.layers.encoder import CascadeState
from nystream.layers.linear_path import ModelState
from nystream.ops import window
from nystream.ops.attention.co_cont_single import ContState
from nystream.ops.attention.co_fixed_single import FixedState
from nystream.ops.attention.co_full_single import KeyValueState
from nystream.stream.cpu import plan as p
from nystream.stream.cpu.pack import Packed
from nystream.stream.cpu.plan import BlockPlan
from nystream.stream.cpu.sums import FLOOR

Array = np.ndarray[Any, Any]


def time(memory: Array) -> int:
    """Tokens that a stream has read; `memory` is its state."""
    return int(memory[:2].view(np.int64)[0])


def write(memory: Array, packed: Packed, state: Any) -> None:
    """Write a torch state of one row into memory; its partials are empty until `step.rebuild`."""
    if isinstance(state, ModelState):
        slots, width = state.recent.shape[1:]
        has_token = np.arange(slots) < int(state.time[0])  # the kernel relies on zeros in all other slots
        recent = np.where(has_token[:, None], state.recent[0].numpy(), 0.0)
        _view(memory, packed.plan.recent_at, slots, width)[...] = recent
        state = state.encoder
    states = state.blocks if isinstance(state, CascadeState) else (state,)
    memory[:2].view(np.int64)[0] = int(states[0].time[0])
    for plan, block_state in zip(packed.blocks, states, strict=True):
        leaves = {name: leaf[0].numpy() for name, leaf in block_state._asdict().items() if name != "time"}
        n, m, tile, width = plan.window, plan.landmarks, plan.tile, plan.width
        _write_ring(memory, packed, plan.values_at, plan, leaves["ring_value"])
        if "ring_key" in leaves:
            _write_ring(memory, packed, plan.keys_at, plan, leaves["ring_key"])
        if "landmarks" in leaves:
            landmarks = p.to_lanes(leaves["landmarks"])  # [m, 2, width]
            _view(memory, plan.q_tilde_at, m, width)[...] = landmarks[:, 0]
            _view(memory, plan.k_tilde_at, m, width)[...] = landmarks[:, 1]
            _view(memory, plan.pending_at, 2, width)[...] = p.to_lanes(leaves["pending"])
            _view(memory, plan.gamma_pinv_at, m, m, tile)[...] = p.spread(leaves["gamma_pinv"].transpose(1, 2, 0))
        if "ring_logit" in leaves:
            _view(memory, plan.logits_at, n, m, tile)[...] = p.spread(leaves["ring_logit"].transpose(0, 2, 1))
            parts = _view(memory, plan.parts_at, plan.slots, plan.part_size)
            parts[...] = 0.0
            parts[:, : m * tile] = FLOOR


def read(memory: Array, packed: Packed, like: Any, configs: tuple[AttentionConfig, ...]) -> Any:
    """The torch state of one row that is in memory; `like` is `init_state(1)`."""
    if isinstance(like, ModelState):
        recent = _view(memory, packed.plan.recent_at, *like.recent.shape[1:]).copy()
        return ModelState(read(memory, packed, like.encoder, configs), torch.from_numpy(recent)[None])
    if not isinstance(like, CascadeState):
        return _read_block(memory, packed, 0, like, configs[0])
    blocks = zip(like.blocks, configs, strict=True)
    return CascadeState(tuple(_read_block(memory, packed, i, state, cfg) for i, (state, cfg) in enumerate(blocks)))


def _read_block(memory: Array, packed: Packed, index: int, like: Any, cfg: AttentionConfig) -> Any:
    plan = packed.blocks[index]
    n, m, tile = plan.window, plan.landmarks, plan.tile

    def by_head(at: int, *lead: int) -> Tensor:
        values = p.from_lanes(_view(memory, at, *lead, plan.width), cfg.num_heads, cfg.head_dim)
        return torch.from_numpy(values)[None]

    def ring(at: int) -> Tensor:
        rows = _ring(memory, packed, at, plan).float().numpy()
        return torch.from_numpy(p.from_lanes(rows, cfg.num_heads, cfg.head_dim))[None]

    def per_head(at: int, shape: tuple[int, int], axes: tuple[int, int, int]) -> Tensor:
        values = _view(memory, at, *shape, tile)[..., : cfg.num_heads].transpose(axes)
        return torch.from_numpy(np.ascontiguousarray(values))[None]

    now, value = torch.tensor([time(memory)]), ring(plan.values_at)
    if isinstance(like, KeyValueState):
        return KeyValueState(now, ring(plan.keys_at), value)
    ring_logit = per_head(plan.logits_at, (n, m), (0, 2, 1))
    parts = window.rebuild(cfg, ring_logit, value, now, _rates(packed, plan))
    if isinstance(like, FixedState):
        return FixedState(now, ring_logit, value, *parts)
    landmarks = torch.stack([by_head(plan.q_tilde_at, m), by_head(plan.k_tilde_at, m)], 2)  # [1, m, 2, H, D]
    pending, gamma_pinv = by_head(plan.pending_at, 2), per_head(plan.gamma_pinv_at, (m, m), (2, 0, 1))
    return ContState(now, ring(plan.keys_at), value, landmarks, pending, gamma_pinv, ring_logit, *parts)


def _ring(memory: Array, packed: Packed, at: int, plan: BlockPlan) -> Tensor:
    """A ring of keys or values [n, stride] in its own dtype, as a view."""
    numbers = torch.from_numpy(memory)
    if packed.features.rings == "bfloat16":
        numbers = numbers.view(torch.bfloat16)
    return numbers[at : at + plan.window * plan.stride].view(plan.window, plan.stride)


def _write_ring(memory: Array, packed: Packed, at: int, plan: BlockPlan, tokens: Array) -> None:
    """Write tokens [n, H, D] into a ring."""
    _ring(memory, packed, at, plan)[:, : plan.width] = torch.from_numpy(p.to_lanes(tokens))


def _rates(packed: Packed, plan: BlockPlan) -> Tensor | None:
    """The rates of decay [H]."""
    at = (plan.decay - packed.plan.weights) // 4
    return torch.from_numpy(packed.weights[at : at + plan.heads].copy()) if plan.decays else None


def _view(memory: Array, at: int, *shape: int) -> Array:
    return memory[at : at + int(np.prod(shape))].reshape(shape)
