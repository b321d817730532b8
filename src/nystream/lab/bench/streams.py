"""Many streams of one model: stream-steps a second, pushed one by one, all at once, and as one batch in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import nystream.state as states
from nystream.lab.bench import check
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import build_model, tokens
from nystream.lab.bench.timing import TimedCall, measure, threads
from nystream.models.stream_model import StreamModel
from nystream.progress import Advance

ONE, MANY, BATCH, BATCH_1 = "push, one by one", "push_many", "torch, one batch", "torch, one batch, one thread"
PHASES = 16  # streams stand at so many different phases
FEEDS = 4  # different tokens that every stream is fed in turn
SHARE = 0.6  # of the memory that is free may be taken
SECONDS = 2.0  # about how long one way to push so many streams is timed
TURN = 0.04  # and at a stretch: what is asked is what goes through, so cores that slept are given time to wake
BATCHED = "model.step in one batch"


def streams(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Every number of streams that fits into memory."""
    model = build_model(settings.sizes, settings.seed)
    rows, skipped, backend = [], [], ""
    for count in sorted(set(settings.streams)):
        needed = count * 2 * states.nbytes(model.init_state(1))
        if needed > SHARE * free_memory():
            skipped.append({"streams": count, "why": f"needs about {needed / 1e9:.1f} GB of memory"})
            advance(max(settings.rounds // 8, 1))
            continue
        row, backend = crowd(model, count, settings, advance)
        rows.append(row)
    targets = [
        SpeedTarget("1,024 streams, push_many against one by one", row["many_over_one"], 4, True)
        for row in rows
        if row["streams"] == 1024 and settings.promised and backend == "numba"
    ]
    figures = {"backend": backend, "threads": settings.cores, "rows": rows, "skipped": skipped}
    return PartFigures(figures, tuple(targets))


def crowd(model: StreamModel, count: int, settings: BenchSettings, advance: Advance) -> tuple[dict[str, Any], str]:
    """So many streams, each at a phase of its own: checked against each other, then timed in turns."""
    from nystream.stream import StreamPool

    started = _started(model, min(count, PHASES), settings.seed)
    pool = StreamPool(model, capacity=count, backend=settings.backend)
    if hasattr(pool._backend, "threads"):
        pool._backend.threads = settings.cores
    ids = _opened(pool, model, started, count, settings.seed)
    batch = states.stack([started[place % len(started)] for place in range(count)])
    width = model.config.input_dim
    feeds = [tokens(count, width, settings.seed + 2 + turn) for turn in range(FEEDS)]

    in_torch = pool.backend == "torch"  # a compiled pool has threads of its own

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

    # All three have seen the same tokens: what each says about the next ones must be the same.
    first = feeds[0].numpy()
    alone = torch.stack([torch.from_numpy(y) for y in one_by_one(first)])
    wanted = at_once(feeds[0])
    check.compare(ONE, dict(enumerate(alone.double())), wanted.double(), BATCHED, settings.sizes.layers)
    wanted = at_once(feeds[1])
    together = torch.from_numpy(many(feeds[1].numpy()))
    check.compare(MANY, dict(enumerate(together.double())), wanted.double(), BATCHED, settings.sizes.layers)

    arrays = [(x.numpy(),) for x in feeds]
    jobs = {
        ONE: TimedCall(one_by_one, arrays),
        MANY: TimedCall(many, arrays),
        BATCH_1: TimedCall(at_once, [(x, 1) for x in feeds]),
    }
    if settings.cores > 1:
        jobs[BATCH] = TimedCall(at_once, [(x, settings.cores) for x in feeds])
    with threads(settings.cores):
        times = measure(jobs, max(settings.rounds // 8, 1), advance, SECONDS, TURN)
    rates = {name: count / found.median for name, found in times.items()}
    row: dict[str, Any] = {"streams": count, "bytes_per_stream": int(pool.bytes_per_stream)}
    row |= {"one_by_one_steps_per_second": rates[ONE], "push_many_steps_per_second": rates[MANY]}
    row["torch_batch_one_thread_steps_per_second"] = rates[BATCH_1]
    row["torch_batch_steps_per_second"] = max(rates[BATCH_1], rates.get(BATCH, 0.0))
    row["many_over_one"] = times[ONE].median / times[MANY].median
    return row, str(pool.backend)


def free_memory() -> float:
    """Bytes that are available, where the system says so."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return float("inf")


def _started(model: StreamModel, count: int, seed: int) -> list[Any]:
    """States of streams with full windows, spread over a cycle."""
    n = model.config.window
    x = tokens(2 * n, model.config.input_dim, seed)[None]
    return [model.advance(x[:, : n + place * n // count], model.init_state(1)) for place in range(count)]


def _opened(pool: Any, model: StreamModel, started: list[Any], count: int, seed: int) -> list[Any]:
    """Streams of the pool at the same places: each start is pushed once, its copies are restored from a snapshot."""
    n = model.config.window
    x = tokens(2 * n, model.config.input_dim, seed).numpy()
    blobs = []
    ids = []
    for place in range(len(started)):
        stream = pool.open()
        for token in x[: n + place * n // len(started)]:
            pool.push(stream, token)
        ids.append(stream)
        blobs.append(pool.snapshot(stream))
    ids += [pool.restore(blobs[place % len(blobs)]) for place in range(len(ids), count)]
    return ids
