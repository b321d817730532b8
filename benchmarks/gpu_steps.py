"""`steps` on a GPU, forward and backward: the fused kernels against torch, in time and memory.

    python benchmarks/gpu_steps.py            # checks, then times; written to results/gpu_steps.json
    python benchmarks/gpu_steps.py --tiles    # the time of every kernel with other tiles, to choose them; not written

Correct before fast: outputs and gradients are compared with torch in float64 before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import nystream as ns
from nystream import provenance
from nystream.ops import fused
from nystream.ops.attention import co_fixed_single, co_full_single
from nystream.ops.attention.common import Fixed, gamma_pinv
from nystream.ops.timeline import timeline

OUT = Path(__file__).resolve().parents[1] / "results" / "gpu_steps.json"
VARIANTS = {"co-fixed-single": co_fixed_single, "co-full-single": co_full_single}
WAYS = {"torch": "never", "kernels": "always"}
TOLERANCE = 1e-3  # of outputs and gradients, relative


def config(variant: str, d: int, heads: int, n: int, m: int = 16, **options: Any) -> ns.AttentionConfig:
    fixed = {"landmarks": m, "pinv": "ridge"} if variant == "co-fixed-single" else {}
    return ns.AttentionConfig(variant, d, heads, n, **fixed, **options)


def attention(cfg: ns.AttentionConfig) -> ns.MultiheadAttention:
    torch.manual_seed(0)
    attn = ns.MultiheadAttention(cfg)
    if cfg.fixed:
        attn.set_landmarks(*torch.randn(2, cfg.num_heads, cfg.m, cfg.head_dim))
        attn.learn_landmarks()
    return attn.cuda()


def errors(cfg: ns.AttentionConfig, tokens: int, size: float) -> dict[str, dict[str, float]]:
    """The largest relative error of outputs and of gradients, against torch in float64."""
    attn = attention(cfg)
    double = ns.MultiheadAttention(cfg, dtype=torch.float64, device="cuda")
    if cfg.fixed:
        double.learn_landmarks()
    double.load_state_dict(attn.state_dict())
    x, slope = torch.randn(2, 3, tokens, cfg.embed_dim, device="cuda")
    x[:, 37::211] *= size  # tokens that stand out
    reset = torch.zeros(3, tokens, dtype=torch.bool, device="cuda")
    reset[1, 13 * cfg.update_size] = True
    lengths = torch.tensor([tokens, tokens - 7 * cfg.update_size, tokens], device="cuda")

    def run(module: ns.MultiheadAttention, way: str) -> dict[str, Tensor]:
        dtype = module.q_proj.weight.dtype
        piece = x.to(dtype, copy=True).requires_grad_()
        with fused.kernels("never"), torch.no_grad():  # so that the streams are at different times
            before = x[:, : 12 * cfg.update_size].to(dtype)
            counts = torch.tensor([0, 5, 12], device="cuda") * cfg.update_size
            state = module.steps(before, module.init_state(3), lengths=counts)[1]
        with fused.kernels(way):  # type: ignore[arg-type]
            y, _ = module.steps(piece, state, lengths=lengths, reset=reset)
        module.zero_grad()
        (y * slope.to(dtype)).sum().backward()
        gradients = {
            name: weight.grad.double() for name, weight in module.named_parameters() if weight.grad is not None
        }
        assert piece.grad is not None
        return {"y": y.detach().double(), "x": piece.grad.double(), **gradients}

    exact = run(double, "never")
    floor = max(float(gradient.norm()) for name, gradient in exact.items() if name != "y") * 1e-3
    result = {}
    for name, way in WAYS.items():
        ours = run(attn, way)
        # A NaN counts as a large error: `max` would pass over it, and JSON has none.
        off = {key: float((ours[key] - exact[key]).norm().nan_to_num(1e30, 1e30)) for key in exact}
        of = {key: min(1e30, off[key] / max(float(exact[key].norm()), floor)) for key in exact}
        result[name] = {"output": of.pop("y"), "gradients": max(of.values())}
    return result


def check() -> list[dict[str, Any]]:
    rows = []
    for variant in VARIANTS:
        for n, d, heads, m, r, decay, size in (
            (128, 256, 4, 16, 1, False, 1.0),
            (128, 256, 4, 16, 1, True, 1.0),
            (100, 96, 8, 4, 1, True, 20.0),
            (96, 512, 4, 16, 3, True, 1.0),
            (512, 256, 4, 16, 1, False, 20.0),
            (128, 512, 4, 32, 1, True, 1.0),
        ):
            cfg = config(variant, d, heads, n, m, update_size=r, decay=decay)
            found = errors(cfg, 1002, size)
            # Where tokens stand out, float32 itself may be less exact than that.
            right = max(found["kernels"].values()) <= max(TOLERANCE, 3 * max(found["torch"].values()))
            sizes = {"n": n, "d": d, "heads": heads, "m": m, "r": r, "decay": decay}
            rows.append({"variant": variant, **sizes, "errors": found, "right": right})
            print(rows[-1], flush=True)
    return rows


def measure(function: Callable[[], object], repeats: int = 10) -> dict[str, float]:
    """Median milliseconds of a call, and the memory that it allocates on top of what there is, in MB."""
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, times = torch.cuda.memory_allocated(), []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    megabytes = (torch.cuda.max_memory_allocated() - before) / 1e6
    return {"ms": statistics.median(times), "MB": megabytes}


def ratios(row: dict[str, Any]) -> dict[str, Any]:
    old, new = (row[way] for way in WAYS)
    return row | {"faster": old["ms"] / new["ms"], "smaller": old["MB"] / new["MB"]}


def sums(
    variant: str, tokens: int, n: int, d: int, heads: int, m: int, decay: bool, batch: int = 1
) -> Callable[[], None]:
    """The attention of a piece without its projections, forward and backward; tensors are laid out as in a layer."""
    cfg = config(variant, d, heads, n, m, decay=decay)
    torch.manual_seed(0)
    shape = (batch, tokens, heads, d // heads)
    tensors = [torch.randn(shape, device="cuda", requires_grad=True) for _ in range(3)]
    q, k, v = (x.transpose(1, 2) for x in tensors)
    slope = torch.randn(shape, device="cuda").transpose(1, 2)
    rates = torch.full((heads,), 0.01, device="cuda", requires_grad=True) if decay else None
    fixed = None
    if cfg.fixed:
        q_tilde, k_tilde = torch.randn(2, heads, m, d // heads, device="cuda")
        fixed = Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg))
    state = VARIANTS[variant].init_state(cfg, batch, torch.float32, torch.device("cuda"))
    when = timeline(state.time, tokens, 1, None, None)

    def run() -> None:
        loss = (VARIANTS[variant].outputs(q, k, v, state, cfg, fixed, when, rates) * slope).sum()
        torch.autograd.grad(loss, tensors if rates is None else [*tensors, rates])

    return run


def compare(what: str, run: Callable[[], object], about: dict[str, Any], repeats: int = 10) -> dict[str, Any]:
    row: dict[str, Any] = {"what": what, **about}
    for name, way in WAYS.items():
        with fused.kernels(way):  # type: ignore[arg-type]
            row[name] = measure(run, repeats)
    row = ratios(row)
    print(row, flush=True)
    return row


def pieces() -> list[dict[str, Any]]:
    """T = 16,384, n = 512: the attention alone, and a whole layer."""
    rows = []
    sizes = {"tokens": 16_384, "n": 512, "d": 512, "heads": 8, "m": 16}
    for variant in VARIANTS:
        for precision, decay in (("highest", False), ("highest", True), ("high", False)):
            torch.set_float32_matmul_precision(precision)
            about = {"variant": variant, "decay": decay, "float32_matmul_precision": precision, **sizes}
            rows.append(compare("attention", sums(variant, decay=decay, **sizes), about))
        torch.set_float32_matmul_precision("highest")
        attn = attention(config(variant, 512, 8, 512))
        x, slope = torch.randn(2, 1, 16_384, 512, device="cuda")

        def layer(attn: ns.MultiheadAttention = attn, x: Tensor = x, slope: Tensor = slope) -> None:
            attn.zero_grad()
            (attn.outputs(x, attn.init_state(1)) * slope).sum().backward()

        rows.append(compare("layer", layer, {"variant": variant, **sizes}))
    return rows


def short() -> list[dict[str, Any]]:
    """Short pieces of one stream: from which length on the kernels win."""
    rows = []
    for variant in VARIANTS:
        for tokens in (16, 32, 64, 128, 256, 1024):
            sizes = {"tokens": tokens, "n": 120, "d": 192, "heads": 16, "m": 4}
            run = sums(variant, decay=False, **sizes)
            rows.append(compare("short piece", run, {"variant": variant, **sizes}))
    return rows


def training(variant: str, batch: int) -> Callable[[], None]:
    """An update of the deep cell of THUMOS14 with two blocks: n = 256, d = 1024, pieces of 256 tokens, bfloat16."""
    torch.manual_seed(0)
    options = {"landmarks": 16, "pinv": "none"} if variant == "co-fixed-single" else {}
    cfg = ns.AttentionConfig(variant, 1024, 8, 256, decay=True, **options)
    sizes = ns.ModelConfig(
        input_dim=256, output_dim=22, attention=cfg, layers=2, ff_dim=1024, stack="deep", dropout=0.3
    )
    model = ns.StreamModel(sizes)
    if cfg.fixed:
        for block in model.encoder.blocks:
            block.attention.set_landmarks(*torch.randn(2, 8, 16, 128))
            block.attention.learn_landmarks()
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(batch, 256, 256, device="cuda")
    target = torch.randint(0, 22, (batch, 256), device="cuda")

    def update() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = model.outputs(x, model.init_state(batch))
        torch.nn.functional.cross_entropy(y.float().flatten(0, 1), target.flatten()).backward()
        optimizer.step()

    return update


def cells() -> list[dict[str, Any]]:
    rows = []
    for variant in VARIANTS:
        rows.append(compare("update of a deep cell", training(variant, 32), {"variant": variant, "pieces": 32}, 5))
        row: dict[str, Any] = {"what": "update of a deep cell", "variant": variant, "pieces": 256}
        update = training(variant, 256)
        for name, way in reversed(WAYS.items()):
            try:
                with fused.kernels(way):  # type: ignore[arg-type]
                    row[name] = measure(update, 3)
            except torch.OutOfMemoryError:
                row[name] = "out of memory"
            torch.cuda.empty_cache()
        rows.append(row if isinstance(row["torch"], str) else ratios(row))
        print(rows[-1], flush=True)
    return rows


def _with_candidate(usual: Callable[..., Any], name: str, candidate: Any, kernel: str, *rest: Any) -> Any:
    """The tile of a kernel, where that of the kernel called `name` is the candidate."""
    if kernel == name:
        return candidate
    tile = usual(kernel, *rest)
    together = {name, kernel} == {"middle_gradients", "edge_gradients"}  # they share the tiles of keys
    return tile._replace(block_k=candidate.block_k) if together else tile


def tiles() -> None:
    """Print the time of every kernel with tiles of several sizes, at T = 16,384 and at the cell of THUMOS14."""
    from nystream.ops.triton import full, landmarks
    from nystream.ops.triton.launch import Tile

    kernels = {
        full: ("attend", "query_gradient", "key_gradients"),
        landmarks: ("normalize", "attend", "weight_gradient", "middle_gradients", "edge_gradients"),
    }
    shapes = {
        "T=16384": {"tokens": 16_384, "n": 512, "d": 512, "heads": 8, "m": 16},
        "cell": {"tokens": 256, "n": 256, "d": 1024, "heads": 8, "m": 16, "batch": 64},
    }
    blocks = ((16, 32), (32, 16), (32, 32), (32, 64), (64, 16), (64, 32), (64, 64), (128, 32), (128, 64))
    candidates = [Tile(q, k, warps) for q, k in blocks for warps in (4, 8)]
    for (module, names), variant in zip(kernels.items(), ("co-full-single", "co-fixed-single"), strict=True):
        usual = module.tile
        for shape, sizes in shapes.items():
            run = sums(variant, decay=False, **sizes)
            for name, candidate in ((name, candidate) for name in names for candidate in candidates):
                module.tile = partial(_with_candidate, usual, name, candidate)
                print(variant, shape, name, tuple(candidate), kernel_time(name, run), flush=True)
        module.tile = usual


def kernel_time(name: str, run: Callable[[], None]) -> str:
    """Microseconds of one kernel in a forward and backward pass."""
    try:
        with fused.kernels("always"):
            run()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                run()
                torch.cuda.synchronize()
    except Exception as error:  # a tile that does not fit on the device
        return type(error).__name__
    return f"{sum(event.device_time_total for event in profile.key_averages() if event.key == name):.0f} µs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        # `make bench` runs this on any machine: the record of a GPU must not be overwritten.
        print("no CUDA device here: nothing was checked, timed or written")
        return 0
    sys.path.insert(0, str(OUT.parents[1]))
    from lab import gpu_sources

    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "triton": provenance.installed("triton"),
        "sources": gpu_sources.digest(),
    }
    figures["checks"] = check()
    wrong = [row for row in figures["checks"] if not row["right"]]
    if wrong:
        print(f"the kernels are wrong, so nothing was timed: {wrong}")
    elif options.tiles:
        tiles()
        return 0
    for part in () if wrong else (pieces, cells, short):
        figures[part.__name__] = part()
        provenance.write(options.out, "python benchmarks/gpu_steps.py", figures)  # an error later loses nothing
    print(provenance.write(options.out, "python benchmarks/gpu_steps.py", figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
