"""The contract of a stream module, as a suite of checks that anybody can run on theirs.

    ns.testing.check_stream_module(module)

A stream module has `forward`, `init_state`, `step` and `steps` that agree, and a `config` with `window` and
`update_size`. Every check raises AssertionError with the name of the promise that was broken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import nystream.state as states
from nystream.layers.attention import MultiheadAttention
from nystream.ops.attention import reference

# Relative to the largest output. float64 rounding is 1e-16 and low-rank inverses are conditioned up to about 1e6;
# float32's is 6e-8 and Newton–Schulz iterations lose up to three digits; half types have 8 or 11 bits a number.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}

Reference = Callable[[Tensor], Tensor]


def reference_outputs(
    attn: MultiheadAttention, x: Tensor, key: Tensor | None = None, times: Iterable[int] | None = None
) -> Tensor:
    """What the float64 reference says about the stream x [B, T, E], after the output projection.

    [B, T, E] for single output; [B, T / r, n, E], the rows after every step, for the others. With `times`, only the
    outputs of the steps that end at those.
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
    outs = []
    for t in range(cfg.update_size, x.shape[1] + 1, cfg.update_size) if times is None else times:
        out = linear(attn.out_proj, reference.attend(cfg, q, k, v, t, *fixed).transpose(1, 2).flatten(2))
        if not cfg.single:
            void = torch.arange(cfg.window) < cfg.window - t
            out = torch.where(void[:, None], 0.0, out)
        outs.append(out)
    return torch.cat(outs, 1) if cfg.single else torch.stack(outs, 1)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest expected number; infinite if anything is not finite."""
    if actual.shape != expected.shape:
        return float("inf")
    actual, expected = (x.detach().to("cpu", torch.float64) for x in (actual, expected))
    difference = (actual - expected).abs()
    if not bool(difference.isfinite().all()):
        return float("inf")
    return float(difference.max() / expected.abs().max().clamp(min=1e-30)) if difference.numel() else 0.0


@dataclass
class Case:
    """A module and a stream to try it on."""

    module: Any
    x: Tensor  # [B, T, width], a bit more than three windows
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
        """The tokens of the step that ends at t, [B, width] where one comes at a time."""
        return x[:, t - 1] if self.r == 1 else x[:, t - self.r : t]

    def stream(self, x: Tensor, state: Any, inplace: bool = False) -> tuple[Tensor, Any]:
        """`step` in a loop: all outputs, shaped as those of `reference_outputs`."""
        outs = []
        for t in range(self.r, x.shape[1] + 1, self.r):
            y, state = self.module.step(self.group(x, t), state, **({"inplace": True} if inplace else {}))
            outs.append(y[:, None] if not self.per_token or y.dim() == 2 else y)
        return torch.cat(outs, 1), state

    def last(self, outputs: Tensor, tokens: int) -> Tensor:
        """Of the outputs of a stream, those that `steps` returns for its last `tokens` tokens."""
        return outputs[:, -tokens:] if self.per_token else outputs[:, -1]

    def same(self, actual: Tensor, expected: Tensor, promise: str, factor: float = 1.0) -> None:
        error = relative_error(actual, expected)
        assert error <= self.tolerance * factor, (
            f"{promise}: off by {error:.2e}, more than {self.tolerance * factor:.0e}"
        )


def check_step_is_reference(case: Case) -> None:
    """`step` gives what the reference gives, where there is one."""
    if case.reference is None:
        return
    outputs, _ = case.stream(case.x, case.module.init_state(case.x.shape[0]))
    case.same(outputs, case.reference(case.x), "step gives what the reference gives")


def check_forward_is_step(case: Case) -> None:
    """Over the first window, full or not, `forward` is the last step."""
    lengths = sorted({case.r, max(case.n // 2 // case.r, 1) * case.r, case.n})
    for length in lengths:
        outputs, _ = case.stream(case.x[:, :length], case.module.init_state(case.x.shape[0]))
        forward = case.module(case.x[:, :length])
        expected = case.last(outputs, case.r)
        if forward.dim() == 2:
            expected = expected[:, -1]
        case.same(forward, expected, f"forward over {length} tokens is the step after them")


def check_any_chunking(case: Case) -> None:
    """However a stream is cut into steps and pieces, the outputs and what follows are the same."""
    expected, _ = case.stream(case.x, case.module.init_state(case.x.shape[0]))
    r, total = case.r, case.x.shape[1]
    groups = total // r
    for cuts in ([], [1], [groups // 3, groups // 3 + 1, 2 * groups // 3], list(range(0, groups, max(groups // 7, 1)))):
        edges = sorted({0, groups, *(c for c in cuts if 0 < c < groups)})
        state = case.module.init_state(case.x.shape[0])
        for index, (a, b) in enumerate(pairwise(edges)):
            piece = case.x[:, a * r : b * r]
            if index % 3 == 2:
                out, state = case.stream(piece, state)
                out = case.last(out, piece.shape[1])
            else:
                out, state = case.module.steps(piece, state)
            case.same(
                out, case.last(expected[:, : b * (r if case.per_token else 1)], piece.shape[1]), f"chunks {edges}"
            )


def check_rows_are_independent(case: Case) -> None:
    """Rows of a batch at different phases, beside anything, are as if they were alone."""
    module, x, r = case.module, case.x, case.r
    ahead = (r, (case.n // r // 2 + 1) * r, 0)
    alone, joined = [], []
    for row, skip in enumerate(ahead):
        state = module.init_state(1)
        if skip:
            _, state = case.stream(x[row % x.shape[0]][None, :skip], state)
        joined.append(state)
        alone.append(case.stream(x[row % x.shape[0]][None, skip : skip + 2 * case.n], state)[0])
    together = torch.stack([x[row % x.shape[0], skip : skip + 2 * case.n] for row, skip in enumerate(ahead)])
    state = states.stack(joined)
    case.same(case.stream(together, state)[0], torch.cat(alone), "step: rows at different phases")
    out, _ = module.steps(together, state)
    case.same(out, torch.cat([case.last(y, 2 * case.n) for y in alone]), "steps: rows at different phases")


def check_nan_stays_in_its_row(case: Case) -> None:
    """A row that holds a NaN leaves the others as they were."""
    x, state = case.x[:, : 2 * case.n], case.module.init_state(case.x.shape[0])
    expected, _ = case.stream(x, state)
    spoiled = x.clone()
    spoiled[1] = torch.nan
    case.same(case.stream(spoiled, state)[0][::2], expected[::2], "step: a NaN in one row")
    out, _ = case.module.steps(spoiled, state)
    case.same(out[::2], case.last(expected, 2 * case.n)[::2], "steps: a NaN in one row")


def check_step_is_pure(case: Case) -> None:
    """The old state still works after a step, and an in-place step gives the same numbers in the same memory."""
    module, start = case.module, case.x[:, : (case.n // case.r + 1) * case.r]
    rest = case.x[:, start.shape[1] :]
    _, state = case.stream(start, module.init_state(case.x.shape[0]))
    kept = states.clone(state)
    first, _ = case.stream(rest, state)
    module.steps(rest, state)
    for (name, leaf), (_, before) in zip(states.named_leaves(state), states.named_leaves(kept), strict=True):
        assert torch.equal(leaf.nan_to_num(), before.nan_to_num()), f"step and steps are pure: state.{name} has changed"
    second, _ = case.stream(rest, state)
    assert torch.equal(first, second), "step is pure: the same state gives the same outputs again"
    places = [leaf.data_ptr() for _, leaf in states.named_leaves(kept)]
    third, used = case.stream(rest, kept, inplace=True)
    assert torch.equal(first, third), "step(inplace=True) gives the same numbers"
    moved = [leaf.data_ptr() for _, leaf in states.named_leaves(used)] != places
    assert not moved, "step(inplace=True) writes into the state it was given"


def check_reset(case: Case) -> None:
    """Some rows begin again; the others go on."""
    module, half = case.module, case.x[:, : (case.n // case.r + 1) * case.r]
    rest = case.x[:, half.shape[1] :]
    _, state = case.stream(half, module.init_state(case.x.shape[0]))
    out, _ = case.stream(rest, states.reset(state, [1], module.init_state(1)))
    expected, _ = case.stream(rest, state)
    fresh, _ = case.stream(rest[1:2], module.init_state(1))
    case.same(out[1:2], fresh, "a row that was reset is as new")
    case.same(out[[0, 2]], expected[[0, 2]], "rows that were not reset go on")


def check_save_and_resume(case: Case) -> None:
    """A state goes through a file in the middle of a segment, bit by bit."""
    start = case.x[:, : (case.n // case.r + 1) * case.r]
    rest = case.x[:, start.shape[1] :]
    _, state = case.stream(start, case.module.init_state(case.x.shape[0]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        states.save_state(path, state, case.module)
        loaded = states.load_state(path, case.module)
    expected, _ = case.stream(rest, state)
    resumed, _ = case.stream(rest, loaded)
    assert torch.equal(resumed, expected), "a state that was saved and loaded goes on exactly"


def check_lengths_and_resets(case: Case) -> None:
    """Ragged rows, and streams laid end to end, are as separate streams."""
    module, x, r = case.module, case.x, case.r
    batch, total = x.shape[0], x.shape[1]
    _, state = case.stream(x[:, :r], module.init_state(batch))
    lengths = torch.tensor([total - 2 * r, total // 2 // r * r, 0])[torch.arange(batch) % 3].clamp(min=0).to(x.device)
    out, after = module.steps(x, state, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        mine = states.select(state, row)
        expected, end = case.stream(x[row : row + 1, :length], mine) if length else (None, mine)
        if case.per_token:
            assert not bool(out[row, length:].any()), "steps(lengths=): outputs after the last token are zero"
            if expected is not None:
                case.same(out[row : row + 1, :length], expected, "steps(lengths=): as a shorter stream")
        elif expected is not None:
            case.same(out[row : row + 1], expected[:, -1], "steps(lengths=): as a shorter stream")
        case.same(
            case.stream(x[row : row + 1, :total], states.select(after, row))[0],
            case.stream(x[row : row + 1, :total], end)[0],
            "steps(lengths=): the state after a shorter stream",
        )
    _check_resets(case, state)


def _check_resets(case: Case, state: Any) -> None:
    module, x, r = case.module, case.x, case.r
    groups = x.shape[1] // r
    for openings in ([0], [groups // 4, groups // 4 + 1], [1, groups // 2, groups - 1]):
        opens = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        for row in range(x.shape[0]):
            for opening in openings[: row + 1]:
                opens[row, min(opening, groups - 1) * r] = True
        out, after = module.steps(x, state, reset=opens)
        for row in range(x.shape[0]):
            edges = sorted({0, x.shape[1], *opens[row].nonzero()[:, 0].tolist()})
            pieces, mine = [], states.select(state, row)
            for a, b in pairwise(edges):
                if bool(opens[row, a]):
                    mine = module.init_state(1)
                y, mine = case.stream(x[row : row + 1, a:b], mine)
                pieces.append(y)
            expected = case.last(torch.cat(pieces, 1), x.shape[1])
            case.same(out[row : row + 1], expected, "steps(reset=): as separate streams")
            case.same(
                case.stream(x[row : row + 1], states.select(after, row))[0],
                case.stream(x[row : row + 1], mine)[0],
                "steps(reset=): the state after separate streams",
            )


def check_gradients(case: Case) -> None:
    """Gradients of `steps` and `forward` are those of the reference, or of a loop over `step`."""
    x = case.x[:, : (2 * case.n // case.r + 1) * case.r].clone().requires_grad_()
    given = [x, *(p for p in case.module.parameters() if p.requires_grad)]
    state = case.module.init_state(x.shape[0])

    def gradients(outputs: Tensor) -> Iterable[Tensor]:
        weight = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype, device=outputs.device)
        loss = (outputs * weight.reshape(outputs.shape)).sum()
        return [
            torch.zeros_like(p) if g is None else g
            for p, g in zip(given, torch.autograd.grad(loss, given, allow_unused=True, retain_graph=True), strict=True)
        ]

    loop = case.reference(x) if case.reference else case.stream(x, state)[0]
    scale = max(float(g.abs().max()) for g in gradients(case.last(loop, x.shape[1])))
    pairs = [("steps", case.module.steps(x, state)[0], case.last(loop, x.shape[1]))]
    window = loop[:, : case.n if case.per_token else case.n // case.r]
    forward = case.module(x[:, : case.n])
    first = case.last(window, case.r)
    pairs.append(("forward", forward, first[:, -1] if forward.dim() == 2 else first))
    for name, actual, expected in pairs:
        for ours, theirs in zip(gradients(actual), gradients(expected.to(actual)), strict=True):
            error = float((ours - theirs).abs().max()) / scale
            # A gradient sums over tokens and rows: a digit more than an output is lost.
            assert error <= 10 * case.tolerance, f"gradients of {name}: off by {error:.2e} of the largest"


def check_dtypes(case: Case) -> None:
    """Outputs have the dtype of the input; sums are kept in float32 at least; counts are whole numbers."""
    state = case.module.init_state(2)
    out, state = case.module.step(case.group(case.x[:2], case.r), state)
    assert out.dtype == case.x.dtype, f"step keeps the dtype of x: {out.dtype}"
    assert case.module.steps(case.x[:2], state)[0].dtype == case.x.dtype, "steps keeps the dtype of x"
    for name, leaf in states.named_leaves(state):
        short = leaf.dtype in (torch.float16, torch.bfloat16)
        held = name.rsplit(".", 1)[-1]
        assert not short or held in ("ring_input", "ring_query", "ring_key", "ring_value"), (
            f"state.{name} is an accumulator in {leaf.dtype}"
        )
    assert state.time.dtype == torch.int64, f"state.time is {state.time.dtype}"


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_dtypes,
    check_step_is_reference,
    check_forward_is_step,
    check_any_chunking,
    check_rows_are_independent,
    check_nan_stays_in_its_row,
    check_step_is_pure,
    check_reset,
    check_save_and_resume,
    check_lengths_and_resets,
    check_gradients,
)


def check_stream_module(
    module: Any,
    *,
    input_dim: int | None = None,
    tokens: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    reference: Reference | None = None,
    gradients: bool = True,
) -> None:
    """Run every check of the contract on a stream module.

    Args:
        module: an `nn.Module` with `forward`, `init_state`, `step`, `steps` and a `config`.
        input_dim: width of a token; `config.input_dim`, or else `config.embed_dim`, unless told.
        tokens: length of the stream that is tried; a bit more than three windows unless told.
        seed: of that stream.
        tolerance: largest error, relative to the largest output; by dtype unless told.
        reference: a stream [B, T, width] to all its outputs; known for `MultiheadAttention`.
        gradients: whether gradients are checked too.

    Example:
        >>> import nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> ns.testing.check_stream_module(ns.MultiheadAttention(cfg))
    """
    case = prepared(module, input_dim, tokens, seed, tolerance, reference)
    for check in CHECKS:
        if check is check_gradients:
            if gradients:
                check(case)
        else:
            with torch.no_grad():
                check(case)


def prepared(
    module: Any,
    input_dim: int | None = None,
    tokens: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    reference: Reference | None = None,
) -> Case:
    """The module with a stream to try it on; arguments as those of `check_stream_module`."""
    cfg = module.config
    weight = next(module.parameters())
    width = getattr(cfg, "input_dim", cfg.embed_dim) if input_dim is None else input_dim
    r = cfg.update_size
    length = (tokens or 3 * cfg.window + 2 * r + 3) // r * r
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, length, width, dtype=torch.float64, generator=generator).to(weight)
    if reference is None and isinstance(module, MultiheadAttention):
        attn = module

        def reference(x: Tensor) -> Tensor:
            return reference_outputs(attn, x)

    allowed = TOLERANCE[weight.dtype] if tolerance is None else tolerance
    return Case(module, x, allowed, reference, getattr(cfg, "single", True))
