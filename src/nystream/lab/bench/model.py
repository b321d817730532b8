"""The whole model, one stream: all contenders in turns, and the floor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nystream.lab.bench import check, floor
from nystream.lab.bench.contenders import FAMILIES, Contender, Pooled, Stepped
from nystream.lab.bench.peers import ContinualInference, RingCache, WindowRecompute
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import ModelSizes, build_model, tokens, twin
from nystream.lab.bench.timing import measure
from nystream.models.stream_model import StreamModel
from nystream.progress import Advance
from nystream.provenance import installed

NUM_TOKENS = 64  # different tokens, fed in turn
POOL, POOL_2 = "nystream pool, co-fixed", "nystream pool, co-fixed, 2 blocks"
INT8 = "nystream pool, int8"
READ, READ_WEIGHTS = "read weights and state", "read weights"
ORDER = (WindowRecompute, RingCache, ContinualInference, Stepped, Pooled)


def model(settings: BenchSettings, advance: Advance) -> Part:
    """Check all contenders, then time them in turns."""
    sizes = settings.sizes
    base = build_model(sizes, settings.seed)
    contenders, errors, skipped = checked(sizes, base, settings)
    pool = next(contender for contender in contenders if isinstance(contender, Pooled) and contender.name == POOL)
    what, weights = floor.weights(base, pool.pool._backend)
    nbytes = {READ: weights + pool.bytes_per_stream, READ_WEIGHTS: weights}
    feed = tokens(NUM_TOKENS, sizes.input_dim, settings.seed + 1)
    jobs = {contender.name: contender.job(feed) for contender in contenders}
    times = measure(jobs | floor.read_jobs(nbytes), settings.rounds, advance)
    rows: list[dict[str, Any]] = [
        {
            "name": contender.name,
            "blocks": contender.blocks,
            **errors[contender.name],
            **times[contender.name].to_dict(),
            "ratio": times[contender.name].median / times[POOL if contender.blocks == sizes.layers else POOL_2].median,
            "bytes_per_stream": contender.bytes_per_stream,
        }
        for contender in contenders
    ]

    def floor_of(job: str) -> dict[str, Any]:
        seconds = times[job].median
        return {
            "bytes": nbytes[job],
            "microseconds": seconds * 1e6,
            "gigabytes_per_second": nbytes[job] / seconds / 1e9,
            "pool_over_floor": times[POOL].median / seconds,
        }

    floors: dict[str, Any] = {"reads": what, **floor_of(READ_WEIGHTS), "with_state": floor_of(READ)}
    targets = []
    if settings.has_targets and pool.backend == "numba":
        ratios = {row["name"]: row["ratio"] for row in rows}
        targets.append(target("model, against recomputing the window", ratios["window recompute"], 30))
        if "continual-inference" in ratios:
            targets.append(target("model, against continual-inference", ratios["continual-inference"], 25))
        targets.append(target("model, against the floor", floors["pool_over_floor"], 3, at_least=False))
        targets.append(target("int8 weights, one stream", ratios[INT8], 0.75, at_least=False))
    return {"backend": pool.backend, "rows": rows, "skipped": skipped, "floor": floors}, targets


def checked(
    sizes: ModelSizes, base: StreamModel, settings: BenchSettings
) -> tuple[list[Contender], dict[str, dict[str, float]], list[dict[str, str]]]:
    """The contenders, with part of a stream read; their errors; and those that are not installed."""
    x = tokens(check.checked_tokens(sizes.window), sizes.input_dim, settings.seed)
    contenders: list[Contender] = []
    errors: dict[str, dict[str, float]] = {}
    skipped: list[dict[str, str]] = []

    def enter(
        contender: Contender, wanted: Tensor, name: str | None = None, tolerance: float = check.TOLERANCE
    ) -> dict[int, Tensor]:
        contender.name = name or contender.name
        outputs = check.outputs(contender, x, sizes.window)
        error = check.compare(contender.name, outputs, wanted, blocks=contender.blocks, tolerance=tolerance)
        errors[contender.name] = {"error": error}
        contenders.append(contender)
        return outputs

    # In a deep stack every block has its own window; torch's encoder and continual-inference have one for all.
    window_model = twin(base, sizes, "co-full-single", stack="paper")
    enter(WindowRecompute(window_model), check.expected(window_model, x))
    ring_model = twin(base, sizes, "co-full-single")
    enter(RingCache(ring_model), check.expected(ring_model, x))
    if installed("continual-inference") is None:
        skipped.append({"name": "continual-inference", "why": "pip install continual-inference"})
    else:
        post = twin(base, sizes, "co-full-single", stack="paper", norm="post")
        enter(ContinualInference(post), check.expected(post, x))
    for variant, family in FAMILIES.items():
        ours = twin(base, sizes, variant)
        wanted = check.expected(ours, x)
        steps = enter(Stepped(ours), wanted)
        pool = Pooled(ours, settings.backend)
        outputs = enter(pool, wanted)
        stepped = wanted.new_zeros(wanted.shape)
        for place, y in steps.items():
            stepped[place] = y
        than = f"model.step, {family}"
        errors[pool.name]["error_against_step"] = check.compare(pool.name, outputs, stepped, than, pool.blocks)
        if pool.name == POOL and pool.backend == "numba":
            for weights, tolerance in check.LIGHT.items():
                enter(Pooled(ours, settings.backend, weights), wanted, tolerance=tolerance)
    # continual-inference needs a window of two tokens for it, and takes minutes to fill a long one.
    if sizes.layers == 1 and 1 < sizes.window <= check.MAX_WHOLE and not settings.quick:
        _two_blocks(sizes, settings, enter, x)
    contenders.sort(key=lambda contender: (contender.blocks, ORDER.index(type(contender))))
    return contenders, errors, skipped


def _two_blocks(sizes: ModelSizes, settings: BenchSettings, enter: Callable[..., Any], x: Tensor) -> None:
    """Two blocks: continual-inference, which recomputes n rows per step, and a deep stack in the pool."""
    two = sizes.replace(layers=2)
    base = build_model(two, settings.seed)
    if installed("continual-inference") is not None:
        post = twin(base, two, "co-full-single", stack="paper", norm="post")
        enter(ContinualInference(post), check.expected(post, x), "continual-inference, 2 blocks")
    enter(Pooled(base, settings.backend), check.expected(base, x), POOL_2)
