"""What a step on a GPU moves, and what its kernel is made of: `python benchmarks/gpu_kernels.py`, which needs no GPU.

The bytes follow from the cut of the window; the kernel is compiled for an H200 (sm_90) by Triton and ptxas. Draws
docs/img/roofline.png: what an H200 could do at best, and, if `benchmarks/gpu.py` has been run on one, what it does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from _common import FIGURES, RESULTS, build, write_results

from nystream import plotting, provenance
from nystream.stream.gpu.landmarks import FixedAttention

SHAPES = ((120, 192, 16, 4), (64, 1024, 8, 16), (512, 512, 8, 16), (100, 256, 8, 8))
PEAK_BYTES, PEAK_FLOPS = 4.8e12, 67e12  # per second, of an H200 by its data sheet; float32 without tensor cores
SCRIPT = Path(__file__).with_name("_gpu_compile.py")
REGISTERS = 65_536  # of a multiprocessor


def compiled(sizes: tuple[int, int, int, int], ring_dtype: str) -> dict[str, Any]:
    """Resources of the kernel of a step."""
    command = [sys.executable, str(SCRIPT), "co-fixed-single", *map(str, sizes), ring_dtype]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return next(kernel for kernel in map(json.loads, said.splitlines()) if kernel["kernel"] == "step")


def flops(attention: FixedAttention) -> float:
    """Floating-point operations of a step of one stream, on average over its phases: those of sums over values."""
    cut, m, d = attention.cut, attention.config.m, attention.config.embed_dim
    tier = min(cut.tier, cut.n)
    sums = cut.edges + m + ((tier - cut.edges) * m + m) / cut.edges
    if cut.totals:
        sums += (tier * m + cut.totals * m) / tier + m / cut.edges
    return 2 * d * sums


def row(sizes: tuple[int, int, int, int], ring_dtype: str) -> dict[str, Any]:
    attention = FixedAttention(build("co-fixed-single", *sizes).requires_grad_(False), getattr(torch, ring_dtype))
    attention.allocate(1)
    kernel, cut, size = compiled(sizes, ring_dtype), attention.cut, attention.tile
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
    rows = []
    for sizes in SHAPES:
        for ring_dtype in ("bfloat16", "float32"):
            rows.append(row(sizes, ring_dtype))
            print(rows[-1], flush=True)
    print(write_results("gpu_kernels", {"triton": provenance.installed("triton"), "rows": rows}))
    print(draw(rows, measured()))


def measured() -> dict[tuple[str, str], float]:
    """Steps per second that `benchmarks/gpu.py` has measured, by shape and ring."""
    record = RESULTS / "gpu.json"
    if not record.exists():
        return {}
    times = [x for x in json.loads(record.read_text())["attention"].values() if isinstance(x, dict)]
    return {(x["n/d/heads/m"], x["ring_dtype"]): x["streams"] / x["microseconds"] * 1e6 for x in times}


def draw(rows: list[dict[str, Any]], speeds: dict[tuple[str, str], float]) -> Path:
    """The roofline: operations per second that memory and arithmetic allow, by operations per byte."""
    import matplotlib

    with matplotlib.rc_context(plotting.STYLE):
        figure = plotting.new_figure(figsize=(6.4, 3.4))
        axes = figure.subplots()
        intensities = [0.1, PEAK_FLOPS / PEAK_BYTES, 100.0]
        axes.loglog(intensities, [min(x * PEAK_BYTES, PEAK_FLOPS) / 1e12 for x in intensities], color=plotting.GREY)
        axes.text(0.13, 1.0, "memory: 4.8 TB/s", rotation=31, color=plotting.GREY)
        axes.text(20, PEAK_FLOPS / 1e12 * 0.62, "float32: 67 TFLOP/s", color=plotting.GREY)
        for row, colour in zip(
            (row for row in rows if row["ring_dtype"] == "bfloat16"),
            (plotting.BLUE, plotting.ORANGE, plotting.RED, plotting.SKY),
            strict=True,
        ):
            intensity = row["flops_per_step"] / row["bytes_per_step"]
            axes.plot([intensity] * 2, [0.05, intensity * PEAK_BYTES / 1e12], ":", color=colour)
            axes.plot(
                intensity, intensity * PEAK_BYTES / 1e12, "o", mfc="white", color=colour, label=row["n/d/heads/m"]
            )
            speed = speeds.get((row["n/d/heads/m"], "bfloat16"))
            if speed is not None:
                axes.plot(intensity, speed * row["flops_per_step"] / 1e12, "o", color=colour)
        axes.set(xlabel="floating-point operations per byte", ylabel="TFLOP/s", xlim=(0.1, 100), ylim=(0.05, 120))
        axes.legend(title="n/d/heads/m", loc="lower right")
        path = FIGURES / "roofline.png"
        figure.savefig(path, dpi=160)
    return path


if __name__ == "__main__":
    main()
