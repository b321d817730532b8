"""Windowed full attention: the newest queries over rings of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

from nystream.layers.attention import MultiheadAttention
from nystream.ops.attention.co_full_single import KeyValueState
from nystream.stream.gpu.attention import Attention
from nystream.stream.gpu.blocks import Blocks, power_of_two
from nystream.stream.gpu.kernels.full import full
from nystream.stream.gpu.launch import Call, Plan, plan
from nystream.stream.gpu.layout import Layout
from nystream.stream.gpu.tiles import ELEMENTS, LANE_COLUMNS, LANES, warps


class FullAttention(Attention):
    """All streams of an attention without landmarks."""

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        self.cut = Blocks(self.config.window, self.config.update_size, self.config.window, self.config.window)

    def plan(self, call: Call, *, advance: bool) -> Plan:
        return plan(call, self.cut, False, None, advance=advance)

    def step(self, x: Tensor, call: Call, plan: Callable[[], Plan]) -> Tensor:
        module, ring = self.module, self.ring_dtype
        q = self._projected(module.q_proj, x)
        k, v = self._projected(module.k_proj, x).to(ring), self._projected(module.v_proj, x).to(ring)
        out = torch.empty_like(q)
        exact(self, Layout(self.config.head_dim, self.config.head_dim, 1), out, q, k, v, call, plan(), warm_up=False)
        return out

    def read(self, slot: int, time: Tensor) -> Any:
        return KeyValueState(**super().read(slot, time))


def exact(
    attention: Attention,
    layout: Layout,
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    call: Call,
    plan: Plan,
    *,
    warm_up: bool,
) -> None:
    """Softmax attention over the rings of an attention, of all rows or those whose window is not full yet.

    `layout` is that of the values.
    """
    cfg, leaves, rows = attention.config, attention.leaves, len(call.slots)
    columns = power_of_two(cfg.head_dim)
    pairs = max(1, LANES * LANE_COLUMNS // columns)
    chunk = min(power_of_two(cfg.window), max(1, ELEMENTS // 4 // (pairs * columns)))
    full[(triton.cdiv(rows * cfg.num_heads, pairs), cfg.update_size)](
        out,
        q,
        k,
        v,
        attention.rates,
        call.slots,
        plan.places,
        plan.filled,
        leaves["ring_key"],
        leaves["ring_value"],
        rows,
        cfg.scale,
        N=cfg.window,
        R=cfg.update_size,
        H=cfg.num_heads,
        D=cfg.head_dim,
        C=layout.columns,
        B=layout.block,
        LANE=layout.block == 0,
        P=pairs,
        D_=columns,
        CHUNK=chunk,
        WARM_UP=warm_up,
        num_warps=warps(chunk * pairs * columns),
    )
