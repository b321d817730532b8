"""Attention through landmarks: what fixed and continual ones have in common, and the former."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn.functional import linear

from nystream.layers.attention import MultiheadAttention
from nystream.ops import window
from nystream.ops.partials import FLOOR
from nystream.stream.gpu.attention import Attention
from nystream.stream.gpu.blocks import blocks
from nystream.stream.gpu.kernels import middle
from nystream.stream.gpu.kernels.step import step
from nystream.stream.gpu.launch import Call, Plan, plan, programs
from nystream.stream.gpu.tiles import max_edges, step_tile, sums_tile


class LandmarkAttention(Attention):
    """A window of logits and values, and its partials."""

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        cfg = self.config
        self.token_bytes = 4 * cfg.num_heads * cfg.m + ring_dtype.itemsize * cfg.embed_dim
        self.partial_bytes = 4 * cfg.m * (cfg.embed_dim + cfg.num_heads)
        self.cut = blocks(cfg.window, cfg.update_size, self.token_bytes, self.partial_bytes, max_edges(cfg.m))
        self.step_tile, self.sums_tile = step_tile(cfg, self.cut), sums_tile(cfg, ring_dtype.itemsize)

    def void(self) -> dict[str, Tensor]:
        cfg, count = self.config, self.cut.partials
        lse = torch.full((1, count, cfg.num_heads, cfg.m), FLOOR, device=self.device)
        mean = torch.zeros(1, count, cfg.m, cfg.num_heads, cfg.head_dim, device=self.device)
        return super().void() | {"part_lse": lse, "part_mean": mean}

    def plan(self, call: Call) -> Plan:
        return plan(call, self.cut, True, None)

    def read(self, slot: int, time: Tensor) -> Any:
        state = super().read(slot, time)
        rates = None if self.module.decay is None else self.rates.cpu()
        parts = window.rebuild(self.config, state["ring_logit"], state["ring_value"], time, rates)
        return type(self.fresh)(**state, part_max=parts.max, part_sum=parts.sum)

    def write(self, slot: int, state: Any) -> None:
        super().write(slot, state)
        newest = (int(state.time[0]) - 1 + slot * self.cut.r) % self.cut.n
        like = {"dtype": torch.int32, "device": self.device}
        slots = torch.tensor([slot], device=self.device)
        place, first, one = (torch.tensor([x], **like) for x in (newest, 0, 1))  # type: ignore[arg-type]
        self.rebuild(slots, place, first, one)

    def renew(self, slots: Tensor, plan: Plan) -> None:
        """Renew the middles of the rows that enter a block."""
        self._of_rings(middle.renew, slots, plan.places, plan.entering, plan.counts)

    def rebuild(self, slots: Tensor, places: Tensor, listed: Tensor, count: Tensor) -> None:
        """Compute the partials of listed rows from their rings."""
        self._of_rings(middle.rebuild, slots, places, listed, count)

    def _of_rings(self, kernel: Any, slots: Tensor, places: Tensor, listed: Tensor, count: Tensor) -> None:
        cfg, leaves, cut, size = self.config, self.leaves, self.cut, self.sums_tile
        groups = triton.cdiv(len(slots) * cfg.num_heads, size.pairs)
        kernel[(programs(self.device, groups), size.pieces)](
            self.rates,
            slots,
            places,
            listed,
            count,
            leaves["ring_logit"],
            leaves["ring_value"],
            leaves["part_lse"],
            leaves["part_mean"],
            N=cut.n,
            H=cfg.num_heads,
            M=cfg.m,
            D=cfg.head_dim,
            EDGES=cut.edges,
            TIER=min(cut.tier, cut.n),
            PARTIALS=cut.partials,
            P=size.pairs,
            M_=size.landmarks,
            D_=size.columns,
            CHUNK=size.tokens,
            num_warps=size.warps,
        )

    def attend(self, logit: Tensor, query: Tensor, value: Tensor, gamma_pinv: Tensor, call: Call, plan: Plan) -> Tensor:
        """The rows [rows, r, E] of new tokens: logit and query [rows, r, H m], value [rows, r, E]."""
        cfg, leaves, cut, size = self.config, self.leaves, self.cut, self.step_tile
        rows = len(call.slots)
        out = torch.empty(rows, cut.r, cfg.embed_dim, dtype=self.dtype, device=self.device)
        step[(triton.cdiv(rows * cfg.num_heads, size.pairs), cut.r * size.pieces)](
            out,
            logit,
            query,
            value,
            gamma_pinv,
            self.rates,
            call.slots,
            plan.places,
            leaves["ring_logit"],
            leaves["ring_value"],
            leaves["part_lse"],
            leaves["part_mean"],
            rows,
            logit.stride(1),
            value.stride(1),
            0 if gamma_pinv.dim() == 3 else gamma_pinv.stride(0),
            N=cut.n,
            R=cut.r,
            H=cfg.num_heads,
            M=cfg.m,
            D=cfg.head_dim,
            EDGES=cut.edges,
            PARTIALS=cut.partials,
            P=size.pairs,
            M_=size.landmarks,
            D_=size.columns,
            EDGES_=size.tokens,
            PIECES=size.pieces,
            num_warps=size.warps,
        )
        return out


class FixedAttention(LandmarkAttention):
    """All streams of an attention with fixed landmarks.

    Queries and keys are needed only for their products with the landmarks, so the projections compute these at once:
    q̃ᵀ (W x + b) = (W ᵀq̃)ᵀ x + q̃ᵀ b. They are float32, whatever the dtype of the model.
    """

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        cfg = self.config
        folded = [
            _products(layer, landmarks, cfg.scale)
            for layer, landmarks in ((module.k_proj, module.q_tilde), (module.q_proj, module.k_tilde))
        ]
        self.weight, self.bias = (
            torch.cat(parts).float() for parts in zip(*folded, strict=True)
        )  # [2 H m, E], [2 H m]
        self.gamma_pinv = module.gamma_pinv.contiguous()

    def step(self, x: Tensor, call: Call, plan: Plan) -> Tensor:
        products = linear(x.float(), self.weight, self.bias)  # [rows, r, 2 H m]
        logit, query = products.chunk(2, -1)
        value = self._projected(self.module.v_proj, x).to(self.ring_dtype)
        self.renew(call.slots, plan)
        return self.attend(logit, query, value, self.gamma_pinv, call, plan)


def _products(layer: torch.nn.Linear, landmarks: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The layer whose outputs are the scaled products of the outputs of `layer` with landmarks [H, m, D]."""
    tilde = landmarks.double() * scale
    heads, _, dim = tilde.shape
    weight = (tilde @ layer.weight.double().unflatten(0, (heads, dim))).flatten(0, 1)  # [H m, E]
    bias = weight.new_zeros(heads * dim) if layer.bias is None else layer.bias.double()
    return weight, (tilde @ bias.unflatten(0, (heads, dim)).unsqueeze(-1)).flatten()
