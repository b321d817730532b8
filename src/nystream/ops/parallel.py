"""The sums of `window` for a whole piece of a stream at once: no loop over time, nothing subtracted, differentiable.

Tokens are cut into chunks of C. All queries of a chunk share the whole chunks that lie inside every one of their
windows; these are combined as triples, by doubling over chunks only. What is left of a window, fewer than 3C edge
tokens, is attended to explicitly, with the m landmarks contracted first: no array of T m d numbers is formed.

A stream that starts inside a chunk hides everything before it: a chunk's triple then covers only the tokens of its
last stream, and a combine drops the older side. That is the operator of a segmented scan, still associative.

Cost a token: 3C (m + d) + (m d / C) (2 + log₂ n/C) multiply-adds, 3C m exponentials.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from nystream.ops import partials
from nystream.ops.partials import FLOOR, Partial
from nystream.ops.timeline import Timeline

CHUNK = 8


def windowed(weight: Tensor, logit: Tensor, value: Tensor, n: int, r: int, when: Timeline) -> Tensor:
    """Σᵢ wᵢ (Δ_φ V)ᵢ of every token's own window.

    weight [B, T, H, m]; logit [B, n + T, H, m] and value [B, n + T, H, D] on the extended axis, −inf where void.
    Returns [B, T, H, D]. A token that is not finite makes the windows that hold it NaN, and no others.
    """
    finite = (
        logit.isnan().logical_not().all(-1) & (logit < torch.inf).all(-1) & value.isfinite().all(-1)
    )  # [B, n + T, H]
    out = _chunked(
        weight,
        logit.masked_fill(~finite[..., None], -torch.inf),
        value.masked_fill(~finite[..., None], 0.0),
        n,
        r,
        when,
    )
    return out.masked_fill(spoiled(~finite, n, when)[..., None], torch.nan)


def spoiled(bad: Tensor, n: int, when: Timeline) -> Tensor:
    """[B, T, ...]: whether the window of each token holds a place that `bad` [B, n + T, ...] marks."""
    before = pad(bad.long().cumsum(1).movedim(1, -1), (1, 0)).movedim(-1, 1)  # whole numbers: exact
    shape = (*when.time.shape, *[1] * (bad.dim() - 2))
    start, end = (
        index.reshape(shape).expand(-1, -1, *bad.shape[2:]) for index in (when.window_start(n), when.window_end(n) + 1)
    )
    return before.gather(1, end) > before.gather(1, start)


def _chunked(weight: Tensor, logit: Tensor, value: Tensor, n: int, r: int, when: Timeline) -> Tensor:
    length = weight.shape[1]
    chunk = r * -(-CHUNK // r)  # whole groups
    count = -(-length // chunk)
    carried = -(-n // chunk)  # chunks before the piece
    front, rear = carried * chunk - n, count * chunk - length
    logit = pad(logit, (0, 0, 0, 0, front, rear), value=-torch.inf)
    value = pad(value, (0, 0, 0, 0, front, rear))
    # Places of windows and streams, on the padded axis and cut by query chunk: [B, count, C].
    start = _by_chunk(when.window_start(n) + front, chunk, rear)
    end = _by_chunk(when.window_end(n) + front, chunk, rear)
    opened = _by_chunk(
        carried * chunk + torch.arange(length, device=weight.device) - when.time + 1, chunk, rear
    )  # first place of the stream
    base = (carried + torch.arange(count, device=weight.device)) * chunk  # first place of a query chunk

    whole = max(n // chunk - 1, 0)
    reach = n - 1 - whole * chunk  # edge tokens before the shared chunks
    places = torch.cat([base[:, None] - n + 1 + torch.arange(reach, device=weight.device), _span(base, chunk)], 1)
    seen = (places[:, None] >= start[..., None]) & (places[:, None] <= end[..., None])  # [B, count, C, E]
    edge_logit, edge_value = logit[:, places].transpose(2, 3), value[:, places].transpose(2, 3)  # [B, count, H, E, .]
    queries = pad(weight, (0, 0, 0, 0, 0, rear)).unflatten(1, (count, chunk)).transpose(2, 3)  # [B, count, H, C, m]
    shared = None
    if whole:
        window = _shared(logit, value, when, carried, chunk, whole, rear)
        hidden = (opened >= base[:, None])[:, :, None, :, None]  # the stream opens inside the query's own chunk
        shared = Partial(window.top[..., None, :].masked_fill(hidden, FLOOR), window.mass)
    out = partials.attend(queries, shared, edge_logit, seen[:, :, None], edge_value)
    return out.transpose(2, 3).flatten(1, 2)[:, :length]


def _shared(logit: Tensor, value: Tensor, when: Timeline, carried: int, chunk: int, whole: int, rear: int) -> Partial:
    """The triple of the `whole` chunks before each query chunk, back to the opening of the stream."""
    last = pad(when.time, (0, rear))[:, chunk - 1 :: chunk]  # nothing follows a padded chunk: its time is never used
    age = torch.arange(chunk - 1, -1, -1, device=last.device)
    older = age >= last[..., None]  # [B, count, C] tokens of an earlier stream
    older = torch.cat([older.new_zeros(older.shape[0], carried, chunk), older], 1)
    opens = pad(last <= chunk, (carried, 0))  # [B, carried + count] chunks in which a stream opens
    cut = logit.unflatten(1, (-1, chunk)).masked_fill(older[..., None, None], -torch.inf)
    chunks = partials.of_tokens(cut.transpose(2, 3), value.unflatten(1, (-1, chunk)).transpose(2, 3))
    window = _slide(chunks, opens, whole)
    return Partial(window.top[:, carried - 1 : -1], window.mass[:, carried - 1 : -1])


def _slide(chunks: Partial, opens: Tensor, width: int) -> Partial:
    """Combines of the `width` chunks that end at each chunk, from the binary digits of `width`."""
    power, power_opens = chunks, opens
    result: Partial | None = None
    result_opens = opens
    done, step = 0, 1
    while True:
        if width & step:
            if result is None:
                result, result_opens = power, power_opens
            else:
                result = _after(_shift(power, done), result, result_opens)
                result_opens = result_opens | pad(power_opens, (done, 0))[:, : opens.shape[1]]
            done += step
        if done == width:
            assert result is not None
            return result
        power = _after(_shift(power, step), power, power_opens)
        power_opens = power_opens | pad(power_opens, (step, 0))[:, : opens.shape[1]]
        step *= 2


def _after(older: Partial, newer: Partial, opens: Tensor) -> Partial:
    """`combine`, but for chunks whose newer side opens a stream: they keep that side alone."""
    return partials.combine(Partial(older.top.masked_fill(opens[..., None, None], FLOOR), older.mass), newer)


def _shift(part: Partial, by: int) -> Partial:
    length = part.top.shape[1]
    return Partial(
        pad(part.top, (0, 0, 0, 0, by, 0), value=FLOOR)[:, :length],
        pad(part.mass, (0, 0, 0, 0, 0, 0, by, 0))[:, :length],
    )


def _by_chunk(index: Tensor, chunk: int, rear: int) -> Tensor:
    return pad(index, (0, rear)).unflatten(1, (-1, chunk))


def _span(base: Tensor, chunk: int) -> Tensor:
    return base[:, None] + torch.arange(chunk, device=base.device)
