"""Blocks about the GPU, for `render.py`."""

from __future__ import annotations

import sys
from typing import Any

from _source import ROOT, results, table

sys.path.insert(0, str(ROOT))
from lab import gpu_sources

MEMORY = 141e9  # bytes of an H200, by its data sheet
EAGER = {
    "matmul": "with two matrix products and a softmax",
    "padded sdpa": "with `scaled_dot_product_attention` (SDPA) and heads padded to 16 dimensions",
    "sdpa": "with SDPA and the model's heads of 12 dimensions, for which it has no fast kernel",
}


def gpu_bytes() -> str:
    """What a step moves, from the code alone."""
    record = results("gpu_kernels")
    rows = [
        [
            row["n/d/heads/m"],
            row["ring_dtype"],
            f"{row['bytes_per_stream'] / 1e3:,.0f} kB",
            f"{round(MEMORY / row['bytes_per_stream'], -3):,.0f}",
            f"{row['bytes_per_step'] / 1e3:.1f} kB",
            f"one {row['per_pair']}",
            f"{row['registers']}",
            f"{row['spilled_bytes']} bytes",
        ]
        for row in record["rows"]
    ]
    head = [
        "n/d/heads/m",
        "rings",
        "state of a stream",
        "states in 141 GB",
        "moved by a step",
        "computed by",
        "registers",
        "spilled",
    ]
    return (
        f"Computed, not measured: the state of the attention of a stream, what one step of it moves if every byte is "
        f"moved once, and the registers and spilled bytes of a thread of its kernel, compiled for an H200 by Triton "
        f"{record['triton']} (`{record['command']}`):\n\n" + table(head, rows)
    )


def gpu_smoke() -> str:
    """What was checked on a GPU last, and whether the code has changed since."""
    record = results("gpu_smoke")
    checks = [row for part in ("cells", "training", "pools") for row in record[part].values()]
    passed = sum(row["right"] for row in checks)
    failed = len(record["failures"])
    return (
        f"Last checked on an {record['device']} at {record['commit'][:7]}, with torch {record['hardware']['torch']} "
        f"and Triton {record['triton']} (`{record['command']}`): {passed} of {len(checks)} checks passed"
        f"{f', and {failed} failed with an error' if failed else ''}. They compare the gradients of every type, loop "
        f"and kind of attention in training with float64, pools with float64, and one short cell of each experiment "
        f"with the same cell in torch.{_age('gpu_smoke')}"
    )


def _age(name: str) -> str:
    """A sentence, if a record is older than the code."""
    older = gpu_sources.age(ROOT / "results" / f"{name}.json")
    return " **The code for GPUs has changed since.**" if older else ""


def gpu() -> str:
    """What a GPU measured."""
    record = results("gpu")
    attention = [row for row in record["attention"].values() if isinstance(row, dict)]
    copied = record["attention"]["copy_terabytes_per_second"] * 1e6  # bytes per microsecond
    rows = [
        [
            row["n/d/heads/m"],
            f"{row['streams']:,}",
            row["ring_dtype"],
            f"{row['microseconds']:.1f} µs",
            f"{row['streams'] * row['bytes_per_step'] / copied:.1f} µs",
            f"{row['share_of_bandwidth']:.0%}",
            f"{row['plan_microseconds']:.1f} µs",
            f"{row['worst_over_mean']:.2f}",
        ]
        for row in attention
    ]
    head = [
        "n/d/heads/m",
        "streams",
        "rings",
        "plan and step",
        "a copy of its bytes",
        "share of bandwidth",
        "plan alone",
        "slowest phase / mean",
    ]
    checks = record["checks"].values()
    return (
        f"Measured on an {record['device']} with a copy bandwidth of {copied / 1e6:.2f} TB/s in the same run, torch "
        f"{record['hardware']['torch']}, Triton {record['triton']}, at {record['commit'][:7]} (`{record['command']}`, "
        f"after {len(checks)} checks of correctness). The plan and the step, two kernels of attention with fixed "
        f"landmarks, for streams at mixed phases; projections, logits and weights of landmarks are given. In the "
        f"last column, all streams have the same age, and the time of each phase is the median of 5 calls. Other "
        f"variants have not been timed.{_age('gpu')}\n\n"
        + table(head, rows)
        + "".join(f"\n\n{line}" for line in _models(record))
    )


