"""How fast is the GPU pool? Times of captured graphs, against the copy bandwidth of the same run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _gpu_checks import DEVICE, attention, gtzan
from torch import Tensor
from torch.nn.functional import linear, pad, scaled_dot_product_attention

import nystream as ns
from nystream.stream.gpu.landmarks import FixedAttention
from nystream.stream.gpu.launch import Call, Plan
from nystream.stream.owned import own_copy

AT_ONCE = 16_384  # streams; with more, there are more blocks than some kernels of torch can launch


def microseconds(function: Callable[[], object], repeats: int) -> float:
    """Time of one call on the device, the average of several."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / repeats


def median(function: Callable[[], object], repeats: int, rounds: int = 11) -> float:
    for _ in range(2):
        function()
    return sorted(microseconds(function, repeats) for _ in range(rounds))[rounds // 2]


def copy_bandwidth(gigabytes: int = 4) -> float:
    """Bytes per second that a copy reads and writes."""
    source = torch.empty(gigabytes << 30, dtype=torch.uint8, device=DEVICE).random_()
    target = torch.empty_like(source)
    return 2 * source.numel() / median(lambda: target.copy_(source), 4, 5) * 1e6


def captured(function: Callable[[], object]) -> Callable[[], None]:
    """A graph of what the function launches."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        function()
    return graph.replay


class Steps:
    """The attention of many streams, with random states and given logits of keys and weights of landmarks."""

    def __init__(self, sizes: tuple[int, int, int, int], streams: int, ring_dtype: str) -> None:
        n, d, heads, _ = sizes
        self.attention = FixedAttention(own_copy(attention("co-fixed-single", *sizes)), getattr(torch, ring_dtype))
        self.attention.allocate(streams)
        for leaf in self.attention.leaves.values():
            for part in leaf.split(1024):
                part.normal_()
        self.streams, self.n = streams, n
        self.time = torch.randint(n, 2 * n, (streams,), device=DEVICE)
        slots, refused = torch.arange(streams, device=DEVICE), torch.tensor(0, dtype=torch.int32, device=DEVICE)
        self.call = Call(slots, self.time, refused)
        values, logits = self.attention.ring_dtype, self.attention.tile.logit
        self.inputs = [
            (
                torch.randn(2, streams, 1, heads * logits.width, device=DEVICE),
                torch.randn(streams, 1, d, device=DEVICE).to(values),
            )
            for _ in range(3)
        ]

    def plan(self, *, advance: bool = False) -> Plan:
        return self.attention.plan(self.call, advance=advance)

    def attend(self, plan: Plan, which: int = 0) -> Tensor:
        (logit, query), value = self.inputs[which % 3]
        return self.attention.attend(logit, query, value, None, self.call, plan)

    def step(self, which: int = 0) -> None:
        self.attend(self.plan(advance=True), which)

    @property
    def bytes(self) -> float:
        """Bytes that a step of one stream moves, on average; its slot and time, and the plan, included."""
        return self.attention.bytes_per_step + 2 * 8 + 2 * 8 + 4 * 4

    @property
    def state_bytes(self) -> int:
        return 8 + sum(leaf[:1].nbytes for leaf in self.attention.leaves.values())


@torch.no_grad()
def attention_times(
    sizes: tuple[int, int, int, int], streams: int, ring_dtype: str, bandwidth: float | None
) -> dict[str, Any]:
    """Times of a step at mixed phases, of its parts, and of the slowest call if all streams have the same age."""
    steps, count = Steps(sizes, streams, ring_dtype), 12

    def several() -> None:
        for which in range(count):
            steps.step(which)

    taken = median(captured(several), 3) / count
    planning = median(captured(steps.plan), 20)
    steps.time.fill_(2 * sizes[0])
    one, cut = captured(steps.step), steps.attention.cut
    period = min(sizes[0], math.lcm(cut.edges, min(cut.tier, sizes[0])))
    calls = [median_of_phase(steps, one, 2 * sizes[0] + phase) for phase in range(period)]
    moved = steps.bytes * streams
    return {
        "n/d/heads/m": "/".join(map(str, sizes)),
        "streams": streams,
        "ring_dtype": ring_dtype,
        "edges": cut.edges,
        "tier": cut.tier,
        "microseconds": taken,
        "share_of_bandwidth": None if bandwidth is None else moved / (taken * 1e-6) / bandwidth,
        "bytes_per_step": steps.bytes,
        "bytes_per_stream": steps.state_bytes,
        "plan_microseconds": planning,
        "one_age_mean_microseconds": sum(calls) / len(calls),
        "one_age_worst_microseconds": max(calls),
        "worst_over_mean": max(calls) / (sum(calls) / len(calls)),
    }


def median_of_phase(steps: Steps, one: Callable[[], None], age: int) -> float:
    """The median time of a call of which all streams have this age."""
    times = []
    for _ in range(5):
        steps.time.fill_(age)
        torch.cuda._sleep(200_000)  # so that the call is on the device's queue when it starts
        times.append(microseconds(one, 1))
    return sorted(times)[2]


@torch.no_grad()
def pool_times(streams: int, calls: int, dtype: torch.dtype = torch.bfloat16) -> dict[str, Any]:
    """`push_many` of tensors on the device into a pool of the whole one-block GTZAN model."""
    pool = ns.StreamPool(gtzan("co-fixed-single", dtype), streams, backend="triton")
    ids = np.array([pool.open() for _ in range(streams)])
    x = torch.randn(streams, 128, device=DEVICE).to(dtype)
    return pool_figures(pool, ids, x, calls)


def pool_figures(pool: ns.StreamPool, ids: np.ndarray, x: Tensor, calls: int) -> dict[str, Any]:
    """Times of `push_many`, and the memory of the pool."""
    pool.push_many(ids, x)
    torch.cuda.synchronize()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        y = pool.push_many(ids, x)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    assert bool(y.isfinite().all())
    (graph,) = pool._backend._graphs._graphs.values()  # type: ignore[attr-defined]
    taken, device = sorted(times)[calls // 2], median(graph.graph.replay, 3, 5)
    return {
        "streams": len(ids),
        "dtype": str(x.dtype).removeprefix("torch."),
        "milliseconds": taken * 1e3,
        "graph_milliseconds": device / 1e3,
        "steps_per_second": len(ids) / taken,
        "bytes_per_stream": pool.bytes_per_stream,
        "gigabytes": torch.cuda.memory_allocated() / 1e9,
    }


@torch.no_grad()
def crowd_times(streams: int) -> dict[str, Any]:
    """`pool_times` of very many streams, of which the first and the last must say the same."""
    pool = ns.StreamPool(gtzan("co-fixed-single", torch.bfloat16), streams, backend="triton")
    ids = np.array([pool.open() for _ in range(streams)])
    x = torch.randn(streams, 128, device=DEVICE).to(torch.bfloat16)
    for _ in range(130):  # a whole window
        x = x.roll(1, 1)
        x[-1] = x[0]
        y = pool.push_many(ids, x)
    difference = float((y[0] - y[-1]).abs().max() / y[0].abs().max())
    assert difference < 0.05, f"the first and the last stream differ by {difference}"  # bfloat16 has three digits
    return {"first_minus_last": difference, **pool_figures(pool, ids, x, 5)}


@torch.no_grad()
def eager_times(streams: int, kernel: str, dtype: torch.dtype = torch.bfloat16) -> dict[str, Any]:
    """The same model with full attention in eager torch: rings of keys and values, written in place.

    With "sdpa", heads have the 12 dimensions of the model. With "padded sdpa", they have 16, because the fast kernels
    of SDPA need a multiple of eight and copy the rings otherwise. With "matmul", attention is two matrix products and
    a softmax.
    """
    model = gtzan("co-full-single", dtype)
    (block,), attn = model.encoder.blocks, model.encoder.blocks[0].attention
    weight, bias = (
        torch.cat([getattr(p, name) for p in (attn.q_proj, attn.k_proj, attn.v_proj)]) for name in ("weight", "bias")
    )
    width = 16 if kernel == "padded sdpa" else 12
    rings = pad(torch.randn(2, streams, 16, 120, 12, device=DEVICE).to(dtype), (0, width - 12))
    x = torch.randn(streams, 128, device=DEVICE).to(dtype)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if kernel != "matmul":
            return scaled_dot_product_attention(q, k, v, scale=12**-0.5)
        return (q @ k.mT * 12**-0.5).softmax(-1) @ v

    def step() -> Tensor:
        h = model.input_proj(x) + model.positions.table[7]
        qkv = pad(linear(block.norm1(h), weight, bias).view(streams, 3, 16, 12), (0, width - 12))
        rings[:, :, :, 7] = qkv[:, 1:].transpose(0, 1)
        pieces = zip(qkv[:, 0].unsqueeze(2).split(AT_ONCE), *(ring.split(AT_ONCE) for ring in rings), strict=True)
        row = torch.cat([attend(*piece) for piece in pieces])[..., :12]
        return model.head(model.encoder.norm(block.finish(h, attn.out_proj(row.flatten(1)))))

    taken = median(step, 2, 5)
    return {
        "streams": streams,
        "dtype": str(dtype).removeprefix("torch."),
        "milliseconds": taken / 1e3,
        "steps_per_second": streams / taken * 1e6,
    }
