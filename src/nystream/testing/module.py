"""The contract suite of stream modules.

A stream module has `forward`, `init_state`, `step` and `steps` that agree, and a `config` with `window` and
`update_size`. Every check raises AssertionError, with a message that names the broken promise.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import nystream.state as states
from nystream.testing.case import Case, Reference, prepared


def check_step_is_reference(case: Case) -> None:
    """`step` equals the reference, if there is one."""
    if case.reference is None:
        return
    case.same(case.outputs(), case.reference(case.x), "step equals the reference")


def check_forward_is_step(case: Case) -> None:
    """`forward` over the start of a stream, up to a full window, equals the last `step`."""
    lengths = sorted({case.r, max(case.n // 2 // case.r, 1) * case.r, case.n})
    for length in lengths:
        forward = case.module(case.x[:, :length])
        expected = case.last(case.outputs(end=length), case.r)
        if forward.dim() == 2:
            expected = expected[:, -1]
        case.same(forward, expected, f"forward over {length} tokens equals the last step")


def check_any_chunking(case: Case) -> None:
    """`step` and `steps` give the same outputs and states for any division of a stream into chunks."""
    r, total = case.r, case.x.shape[1]
    groups = total // r
    for cuts in ([], [1], [groups // 3, groups // 3 + 1, 2 * groups // 3], list(range(0, groups, max(groups // 7, 1)))):
        edges = sorted({0, groups, *(c for c in cuts if 0 < c < groups)})
        state = case.module.init_state(case.x.shape[0])
        for index, (a, b) in enumerate(pairwise(edges)):
            chunk = case.x[:, a * r : b * r]
            if index % 3 == 2:
                out, state = case.stream(chunk, state)
                out = case.last(out, chunk.shape[1])
            else:
                out, state = case.module.steps(chunk, state)
            case.same(out, case.last(case.outputs(end=b * r), chunk.shape[1]), f"chunks {edges}")


def check_receptive_field(case: Case) -> None:
    """An output depends on at most `receptive_field` tokens, if the module declares it."""
    reach = getattr(case.module, "receptive_field", None)
    if reach is None:
        return
    # The first tokens have the longest influence, because they start a segment of the window.
    changed = case.x.clone()
    changed[:, : case.r] = case.x[:, -case.r :]
    later = -(-(reach + case.r) // case.r) - 1  # number of steps that may depend on the changed tokens
    outputs, _ = case.stream(changed, case.module.init_state(changed.shape[0]))
    case.same(
        outputs[:, later * (case.r if case.per_token else 1) :],
        case.outputs(later * case.r),
        f"outputs depend on no more than receptive_field={reach} tokens",
    )


def check_rows_are_independent(case: Case) -> None:
    """Each row of a batch gives the same outputs as alone, whatever the phases of the rows."""
    module, x, r = case.module, case.x, case.r
    phases = (r, (case.n // r // 2 + 1) * r, 0)
    alone, joined = [], []
    for row, skip in enumerate(phases):
        state = module.init_state(1)
        if skip:
            _, state = case.stream(x[row % x.shape[0]][None, :skip], state)
        joined.append(state)
        alone.append(case.stream(x[row % x.shape[0]][None, skip : skip + 2 * case.n], state)[0])
    together = torch.stack([x[row % x.shape[0], skip : skip + 2 * case.n] for row, skip in enumerate(phases)])
    state = states.stack(joined)
    case.same(case.stream(together, state)[0], torch.cat(alone), "step: rows at different phases")
    out, _ = module.steps(together, state)
    case.same(out, torch.cat([case.last(y, 2 * case.n) for y in alone]), "steps: rows at different phases")


def check_nan_stays_in_its_row(case: Case) -> None:
    """A NaN in one row does not affect the other rows."""
    x, state = case.x[:, : 2 * case.n], case.module.init_state(case.x.shape[0])
    expected = case.outputs(end=x.shape[1])
    spoiled = x.clone()
    spoiled[1] = torch.nan
    case.same(case.stream(spoiled, state)[0][::2], expected[::2], "step: a NaN in one row")
    out, _ = case.module.steps(spoiled, state)
    case.same(out[::2], case.last(expected, 2 * case.n)[::2], "steps: a NaN in one row")


def check_degenerate_rows(case: Case) -> None:
    """A row with identical landmarks, whose Γ is singular, is correct and does not affect the other rows."""
    x, start = case.x[:, : 2 * case.n], case.module.init_state(case.x.shape[0])
    unchanged = case.outputs(end=x.shape[1])
    first, second = x[1, :1], x[1, -1:]
    levels = (torch.arange(x.shape[1], device=x.device) // 2 % 2 == 0)[:, None]
    for name, row in {
        "a constant row": first.expand_as(x[1]),
        "a row with two levels": torch.where(levels, first, second),
        "a nearly constant row": first + 1e-5 * x[1],
    }.items():
        degenerate = x.clone()
        degenerate[1] = row
        outputs, _ = case.stream(degenerate, start)
        if case.reference is not None:
            case.same(outputs, case.reference(degenerate), f"step: {name}")
        case.same(outputs[::2], unchanged[::2], f"step: rows beside {name}")
        case.same(case.module.steps(degenerate, start)[0], case.last(outputs, x.shape[1]), f"steps: {name}")


def check_weights_are_current(case: Case) -> None:
    """Outputs depend on the current weights, however they were changed: no cached value is stale."""
    window = case.x[:, : case.n]
    for method in ("in place", "through .data", "in inference mode", "as one vector"):
        for copied in (False, True):
            module = copy.deepcopy(case.module)
            module(window)  # fills any cache
            _change_weights(module, method)
            if copied:
                module = copy.deepcopy(module)
            fresh = copy.deepcopy(case.module)
            fresh.load_state_dict(module.state_dict())
            after = ", then copied" if copied else ""
            case.same(module(window), fresh(window), f"forward: weights changed {method}{after}")


def _change_weights(module: Any, method: str) -> None:
    """Change every parameter and every persistent buffer."""
    if method == "as one vector":
        vector = torch.nn.utils.parameters_to_vector(module.parameters())
        torch.nn.utils.vector_to_parameters(1.25 * vector, module.parameters())
        return
    with torch.inference_mode(method == "in inference mode"), torch.no_grad():
        for x in module.state_dict(keep_vars=True).values():
            if x.is_floating_point():
                (x.data if method == "through .data" else x).mul_(1.25)


def check_step_is_pure(case: Case) -> None:
    """`step` does not modify its state; in place, it gives the same outputs and reuses the same memory."""
    module, rest = case.module, case.x[:, case.middle :]
    first, state = case.outputs(case.middle), case.streamed[1]
    copied = states.clone(state)
    second, _ = case.stream(rest, state)
    module.steps(rest, state)
    for (name, leaf), (_, before) in zip(states.named_leaves(state), states.named_leaves(copied), strict=True):
        assert torch.equal(leaf.nan_to_num(), before.nan_to_num()), f"step and steps are pure: state.{name} has changed"
    assert torch.equal(first, second), "step is pure: the same state gives the same outputs again"
    addresses = [leaf.data_ptr() for _, leaf in states.named_leaves(copied)]
    third, used = case.stream(rest, copied, inplace=True)
    assert torch.equal(first, third), "step(inplace=True) gives the same outputs"
    moved = [leaf.data_ptr() for _, leaf in states.named_leaves(used)] != addresses
    assert not moved, "step(inplace=True) overwrites the given state"


def check_reset(case: Case) -> None:
    """Resetting rows of a state starts new streams there, and does not affect the other rows."""
    module, rest = case.module, case.x[:, case.middle :]
    out, _ = case.stream(rest, states.reset(case.streamed[1], [1], module.init_state(1)))
    expected = case.outputs(case.middle)
    fresh, _ = case.stream(rest[1:2], module.init_state(1))
    case.same(out[1:2], fresh, "a reset row is a new stream")
    case.same(out[[0, 2]], expected[[0, 2]], "the other rows continue")


def check_save_and_resume(case: Case) -> None:
    """A state that is saved and loaded in the middle of a segment gives identical outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        states.save_state(path, case.streamed[1], case.module)
        loaded = states.load_state(path, case.module)
    resumed, _ = case.stream(case.x[:, case.middle :], loaded)
    assert torch.equal(resumed, case.outputs(case.middle)), "a state that was saved and loaded continues exactly"


