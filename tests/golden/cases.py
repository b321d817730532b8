"""The cases of the golden files: attentions, models and pools whose weights and inputs are formulas.

Only public names are used, so that the code behind them can move without a change here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nystream as ns

WINDOW, LANDMARKS, TOKENS = 12, 5, 30  # segments of two sizes, and two and a half windows
RESETS = (15, 18)  # after the first window, where groups start
NEWEST = tuple(v for v in ns.VARIANTS if ns.AttentionConfig(v, window=2, landmarks=1).single)
LOW_RANK = tuple(v for v in ns.VARIANTS if ns.AttentionConfig(v, window=2, landmarks=1).low_rank)
SLIDING = tuple(v for v in ns.VARIANTS if v.startswith(("co-cont", "co-fixed")))


def numbers(shape: tuple[int, ...], phase: float) -> Tensor:
    """Numbers from -1 to 1 in float64: sines whose angles grow with the square of the index, so that no two rows of a
    matrix are alike."""
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7391 * i * i + 0.3313 * phase * i + phase).reshape(shape)


def phase(name: str) -> float:
    """A number of its own for each name."""
    return sum(place * ord(letter) for place, letter in enumerate(name, 1)) / 97


def weight(name: str, shape: tuple[int, ...], gain: float = 1.0) -> Tensor:
    """The weight of this name, which depends on nothing else: a new weight in a module changes no other."""
    values = numbers(shape, phase(name))
    last = name.rpartition(".")[2]
    if last in ("q_tilde", "k_tilde"):
        return 2 * gain * values
    if last == "decay_logit":
        return values - 2
    if len(shape) > 1:
        return gain * values * (4 if "q_proj" in name or "k_proj" in name else 2) / shape[-1] ** 0.5
    return 1 + 0.3 * values if last in ("weight", "scale") else 0.3 * values


def filled(module: Any, gain: float = 1.0) -> Any:
    """The module in eval mode, with the weights of the formula."""
    weights = {name: weight(name, tuple(old.shape), gain).to(old) for name, old in module.state_dict().items()}
    assert len({phase(name) for name in weights}) == len(weights), "two weights have the same numbers"
    module.load_state_dict(weights)
    return module.eval().requires_grad_(False)


@dataclass
class Case:
    """A module and a piece of a stream, with the outputs that a golden file keeps: those after some of its tokens."""

    module: Any
    x: Tensor  # [B, T, width]
    times: tuple[int, ...]
    options: dict[str, Tensor]  # lengths and reset, of `steps`
    key: Tensor | None = None

    @property
    def r(self) -> int:
        return int(self.module.config.update_size)

    @property
    def newest(self) -> bool:
        """Whether a step returns the newest rows alone."""
        return bool(self.module.config.single)

    @property
    def ends(self) -> Tensor:
        """[B]: the number of tokens of each row."""
        return self.options.get("lengths", torch.full(self.x.shape[:1], self.x.shape[1]))

    @property
    def restarts(self) -> Tensor:
        """bool [B, T]: whether a token starts a new stream."""
        return self.options.get("reset", torch.zeros(self.x.shape[:2], dtype=torch.bool))

    def keys(self, start: int, end: int) -> dict[str, Tensor]:
        return {} if self.key is None else {"key": self.key[:, start:end]}

    def kept(self, outputs: dict[int, Tensor]) -> Tensor:
        """What a golden file keeps of the outputs after each step, by time.

        [B, times, width] if a step returns the newest rows, else all rows after these times, [B, times, n, width].
        """
        if not self.newest:
            return torch.stack([outputs[t] for t in self.times], 1)
        tokens = torch.cat([outputs[t] for t in sorted(outputs)], 1)
        return tokens[:, [t - 1 for t in self.times]]

    def step(self, inplace: bool = False) -> tuple[Tensor, Any]:
        """`step` in a loop: what is kept of its outputs, and the state after it."""
        state, outputs = self.module.init_state(self.x.shape[0]), {}
        last = torch.zeros(())
        for t in range(self.r, self.x.shape[1] + 1, self.r):
            start = t - self.r
            if self.restarts[:, start].any():
                state = self.module.reset(state, self.restarts[:, start])
            before = ns.state.clone(state)
            y, state = self.module.step(self.x[:, start:t], state, **self.keys(start, t), inplace=inplace)
            goes_on = t <= self.ends
            state = ns.state.map_state(lambda new, old: where(goes_on, new, old), state, before)  # noqa: B023
            outputs[t] = last = where(goes_on, y, torch.zeros_like(y) if self.newest else last)
        return self.kept(outputs), state

    def steps(self) -> tuple[Tensor, Any]:
        """`steps`, in two pieces: what is kept of its outputs (all rows after the last time alone), and the state."""
        state, pieces = self.module.init_state(self.x.shape[0]), []
        middle = self.x.shape[1] // (2 * self.r) * self.r
        for start, end in ((0, middle), (middle, self.x.shape[1])):
            options = {name: option[:, start:end] for name, option in self.options.items() if name == "reset"}
            if "lengths" in self.options:
                options["lengths"] = (self.ends - start).clamp(0, end - start)
            y, state = self.module.steps(self.x[:, start:end], state, **self.keys(start, end), **options)
            pieces.append(y)
        if self.newest:
            return torch.cat(pieces, 1)[:, [t - 1 for t in self.times]], state
        return pieces[-1][:, None], state

    def windows(self) -> Iterator[tuple[str, Tensor, list[tuple[int, int]]]]:
        """`forward` over windows of the stream: (face, outputs [B, r or n, width], (row, time) that they belong to)."""
        n, batch = self.module.config.window, self.x.shape[0]
        short = n // 2 // self.r * self.r

        def rows(y: Tensor) -> Tensor:
            return y[:, None] if y.dim() == 2 else y

        for t in (short, n):
            y = rows(self.module(self.x[:, :t], **self.keys(0, t)))
            yield f"forward over {t} tokens", y, [(row, t) for row in range(batch)]
        is_model, deep = isinstance(self.module, ns.StreamModel), getattr(self.module.config, "stack", None) == "deep"
        if batch > 1 and not deep:
            x = self.x[:, :n].clone()
            x[1, n - short :], x[1, : n - short] = self.x[1, :short], torch.nan
            offset = {"offset": torch.tensor([0, short - n])} if is_model else {}
            y = rows(self.module(x, lengths=torch.tensor([n, short]), **offset))
            yield "forward with lengths", y, [(0, n), (1, short)]
        if is_model and not self.options:
            start, end = (0, self.x.shape[1]) if deep else (n, 2 * n)
            y = rows(self.module(self.x[:, start:end], offset=start))
            yield f"forward over tokens {start} to {end}", y, [(row, end) for row in range(batch)]

    def expected(self, kept: Tensor, row: int, time: int) -> Tensor:
        """The kept outputs of a row of the batch that `forward` returns for the window that ends at a time."""
        if not self.newest:
            return kept[row, self.times.index(time)]
        return kept[row, [self.times.index(t) for t in range(time - self.r + 1, time + 1)]]


def where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` in the rows of the batch that are chosen, `old` in the others."""
    return torch.where(rows.reshape(-1, *[1] * (new.dim() - 1)), new, old)