def gpu_steps() -> str:
    """Training on a GPU: `steps`, forward and backward."""
    record = results("gpu_steps")
    rows = []
    for row in (*record["pieces"], *record["cells"]):
        about = {
            "attention": f"attention{', decay' if row.get('decay') else ''}",
            "layer": "layer with its projections",
            "update of a deep cell": f"update of two deep blocks, {row.get('pieces')} pieces",
        }[row["what"]]
        if row.get("float32_matmul_precision") == "high":
            about += ", TensorFloat-32"
        torch, kernels = row["torch"], row["kernels"]
        rows.append(
            [
                f"`{row['variant']}`",
                about,
                f"{torch['ms']:.1f} ms",
                f"{kernels['ms']:.2f} ms",
                f"×{row['faster']:.1f}",
                f"{torch['MB']:,.0f} MB",
                f"{kernels['MB']:,.0f} MB",
                f"×{row['smaller']:.1f}",
            ]
        )
    head = ["variant", "what", "time, torch", "kernels", "faster", "memory, torch", "kernels", "smaller"]
    worst = max(check["errors"]["kernels"]["gradients"] for check in record["checks"])
    sizes = record["pieces"][0]
    gradients = 3 * 4 * sizes["tokens"] * sizes["d"]  # bytes of those of q, k and v
    return (
        f"Forward and backward on an {record['device']}, torch {record['hardware']['torch']}, Triton "
        f"{record['triton']}, at {record['commit'][:7]} (`{record['command']}`): median times, and the most memory "
        f"allocated on top of what was there before, of the kernels and of the same `steps` in torch, "
        f'`fused.kernels("never")`. Attention and layer: one stream of {sizes["tokens"]:,} tokens, n = {sizes["n"]}, '
        f"d = {sizes['d']}, {sizes['heads']} heads, m = {sizes['m']}, float32. For attention without decay, the "
        f"gradients of the inputs alone take {gradients / 1e6:.0f} MB. "
        f"Update: the deep model of THUMOS14, n = 256, d = 1024, pieces of 256 tokens, autocast to bfloat16. In "
        f"{len(record['checks'])} checks against float64, the largest relative error of a gradient was "
        f"{worst:.0e}.{_age('gpu_steps')}\n\n{table(head, rows)}\n\n{_short(record)}"
    )


def _short(record: dict[str, Any]) -> str:
    """Pieces that are too short to keep the device busy."""
    rows = record["short"]
    lengths = sorted(row["tokens"] for row in rows)
    times = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        of = [row for row in rows if row["variant"] == variant]
        kernels, torch = (sorted(row[way]["ms"] for row in of) for way in ("kernels", "torch"))
        times.append(
            f"{kernels[0]:.1f} to {kernels[-1]:.1f} ms for `{variant}` ({torch[0]:.1f} to {torch[-1]:.1f} ms in torch)"
        )
    return (
        f"The times of short pieces hardly depend on the length, so the host, which launches the kernels, probably "
        f"limits them: forward and backward, the attention of one piece of {lengths[0]} to {lengths[-1]:,} tokens "
        f"(n = {rows[0]['n']}, d = {rows[0]['d']}) took {' and '.join(times)}."
    )


def _models(record: dict[str, Any]) -> list[str]:
    """What is known of whole models; a part of the benchmark that failed is left out."""
    times, lines = record["model"], []
    eager = {name: times[f"eager {name}"] for name in EAGER if f"eager {name}" in times}
    if "pool" in times and eager:
        ours = times["pool"]
        ratios = (f"×{row['milliseconds'] / ours['milliseconds']:.1f} {EAGER[name]}" for name, row in eager.items())
        lines.append(
            f"The whole model of GTZAN with one block, {ours['streams']:,} streams, {ours['dtype']}: "
            f"{ours['milliseconds']:.2f} ms for `push_many`, of which {ours['graph_milliseconds']:.2f} ms on the "
            f"device; {ours['steps_per_second'] / 1e6:.0f} million steps per second. The same model with full "
            f"attention in eager torch, whose rings of keys and values are overwritten in place, takes longer: "
            f"{', '.join(ratios)}. Times of eager torch are those of the device; the time of `push_many` includes "
            f"the host."
        )
    lines += [
        f"{row['streams']:,} streams of this model take {row['gigabytes']:.0f} GB of GPU memory, and a step of all of "
        f"them takes {row['milliseconds']:.1f} ms."
        for row in record["crowd"].values()
    ]
    return lines
