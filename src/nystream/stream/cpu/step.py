"""The whole model's step: from tokens to outputs, for a few streams at once, in one compiled call.

The dense layers take the rows of all the streams together, so that many rows share one reading of the weights; the
attentions take one stream after the other.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from numba import carray

from nystream.stream.cpu import sliding
from nystream.stream.cpu.attention import attention
from nystream.stream.cpu.dense import PANEL, dense
from nystream.stream.cpu.plan import (
    BACK_AT,
    BLOCK,
    COUNT,
    DOUBLES,
    EMBED,
    EMBED_AT,
    EPS_AT,
    FULL,
    GELU,
    HAS_EMBED,
    HAS_HEAD,
    HAS_NORM,
    HAS_REST,
    HEAD_AT,
    IN_AT,
    INNER,
    INPUT,
    KIND,
    LANDMARKS,
    MODEL,
    NORM1_AT,
    NORM2_AT,
    NORM_AT,
    OUT_AT,
    OUTPUT,
    POSITIONS,
    PRE_NORM,
    QKV,
    QKV_AT,
    RESTORE_AT,
    SCALER_AT,
    SHARED,
    SIZE,
    STRIDE,
    TABLE_AT,
    TOGETHER,
    WEIGHED,
    WEIGHTS,
    WIDE,
    WIDTH,
)
from nystream.stream.cpu.rows import add, copy, finite, gelu, layer_norm, relu, scale
from nystream.stream.cpu.simd import (
    apart,
    cached,
    compiled,
    doubles_at,
    floats_at,
    load_count,
    merged,
    store_count,
)


@compiled
def _state(plan: Any, addresses: Any, stream: int) -> Any:
    return carray(floats_at(addresses[stream]), (plan[SIZE],))


@compiled
def _embed(w: Any, plan: Any, addresses: Any, low: int, high: int, x: Any, z: Any, at: int, scaled: int) -> None:
    """Tokens as rows of the embedding, at `at`."""
    apart()
    inputs, r, width, stride, across = plan[INPUT], plan[TOGETHER], plan[EMBED], plan[STRIDE], plan[WIDE]
    rows, first = (high - low) * r, low * r
    for i in range(rows):
        if plan[HAS_EMBED] == 1:
            scale(x, (first + i) * inputs, w, plan[SCALER_AT], inputs, z, scaled + i * across)
        else:
            copy(x, (first + i) * inputs, z, at + i * stride, inputs)
    if plan[HAS_EMBED] == 1:
        dense(w, plan[EMBED_AT], inputs, stride // PANEL, z, scaled, across, z, at, stride, rows)
    if plan[POSITIONS]:
        for i in range(rows):
            time = load_count(_state(plan, addresses, low + i // r), 0) + i % r
            add(w, plan[TABLE_AT] + time % plan[POSITIONS] * width, z, at + i * stride, width)


@compiled
def memory(plan: Any, room: int, size: int) -> tuple[Any, Any, Any]:
    """The weights, and the scratch memory at an address: `size` float32, and float64 for inverses."""
    doubles = plan[DOUBLES]
    w = carray(floats_at(plan[WEIGHTS]), (plan[WEIGHED],))
    return w, carray(floats_at(room + 8 * doubles), (size,)), carray(doubles_at(room), (doubles,))


@compiled
def _norm(w: Any, plan: Any, at: int, z: Any, source: int, target: int, rows: int) -> None:
    for i in range(rows):
        move = i * plan[STRIDE]
        layer_norm(w, at, plan[EMBED], w[plan[EPS_AT]], z, source + move, z, target + move)


@merged
def _block(w: Any, plan: Any, b: int, addresses: Any, low: int, high: int, z: Any, x: int, seen: int, wide: int,
           rows_out: int, room: int, d: Any) -> None:  # fmt: skip
    """x at z[x] becomes the block's output, in place."""
    r, width, stride, across = plan[TOGETHER], plan[EMBED], plan[STRIDE], plan[WIDE]
    rows, pre, rest = (high - low) * r, plan[b + PRE_NORM] == 1, plan[b + HAS_REST] == 1
    source = x
    if rest and pre:
        _norm(w, plan, plan[b + NORM1_AT], z, x, seen, rows)
        source = seen
    dense(w, plan[b + QKV_AT], width, plan[b + QKV], z, source, stride, z, wide, across, rows)
    for stream in range(low, high):
        s = _state(plan, addresses, stream)
        if stream + 1 < high and plan[b + KIND] != FULL:
            after = _state(plan, addresses, stream + 1)
            sliding.prefetch_push(after, plan, b, load_count(after, 0) // r, r, False)
        move = (stream - low) * r * across
        attention(s, w, plan, b, load_count(s, 0), r, z, wide + move, across, rows_out + move, room, d)
    panels = stride // PANEL
    dense(w, plan[b + OUT_AT], plan[b + WIDTH], panels, z, rows_out, across, z, seen, stride, rows)
    if not rest:
        copy(z, seen, z, x, rows * stride)
        return
    add(z, seen, z, x, rows * stride)
    source = x
    if pre:
        _norm(w, plan, plan[b + NORM2_AT], z, x, seen, rows)
        source = seen
    else:
        _norm(w, plan, plan[b + NORM1_AT], z, x, x, rows)
    inner = -(-plan[b + INNER] // PANEL)
    dense(w, plan[b + IN_AT], width, inner, z, source, stride, z, wide, across, rows)
    for i in range(rows):
        if plan[b + GELU] == 1:
            gelu(z, wide + i * across, inner * PANEL)
        else:
            relu(z, wide + i * across, inner * PANEL)
    dense(w, plan[b + BACK_AT], plan[b + INNER], panels, z, wide, across, z, seen, stride, rows)
    add(z, seen, z, x, rows * stride)
    if not pre:
        _norm(w, plan, plan[b + NORM2_AT], z, x, x, rows)


@merged
def _run(plan: Any, w: Any, addresses: Any, low: int, high: int, x: Any, y: Any, z: Any, d: Any) -> None:
    """Streams low ... high − 1: rows of x in, rows of y out."""
    r, stride, across = plan[TOGETHER], plan[STRIDE], plan[WIDE]
    rows = (high - low) * r
    at, seen, wide = 0, rows * stride, 2 * rows * stride
    rows_out, room = wide + rows * across, wide + 2 * rows * across
    _embed(w, plan, addresses, low, high, x, z, at, wide)
    for block in range(plan[COUNT]):
        _block(w, plan, MODEL + block * BLOCK, addresses, low, high, z, at, seen, wide, rows_out, room, d)
    if plan[HAS_NORM] == 1:
        _norm(w, plan, plan[NORM_AT], z, at, at, rows)
    outputs, first = plan[OUTPUT], low * r
    if plan[HAS_HEAD] == 1:
        panels, restore = -(-outputs // PANEL), plan[RESTORE_AT]
        dense(w, plan[HEAD_AT], plan[EMBED], panels, z, at, stride, z, wide, across, rows)
        for i in range(rows):
            for k in range(outputs):
                y[(first + i) * outputs + k] = z[wide + i * across + k] * w[restore + k] + w[restore + outputs + k]
    else:
        for i in range(rows):
            copy(z, at + i * stride, y, (first + i) * outputs, outputs)
    for stream in range(low, high):
        s = _state(plan, addresses, stream)
        store_count(s, 0, load_count(s, 0) + r)


def _digest() -> str:
    """Of the sources of all kernels."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _entries(digest: str) -> tuple[Any, ...]:
    """What Python calls, cached on disk.

    Numba looks at the date of one file to tell whether what it cached is still good; a kernel is made of several. So
    their digest is part of each function, and with it of the key that the cache goes by.
    """

    @cached
    def push(plan: Any, room: int, times: int, addresses: Any, low: int, high: int, x: Any, y: Any) -> bool:
        """Streams low ... high − 1 of a batch; False, and nothing touched, if one of their tokens is not finite.

        All that runs often is in this one function, so that there is one to compile; `times` is for timing it.
        """
        size = plan[TOGETHER] * plan[INPUT]
        if len(digest) == 0 or not finite(x, low * size, high * size):
            return False
        rows = (high - low) * plan[TOGETHER]
        w, z, d = memory(plan, room, 2 * rows * (plan[STRIDE] + plan[WIDE]) + plan[SHARED])
        for _ in range(times):
            _run(plan, w, addresses, low, high, x, y, z, d)
        return True

    @cached
    def all_finite(x: Any) -> bool:
        return len(digest) > 0 and finite(x, 0, x.shape[0])

    @cached
    def rebuild(plan: Any, address: Any) -> None:
        """All that follows from the rings of a stream that was written to."""
        s = _state(plan, address, 0)
        count, r = load_count(s, 0), plan[TOGETHER]
        if len(digest) == 0 or count == 0:
            return
        for block in range(plan[COUNT]):
            b = MODEL + block * BLOCK
            if plan[b + KIND] != FULL:
                sliding.rebuild(s, plan, b, count // r - 1, r, 0, plan[b + LANDMARKS])

    return push, all_finite, rebuild


DIGEST = _digest()
push, all_finite, rebuild = _entries(DIGEST)