def sums(state: Any) -> dict[str, tuple[str, Tensor]]:
    """Leaves by name: dtype and shape, and four numbers, to which each number of the leaf contributes.

    They are the count of the numbers that are not void, the largest of these, and two sums of them, weighted by sines.
    """
    described = {}
    for name, leaf in ns.state.named_leaves(state):
        void = ~(leaf.abs() < 1e20)  # the logit of nothing, and infinity
        values = torch.where(void, 0, leaf).double()
        weighted = [(values * numbers(tuple(leaf.shape), start)).sum() for start in (1.0, 2.0)]
        largest = values.abs().flatten().sort().values[-1:].sum()  # 0 if the leaf is empty
        described[name] = (spec(leaf), torch.stack([(~void).sum().double(), largest, *weighted]))
    return described


def spec(leaf: Tensor) -> str:
    """The dtype and the shape of a leaf, such as "float32[1, 12, 4]"."""
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"


def _attention(
    variant: str,
    *,
    tokens: int = TOKENS,
    every: int = 1,
    resets: tuple[int, ...] = (),
    crossed: bool = False,
    **options: Any,
) -> Case:
    config = {"embed_dim": 4, "num_heads": 2, "window": WINDOW, "landmarks": LANDMARKS} | options
    module = filled(ns.MultiheadAttention(ns.AttentionConfig(variant, **config), dtype=torch.float64))
    n, r = module.config.window, module.config.update_size
    short = n // 2 // r * r
    few, many = (short, n, tokens), range(1, tokens + 1)
    times = tuple(sorted({*few, *many[::every]})) if module.config.single else few
    x = 1.5 * numbers((2 if resets else 1, tokens, 4), 0.5)
    key = 1.5 * numbers((1, tokens, 4), 0.7) if crossed else None
    return Case(module, x, times, _ragged(tokens, resets), key)


def _ragged(tokens: int, resets: tuple[int, ...]) -> dict[str, Tensor]:
    """Of two rows, the first starts again at some tokens, and the second is shorter."""
    if not resets:
        return {}
    reset = torch.zeros(2, tokens, dtype=torch.bool)
    reset[0, list(resets)] = True
    return {"lengths": torch.tensor([tokens, tokens - 9]), "reset": reset}


