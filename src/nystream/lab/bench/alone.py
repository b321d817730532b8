"""Attention alone: queries, keys and values are given, nothing is projected.

Ring KV + SDPA attends exactly, at O(nd) a step; the others are one and the same step of co-fixed-single, compiled and
in eager torch: there with the partial sums that the compiled one keeps, and in the form that `sums="auto"` picks, which
below n = 128 reads the whole window again because that takes fewer calls. Each gets q, k and v laid out as its own
projection would write them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import nystream.state as states
import nystream.testing as testing
from nystream.config.attention import Sums
from nystream.lab.bench import check
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import ModelSizes, build_attention
from nystream.lab.bench.timing import TimedCall, Times, measure
from nystream.layers.attention import MultiheadAttention
from nystream.ops.attention import co_fixed_single, reference
from nystream.ops.attention.common import Fixed
from nystream.ops.timeline import timeline
from nystream.progress import Advance

RING, KERNEL = "ring KV + SDPA", "compiled, co-fixed"
EAGER, EAGER_PARTIALS = "eager torch, co-fixed", "eager torch, partials"
LARGE = ModelSizes(window=16_384, embed_dim=512, num_heads=8, landmarks=16, ff_dim=512)
TOKENS = 64  # different tokens that are fed in turn
CHECKED = 8  # outputs that are compared with the reference


class Ring:
    """A ring of keys and values [2, 1, H, n, D], and SDPA over it."""

    def __init__(self, sizes: ModelSizes) -> None:
        heads = sizes.num_heads
        self.window, self.time = sizes.window, 0
        self.held = torch.zeros(2, 1, heads, sizes.window, sizes.embed_dim // heads)
        self.keys, self.values = self.held
        self.bytes_per_stream = self.held.nbytes

    def fill(self, qkv: Tensor) -> None:
        """Take in n tokens [T, 3, H, D] at once, so that the ring is full."""
        self.held.copy_(qkv[-self.window :, 1:].permute(1, 2, 0, 3)[:, None])
        self.time = self.window

    def step(self, qkv: Tensor) -> Tensor:
        """q, k and v as one projection would give them, [3, 1, H, 1, D]."""
        place = self.time % self.window
        self.held[:, :, :, place : place + 1] = qkv[1:]
        self.time += 1
        return scaled_dot_product_attention(qkv[0], self.keys, self.values)


class Eager:
    """The op's own step, in place on its state."""

    def __init__(self, attn: MultiheadAttention, sums: Sums = "auto") -> None:
        self.config = dataclasses.replace(attn.config, sums=sums)
        self.fixed = Fixed(attn.q_tilde, attn.k_tilde, attn.gamma_pinv)
        self.state = co_fixed_single.init_state(self.config, 1, torch.float32)
        self.bytes_per_stream = states.nbytes(self.state)

    def fill(self, qkv: Tensor) -> None:
        q, k, v = qkv.permute(1, 2, 0, 3)[:, None]  # [1, H, T, D] each
        when = timeline(self.state.time, len(qkv), 1, None, None)
        _, self.state = co_fixed_single.steps(q, k, v, self.state, self.config, self.fixed, when)

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, self.state = co_fixed_single.step(q, k, v, self.state, self.config, self.fixed)
        return out


def kernel(attn: MultiheadAttention) -> Any:
    """The compiled step, or why there is none."""
    try:
        from nystream.stream.cpu.alone import AttentionKernel
    except ImportError as error:
        return "pip install numba" if error.name == "numba" else str(error)
    return AttentionKernel(attn)


