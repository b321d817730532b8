"""Attention through landmarks: what both kinds share, and attention through fixed landmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from nystream.layers.attention import MultiheadAttention
from nystream.ops import window
from nystream.ops.partials import FLOOR
from nystream.stream.gpu.attention import Attention
from nystream.stream.gpu.blocks import blocks, power_of_two
from nystream.stream.gpu.kernels.middle import rebuild
from nystream.stream.gpu.kernels.products import products, weights
from nystream.stream.gpu.kernels.step import step
from nystream.stream.gpu.launch import Call, Plan, early, plan, programs
from nystream.stream.gpu.tiles import max_edges, tile, warps


class Product(NamedTuple):
    """The tile of a matrix product: rows and columns of the result, and the part of a sum that is read at a time."""

    rows: int
    columns: int
    part: int
    warps: int


PRODUCT = Product(64, 64, 64, 4)
PAIRS = 128  # of a token and a head, for one program that computes weights
TERMS = 2  # bfloat16 numbers for one weight


class LandmarkAttention(Attention):
    """A window of logits and values, and its partials."""

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        cfg, self.tile = self.config, tile(self.config, ring_dtype)
        logits, values = (cfg.num_heads * layout.width for layout in (self.tile.logit, self.tile.value))
        self.logit_bytes = 4 * logits
        self.token_bytes = self.logit_bytes + ring_dtype.itemsize * values
        self.partial_bytes = self.logit_bytes + 4 * cfg.m * values
        self.cut = blocks(cfg.window, cfg.update_size, self.token_bytes, self.partial_bytes, max_edges(self.tile))
        self.layouts = {
            "ring_logit": self.tile.logit.blocked(self.cut.edges),
            "ring_value": self.tile.value.blocked(self.cut.edges),
            "gamma_pinv": self.tile.logit.blocked(cfg.m),
        }

    @property
    def bytes_per_step(self) -> float:
        """Bytes that the kernel of a step moves per stream, on average: of its state, inputs and outputs."""
        r, width = self.cut.r, self.config.embed_dim
        given = 2 * self.logit_bytes + width * (self.ring_dtype.itemsize + self.dtype.itemsize)
        return self.cut.bytes(self.token_bytes, self.partial_bytes) + r * given

    def void(self) -> dict[str, Tensor]:
        count, heads, m = self.cut.partials, self.config.num_heads, self.config.m
        sums: dict[str, Any] = {"dtype": torch.float32, "device": self.device}
        lse = torch.full((1, count, heads, m), FLOOR, **sums)
        mean = torch.zeros(1, count, m, heads, self.config.head_dim, **sums)
        return super().void() | {
            "part_lse": self.tile.logit.store(lse, FLOOR),
            "part_mean": self.tile.value.blocked(m).store(mean),
        }

    def stored(self, name: str, leaf: Tensor) -> Tensor:
        if name not in self.layouts:
            return leaf
        if name == "gamma_pinv":
            leaf = leaf.transpose(-3, -2)  # [..., m, h, m]
        return self.layouts[name].store(leaf, -torch.inf if name == "ring_logit" else 0.0)

    def plain(self, name: str, leaf: Tensor) -> Tensor:
        if name not in self.layouts:
            return leaf
        if name == "gamma_pinv":
            return self.layouts[name].plain(leaf, self.config.m).transpose(-3, -2).contiguous()
        return self.layouts[name].plain(leaf, self.config.window)

    def plan(self, call: Call, *, advance: bool) -> Plan:
        return plan(call, self.cut, True, None, advance=advance)

    def read(self, slot: int, time: Tensor) -> Any:
        state = super().read(slot, time)
        rates = None if self.rates is None else self.rates.cpu()
        parts = window.rebuild(self.config, state["ring_logit"], state["ring_value"], time, rates)
        return type(self.fresh)(**state, part_max=parts.max, part_sum=parts.sum)

    def write(self, slot: int, state: Any) -> None:
        super().write(slot, state)
        newest = (int(state.time[0]) - 1 + slot * self.cut.r) % self.cut.n
        like = {"dtype": torch.int32, "device": self.device}
        slots = torch.tensor([slot], device=self.device)
        place, first, one = (torch.tensor([x], **like) for x in (newest, 0, 1))  # type: ignore[arg-type]
        self.rebuild(slots, place, first, one)

    def rebuild(self, slots: Tensor, places: Tensor, listed: Tensor, count: Tensor) -> None:
        """Compute the partials of listed rows from their rings."""
        size = self.tile
        groups = triton.cdiv(len(slots) * self.config.num_heads, size.pairs)
        rebuild[(programs(self.device, groups), triton.cdiv(size.value.strips, size.renewed))](
            self.rates, slots, places, listed, count, *self._window, S_=size.renewed, **self._sizes
        )

    def attend(
        self, logit: Tensor, query: Tensor, value: Tensor, gamma_pinv: Tensor | None, call: Call, plan: Plan
    ) -> Tensor:
        """The rows [rows, r, E] of new tokens: logit and query [rows, r, strips h L], value [rows, r, E].

        Without gamma_pinv, `query` has the weights softmax(query) Γ†.
        """
        cfg, cut, size, rows = self.config, self.cut, self.tile, len(call.slots)
        out = torch.empty(rows, cut.r, cfg.embed_dim, dtype=self.dtype, device=self.device)
        groups = triton.cdiv(rows * cfg.num_heads, size.pairs)
        renewers = programs(self.device, groups, size.limits.renewers)
        step[(renewers + groups, triton.cdiv(size.value.strips, size.strips))](
            out,
            logit,
            query,
            value,
            gamma_pinv,
            self.rates,
            call.slots,
            plan.places,
            plan.entering,
            plan.counts,
            *self._window,
            rows,
            renewers,
            R=cut.r,
            S_=size.strips,
            E_=power_of_two(cut.edges),
            R_=power_of_two(cut.r),
            RENEWED=size.renewed,
            **early(self.device),
            **self._sizes,
        )
        return out

    @property
    def _window(self) -> tuple[Tensor, ...]:
        return tuple(self.leaves[name] for name in ("ring_logit", "ring_value", "part_lse", "part_mean"))

    @property
    def _sizes(self) -> dict[str, int | None]:
        cfg, cut, size = self.config, self.cut, self.tile
        means, inverse = max(size.landmarks, power_of_two(cut.edges)) * size.elements, size.pairs * size.landmarks**2
        count = warps(max(means, inverse))
        return {
            "N": cut.n,
            "H": cfg.num_heads,
            "M": cfg.m,
            "D": cfg.head_dim,
            "L": size.logit.columns,
            "C": size.value.columns,
            "EDGES": cut.edges,
            "TIER": min(cut.tier, cut.n),
            "PARTIALS": cut.partials,
            "P": size.pairs,
            "M_": size.landmarks,
            "C_": size.padded_columns,
            "CHUNK": size.limits.chunk,
            "num_warps": count,
            "num_stages": 1,
            "maxnreg": size.limits.registers if count == 1 else None,
        }


class FixedAttention(LandmarkAttention):
    """All streams of an attention with fixed landmarks.

    Queries and keys are needed only for their products with the landmarks, so one kernel computes these at once:
    q̃ᵀ (W x + b) = (W ᵀq̃)ᵀ x + q̃ᵀ b. In a bfloat16 model, each weight is the sum of two numbers, exact to about five
    digits.
    """

    def __init__(self, module: MultiheadAttention, ring_dtype: torch.dtype) -> None:
        super().__init__(module, ring_dtype)
        layout, factors, biases = self.tile.logit, [], []
        for layer, landmarks in ((module.k_proj, module.q_tilde), (module.q_proj, module.k_tilde)):
            weight, bias = _products(layer, landmarks, self.config.scale)
            factors.append(layout.store(weight.movedim(2, 0)[:, None]).flatten(1).T)
            biases.append(layout.store(bias[None], -torch.inf).flatten())  # landmarks that only complete a strip: −inf
        self.weight = torch.stack(_terms(torch.stack(factors), self.dtype))  # [terms, 2, strips h L, E]
        self.bias = torch.stack(biases).float()
        self.gamma_pinv = self.stored("gamma_pinv", module.gamma_pinv.float())

    def step(self, x: Tensor, call: Call, plan: Callable[[], Plan]) -> Tensor:
        logit, query = self._weights(x)
        value = self._projected(self.module.v_proj, x).to(self.ring_dtype)
        return self.attend(logit, query, value, None, call, plan())

    def _weights(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the tokens x [rows, r, E], and the weights of the landmarks, [rows, r, strips h L] each."""
        cfg, heads, columns = self.config, self.config.num_heads, self.bias.shape[1]
        tokens = x.shape[0] * x.shape[1]
        out = torch.empty(2, *x.shape[:2], columns, dtype=torch.float32, device=self.device)
        products[(triton.cdiv(tokens, PRODUCT.rows), triton.cdiv(columns, PRODUCT.columns), 2)](
            out,
            x.contiguous(),
            self.weight,
            self.bias,
            tokens,
            E=cfg.embed_dim,
            COLUMNS=columns,
            TERMS=len(self.weight),
            BLOCK=PRODUCT.rows,
            N=PRODUCT.columns,
            PART=PRODUCT.part,
            num_warps=PRODUCT.warps,
        )
        lane = self.tile.pairs > 1
        grid = (triton.cdiv(tokens * heads, PAIRS), 1) if lane else (triton.cdiv(tokens, PRODUCT.rows), heads)
        weights[grid](
            out[1],
            self.gamma_pinv,
            tokens,
            H=heads,
            M=cfg.m,
            L=self.tile.logit.columns,
            LANE=lane,
            BLOCK=PAIRS if lane else PRODUCT.rows,
            M_=self.tile.landmarks,
        )
        return out[0], out[1]


def _products(layer: torch.nn.Linear, landmarks: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The layer whose outputs are the scaled products of the outputs of `layer` with landmarks [h, m, D].

    Returns:
        Its weight [h, m, E] and bias [h, m], in float64.
    """
    tilde = landmarks.double() * scale
    heads, _, dim = tilde.shape
    weight = tilde @ layer.weight.double().unflatten(0, (heads, dim))
    bias = weight.new_zeros(heads * dim) if layer.bias is None else layer.bias.double()
    return weight, (tilde @ bias.unflatten(0, (heads, dim)).unsqueeze(-1)).squeeze(-1)


def _terms(x: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Numbers of `dtype` whose sum is x, in float64: exact to about five digits if there are two of bfloat16."""
    terms: list[Tensor] = []
    for _ in range(TERMS if dtype == torch.bfloat16 else 1):
        terms.append(x.to(dtype))
        x = x - terms[-1].double()
    return terms
