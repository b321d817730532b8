"""The test case of a contract suite: a module, an input stream and a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from nystream.layers.attention import MultiheadAttention
from nystream.variants import Variant, register_variant, unregister
from nystream.variants.record import load

# Relative to the largest output. float64 rounds to 1e-16, and Γ has condition numbers up to about 1e6. float32 rounds
# to 6e-8, and Newton–Schulz iterations lose up to three digits. Half-precision types have 8 or 11 significant bits.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}

Reference = Callable[[Tensor], Tensor]


@contextmanager
def registered(variant: Variant | None = None, /, **fields: Any) -> Iterator[Variant]:
    """Register a variant, as `nystream.register_variant` does, and remove it at the end of the `with` block."""
    record = register_variant(variant, **fields)
    try:
        yield record
    finally:
        unregister(record.name)


def reference_outputs(
    attn: MultiheadAttention, x: Tensor, key: Tensor | None = None, times: Iterable[int] | None = None
) -> Tensor:
    """Compute the outputs of an attention for a stream x [B, T, E] with the variant's float64 reference.

    Args:
        attn: The attention, whose projections are applied in float64 too.
        x: The stream, [B, T, E].
        key: [B, T, E] for cross-attention.
        times: Only the outputs of the steps that end at these tokens. Default: all steps.

    Returns:
        [B, T, E] for single-output variants; for the others [B, T / r, n, E], all rows after every step.
    """
    cfg, heads = attn.config, (attn.config.num_heads, attn.config.head_dim)

    def double(y: Tensor) -> Tensor:
        return y.to("cpu", torch.float64)

    def linear(layer: nn.Linear, y: Tensor) -> Tensor:
        return nn.functional.linear(double(y), double(layer.weight), None if layer.bias is None else double(layer.bias))

    key = x if key is None else key
    q, k, v = (
        linear(layer, y).unflatten(-1, heads).transpose(1, 2)
        for layer, y in ((attn.q_proj, x), (attn.k_proj, key), (attn.v_proj, key))
    )
    fixed = (double(attn.q_tilde), double(attn.k_tilde)) if cfg.fixed else (None, None)
    extra = {} if attn.decay is None else {"decay": double(attn.decay)}
    attend = load("reference", cfg.record.reference)
    if attend is None:
        raise ValueError(f"variant {cfg.variant!r} has no reference; register it with reference=")
    outs = []
    for t in range(cfg.update_size, x.shape[1] + 1, cfg.update_size) if times is None else times:
        out = linear(attn.out_proj, attend(cfg, q, k, v, t, *fixed, **extra).transpose(1, 2).flatten(2))
        if not cfg.single:
            empty = torch.arange(cfg.window) < cfg.window - t
            out = torch.where(empty[:, None], 0.0, out)
        outs.append(out)
    return torch.cat(outs, 1) if cfg.single else torch.stack(outs, 1)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest expected value; infinity if a value is not finite."""
    if actual.shape != expected.shape:
        return float("inf")
    actual, expected = (x.detach().to("cpu", torch.float64) for x in (actual, expected))
    difference = (actual - expected).abs()
    if not bool(difference.isfinite().all()):
        return float("inf")
    return float(difference.max() / expected.abs().max().clamp(min=1e-30)) if difference.numel() else 0.0


@dataclass
class Case:
    """A module and an input stream."""

    module: Any
    x: Tensor  # [B, T, width], slightly more than three windows
    tolerance: float
    reference: Reference | None
    per_token: bool

    @property
    def r(self) -> int:
        return int(self.module.config.update_size)

    @property
    def n(self) -> int:
        return int(self.module.config.window)

    def group(self, x: Tensor, t: int) -> Tensor:
        """Return the input of the step that ends at token t, [B, r, width], or [B, width] if r = 1."""
        return x[:, t - 1] if self.r == 1 else x[:, t - self.r : t]

    def stream(self, x: Tensor, state: Any, inplace: bool = False) -> tuple[Tensor, Any]:
        """Call `step` in a loop, and return all outputs with the shape of `reference_outputs`, and the state."""
        outs = []
        for t in range(self.r, x.shape[1] + 1, self.r):
            y, state = self.module.step(self.group(x, t), state, **({"inplace": True} if inplace else {}))
            outs.append(y[:, None] if not self.per_token or y.dim() == 2 else y)
        return torch.cat(outs, 1), state

    @property
    def middle(self) -> int:
        """A time one step after the window is first full."""
        return (self.n // self.r + 1) * self.r

    @cached_property
    def streamed(self) -> tuple[Tensor, Any]:
        """The outputs of all steps over x from a new state, and the state at `middle`, shared by most checks."""
        first, state = self.stream(self.x[:, : self.middle], self.module.init_state(self.x.shape[0]))
        rest, _ = self.stream(self.x[:, self.middle :], state)
        return torch.cat([first, rest], 1), state

    def outputs(self, start: int = 0, end: int | None = None) -> Tensor:
        """Return the outputs of the steps over tokens start to end of x."""
        per = 1 if self.per_token else self.r
        return self.streamed[0][:, start // per : None if end is None else end // per]

    def last(self, outputs: Tensor, tokens: int) -> Tensor:
        """Select from the outputs of a stream those that `steps` returns for its last `tokens` tokens."""
        return outputs[:, -tokens:] if self.per_token else outputs[:, -1]

    def same(self, actual: Tensor, expected: Tensor, promise: str) -> None:
        error = relative_error(actual, expected)
        assert error <= self.tolerance, f"{promise}: off by {error:.2e}, more than {self.tolerance:.0e}"


def prepared(
    module: Any,
    input_dim: int | None = None,
    tokens: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    reference: Reference | None = None,
) -> Case:
    """Create the test case for a module; the arguments are those of `check_stream_module`."""
    cfg = module.config
    weight = next(module.parameters())
    width = getattr(cfg, "input_dim", cfg.embed_dim) if input_dim is None else input_dim
    r = cfg.update_size
    length = (tokens or 3 * cfg.window + 2 * r + 3) // r * r
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, length, width, dtype=torch.float64, generator=generator).to(weight)
    if reference is None and isinstance(module, MultiheadAttention) and cfg.record.reference is not None:
        attn = module

        def reference(x: Tensor) -> Tensor:
            return reference_outputs(attn, x)

    allowed = TOLERANCE[weight.dtype] if tolerance is None else tolerance
    return Case(module, x, allowed, reference, getattr(cfg, "single", True))
