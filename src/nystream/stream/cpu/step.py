"""One step of a whole model, from tokens to outputs, for several streams in one compiled call.

Dense layers run on the rows of all streams together, so that they share each load of the weights; attentions run on
one stream after another.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from nystream.stream.cpu import sliding
from nystream.stream.cpu.attention import Continual, Fixed, Full, Mixed, attention
from nystream.stream.cpu.dense import PANEL
from nystream.stream.cpu.memory import (
    Rows,
    Scratch,
    block_at,
    doubles_at,
    floats_at,
    halves_at,
    ints_at,
    model_at,
    pointer_to,
    row,
    same_at,
    wide_block_at,
)
from nystream.stream.cpu.path import path
from nystream.stream.cpu.plan import BLOCK, FULL, Features
from nystream.stream.cpu.rows import add, copy, finite, gelu, layer_norm, relu, scale
from nystream.stream.cpu.simd import INNER, cached, compiled
from nystream.stream.cpu.weights import BFloat16, Float32, Int8, dense

BLOCK_BYTES = BLOCK.itemsize


class Batch(NamedTuple):
    """Streams low ... high − 1 of an array of addresses of states."""

    addresses: Any
    low: int
    high: int


class Work(NamedTuple):
    """Scratch memory of a step: rows have one for each token; the rest is used by one stream after another."""

    x: Rows  # the input of a block, then its output
    branch: Rows  # x after a norm, or what is added to x
    wide: Rows  # projections, or hidden units
    heads: Rows  # outputs of the attention
    path: Rows  # outputs of the linear path
    features: Any  # of the linear path, for one token; None if there is none
    kind: Any  # of the weights of dense layers
    attentions: Any  # kinds of attention
    rings: Any  # a pointer of their type
    block: Any  # the plan of the first block; its type tells how wide vectors are
    scratch: Scratch


@compiled
def _paths(features: Any, plan: Any, w: Any, batch: Batch, work: Work, rows: int) -> None:
    """Compute the linear path, and add its embedding to work.x."""
    out = work.x
    for i in range(rows):
        address = batch.addresses[batch.low + i]
        path(plan, w, floats_at(address), ints_at(address)[0], row(work.wide, i), features, row(work.path, i))
    if plan.path_embedded == 1:
        dense(work.kind, w, plan.path_embed, work.path, work.branch, rows)
        add(work.branch.first, out.first, rows * out.stride)


def paths(features: Any, plan: Any, w: Any, batch: Batch, work: Work, rows: int) -> None:
    """`_paths` of a model that has a linear path; for others it is not compiled."""
    raise NotImplementedError("for compiled code only")


@overload(paths, jit_options=INNER, strict=False)
def _choose_paths(features: Any, plan: Any, w: Any, batch: Any, work: Any, rows: Any) -> Any:
    if isinstance(features, types.NoneType):
        return lambda features, plan, w, batch, work, rows: None
    return lambda features, plan, w, batch, work, rows: _paths(features, plan, w, batch, work, rows)


@compiled
def _embed(plan: Any, w: Any, batch: Batch, x: Any, work: Work) -> None:
    """Write the embeddings of the tokens to work.x."""
    inputs, r, width, out = plan.input_dim, plan.update_size, plan.embed_dim, work.x
    rows = (batch.high - batch.low) * r
    tokens = x + batch.low * r * inputs
    for i in range(rows):
        if plan.has_ends == 1:
            scale(tokens + i * inputs, w + plan.scaler_at, inputs, row(work.wide, i))
        else:
            copy(tokens + i * inputs, row(out, i), inputs)
    if plan.has_ends == 1:
        dense(work.kind, w, plan.input_proj, work.wide, out, rows)
    paths(work.features, plan, w, batch, work, rows)
    if plan.positions:
        for i in range(rows):
            time = ints_at(batch.addresses[batch.low + i // r])[0] + i % r
            add(w + (plan.positions_at + time % plan.positions * width), row(out, i), width)


@compiled
def _norm(plan: Any, weight: Any, source: Rows, target: Rows, rows: int) -> None:
    for i in range(rows):
        layer_norm(weight, plan.embed_dim, plan.norm_eps, row(source, i), row(target, i))


@compiled
def _block(plan: Any, block: Any, w: Any, batch: Batch, work: Work) -> None:
    """Replace the rows of work.x by the output of a block."""
    r, x, branch, wide = plan.update_size, work.x, work.branch, work.wide
    rows, pre, feed_forward = (batch.high - batch.low) * r, block.pre_norm == 1, block.has_feed_forward == 1
    source = x
    if feed_forward and pre:
        _norm(plan, w + block.norm1_at, x, branch, rows)
        source = branch
    dense(work.kind, w, block.qkv, source, wide, rows)
    for stream in range(batch.low, batch.high):
        if stream + 1 < batch.high and block.kind != FULL:
            after = batch.addresses[stream + 1]
            values = same_at(work.rings, after) + block.values_at
            sliding.prefetch_step(block, floats_at(after), values, ints_at(after)[0] // r)
        address, first = batch.addresses[stream], (stream - batch.low) * r
        qkv, heads = Rows(row(wide, first), wide.stride), Rows(row(work.heads, first), work.heads.stride)
        s, rings, time = floats_at(address), same_at(work.rings, address), ints_at(address)[0]
        attention(work.attentions, block, s, rings, time, w, qkv, heads, work.scratch)
    dense(work.kind, w, block.out, work.heads, branch, rows)
    if not feed_forward:
        copy(branch.first, x.first, rows * x.stride)
        return
    add(branch.first, x.first, rows * x.stride)
    source = x
    if pre:
        _norm(plan, w + block.norm2_at, x, branch, rows)
        source = branch
    else:
        _norm(plan, w + block.norm1_at, x, x, rows)
    dense(work.kind, w, block.linear1, source, wide, rows)
    for i in range(rows):
        if block.gelu == 1:
            gelu(row(wide, i), block.linear1.panels * PANEL)
        else:
            relu(row(wide, i), block.linear1.panels * PANEL)
    dense(work.kind, w, block.linear2, wide, branch, rows)
    add(branch.first, x.first, rows * x.stride)
    if not pre:
        _norm(plan, w + block.norm2_at, x, x, rows)


@compiled
def _run(plan: Any, w: Any, batch: Batch, work: Work, x: Any, y: Any) -> None:
    """Read the tokens of a batch from x, and write their outputs to y."""
    r, outputs, hidden, wide = plan.update_size, plan.output_dim, work.x, work.wide
    rows = (batch.high - batch.low) * r
    _embed(plan, w, batch, x, work)
    for index in range(plan.depth):
        _block(plan, same_at(work.block, plan.blocks + index * BLOCK_BYTES), w, batch, work)
    if plan.has_norm == 1:
        _norm(plan, w + plan.norm_at, hidden, hidden, rows)
    out = y + batch.low * r * outputs
    if plan.has_ends == 1:
        dense(work.kind, w, plan.head, hidden, wide, rows)
        scales = w + plan.unscaler_at
        means = scales + outputs
        for i in range(rows):
            if plan.has_path == 1:
                add(row(work.path, i), row(wide, i), outputs)
            for k in range(outputs):
                out[i * outputs + k] = row(wide, i)[k] * scales[k] + means[k]
    else:
        for i in range(rows):
            copy(row(hidden, i), out + i * outputs, outputs)
    for stream in range(batch.low, batch.high):
        ints_at(batch.addresses[stream])[0] += r


def _digest() -> str:
    """Hash the source code of all kernels."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


