"""Kernels that prepare what the others read: the runs of `band`, and the rings and logits of `prepare`."""

from __future__ import annotations

import triton
import triton.language as tl

from nystream.ops.triton.tiles import LOG2E


@triton.jit
def window(time, end, t, N):
    """First and last place of the windows of queries t, as in `Timeline`."""
    until = tl.load(end + t)
    last = N + t + (until - tl.load(time + t)).to(tl.int32)
    return last - tl.minimum(until, N).to(tl.int32) + 1, last


@triton.jit
def runs(time, end, first_key, last_key, first_query, last_query, N, T, STEPS, BLOCK: tl.constexpr):
    """All runs; those of the keys by bisection, since both ends of the windows only move forward."""
    S = N + T
    tiles = tl.cdiv(S, BLOCK)
    b = (tl.program_id(0) // tiles).to(tl.int64)
    place = tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)
    time += b * T
    end += b * T
    first, last = window(time, end, tl.minimum(place, T - 1), N)
    tl.store(first_key + b * T + place, first, mask=place < T)
    tl.store(last_key + b * T + place, last, mask=place < T)

    ended, begun = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32)  # the number of windows that have
    ended_most, begun_most = ended + T, begun + T
    for _ in range(STEPS):
        t = (ended + ended_most) // 2
        _, last = window(time, end, tl.minimum(t, T - 1), N)
        open_, before = ended < ended_most, last < place
        ended, ended_most = tl.where(open_ & before, t + 1, ended), tl.where(open_ & (last >= place), t, ended_most)
        t = (begun + begun_most) // 2
        first, _ = window(time, end, tl.minimum(t, T - 1), N)
        open_ = begun < begun_most
        begun, begun_most = (
            tl.where(open_ & (first <= place), t + 1, begun),
            tl.where(open_ & (first > place), t, begun_most),
        )
    tl.store(first_query + b * S + place, ended, mask=place < S)
    tl.store(last_query + b * S + place, begun - 1, mask=place < S)


SAMPLE = tl.constexpr(64)  # logits, to know how large they are
LARGEST = tl.constexpr(3e38)  # about the largest number that is finite


@triton.jit
def is_bad(x):
    """1 if any number is NaN or infinite, else 0."""
    return tl.max(tl.where(tl.abs(x.to(tl.float32)) < float("inf"), 0, 1), 0)


@triton.jit
def unroll(ring, piece, before, time, bad, N, TOKENS, SIZE, W: tl.constexpr, BLOCK: tl.constexpr, PIECE: tl.constexpr):
    """`tokens`: a program for each of the TOKENS of all rings, of W numbers, and for PIECE numbers of the piece."""
    program = tl.program_id(0)
    worst = 0
    if program < TOKENS:
        b = program // N
        slot = program % N
        if time is not None:
            slot = ((tl.load(time + b) + slot) % N).to(tl.int32)
        source = ring + (b * N + slot).to(tl.int64) * W
        target = before + program.to(tl.int64) * W
        for at in range(0, W, BLOCK):
            column = at + tl.arange(0, BLOCK)
            x = tl.load(source + column, mask=column < W, other=0.0)
            worst = tl.maximum(worst, is_bad(x))
            if time is not None:
                tl.store(target + column, x, mask=column < W)
    else:
        place = (program - TOKENS).to(tl.int64) * PIECE + tl.arange(0, PIECE)
        worst = is_bad(tl.load(piece + place, mask=place < SIZE, other=0.0))
    tl.store(bad, 1, mask=worst > 0)


@triton.jit
def to_base_two(ring, piece, out, time, bad, N, T, H, B, M: tl.constexpr, BLOCK: tl.constexpr):
    """`logarithms`: a program for each landmark of each row. Void tokens have −inf, which is not bad."""
    line = tl.program_id(0)  # of [H, M, B]
    b, j, h = line % B, line // B % M, line // B // M
    start = 0
    if time is not None:
        start = (tl.load(time + b) % N).to(tl.int32)
    ring += (b.to(tl.int64) * N * H + h) * M + j
    piece += line.to(tl.int64) * T
    out += line.to(tl.int64) * (N + T)
    i = tl.arange(0, SAMPLE)
    sample = tl.load(piece + i.to(tl.int64) * T // SAMPLE)
    sample = tl.sort(tl.where(tl.abs(sample) < float("inf"), sample, 0.0))
    median = tl.sum(tl.where(i == SAMPLE // 2, sample, 0.0), 0)
    worst = tl.zeros([BLOCK], tl.int32)
    for at in range(0, N, BLOCK):
        place = at + tl.arange(0, BLOCK)
        slot = ((start + place) % N).to(tl.int64)
        x = tl.load(ring + slot * (H * M), mask=place < N, other=float("-inf"))
        worst = tl.where(x < float("inf"), worst, 1)
        tl.store(out + place, tl.minimum((x - median) * LOG2E, LARGEST), mask=place < N)
    for at in range(0, T, BLOCK):
        place = at + tl.arange(0, BLOCK)
        x = tl.load(piece + place, mask=place < T, other=float("-inf"))
        worst = tl.where(x < float("inf"), worst, 1)
        tl.store(out + N + place, tl.minimum((x - median) * LOG2E, LARGEST), mask=place < T)
    tl.store(bad, 1, mask=tl.max(worst, 0) > 0)