def attention(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Both sizes: the model's own, and a window of 16,384."""
    cases = (settings.sizes.replace(layers=1), LARGE)
    figures, targets = [], []
    for sizes in cases:
        case = compare(sizes, settings, advance)
        figures.append(case)
        took = {row["name"]: row["median_microseconds"] for row in case["rows"]}
        if KERNEL not in took:
            continue
        case["ratios"] = {name: seconds / took[KERNEL] for name, seconds in took.items() if name != KERNEL}
        if sizes == ModelSizes():
            targets.append(SpeedTarget("attention alone, n = 120, against ring KV", case["ratios"][RING], 6, True))
            targets.append(
                SpeedTarget("attention alone, n = 120, against eager torch", case["ratios"][EAGER], 50, True)
            )
        if sizes == LARGE:
            targets.append(SpeedTarget("attention alone, n = 16,384, against ring KV", case["ratios"][RING], 200, True))
    return PartFigures({"cases": figures}, tuple(targets))


def compare(sizes: ModelSizes, settings: BenchSettings, advance: Advance) -> dict[str, Any]:
    """Fill the windows, check CHECKED outputs, time."""
    attn = build_attention(sizes, settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (3, sizes.num_heads, sizes.embed_dim // sizes.num_heads)
    stream = torch.randn(sizes.window + CHECKED, *shape, generator=generator)  # [T, 3, H, D]
    ring, compiled = Ring(sizes), kernel(attn)
    eagers = {EAGER: Eager(attn)}
    if eagers[EAGER].config.form != "partials":
        eagers[EAGER_PARTIALS] = Eager(attn, "partials")
    exact, low_rank = references(attn, stream)
    before, new = stream[: sizes.window], stream[sizes.window :]
    ring.fill(before)
    feed = torch.randn(TOKENS, *shape, generator=generator)
    contenders: dict[str, Any] = {RING: ring, **eagers}
    errors = {RING: _error(RING, [ring.step(*_packed(x)) for x in new], exact)}
    jobs = {RING: TimedCall(ring.step, [_packed(x) for x in feed])}
    for name, eager in eagers.items():
        eager.fill(before)
        errors[name] = _error(name, [eager.step(*_heads(x)) for x in new], low_rank)
        jobs[name] = TimedCall(eager.step, [_heads(x) for x in feed])
    skipped = []
    if isinstance(compiled, str):
        skipped.append({"name": KERNEL, "why": compiled})
    else:
        for x in before:
            compiled.step(*flat(compiled, x))
        found = [torch.from_numpy(compiled.heads(compiled.step(*flat(compiled, x)))) for x in new]
        errors[KERNEL] = _error(KERNEL, found, low_rank)
        contenders[KERNEL] = compiled
        jobs[KERNEL] = TimedCall(compiled.step, [flat(compiled, x) for x in feed])
    times = measure(jobs, settings.rounds, advance)
    return {
        "n": sizes.window,
        "d": sizes.embed_dim,
        "heads": sizes.num_heads,
        "m": sizes.landmarks,
        "rows": [_row(name, errors[name], times[name], contenders[name].bytes_per_stream) for name in jobs],
        "skipped": skipped,
    }


def references(attn: MultiheadAttention, stream: Tensor) -> tuple[Tensor, Tensor]:
    """[CHECKED, E]: the last outputs of exact attention and of co-fixed-single, in float64, by the definition."""
    q, k, v = stream.double().permute(1, 2, 0, 3)[:, None]  # [1, H, T, D] each
    landmarks = (attn.q_tilde.double(), attn.k_tilde.double())
    n = attn.config.window
    exact, low_rank = [], []
    for t in range(n + 1, n + 1 + CHECKED):
        window = slice(t - n, t)
        exact.append(scaled_dot_product_attention(q[:, :, t - 1 : t], k[:, :, window], v[:, :, window]).flatten())
        low_rank.append(reference.attend(attn.config, q, k, v, t, *landmarks).flatten())
    return torch.stack(exact), torch.stack(low_rank)


def _error(name: str, found: list[Tensor], wanted: Tensor) -> float:
    error = testing.relative_error(torch.stack([y.flatten().double() for y in found]), wanted)
    return check.refuse(f"attention alone, {name}", error, "the float64 reference")


def _row(name: str, error: float, times: Times, nbytes: int) -> dict[str, Any]:
    return {"name": name, "error": error, **times.to_dict(), "bytes_per_stream": int(nbytes)}


def _packed(x: Tensor) -> tuple[Tensor]:
    """[3, H, D] as [3, 1, H, 1, D]."""
    return (x[:, None, :, None].contiguous(),)


def _heads(x: Tensor) -> tuple[Tensor, ...]:
    """[3, H, D] as three [1, H, 1, D]."""
    return tuple(part.clone() for part in x[:, None, :, None])


def flat(compiled: Any, x: Tensor) -> tuple[np.ndarray, ...]:
    """[3, H, D] as three arrays in the order in which the compiled attention's own projection would give them."""
    return tuple(compiled.lanes(part.flatten().numpy()) for part in x)