class Entries(NamedTuple):
    """The functions that Python calls."""

    push: Any
    rebuild: Any


@cache
def entries(features: Features) -> Entries:
    """The functions for models with these features, cached on disk.

    Numba decides by the date of one file whether its cache is valid, but the kernels are in several files. Their digest
    is therefore a variable of each function, and so part of the key of the cache. So are the features: Numba drops
    branches on them before it compiles.
    """
    digest = DIGEST
    bfloat16, int8, halves = features.weights == "bfloat16", features.weights == "int8", features.rings == "bfloat16"
    fixed, continual, full = (features.attentions == kind for kind in ("fixed", "continual", "full"))
    has_path, sixteen = features.path, features.wide

    @cached
    def push(plan_at: int, room: int, times: int, addresses: Any, low: int, high: int, x: Any, y: Any) -> bool:
        """Step streams low ... high − 1 of a batch; return False, with nothing changed, if a token is not finite.

        This is the only large function, so that there is only one to compile. `times` is for measurements.
        """
        plan = model_at(plan_at)
        tokens, outputs, size = pointer_to(x), pointer_to(y), plan.update_size * plan.input_dim
        if len(digest) == 0 or not finite(tokens + low * size, (high - low) * size):
            return False
        rows, narrow, wide = (high - low) * plan.update_size, plan.stride, plan.wide_stride
        hidden = floats_at(room + 8 * plan.scratch_doubles)
        branch = hidden + rows * narrow
        projected = branch + rows * narrow
        heads = projected + rows * wide
        paths_at = heads + rows * wide
        features_at = paths_at + rows * plan.path_stride
        integers = features_at + plan.path_features
        scratch = Scratch(integers + rows * plan.integers_stride, doubles_at(room))
        inputs = Rows(integers, plan.integers_stride)
        work = Work(
            Rows(hidden, narrow),
            Rows(branch, narrow),
            Rows(projected, wide),
            Rows(heads, wide),
            Rows(paths_at, plan.path_stride),
            features_at if has_path else None,
            BFloat16(inputs) if bfloat16 else (Int8(inputs) if int8 else Float32(inputs)),
            Fixed(0) if fixed else (Continual(0) if continual else (Full(0) if full else Mixed(0))),
            halves_at(room) if halves else floats_at(room),
            wide_block_at(plan.blocks) if sixteen else block_at(plan.blocks),
            scratch,
        )
        w, batch = floats_at(plan.weights), Batch(addresses, low, high)
        for _ in range(times):
            _run(plan, w, batch, work, tokens, outputs)
        return True

    @cached
    def rebuild(plan_at: int, room: int, address: int) -> None:
        """Compute everything that follows from the rings of a state."""
        plan, time, s = model_at(plan_at), ints_at(address)[0], floats_at(address)
        first = wide_block_at(plan.blocks) if sixteen else block_at(plan.blocks)
        rings = halves_at(address) if halves else floats_at(address)
        if len(digest) == 0 or full or time == 0:
            return
        for index in range(plan.depth):
            block = same_at(first, plan.blocks + index * BLOCK_BYTES)
            if block.kind != FULL:
                newest, scratch = time // plan.update_size - 1, floats_at(room + 8 * plan.scratch_doubles)
                sliding.rebuild(block, s, rings + block.values_at, newest, 0, block.landmarks, scratch)

    return Entries(push, rebuild)


def _all_finite(digest: str) -> Any:
    @cached
    def all_finite(x: Any) -> bool:
        return len(digest) > 0 and finite(pointer_to(x), x.shape[0])

    return all_finite


DIGEST = _digest()
all_finite = _all_finite(DIGEST)