def _attentions() -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    for variant in ns.VARIANTS:
        yield variant, (variant, {})
        yield f"{variant}, groups", (variant, {"update_size": 3})
        yield f"{variant}, lengths and resets", (variant, {"resets": RESETS})
        if variant in NEWEST:
            yield f"{variant}, decay", (variant, {"decay": True})
            everything = {"decay": True, "update_size": 3, "resets": RESETS}
            yield f"{variant}, decay, groups, lengths and resets", (variant, everything)
        if variant in LOW_RANK:
            yield f"{variant}, exact", (variant, {"pinv": "exact", "tokens": 18})
            yield f"{variant}, ridge", (variant, {"pinv": "ridge", "pinv_ridge": 0.2, "tokens": 18})
            yield f"{variant}, no inverse", (variant, {"pinv": "none", "tokens": 18})
        for form in ("partials", "recompute", "subtract"):
            if variant in SLIDING or (variant == "co-full-retro" and form != "partials"):
                yield f"{variant}, {form}", (variant, {"sums": form, "tokens": 27})
    yield "nystrom, 9 iterations", ("nystrom", {"pinv_iters": 9, "tokens": 18})
    for variant in ("full", "nystrom", *NEWEST):
        yield f"{variant}, cross-attention without bias", (variant, {"crossed": True, "bias": False, "tokens": 18})
    long = {"window": 101, "landmarks": 7, "tokens": 240, "every": 9, "sums": "partials"}
    yield "co-fixed-single, long, decay", ("co-fixed-single", long | {"decay": True})
    yield "co-cont-single, long", ("co-cont-single", long)
    for variant in NEWEST:  # the second piece of `steps` starts at 120: resets at a chunk of it, and within one
        yield f"{variant}, long, lengths and resets", (variant, long | {"sums": "auto", "resets": (152, 161)})


# The options of a model that are those of its attentions.
ATTENTION = ("embed_dim", "num_heads", "window", "landmarks", "update_size", "decay", "pinv")


def model_case(
    variant: str | tuple[str, ...] = "co-fixed-single", *, blocks: tuple[dict[str, Any], ...] = ({},), **options: Any
) -> Case:
    resets, gain = options.pop("resets", ()), options.pop("gain", 1.0)
    own = {name: options.pop(name) for name in ATTENTION if name in options}
    config = {"embed_dim": 8, "num_heads": 2, "window": WINDOW, "landmarks": LANDMARKS} | own
    variants = (variant,) * len(blocks) if isinstance(variant, str) else variant
    attention = tuple(ns.AttentionConfig(v, **config | block) for v, block in zip(variants, blocks, strict=True))
    fields = {"input_dim": 3, "output_dim": 2, "ff_dim": 6} | options
    module = filled(ns.StreamModel(ns.ModelConfig(attention=attention, **fields), dtype=torch.float64), gain)
    x = 1.5 * numbers((2 if resets else 1, TOKENS, fields["input_dim"]), 0.9)
    return Case(module, x, tuple(range(1, TOKENS + 1)), _ragged(TOKENS, resets))


TWO, THREE = ({}, {}), ({}, {}, {})

MODELS: dict[str, dict[str, Any]] = {
    "one block": {},
    "one block, sinusoidal positions": {"positions": "sinusoidal", "num_positions": 7, "variant": "co-cont-single"},
    "one block of all rows": {"variant": "co-full-retro", "norm": "post", "positions": "none"},
    "plain full": {"variant": "full", "blocks": TWO, "activation": "relu"},
    "plain nystrom, groups": {"variant": "nystrom", "blocks": TWO, "update_size": 3},
    "paper, fixed": {"blocks": THREE, "stack": "paper"},
    "paper, fixed, lengths and resets": {"blocks": TWO, "stack": "paper", "resets": RESETS, "norm": "post"},
    "paper, continual": {"variant": "co-cont-single", "blocks": THREE, "stack": "paper"},
    "paper, continual, groups": {"variant": "co-cont-single", "blocks": TWO, "stack": "paper", "update_size": 3},
    "paper, full": {"variant": "co-full-single", "blocks": TWO, "stack": "paper", "positions": "sinusoidal"},
    "paper, linear path": {"blocks": TWO, "stack": "paper", "linear": ns.LinearConfig(segments=(1, 1, 3, 3), inputs=2)},
    "paper, embedded path": {"blocks": TWO, "stack": "paper", "linear": ns.LinearConfig(embedded=True)},
    "deep, fixed": {"blocks": TWO, "final_norm": False},
    "deep, fixed, decay, groups": {"blocks": TWO, "decay": True, "update_size": 3, "norm_eps": 1e-3},
    "deep, continual": {"variant": "co-cont-single", "blocks": TWO, "pinv": "ridge", "norm": "post"},
    "deep, continual, lengths and resets": {"variant": "co-cont-single", "blocks": TWO, "resets": RESETS},
    "deep, full": {"variant": "co-full-single", "blocks": THREE, "activation": "relu", "num_heads": 4},
    "deep, mixed families and windows": {
        "variant": ("co-full-single", "co-cont-single", "co-fixed-single"),
        "blocks": ({"window": 6}, {}, {"window": 9, "landmarks": 2}),
    },
    "deep, linear path": {"blocks": TWO, "linear": ns.LinearConfig(segments=(1, 4, 20), inputs=1)},
    "deep, embedded path, lengths and resets": {
        "blocks": TWO,
        "linear": ns.LinearConfig(segments=(1, 4, 2), embedded=True),
        "resets": RESETS,
    },
}


