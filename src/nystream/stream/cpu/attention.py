"""One step of an attention for one stream: r tokens in, r rows out, and the state s updated in place.

Every row of `source` has the projections of one token: [δ, β, v] (the logits of its key and its query with the
landmarks, [m, H] each, and its value) if fixed landmarks are folded into the projections, else [q, k, v].
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from nystream.stream.cpu import continual, full, sliding
from nystream.stream.cpu.lanes import dots, softmax, spread
from nystream.stream.cpu.memory import Rows, Scratch, row
from nystream.stream.cpu.plan import CONTINUAL, FIXED
from nystream.stream.cpu.rows import keep
from nystream.stream.cpu.simd import INNER, compiled


class Fixed(NamedTuple):
    """All blocks have fixed landmarks: the other attentions are not compiled."""

    unused: int


class Continual(NamedTuple):
    """All blocks have continual landmarks."""

    unused: int


class Full(NamedTuple):
    """All blocks have full attention."""

    unused: int


class Mixed(NamedTuple):
    """Blocks of several kinds."""

    unused: int


@compiled
def filled(time: int, r: int, n: int) -> int:
    """Number of tokens in a ring of n after r more than `time`: between r and n, even if `time` is invalid."""
    return max(min(time, n - r), 0) + r


def attention(
    kinds: Any, block: Any, s: Any, rings: Any, time: int, w: Any, source: Rows, target: Rows, scratch: Scratch
) -> None:
    """Read the r rows of `source` and write those of `target`; `time` is the number of tokens before them.

    `rings` is the state, too, as a pointer of the type of its rings of keys and values.
    """
    raise NotImplementedError("for compiled code only")


@overload(attention, jit_options=INNER, strict=False)  # lambdas have no annotations
def _choose(
    kinds: Any, block: Any, s: Any, rings: Any, time: Any, w: Any, source: Any, target: Any, scratch: Any
) -> Any:
    def mixed(
        kinds: Any, block: Any, s: Any, rings: Any, time: int, w: Any, source: Rows, target: Rows, scratch: Scratch
    ) -> None:
        if block.kind == FIXED:
            _fixed(block, s, rings, time, w, source, target, scratch)
        elif block.kind == CONTINUAL:
            _continual(block, s, rings, time, source, target, scratch)
        else:
            _full(block, s, rings, time, source, target, scratch)

    choices = {
        Fixed: lambda kinds, block, s, rings, time, w, source, target, scratch: _fixed(
            block, s, rings, time, w, source, target, scratch
        ),
        Continual: lambda kinds, block, s, rings, time, w, source, target, scratch: _continual(
            block, s, rings, time, source, target, scratch
        ),
        Full: lambda kinds, block, s, rings, time, w, source, target, scratch: _full(
            block, s, rings, time, source, target, scratch
        ),
        Mixed: mixed,
    }
    return choices[kinds.instance_class] if isinstance(kinds, types.BaseNamedTuple) else None


@compiled
def _fixed(block: Any, s: Any, rings: Any, time: int, w: Any, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, m, heads, tile = block.window, block.update_size, block.landmarks, block.heads, block.tile
    width, folded, group = block.width, block.folded == 1, time // r
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        logit = s + (block.logits_at + slot * m * tile)
        if folded:
            spread(qkv, logit, m, heads, tile)
            value = qkv + 2 * m * heads
        else:
            dots(block, w + block.q_tilde_at, m, width, qkv + width, logit)
            value = qkv + 2 * width
        keep(value, rings + (block.values_at + slot * block.stride), width)
    values, size = rings + block.values_at, m * tile
    sliding.advance(block, s, values, group, scratch.floats)
    beta, weights = scratch.floats, scratch.floats + size
    for i in range(r):
        qkv = row(source, i)
        if folded:
            spread(qkv + m * heads, beta, m, heads, tile)
        else:
            dots(block, w + block.k_tilde_at, m, width, qkv, beta)
        softmax(block, beta, m)
        sliding.weigh(block, beta, w + block.gamma_pinv_at, weights + i * size)
    sliding.read(block, s, values, group, weights, target.first, target.stride, weights + r * size)


@compiled
def _continual(block: Any, s: Any, rings: Any, time: int, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, m, tile, width = block.window, block.update_size, block.landmarks, block.tile, block.width
    tokens, group = filled(time, r, n), time // r
    newest, renewed = 0, 0
    for i in range(r):
        qkv = row(source, i)
        keep(qkv + width, rings + (block.keys_at + (time + i) % n * block.stride), width)
        done = continual.collect(block, s, time + i, qkv, qkv + width)
        if done >= 0:
            newest, renewed = done, renewed + 1
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        dots(block, s + block.q_tilde_at, m, width, qkv + width, s + (block.logits_at + slot * m * tile))
        keep(qkv + 2 * width, rings + (block.values_at + slot * block.stride), width)
    values, size = rings + block.values_at, m * tile
    sliding.advance(block, s, values, group, scratch.floats)
    for back in range(renewed):
        continual.renew(block, s, rings, (newest + m - back) % m, tokens, group, scratch)
    if renewed and tokens == n:  # until then nothing reads it
        continual.renew_inverse(block, s, scratch)
    if tokens < n:  # there are no landmarks yet
        for i in range(r):
            full.attend(block, rings, tokens, time + r, row(source, i), scratch.floats, row(target, i))
        return
    beta, weights = scratch.floats, scratch.floats + size
    for i in range(r):
        dots(block, s + block.k_tilde_at, m, width, row(source, i), beta)
        softmax(block, beta, m)
        sliding.weigh(block, beta, s + block.gamma_pinv_at, weights + i * size)
    sliding.read(block, s, values, group, weights, target.first, target.stride, weights + r * size)


@compiled
def _full(block: Any, s: Any, rings: Any, time: int, source: Rows, target: Rows, scratch: Scratch) -> None:
    n, r, width = block.window, block.update_size, block.width
    for i in range(r):
        qkv, slot = row(source, i), (time + i) % n
        keep(qkv + width, rings + (block.keys_at + slot * block.stride), width)
        keep(qkv + 2 * width, rings + (block.values_at + slot * block.stride), width)
    for i in range(r):
        qkv, out = row(source, i), row(target, i)
        full.attend(block, rings, filled(time, r, n), time + r, qkv, scratch.floats, out)
