"""How a step depends on the window: n = 16,384 against n = 128, and the memory per stream."""

from __future__ import annotations

from typing import Any

import torch

import nystream.testing as testing
from nystream.costs.state import state_bytes
from nystream.lab.bench import check
from nystream.lab.bench.alone import LARGE, NUM_TOKENS, Compiled
from nystream.lab.bench.contenders import Contender, Pooled
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import ModelSizes, build_attention, build_model, tokens
from nystream.lab.bench.timing import Times, measure
from nystream.progress import Advance

WINDOWS = (128, LARGE.window)
POOL, ALONE = "whole model", "attention alone"


def window(settings: BenchSettings, advance: Advance) -> Part:
    """Both windows, for the compiled attention alone and for the whole model in the pool."""
    rows, backend = [], ""
    for what in (ALONE, POOL):
        contenders: dict[int, Contender] = {}
        feeds = {}
        for n in WINDOWS:
            sizes = LARGE.replace(window=n)
            if what == POOL:
                contenders[n] = pool = filled_pool(sizes, settings)
                backend = pool.backend
                feeds[n] = tokens(NUM_TOKENS, sizes.input_dim, settings.seed + 1)
            else:
                contenders[n] = Compiled(build_attention(sizes, settings.seed))
                feeds[n] = tokens(NUM_TOKENS, 3 * sizes.embed_dim).unflatten(1, (3, -1))
                contenders[n].fill(feeds[n].repeat(n // NUM_TOKENS + 1, 1, 1))
        # The two windows take turns with each other only: a larger model beside them would push both out of the cache.
        jobs = {f"{n}": contender.job(feeds[n]) for n, contender in contenders.items()}
        times = measure(jobs, settings.rounds, lambda: advance(0.5))
        rows.append(_row(what, times, contenders))
    targets = [target(f"n = 16,384 against n = 128, {row['name']}", row["ratio"], 1.3, False) for row in rows]
    figures = {"d": LARGE.embed_dim, "heads": LARGE.num_heads, "m": LARGE.landmarks, "backend": backend, "rows": rows}
    return figures, targets if backend == "numba" else []


def _row(what: str, times: dict[str, Times], contenders: dict[int, Contender]) -> dict[str, Any]:
    short, long = (times[f"{n}"].median for n in WINDOWS)
    windows = {
        f"{n}": {
            **times[f"{n}"].to_dict(),
            "bytes_per_stream": contender.bytes_per_stream,
            "formula_bytes": formula_bytes(LARGE.replace(window=n)),
        }
        for n, contender in contenders.items()
    }
    return {"name": what, "windows": windows, "ratio": long / short}


def filled_pool(sizes: ModelSizes, settings: BenchSettings) -> Pooled:
    """A pool whose only stream has a full window, checked against `model.steps`."""
    model = build_model(sizes, settings.seed)
    pool = Pooled(model, settings.backend)
    x = tokens(sizes.window + check.NUM_ENDS, sizes.input_dim, settings.seed)
    pool.fill(x[: sizes.window])
    outputs = torch.stack([pool.output(pool.step(*pool.arguments(token))) for token in x[sizes.window :]])
    expected, _ = model.steps(x[None], model.init_state(1))
    error = testing.relative_error(outputs, expected[0, sizes.window :])
    check.refuse(f"{pool.name}, n = {sizes.window}", error, "model.steps")
    return pool


def formula_bytes(sizes: ModelSizes) -> int:
    """State of co-fixed-single: n (d + h m) numbers of tokens that will leave the window, and the partial sums."""
    return state_bytes(
        "co-fixed-single", sizes.window, sizes.embed_dim, sizes.landmarks, sizes.num_heads, form="partials"
    )
