"""The whole model, one stream: every contender side by side, and the floor under them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nystream.lab.bench import check, floor
from nystream.lab.bench.contenders import FAMILIES, Contender, Pooled, Stepped
from nystream.lab.bench.peers import ContinualInference, RingCache, WindowRecompute
from nystream.lab.bench.settings import BenchSettings, PartFigures, SpeedTarget
from nystream.lab.bench.sizes import ModelSizes, build_model, tokens, twin
from nystream.lab.bench.timing import TimedCall, measure
from nystream.models.stream_model import StreamModel
from nystream.progress import Advance
from nystream.provenance import installed

TOKENS = 64  # different tokens that are fed in turn
POOL, POOL_2 = "nystream pool, co-fixed", "nystream pool, co-fixed, 2 blocks"
READ, READ_WEIGHTS = "read weights and state", "read weights"


def model(settings: BenchSettings, advance: Advance) -> PartFigures:
    """Check all contenders, then time them in turns."""
    sizes = settings.sizes
    base = build_model(sizes, settings.seed)
    contenders, errors, skipped = checked(sizes, base, settings)
    pools = [one for one in contenders if isinstance(one, Pooled)]
    pool = next(one for one in pools if one.name == POOL)
    what, weights = floor.weights(base, pool.pool._backend)
    nbytes = {READ: weights + pool.bytes_per_stream, READ_WEIGHTS: weights}
    feed = tokens(TOKENS, sizes.input_dim, settings.seed + 1)
    jobs = {one.name: TimedCall(one.step, [one.arguments(x) for x in feed]) for one in contenders}
    times = measure(jobs | floor.read_jobs(nbytes), settings.rounds, advance)
    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "blocks": one.blocks,
            **errors[one.name],
            **times[one.name].to_dict(),
            "ratio": times[one.name].median / times[POOL if one.blocks == sizes.layers else POOL_2].median,
            "bytes_per_stream": one.bytes_per_stream,
        }
        for one in contenders
    ]
    floors = {
        "reads": what,
        "bytes": weights,
        "microseconds": times[READ_WEIGHTS].median * 1e6,
        "gigabytes_per_second": weights / times[READ_WEIGHTS].median / 1e9,
        "pool_over_floor": times[POOL].median / times[READ_WEIGHTS].median,
        "with_state": {
            "bytes": nbytes[READ],
            "microseconds": times[READ].median * 1e6,
            "gigabytes_per_second": nbytes[READ] / times[READ].median / 1e9,
            "pool_over_floor": times[POOL].median / times[READ].median,
        },
    }
    figures = {"backend": pool.backend, "rows": rows, "skipped": skipped, "floor": floors}
    return PartFigures(figures, _targets(settings, pool.backend, rows, floors))


def checked(
    sizes: ModelSizes, base: StreamModel, settings: BenchSettings
) -> tuple[list[Contender], dict[str, dict[str, float]], list[dict[str, str]]]:
    """The contenders in the middle of a stream, their errors, and who is missing."""
    x = tokens(check.checked_tokens(sizes.window), sizes.input_dim, settings.seed)
    contenders: list[Contender] = []
    errors: dict[str, dict[str, float]] = {}
    skipped: list[dict[str, str]] = []

    def enter(one: Contender, wanted: Tensor, name: str | None = None) -> dict[int, Tensor]:
        one.name = name or one.name
        found = check.outputs(one, x, sizes.window)
        errors[one.name] = {"error": check.compare(one.name, found, wanted, blocks=one.blocks)}
        contenders.append(one)
        return found

    # In a deep stack every block looks back on its own: torch's encoder and the package compute the window's.
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
        found = enter(pool, wanted)
        stepped = wanted.new_zeros(wanted.shape)
        for place, y in steps.items():
            stepped[place] = y
        than = f"model.step, {family}"
        errors[pool.name]["error_against_step"] = check.compare(pool.name, found, stepped, than, pool.blocks)
    # The package needs two tokens for it, and minutes to fill a long window.
    if sizes.layers == 1 and 1 < sizes.window <= check.WHOLE and not settings.quick:
        _two_blocks(sizes, settings, enter, x)
    order = (WindowRecompute, RingCache, ContinualInference, Stepped, Pooled)
    contenders.sort(key=lambda one: (one.blocks, order.index(type(one))))
    return contenders, errors, skipped


def _two_blocks(sizes: ModelSizes, settings: BenchSettings, enter: Callable[..., Any], x: Tensor) -> None:
    """Two blocks, where the package recomputes n rows a step, beside a deep stack of two in the pool."""
    two = sizes.replace(layers=2)
    base = build_model(two, settings.seed)
    if installed("continual-inference") is not None:
        post = twin(base, two, "co-full-single", stack="paper", norm="post")
        enter(ContinualInference(post), check.expected(post, x), "continual-inference, 2 blocks")
    enter(Pooled(base, settings.backend), check.expected(base, x), POOL_2)


def _targets(
    settings: BenchSettings, backend: str, rows: list[dict[str, Any]], floors: dict[str, Any]
) -> tuple[SpeedTarget, ...]:
    """What is promised for the model of the GTZAN task, compiled."""
    if not settings.promised or backend != "numba":
        return ()
    ratio = {row["name"]: row["ratio"] for row in rows}
    found = [SpeedTarget("model, against recomputing the window", ratio["window recompute"], 30, True)]
    if "continual-inference" in ratio:
        found.append(SpeedTarget("model, against continual-inference", ratio["continual-inference"], 25, True))
    return (*found, SpeedTarget("model, against the floor", floors["pool_over_floor"], 3, False))