def check_lengths_and_resets(case: Case) -> None:
    """`steps` with rows of different lengths, or with concatenated streams, equals separate streams."""
    module, x, r = case.module, case.x, case.r
    batch, total = x.shape[0], x.shape[1]
    _, state = case.stream(x[:, :r], module.init_state(batch))
    lengths = torch.tensor([total - 2 * r, total // 2 // r * r, 0])[torch.arange(batch) % 3].clamp(min=0).to(x.device)
    out, after = module.steps(x, state, lengths=lengths)
    ends = []
    for row, length in enumerate(lengths.tolist()):
        mine = states.select(state, row)
        expected, end = case.stream(x[row : row + 1, :length], mine) if length else (None, mine)
        if case.per_token:
            assert not bool(out[row, length:].any()), "steps(lengths=): outputs after the last token are zero"
            if expected is not None:
                case.same(out[row : row + 1, :length], expected, "steps(lengths=): as a shorter stream")
        elif expected is not None:
            case.same(out[row : row + 1], expected[:, -1], "steps(lengths=): as a shorter stream")
        ends.append(end)
    _same_state(case, after, states.stack(ends), "steps(lengths=): the state after a shorter stream")
    _check_resets(case, state)


def _same_state(case: Case, state: Any, other: Any, promise: str) -> None:
    """Both states give the same outputs from here on. They are run as rows of one batch, to save time."""
    outputs, _ = case.stream(torch.cat([case.x, case.x]), states.stack([state, other]))
    first, second = outputs.chunk(2)
    case.same(first, second, promise)


def _check_resets(case: Case, state: Any) -> None:
    module, x, r = case.module, case.x, case.r
    groups = x.shape[1] // r
    for starts in ([0], [groups // 4, groups // 4 + 1], [1, groups // 2, groups - 1]):
        reset = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        for row in range(x.shape[0]):
            for start in starts[: row + 1]:
                reset[row, min(start, groups - 1) * r] = True
        out, after = module.steps(x, state, reset=reset)
        edges = sorted({0, x.shape[1], *reset.nonzero()[:, 1].tolist()})
        outputs, end = [], state
        for a, b in pairwise(edges):
            end = states.reset(end, reset[:, a], module.init_state(1))  # tested by `check_reset`
            y, end = case.stream(x[:, a:b], end)
            outputs.append(y)
        case.same(out, case.last(torch.cat(outputs, 1), x.shape[1]), "steps(reset=): as separate streams")
        _same_state(case, after, end, "steps(reset=): the state after separate streams")


def check_gradients(case: Case) -> None:
    """Gradients of `steps` and `forward` equal those of the reference, or else of `step` in a loop."""
    x = case.x[:, : (2 * case.n // case.r + 1) * case.r].clone().requires_grad_()
    leaves = [x, *(p for p in case.module.parameters() if p.requires_grad)]
    state = case.module.init_state(x.shape[0])

    def gradients(outputs: Tensor) -> Iterable[Tensor]:
        weight = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype, device=outputs.device)
        loss = (outputs * weight.reshape(outputs.shape)).sum()
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(leaves, grads, strict=True)]

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
            # A gradient is a sum over tokens and rows, which loses a digit more than an output.
            assert error <= 10 * case.tolerance, f"gradients of {name}: off by {error:.2e} of the largest"


def check_dtypes(case: Case) -> None:
    """Outputs have the dtype of the input, accumulators are at least float32, and the token count is int64."""
    state = case.module.init_state(2)
    out, state = case.module.step(case.group(case.x[:2], case.r), state)
    assert out.dtype == case.x.dtype, f"step keeps the dtype of x: {out.dtype}"
    assert case.module.steps(case.x[:2], state)[0].dtype == case.x.dtype, "steps keeps the dtype of x"
    for name, leaf in states.named_leaves(state):
        half = leaf.dtype in (torch.float16, torch.bfloat16)
        field = name.rsplit(".", 1)[-1]
        assert not half or field in ("recent", "ring_input", "ring_query", "ring_key", "ring_value"), (
            f"state.{name} is an accumulator in {leaf.dtype}"
        )
    assert state.time.dtype == torch.int64, f"state.time is {state.time.dtype}"


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_dtypes,
    check_step_is_reference,
    check_forward_is_step,
    check_any_chunking,
    check_receptive_field,
    check_rows_are_independent,
    check_nan_stays_in_its_row,
    check_degenerate_rows,
    check_weights_are_current,
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
    """Run the contract suite on a stream module. Raises AssertionError if a check fails.

    Args:
        module: An `nn.Module` with `forward`, `init_state`, `step`, `steps` and a `config`.
        input_dim: Width of a token. Default: `config.input_dim`, or else `config.embed_dim`.
        tokens: Length of the test stream. Default: slightly more than three windows.
        seed: Seed of the test stream.
        tolerance: Largest error, relative to the largest output. Default: depends on the dtype.
        reference: A function from a stream [B, T, width] to all its outputs. Default: the reference of the variant, for
            a `MultiheadAttention`.
        gradients: Whether to check gradients.

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
