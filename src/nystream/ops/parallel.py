"""Δ_φ V of `window` for a whole piece of a stream: no loop over time, no subtraction, differentiable.

Tokens are divided into chunks of C. All queries of a chunk share the whole chunks that are inside every one of their
windows; these are combined as partials, by doubling over chunks. The rest of a window, fewer than 3C edge tokens, is
attended to explicitly, summing over the m landmarks first, so that no array of T m d numbers is formed.

If a stream starts inside a chunk, everything before it is hidden: the partial of the chunk covers only the tokens of
its last stream, and combining drops the older side. This is the operator of a segmented scan, which is also
associative.

Cost per token: about 2C (m + d) + (m d / C) (2 + log₂ n/C) multiply-adds and 2m exponentials; 2C m exponentials in
pieces whose logits are far apart.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from nystream.config import AttentionConfig
from nystream.ops import fused, gather, partials
from nystream.ops.decay import falls
from nystream.ops.extended import Extended
from nystream.ops.partials import FLOOR, Partial, select
from nystream.ops.precision import accumulate
from nystream.ops.timeline import Timeline
from nystream.ops.tracing import tracing

CHUNK = 16

# Size limit of intermediate arrays, in numbers; longer pieces and larger batches are processed in parts.
AT_ONCE = 1 << 24


def windowed(
    weight: Tensor, logit: Extended, value: Extended, cfg: AttentionConfig, when: Timeline, decay: Tensor | None = None
) -> Tensor:
    """Σᵢ wᵢ (Δ_φ V)ᵢ of every token's own window.

    weight [B, T, H, m]; logit [B, n + T, H, m] on the extended axis, −inf where void. Returns [B, T, H, D]. A token
    that is not finite makes the output of every window that contains it NaN, and no others.
    """
    n, use_kernels = cfg.window, fused.wanted(value.piece, weight.shape[1], cfg)
    if use_kernels:
        out, bad = fused.landmarks(cfg, when, decay, weight, logit, value)
        if not bad:
            return out
        del out  # and what its gradients would need
    finite = used = logit.finite_or_void() & value.finite()  # [B, n + T, H]
    if not use_kernels:  # kernels read nothing but what a query sees
        exists = torch.arange(finite.shape[1], device=finite.device) < n + when.lengths[:, None]  # [B, n + T]
        used = finite & exists[..., None]
        if not tracing() and bool(used.all()):
            return _chunked(cfg, when, decay, weight, logit, value)
    good = (weight, logit.without(~used, -torch.inf), value.without(~used))
    out = fused.landmarks(cfg, when, decay, *good)[0] if use_kernels else _chunked(cfg, when, decay, *good)
    return out.masked_fill(spoiled(~finite, n, when)[..., None], torch.nan)


def spoiled(bad: Tensor, n: int, when: Timeline) -> Tensor:
    """[B, T, ...]: whether the window of each token contains a place that `bad` [B, n + T, ...] marks."""
    before = pad(bad.long().cumsum(1).movedim(1, -1), (1, 0)).movedim(-1, 1)  # integers, so this is exact
    shape = (*when.time.shape, *[1] * (bad.dim() - 2))
    start, end = (
        index.reshape(shape).expand(-1, -1, *bad.shape[2:]) for index in (when.window_start(n), when.window_end(n) + 1)
    )
    return before.gather(1, end) > before.gather(1, start)


def _chunked(
    cfg: AttentionConfig, when: Timeline, decay: Tensor | None, weight: Tensor, logits: Extended, values: Extended
) -> Tensor:
    n, r, length = cfg.window, cfg.update_size, weight.shape[1]
    logit, value = logits.whole(), accumulate(values.whole())
    chunk = r * -(-CHUNK // r)  # whole groups
    count = -(-length // chunk)
    carried = -(-n // chunk)  # chunks before the piece
    front, rear = carried * chunk - n, count * chunk - length
    logit = pad(logit, (0, 0, 0, 0, front, rear), value=-torch.inf)
    value = pad(value, (0, 0, 0, 0, front, rear))
    # Places of windows and streams, on the padded axis, by query chunk: [B, count, C].
    start = _by_chunk(when.window_start(n) + front, chunk, rear)
    end = _by_chunk(when.window_end(n) + front, chunk, rear)
    opened = _by_chunk(
        carried * chunk + torch.arange(length, device=weight.device) - when.time + 1, chunk, rear
    )  # first place of the stream
    base = (carried + torch.arange(count, device=weight.device)) * chunk  # first place of a query chunk

    whole = max(n // chunk - 1, 0)
    reach = n - 1 - whole * chunk  # edge tokens before the shared chunks
    own = base[:, None] + torch.arange(chunk, device=weight.device)
    places = torch.cat([base[:, None] - n + 1 + torch.arange(reach, device=weight.device), own], 1)
    queries = pad(weight, (0, 0, 0, 0, 0, rear)).unflatten(1, (count, chunk)).transpose(2, 3)  # [B, count, H, C, m]
    shared = _shared(logit, value, when, carried, chunk, whole, rear, decay) if whole else None
    outs = []
    piece = max(1, AT_ONCE // (queries[:, 0].numel() * places.shape[1]))
    for at in range(0, count, piece):
        some = slice(at, at + piece)
        edges = places[some]  # [., E]
        seen = (edges[:, None] >= start[:, some, :, None]) & (edges[:, None] <= end[:, some, :, None])  # [B, ., C, E]
        part = None
        if shared is not None:
            hidden = opened[:, some] >= base[some, None]  # the stream starts inside the query's own chunk
            part_max = shared.max[:, some].unsqueeze(-2).masked_fill(hidden[:, :, None, :, None], FLOOR)
            part = Partial(part_max, shared.sum[:, some])
        edge_logit = gather.at(logit, edges).permute(0, 1, 3, 4, 2).contiguous()  # [B, ., H, m, E]
        if decay is not None:  # ages count from the last place before the chunk, where the shared chunks end
            edge_logit = edge_logit - falls(decay, (base[some, None] - 1 - edges)[None]).unsqueeze(3)
        edge_value = gather.at(value, edges).transpose(2, 3)  # [B, ., H, E, D]
        outs.append(partials.attend(queries[:, some], part, edge_logit, seen[:, :, None], edge_value))
    return torch.cat(outs, 1).transpose(2, 3).flatten(1, 2)[:, :length]


def _shared(
    logit: Tensor,
    value: Tensor,
    when: Timeline,
    carried: int,
    chunk: int,
    whole: int,
    rear: int,
    decay: Tensor | None,
) -> Partial:
    """The partial of the `whole` chunks before each query chunk, without tokens before the start of the stream."""
    last = pad(when.time, (0, rear))[:, chunk - 1 :: chunk]  # the time of a padded chunk is not used
    age = torch.arange(chunk - 1, -1, -1, device=last.device)
    older = age >= last[..., None]  # [B, count, C] tokens of an earlier stream
    older = torch.cat([older.new_zeros(older.shape[0], carried, chunk), older], 1)
    opens = pad(last <= chunk, (carried, 0))  # [B, carried + count] chunks in which a stream starts
    cut = logit.unflatten(1, (-1, chunk)).masked_fill(older[..., None, None], -torch.inf)
    if decay is not None:
        cut = cut - falls(decay, age[None, None]).mT[..., None]
    chunks = partials.of_tokens(cut.transpose(2, 3), value.unflatten(1, (-1, chunk)).transpose(2, 3))
    windows = _slide(
        chunks, opens, whole, None if decay is None else falls(decay, torch.full((1, 1, 1), chunk, device=decay.device))
    )
    before = slice(carried - whole, opens.shape[1] - whole)  # the run that ends where each query chunk begins
    return select(windows, slice(None), before)


def _slide(chunks: Partial, opens: Tensor, width: int, fall: Tensor | None) -> Partial:
    """Combine every run of `width` chunks, using the binary digits of `width`; logits fall by `fall` per chunk."""
    power, power_opens = chunks, opens  # of `step` chunks, by first chunk
    result: tuple[Partial, Tensor] | None = None  # of `done` chunks, by first chunk
    done, step = 0, 1
    while True:
        if width & step:
            result = (power, power_opens) if result is None else _then(*result, power, power_opens, done, fall, step)
            done += step
        if done == width:
            assert result is not None
            return result[0]
        power, power_opens = _then(power, power_opens, power, power_opens, step, fall, step)
        step *= 2


def _then(
    older: Partial,
    older_opens: Tensor,
    newer: Partial,
    newer_opens: Tensor,
    by: int,
    fall: Tensor | None,
    width: int,
) -> tuple[Partial, Tensor]:
    """Combine runs of `by` chunks with the `width` that follow; a run in which a stream starts hides the older one."""
    length = min(newer_opens.shape[1] - by, older_opens.shape[1])
    newer, newer_opens = select(newer, slice(None), slice(by, by + length)), newer_opens[:, by : by + length]
    part_max = older.max[:, :length] if fall is None else older.max[:, :length] - width * fall
    part_max = part_max.masked_fill(newer_opens[..., None, None], FLOOR)
    return partials.combine(Partial(part_max, older.sum[:, :length]), newer), older_opens[:, :length] | newer_opens


def _by_chunk(index: Tensor, chunk: int, rear: int) -> Tensor:
    return pad(index, (0, rear)).unflatten(1, (-1, chunk))
