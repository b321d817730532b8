"""Is the GPU pool right, at the sizes that are timed? Against float64, at mixed phases, with outliers."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nystream as ns
from nystream.stream.backends.torch import TorchBackend
from nystream.stream.backends.triton import TritonBackend
from nystream.stream.gpu.model import Streams
from nystream.stream.owned import own_copy

DEVICE = "cuda"
OUTLIER = 100.0  # the largest logit of an outlier


def attention(variant: str, n: int, d: int, heads: int, m: int, **options: Any) -> ns.MultiheadAttention:
    """An attention whose values are its inputs, so that rings of bfloat16 lose nothing of bfloat16 inputs."""
    torch.manual_seed(0)
    options = {"pinv": "ridge"} | options
    cfg = ns.AttentionConfig(variant, embed_dim=d, num_heads=heads, window=n, landmarks=m, **options)
    attn = ns.MultiheadAttention(cfg).eval().requires_grad_(False)
    attn.v_proj.weight.copy_(torch.eye(d))
    attn.v_proj.bias.zero_()
    if cfg.fixed:
        attn.set_landmarks(*torch.randn(2, heads, m, d // heads))
    return attn.to(DEVICE)


def error(out: Tensor, expected: Tensor) -> float:
    """The largest error of a row, relative to its norm."""
    rows = (out.double() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1).clamp(min=1e-30)
    return largest([rows])


def largest(errors: Iterable[Tensor]) -> float:
    """The largest of all errors; infinite if there is a NaN, which `max` of Python would pass over."""
    return float(torch.cat([error.flatten() for error in errors]).nan_to_num(torch.inf).max())


def tokens(attn: ns.MultiheadAttention, streams: int, length: int, r: int) -> Tensor:
    """[streams, length, r, E], exact in bfloat16, with outliers in the first third."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    x = torch.randn(streams, length, r, attn.config.embed_dim, device=DEVICE, generator=generator)
    if attn.config.fixed:
        k = attn.k_proj(x).unflatten(-1, (attn.config.num_heads, -1))
        largest = torch.einsum("...hd,hid->...hi", k, attn.q_tilde).abs().amax((-1, -2)) * attn.config.scale
        wild = torch.rand(largest.shape, device=DEVICE, generator=generator) < 0.05
        wild[:, length // 3 :] = False
        x = x * torch.where(wild, OUTLIER / largest, 1.0)[..., None]
    return x.bfloat16().float()


def check_attention(variant: str, sizes: tuple[int, int, int, int], ring_dtype: str, **options: Any) -> float:
    """The largest relative error of 48 streams, opened one turn after another."""
    attn = attention(variant, *sizes, **options)
    n, r, streams = sizes[0], attn.config.update_size, 48
    length = n // r * 3 // 2 + 8
    x = tokens(attn, streams, length, r)
    kept = Streams(own_copy(attn), streams, getattr(torch, ring_dtype))
    late = torch.arange(streams, device=DEVICE) * 7 % 29
    out = torch.full_like(x, torch.nan)
    with torch.no_grad():
        for turn in range(length + 29):
            mine = turn - late
            active = (mine >= 0) & (mine < length)
            at = mine.clamp(0, length - 1)
            rows = torch.arange(streams, device=DEVICE)
            y, accepted = kept.step(torch.where(active, rows, -1), x[rows, at])
            assert bool(accepted)
            out[rows[active], at[active]] = y[active]
        double = copy.deepcopy(attn).double()
        worst = 0.0
        for row in range(0, streams, 6):
            expected = double.steps(x[row : row + 1].double().flatten(1, 2), double.init_state(1))[0]
            worst = max(worst, error(out[row], expected.reshape(length, r, -1)))
    return worst


def gtzan(variant: str, dtype: torch.dtype = torch.float32, **options: Any) -> ns.StreamModel:
    """The model of the GTZAN experiments with one block, and random weights."""
    torch.manual_seed(0)
    landmarks = None if variant == "co-full-single" else 4
    cfg = ns.AttentionConfig(variant, 192, 16, 120, landmarks, pinv="ridge")
    config = ns.ModelConfig(input_dim=128, output_dim=10, attention=cfg, ff_dim=192, **options)
    model = ns.StreamModel(config).eval().requires_grad_(False)
    for block in model.encoder.blocks:
        if block.attention.config.fixed:
            block.attention.set_landmarks(*torch.randn(2, 16, 4, 12))
    return model.to(DEVICE, dtype)


def check_model(
    dtype: torch.dtype, variant: str = "co-fixed-single", streams: int = 100, length: int = 150, **options: Any
) -> float:
    """A pool with graphs: batches of any size, padding, tensors on the device, a rejected batch."""
    model = gtzan(variant, dtype, **options)
    pool = ns.StreamPool(model, 64, backend="triton")
    rng = np.random.default_rng(0)
    x = torch.randn(streams, length, 128, device=DEVICE).to(dtype)
    sids = [pool.open() for _ in range(streams)]
    done, outs = [0] * streams, [[] for _ in range(streams)]
    while min(done) < length:
        some = [row for row in rng.permutation(streams)[: rng.integers(1, streams + 1)] if done[row] < length]
        if not some:
            continue
        batch = torch.stack([x[row, done[row]] for row in some])
        if rng.random() < 0.02:
            spoiled = batch.clone()
            spoiled[0, 3] = torch.nan
            try:
                pool.push_many([sids[row] for row in some], spoiled)
            except ValueError:
                pass
            else:
                raise AssertionError("a NaN was accepted")
        y = pool.push_many([*(sids[row] for row in some), -1], torch.cat([batch, batch[:1]]))
        assert y.device.type == DEVICE
        assert not y[-1].any()
        for row, out in zip(some, y, strict=False):
            outs[row].append(out)
            done[row] += 1
    double, errors = copy.deepcopy(model).double(), []
    for row in range(0, streams, 9):
        expected = double.steps(x[row : row + 1].double(), double.init_state(1))[0][0]
        errors.append((torch.stack(outs[row]).double() - expected).abs() / expected.abs().max())
    return largest(errors)


def check_growth(turns: int = 150) -> float:
    """Streams that are opened while others run, in a pool that grows, so that its graphs are captured again."""
    model = gtzan("co-fixed-single")
    pool, double = ns.StreamPool(model, 2, backend="triton"), copy.deepcopy(model).double()
    x = torch.randn(turns, 128, device=DEVICE)
    sids, outs = [], []
    for turn in range(turns):
        if turn % 30 == 0:
            sids += [pool.open() for _ in range(3)]
            outs += [[], [], []]
        rows = pool.push_many(sids, torch.stack([x[len(out)] for out in outs]))
        for out, row in zip(outs, rows, strict=True):
            out.append(row)
    expected = double.steps(x[None].double(), double.init_state(1))[0][0]
    return largest((torch.stack(out).double() - expected[: len(out)]).abs() / expected.abs().max() for out in outs)


def check_snapshots(variant: str, turns: int = 400) -> float:
    """A stream moves to the torch backend and back, in a slot whose ring is rotated."""
    model = own_copy(gtzan(variant))
    ours, theirs = TritonBackend(model, 8), TorchBackend(model, 8)
    x = np.random.default_rng(0).standard_normal((turns, 1, 1, 128)).astype(np.float32)
    y, z, errors = np.empty((1, 1, 10), np.float32), np.empty((1, 1, 10), np.float32), []
    one, two = np.array([5]), np.array([2])
    ours.clear(5)
    theirs.clear(2)
    for turn, token in enumerate(x):
        assert ours.push_many(one, token, y)
        assert theirs.push_many(two, token, z)
        errors.append(torch.from_numpy(np.abs(y - z) / np.abs(z).max()))
        if turn % 50 == 33:
            state = ours.read(5)
            ours.write(5, theirs.read(2))
            theirs.write(2, state)
    return largest(errors)
