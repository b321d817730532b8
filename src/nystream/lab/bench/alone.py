"""Attention alone: queries, keys and values are given, nothing is projected.

Ring KV + SDPA is exact attention, O(nd) per step. The others all compute the same step of co-fixed-single, compiled
and in eager torch. Eager torch is timed with the partial sums of the compiled kernel, and in the form that
`sums="auto"` picks, which below n = 128 reads the whole window again because that takes fewer calls. Each contender
gets q, k and v in the layout in which its own projection would write them.
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
from nystream.lab.bench.contenders import Contender
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import ModelSizes, build_attention
from nystream.lab.bench.timing import measure
from nystream.layers.attention import MultiheadAttention
from nystream.ops.attention import co_fixed_single, reference
from nystream.ops.attention.common import Fixed
from nystream.ops.timeline import timeline
from nystream.progress import Advance

RING, KERNEL = "ring KV + SDPA", "compiled, co-fixed"
EAGER, EAGER_PARTIALS = "eager torch, co-fixed", "eager torch, partials"
LARGE = ModelSizes(window=16_384, embed_dim=512, num_heads=8, landmarks=16, ff_dim=512)
NUM_TOKENS = 64  # different tokens, fed in turn
NUM_CHECKED = 8  # outputs that are compared with the reference


class Ring(Contender):
    """A ring of keys and values [2, 1, H, n, D], and SDPA over it."""

    name = RING

    def __init__(self, sizes: ModelSizes) -> None:
        heads = sizes.num_heads
        self.window, self.time = sizes.window, 0
        self.ring = torch.zeros(2, 1, heads, sizes.window, sizes.embed_dim // heads)
        self.keys, self.values = self.ring
        self.bytes_per_stream = self.ring.nbytes

    def arguments(self, x: Tensor) -> tuple[Tensor]:
        """[3, H, D] as [3, 1, H, 1, D], as one projection would write it."""
        return (x[:, None, :, None].contiguous(),)

    def fill(self, x: Tensor) -> None:
        self.ring.copy_(x[-self.window :, 1:].permute(1, 2, 0, 3)[:, None])
        self.time = self.window

    def step(self, qkv: Tensor) -> Tensor:
        place = self.time % self.window
        self.ring[:, :, :, place : place + 1] = qkv[1:]
        self.time += 1
        return scaled_dot_product_attention(qkv[0], self.keys, self.values)


class Eager(Contender):
    """The step of the variant itself, in place on its state."""

    def __init__(self, attn: MultiheadAttention, sums: Sums = "auto") -> None:
        self.name = EAGER if sums == "auto" else EAGER_PARTIALS
        self.config = dataclasses.replace(attn.config, sums=sums)
        self.fixed = Fixed(attn.q_tilde, attn.k_tilde, attn.gamma_pinv)
        self.state = co_fixed_single.init_state(self.config, 1, torch.float32)
        self.bytes_per_stream = states.nbytes(self.state)

    def arguments(self, x: Tensor) -> tuple[Tensor, ...]:
        """[3, H, D] as three [1, H, 1, D]."""
        return tuple(part.clone() for part in x[:, None, :, None])

    def fill(self, x: Tensor) -> None:
        q, k, v = x.permute(1, 2, 0, 3)[:, None]  # [1, H, T, D] each
        when = timeline(self.state.time, len(x), 1, None, None)
        _, self.state = co_fixed_single.steps(q, k, v, self.state, self.config, self.fixed, when)

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, self.state = co_fixed_single.step(q, k, v, self.state, self.config, self.fixed)
        return out


class Compiled(Contender):
    """The compiled step."""

    name = KERNEL

    def __init__(self, attn: MultiheadAttention) -> None:
        from nystream.stream.cpu.alone import AttentionKernel

        self.kernel = AttentionKernel(attn)
        self.bytes_per_stream = int(self.kernel.bytes_per_stream)

    def arguments(self, x: Tensor) -> tuple[np.ndarray, ...]:
        """[3, H, D] as three arrays, in the order in which the projection of the kernel would write them."""
        return tuple(self.kernel.lanes(part.flatten().numpy()) for part in x)

    @property
    def timed(self) -> Any:
        return self.kernel.step

    def step(self, *arguments: Any) -> Any:
        return self.kernel.step(*arguments)

    def output(self, y: Any) -> Tensor:
        return torch.from_numpy(self.kernel.heads(y))


def attention(settings: BenchSettings, advance: Advance) -> Part:
    """Two sizes: that of the model, and a window of 16,384."""
    cases, targets = [], []
    for sizes in (settings.sizes.replace(layers=1), LARGE):
        case = compare(sizes, settings, advance)
        cases.append(case)
        medians = {row["name"]: row["median_microseconds"] for row in case["rows"]}
        ratios = {name: median / medians[KERNEL] for name, median in medians.items() if name != KERNEL}
        case["ratios"] = ratios
        if sizes == ModelSizes():
            targets.append(target("attention alone, n = 120, against ring KV", ratios[RING], 6))
            targets.append(target("attention alone, n = 120, against eager torch", ratios[EAGER], 50))
        if sizes == LARGE:
            targets.append(target("attention alone, n = 16,384, against ring KV", ratios[RING], 200))
    return {"cases": cases}, targets


def compare(sizes: ModelSizes, settings: BenchSettings, advance: Advance) -> dict[str, Any]:
    """Fill the windows, check the next outputs, then time."""
    attn = build_attention(sizes, settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (3, sizes.num_heads, sizes.embed_dim // sizes.num_heads)
    stream = torch.randn(sizes.window + NUM_CHECKED, *shape, generator=generator)  # [T, 3, H, D]
    feed = torch.randn(NUM_TOKENS, *shape, generator=generator)
    eager = Eager(attn)
    partials = [] if eager.config.form == "partials" else [Eager(attn, "partials")]
    contenders: list[Contender] = [Ring(sizes), eager, *partials, Compiled(attn)]
    exact, low_rank = references(attn, stream)
    errors = {}
    for contender in contenders:
        contender.fill(stream[: sizes.window])
        steps = (contender.step(*contender.arguments(x)) for x in stream[sizes.window :])
        outputs = torch.stack([contender.output(y).flatten().double() for y in steps])
        error = testing.relative_error(outputs, exact if contender.name == RING else low_rank)
        errors[contender.name] = check.refuse(f"attention alone, {contender.name}", error, "the float64 reference")
    times = measure({contender.name: contender.job(feed) for contender in contenders}, settings.rounds, advance)
    rows = [
        {
            "name": contender.name,
            "error": errors[contender.name],
            **times[contender.name].to_dict(),
            "bytes_per_stream": contender.bytes_per_stream,
        }
        for contender in contenders
    ]
    return {
        "n": sizes.window,
        "d": sizes.embed_dim,
        "heads": sizes.num_heads,
        "m": sizes.landmarks,
        "rows": rows,
    }


def references(attn: MultiheadAttention, stream: Tensor) -> tuple[Tensor, Tensor]:
    """[NUM_CHECKED, E]: the last outputs of exact attention and of co-fixed-single, in float64, by the definition."""
    q, k, v = stream.double().permute(1, 2, 0, 3)[:, None]  # [1, H, T, D] each
    landmarks = (attn.q_tilde.double(), attn.k_tilde.double())
    n = attn.config.window
    exact, low_rank = [], []
    for t in range(n + 1, n + 1 + NUM_CHECKED):
        window = slice(t - n, t)
        exact.append(scaled_dot_product_attention(q[:, :, t - 1 : t], k[:, :, window], v[:, :, window]).flatten())
        low_rank.append(reference.attend(attn.config, q, k, v, t, *landmarks).flatten())
    return torch.stack(exact), torch.stack(low_rank)
