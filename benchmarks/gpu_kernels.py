"""What a step on a GPU moves, and the resources of its kernel: `python benchmarks/gpu_kernels.py`, without a GPU.

The bytes follow from the cut of the window; the resources are those of results/ptx.json, in which every kernel is
compiled for an H200. Draws docs/img/roofline.png: what memory and arithmetic allow, and what `benchmarks/gpu.py` has
measured, if it has been run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from _common import FIGURES, RESULTS, build, write_results

from nystream import plotting
from nystream.stream.gpu.landmarks import FixedAttention

SHAPES = ((120, 192, 16, 4), (64, 1024, 8, 16), (512, 512, 8, 16), (100, 256, 8, 8))
PEAK_BYTES, PEAK_FLOPS = 4.8e12, 67e12  # per second, of an H200 by its data sheet; float32 without tensor cores
REGISTERS = 65_536  # of a multiprocessor


def flops(attention: FixedAttention) -> float:
    """Floating-point operations of a step of one stream, on average over its phases: those of sums over values."""
    cut, m, d = attention.cut, attention.config.m, attention.config.embed_dim
    tier = min(cut.tier, cut.n)
    sums = cut.edges + m + ((tier - cut.edges) * m + m) / cut.edges
    if cut.totals:
        sums += (tier * m + cut.totals * m) / tier + m / cut.edges
    return 2 * d * sums


def row(sizes: tuple[int, int, int, int], ring_dtype: str, compiled: dict[str, Any]) -> dict[str, Any]:
    attention = FixedAttention(build("co-fixed-single", *sizes).requires_grad_(False), getattr(torch, ring_dtype))
    attention.allocate(1)
    cut, size, (n, d, heads, m) = attention.cut, attention.tile, sizes
    case = f"pool, {ring_dtype} rings: co-fixed-single n={n} d={d} heads={heads} m={m} newton"
    kernels = (compiled["kernels"][digest] for digest in compiled["cases"][case].split())
    (kernel,) = (kernel for kernel in kernels if kernel["kernel"] == "step")
    lane = -(-kernel["registers"] // 8) * 8  # they are allocated in eights
    return {
        "n/d/heads/m": "/".join(map(str, sizes)),
        "ring_dtype": ring_dtype,
        "per_pair": "lane" if size.pairs > 1 else "warp",
        "edges": cut.edges,
        "tier": min(cut.tier, cut.n),
        "bytes_per_step": attention.bytes_per_step,
        "flops_per_step": flops(attention),
        "bytes_per_stream": sum(leaf.nbytes for leaf in attention.leaves.values()),
        "registers": kernel["registers"],
        "spilled_bytes": kernel["spilled"],
        "warps_per_multiprocessor": REGISTERS // (32 * lane * kernel["warps"]) * kernel["warps"],
    }


def main() -> None:
    rows, compiled = [], json.loads((RESULTS / "ptx.json").read_text())
    for sizes in SHAPES:
        for ring_dtype in ("bfloat16", "float32"):
            rows.append(row(sizes, ring_dtype, compiled))
            print(rows[-1], flush=True)
    print(write_results("gpu_kernels", {"triton": compiled["triton"], "rows": rows}))
    print(draw(rows, *measured()))


def measured() -> tuple[float, list[dict[str, Any]]]:
    """What `benchmarks/gpu.py` has measured: bytes per second of a copy, and the times of steps."""
    record = RESULTS / "gpu.json"
    if not record.exists():
        return PEAK_BYTES, []
    attention = json.loads(record.read_text())["attention"]
    return attention["copy_terabytes_per_second"] * 1e12, [x for x in attention.values() if isinstance(x, dict)]


def draw(rows: list[dict[str, Any]], bandwidth: float, times: list[dict[str, Any]]) -> Path:
    """The roofline: operations per second that memory and arithmetic allow, by operations per byte."""
    import matplotlib

    known = {(row["n/d/heads/m"], row["ring_dtype"]): row for row in rows}
    shapes = dict.fromkeys(row["n/d/heads/m"] for row in rows)
    colours = dict(zip(shapes, (plotting.BLUE, plotting.ORANGE, plotting.RED, plotting.SKY), strict=True))
    with matplotlib.rc_context(plotting.STYLE):
        figure = plotting.new_figure(figsize=(6.4, 3.4))
        axes = figure.subplots()
        intensities = [0.3, PEAK_FLOPS / bandwidth, 100.0]
        axes.loglog(intensities, [min(x * bandwidth, PEAK_FLOPS) / 1e12 for x in intensities], color=plotting.GREY)
        axes.text(4.0, 19.5, f"copy: {bandwidth / 1e12:.2f} TB/s", rotation=37, ha="center", color=plotting.GREY)
        axes.text(
            90, PEAK_FLOPS / 1e12 * 0.72, f"float32: {PEAK_FLOPS / 1e12:.0f} TFLOP/s", ha="right", color=plotting.GREY
        )
        for time in times:
            of, streams = (time["n/d/heads/m"], time["ring_dtype"]), time["streams"]
            row, wide = known[of], time["ring_dtype"] == "float32"
            marker = "s" if wide else "D" if streams > 16_384 else "o"
            flops_per_second = streams / time["microseconds"] * 1e6 * row["flops_per_step"]
            axes.plot(
                *(row["flops_per_step"] / row["bytes_per_step"], flops_per_second / 1e12, marker),
                color=colours[of[0]], mfc="white" if wide else None, label=f"{of[0]}, {streams:,} streams, {of[1]}",
            )  # fmt: skip
        axes.set(xlabel="floating-point operations per byte", ylabel="TFLOP/s", xlim=(0.3, 100), ylim=(1, 120))
        if times:
            axes.legend(title="n/d/heads/m, streams, rings", loc="lower right")
        path = FIGURES / "roofline.png"
        figure.savefig(path, dpi=160)
    return path


if __name__ == "__main__":
    main()
