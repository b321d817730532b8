"""How a step depends on the window: n = 16,384 against n = 128, and what a stream costs in memory."""

from __future__ import annotations

from typing import Any

import torch

import nystream.testing as testing
from nystream.costs.state import state_bytes
from nystream.lab.bench import check
from nystream.lab.bench.alone import LARGE, TOKENS, flat, kernel
from nystream.lab.bench.contenders import Pooled
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import ModelSizes, build_attention, build_model, tokens
from nystream.lab.bench.timing import TimedCall, Times, measure
from nystream.progress import Advance

WINDOWS = (128, LARGE.window)
POOL, ALONE, STEPS = "whole model", "attention alone", "model.steps"


def window(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Both windows of the whole model in the pool, and of the compiled attention alone."""
    jobs: dict[str, TimedCall] = {}
    nbytes: dict[str, int] = {}
    skipped = []
    backend = ""
    for n in WINDOWS:
        sizes = LARGE.replace(window=n)
        pool = filled_pool(sizes, settings)
        backend = pool.backend
        feed = tokens(TOKENS, sizes.input_dim, settings.seed + 1)
        jobs[f"{POOL}, n = {n}"] = TimedCall(pool.step, [pool.arguments(x) for x in feed])
        nbytes[f"{POOL}, n = {n}"] = pool.bytes_per_stream
        compiled = kernel(build_attention(sizes, settings.seed))
        if isinstance(compiled, str):
            skipped = [{"name": ALONE, "why": compiled}]
            continue
        given = [flat(compiled, x.unflatten(0, (3, -1))) for x in tokens(TOKENS, 3 * sizes.embed_dim)]
        for place in range(n + 3):
            compiled.step(*given[place % TOKENS])
        jobs[f"{ALONE}, n = {n}"] = TimedCall(compiled.step, given)
        nbytes[f"{ALONE}, n = {n}"] = int(compiled.bytes_per_stream)
    # The two windows of one kind take turns with each other only: a larger model beside them would drive both out of
    # the cache, and time how long they take to come back.
    times: dict[str, Times] = {}
    for what in (ALONE, POOL):
        some = {name: job for name, job in jobs.items() if name.startswith(what)}
        times |= measure(some, settings.rounds, lambda: advance(0.5)) if some else {}
    rows: list[dict[str, Any]] = []
    for what in (ALONE, POOL):
        short, long = (f"{what}, n = {n}" for n in WINDOWS)
        if short in times:
            rows.append(
                {
                    "name": what,
                    "windows": {
                        str(n): {
                            **times[name].to_dict(),
                            "bytes_per_stream": nbytes[name],
                            "formula_bytes": formula(LARGE.replace(window=n)),
                        }
                        for n, name in zip(WINDOWS, (short, long), strict=True)
                    },
                    "ratio": times[long].median / times[short].median,
                }
            )
    targets = [SpeedTarget(f"n = 16,384 against n = 128, {row['name']}", row["ratio"], 1.3, False) for row in rows]
    figures: dict[str, Any] = {"d": LARGE.embed_dim, "heads": LARGE.num_heads, "m": LARGE.landmarks}
    figures |= {"backend": backend, "rows": rows, "skipped": skipped}
    return PartFigures(figures, tuple(targets) if backend == "numba" else ())


def filled_pool(sizes: ModelSizes, settings: BenchSettings) -> Pooled:
    """A pool whose one stream has a full window and gives the numbers of `model.step`."""
    model = build_model(sizes, settings.seed)
    pool = Pooled(model, settings.backend)
    x = tokens(sizes.window + check.ENDS, sizes.input_dim, settings.seed)
    pool.fill(x[: sizes.window])
    found = torch.stack([pool.output(pool.step(*pool.arguments(token))) for token in x[sizes.window :]])
    wanted, _ = model.steps(x[None], model.init_state(1))
    check.refuse(f"{pool.name}, n = {sizes.window}", testing.relative_error(found, wanted[0, sizes.window :]), STEPS)
    return pool


def formula(sizes: ModelSizes) -> int:
    """Bytes of a stream of co-fixed-single: n (d + h m) numbers for what will leave the window, and the partials."""
    return state_bytes(
        "co-fixed-single", sizes.window, sizes.embed_dim, sizes.landmarks, sizes.num_heads, form="partials"
    )
