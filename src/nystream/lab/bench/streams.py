"""Many streams of one model: tokens per second, pushed one by one, all at once, and as one batch in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import nystream.state as states
from nystream.lab.bench import check
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import build_model, tokens
from nystream.lab.bench.timing import TimedCall, measure, threads
from nystream.models.stream_model import StreamModel
from nystream.progress import Advance

PUSH, PUSH_MANY = "push, one by one", "push_many"
BATCH, BATCH_1 = "torch, one batch", "torch, one batch, one thread"
NUM_PHASES = 16  # different phases of the streams
NUM_FEEDS = 4  # different tokens of each stream, fed in turn
MEMORY_SHARE = 0.6  # of the free memory that may be used
JOB_SECONDS = 2.0  # approximate time per job
TURN_SECONDS = 0.04  # long enough for sleeping cores to wake up, because throughput is measured
BATCHED = "model.step in one batch"


def streams(settings: BenchSettings, advance: Advance) -> Part:
    """All numbers of streams that fit into memory."""
    model = build_model(settings.sizes, settings.seed)
    rows, skipped, backend = [], [], ""
    for count in sorted(set(settings.streams)):
        needed = count * 2 * states.nbytes(model.init_state(1))
        if needed > MEMORY_SHARE * free_memory():
            skipped.append({"streams": count, "why": f"needs about {needed / 1e9:.1f} GB of memory"})
            advance(max(settings.rounds // 8, 1))
            continue
        row, backend = measure_streams(model, count, settings, advance)
        rows.append(row)
    targets = [
        target("1,024 streams, push_many against one by one", row["many_over_one"], 4)
        for row in rows
        if row["streams"] == 1024 and settings.has_targets and backend == "numba"
    ]
    return {"backend": backend, "threads": settings.cores, "rows": rows, "skipped": skipped}, targets


def measure_streams(
    model: StreamModel, count: int, settings: BenchSettings, advance: Advance
) -> tuple[dict[str, Any], str]:
    """Step `count` streams at different phases in three ways: check that they agree, then time them in turns."""
    from nystream.stream import StreamPool

    pool = StreamPool(model, capacity=count, backend=settings.backend)
    if hasattr(pool._backend, "threads"):
        pool._backend.threads = settings.cores
    ids, batch = _started(pool, model, count, settings.seed)
    feeds = [tokens(count, model.config.input_dim, settings.seed + 2 + turn) for turn in range(NUM_FEEDS)]
    in_torch = pool.backend == "torch"  # a compiled pool has its own threads

    def one_by_one(x: Any) -> Any:
        if in_torch:
            torch.set_num_threads(1)
        return [pool.push(stream, token) for stream, token in zip(ids, x, strict=True)]

    def many(x: Any) -> Any:
        if in_torch:
            torch.set_num_threads(settings.cores)
        return pool.push_many(ids, x)

    def at_once(x: torch.Tensor, cores: int = 1) -> Any:
        nonlocal batch
        torch.set_num_threads(cores)
        y, batch = model.step(x, batch, inplace=True)
        return y

    for feed, name, push in ((feeds[0], PUSH, one_by_one), (feeds[1], PUSH_MANY, many)):
        outputs = {place: torch.from_numpy(y).double() for place, y in enumerate(push(feed.numpy()))}
        check.compare(name, outputs, at_once(feed).double(), BATCHED, settings.sizes.layers)

    arrays = [(x.numpy(),) for x in feeds]
    jobs = {
        PUSH: TimedCall(one_by_one, arrays),
        PUSH_MANY: TimedCall(many, arrays),
        BATCH_1: TimedCall(at_once, [(x, 1) for x in feeds]),
    }
    if settings.cores > 1:
        jobs[BATCH] = TimedCall(at_once, [(x, settings.cores) for x in feeds])
    with threads(settings.cores):
        times = measure(jobs, max(settings.rounds // 8, 1), advance, JOB_SECONDS, TURN_SECONDS)
    rates = {name: count / job_times.median for name, job_times in times.items()}
    row = {
        "streams": count,
        "bytes_per_stream": int(pool.bytes_per_stream),
        "one_by_one_steps_per_second": rates[PUSH],
        "push_many_steps_per_second": rates[PUSH_MANY],
        "torch_batch_one_thread_steps_per_second": rates[BATCH_1],
        "torch_batch_steps_per_second": max(rates[BATCH_1], rates.get(BATCH, 0.0)),
        "many_over_one": times[PUSH].median / times[PUSH_MANY].median,
    }
    return row, str(pool.backend)


def free_memory() -> float:
    """Available memory in bytes; infinite where the system does not report it."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return float("inf")


def _started(pool: Any, model: StreamModel, count: int, seed: int) -> tuple[list[Any], Any]:
    """`count` streams with full windows, their phases spread over a cycle: in the pool, and as one batch of states."""
    n = model.config.window
    x = tokens(2 * n, model.config.input_dim, seed)
    phases = min(count, NUM_PHASES)
    ids, snapshots, started = [], [], []
    for phase in range(phases):
        seen = x[: n + phase * n // phases]
        started.append(model.advance(seen[None], model.init_state(1)))
        ids.append(pool.open())
        for token in seen.numpy():
            pool.push(ids[-1], token)
        snapshots.append(pool.snapshot(ids[-1]))
    ids += [pool.restore(snapshots[place % phases]) for place in range(phases, count)]
    return ids, states.stack([started[place % phases] for place in range(count)])
