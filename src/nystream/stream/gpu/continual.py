"""Attention through continual landmarks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nystream.layers.attention import MultiheadAttention
from nystream.ops.landmarks import Segments
from nystream.stream.gpu.blocks import power_of_two
from nystream.stream.gpu.full import exact
from nystream.stream.gpu.kernels import landmarks as kernels
from nystream.stream.gpu.landmarks import LandmarkAttention
from nystream.stream.gpu.launch import Call, Plan, plan, programs
from nystream.stream.gpu.tiles import ELEMENTS, MIN_PRODUCT, warps


class ContinualAttention(LandmarkAttention):
    """All streams of an attention with continual landmarks."""

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        n, r = self.config.window, self.config.update_size
        segments, time = Segments(n, self.config.m), torch.arange(1, n + 1)
        segment = segments.of(time)
        ends = segments.ends(time)
        self.segment, self.opens, self.sizes = (
            x.to(self.device, torch.int32)
            for x in (segment, time - 1 == segments.start(segment), torch.where(ends, segments.size(segment), 0))
        )
        self.completes = ends.unflatten(0, (-1, r)).any(1).to(self.device, torch.int32)

    def plan(self, call: Call, *, advance: bool) -> Plan:
        return plan(call, self.cut, True, self.completes, advance=advance)

    def step(self, x: Tensor, call: Call, plan: Callable[[], Plan]) -> Tensor:
        module, leaves, made = self.module, self.leaves, plan()
        q = self._projected(module.q_proj, x)
        k, v = (self._projected(layer, x).to(self.ring_dtype) for layer in (module.k_proj, module.v_proj))
        logit, query = self._collected(q, k, call, made)
        self._refresh(call, made)
        self.rebuild(call.slots, made.places, made.due, made.counts[1:])
        out = self.attend(logit, query, v, leaves["gamma_pinv"], call, made)
        exact(self, self.layouts["ring_value"], out, q, k, v, call, made, warm_up=True)
        return out

    def _collected(self, q: Tensor, k: Tensor, call: Call, plan: Plan) -> tuple[Tensor, Tensor]:
        """Add the tokens to the landmarks, and return the logits of keys and queries, [rows, r, strips h L] each."""
        cfg, leaves, rows = self.config, self.leaves, len(call.slots)
        shape = (rows, cfg.update_size, cfg.num_heads * self.tile.logit.width)
        logit, query = (torch.empty(shape, dtype=torch.float32, device=self.device) for _ in range(2))
        landmarks, columns = power_of_two(cfg.m), power_of_two(cfg.head_dim)
        kernels.collect[(rows * cfg.num_heads,)](
            logit,
            query,
            q,
            k,
            call.slots,
            plan.places,
            self.segment,
            self.opens,
            self.sizes,
            leaves["landmarks"],
            leaves["pending"],
            leaves["ring_key"],
            cfg.scale,
            N=cfg.window,
            R=cfg.update_size,
            H=cfg.num_heads,
            M=cfg.m,
            D=cfg.head_dim,
            L=self.tile.logit.columns,
            LANE=self.tile.pairs > 1,
            M_=landmarks,
            D_=columns,
            num_warps=warps(2 * landmarks * columns),
        )
        return logit, query

    def _refresh(self, call: Call, plan: Plan) -> None:
        """Compute the logits of all keys, and Γ†, where landmarks have changed."""
        cfg, leaves = self.config, self.leaves
        landmarks, columns = (max(MIN_PRODUCT, power_of_two(x)) for x in (cfg.m, cfg.head_dim))
        kernels.refresh[(programs(self.device, len(call.slots) * cfg.num_heads),)](
            call.slots,
            plan.places,
            plan.filled,
            plan.due,
            plan.counts[1:],
            leaves["landmarks"],
            leaves["ring_key"],
            leaves["ring_logit"],
            leaves["gamma_pinv"],
            N=cfg.window,
            EDGES=self.cut.edges,
            R=cfg.update_size,
            H=cfg.num_heads,
            M=cfg.m,
            D=cfg.head_dim,
            L=self.tile.logit.columns,
            LANE=self.tile.pairs > 1,
            M_=landmarks,
            D_=columns,
            CHUNK=max(1, min(power_of_two(cfg.window), 2 * ELEMENTS // (landmarks * columns))),
            PINV=cfg.pinv,
            ITERS=cfg.pinv_iters,
            SCALE=cfg.scale,
            LAMBDA=cfg.pinv_ridge,
            num_warps=warps(2 * landmarks * columns),
        )