# Wide enough for the bounds that are published for lighter weights.
WIDE = {"embed_dim": 32, "num_heads": 4, "input_dim": 5, "output_dim": 3, "ff_dim": 48, "window": 24, "landmarks": 4}

POOLS: dict[str, dict[str, Any]] = {
    "fixed": {"norm": "post"},
    "fixed, deep, decay": {"blocks": TWO, "decay": True},
    "fixed, groups": {"update_size": 3, "positions": "sinusoidal"},
    "continual, deep": {"variant": "co-cont-single", "blocks": TWO},
    "full, relu": {"variant": "co-full-single", "activation": "relu"},
    "fixed, linear path": {"blocks": TWO, "linear": ns.LinearConfig(segments=(1, 4, 2), embedded=True)},
}


@dataclass
class PoolCase:
    """A float32 model and two streams [2, T, input_dim], of which the second starts later."""

    model: ns.StreamModel
    x: Tensor

    late = 9  # tokens of the first stream before the second starts

    def expected(self) -> Tensor:
        """The outputs of `step` with the same weights in float64, those of the second stream after the first's."""
        model, x = copy.deepcopy(self.model).double(), self.x.double()
        streams = (x[:1], x[1:, : -self.late])
        return torch.cat([Case(model, y, tuple(range(1, y.shape[1] + 1)), {}).step()[0][0] for y in streams])

    def pushed(self, pool: ns.StreamPool, other: ns.StreamPool) -> tuple[Tensor, bytes]:
        """The outputs of a pool, and a snapshot. The second half of the first stream continues it in the other pool."""
        r, half = self.model.config.update_size, self.x.shape[1] // 2 // 3 * 3
        tokens = self.x.unflatten(1, (-1, r)).numpy() if r > 1 else self.x.numpy()
        a, first, second, later, blob = pool.open(), [], [], [], b""
        for step in range(tokens.shape[1]):
            if step == half // r:
                blob = pool.snapshot(a)
                c = other.restore(blob)
            if step == self.late // r:
                b = pool.open()
            if step < self.late // r:
                first.append(pool.push(a, tokens[0, step]))
            else:
                ys = pool.push_many([b, a], tokens[::-1, [step - self.late // r, step]][[0, 1], [0, 1]])
                second.append(ys[0])
                first.append(ys[1])
            if step >= half // r:
                later.append(other.push(c, tokens[0, step]))
        moved = np.concatenate([np.stack(first[: half // r]), np.stack(later), np.stack(second)])
        stayed = np.concatenate([np.stack(first), np.stack(second)])
        return torch.from_numpy(np.stack([stayed, moved])).reshape(2, -1, stayed.shape[-1]), blob


def pool(name: str) -> PoolCase:
    model = model_case(gain=0.5, **WIDE | POOLS[name]).module.float()
    return PoolCase(model, 1.5 * numbers((2, 54, 5), 0.9).float())


SIZES = ((120, 192, 4, 1, 1), (64, 512, 4, 1, 16), (12, 8, 5, 2, 2), (1000, 64, 16, 3, 4))


def costs() -> dict[str, Any]:
    """The paper's counts and the corrected ones, of one block and of stacks, by variant and sizes."""
    counted: dict[str, Any] = {}
    for variant in ns.VARIANTS:
        for n, d, m, layers, heads in SIZES:
            counted[f"{variant}, n={n}, d={d}, m={m}, layers={layers}, heads={heads}"] = {
                f"{what}{', corrected' * corrected}": value
                for corrected in (False, True)
                for what, value in (
                    ("flops", ns.costs.flops(variant, n, d, m, layers, heads, corrected=corrected)),
                    ("memory", list(ns.costs.memory(variant, n, d, m, layers, corrected=corrected))),
                )
            }
    return counted


ATTENTIONS = dict(_attentions())


def attention(name: str) -> Case:
    variant, options = ATTENTIONS[name]
    return _attention(variant, **options)


def model(name: str) -> Case:
    return model_case(**MODELS[name])


PARTS = {"attention": (ATTENTIONS, attention), "models": (MODELS, model)}
