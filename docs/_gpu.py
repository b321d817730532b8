"""Blocks about the GPU, for `render.py`."""

from __future__ import annotations

from typing import Any

from _source import results, table

BANDWIDTH, MEMORY = 4.8e12, 141e9  # of an H200, by its data sheet
STREAMS = 16_384
EAGER = {
    "sdpa": "with `scaled_dot_product_attention` (SDPA)",
    "padded sdpa": "with SDPA and heads padded to 16 dimensions",
    "matmul": "with two matrix products and a softmax",
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
            f"{STREAMS * row['bytes_per_step'] / BANDWIDTH * 1e6:.0f} µs",
            f"a {row['per_pair']}",
            f"{row['registers']}",
        ]
        for row in record["rows"]
    ]
    head = [
        "n/d/heads/m",
        "rings",
        "state of a stream",
        "at most in 141 GB",
        "moved by a step",
        f"{STREAMS:,} streams at 4.8 TB/s",
        "for a stream and head",
        "registers",
    ]
    return (
        f"Computed, not measured: what the attention of one step moves if every byte is moved once, the least time "
        f"that this takes on an H200, and the registers of the kernel, compiled for it by Triton {record['triton']} "
        f"(`{record['command']}`):\n\n" + table(head, rows)
    )


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
        "attention of a step",
        "its bytes, copied",
        "share of bandwidth",
        "plan alone",
        "slowest call / mean",
    ]
    checks = record["checks"].values()
    return (
        f"Measured on an {record['device']} with a copy bandwidth of {copied / 1e6:.2f} TB/s in the same run, torch "
        f"{record['hardware']['torch']}, Triton {record['triton']} (`{record['command']}`, which first checked "
        f"{len(checks)} cases against float64; streams at mixed phases, for the last column all of one age; logits of "
        f"keys and weights of landmarks given). The dots in the plot are these times:\n\n"
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
    head = ["variant", "what", "torch", "kernels", "faster", "torch", "kernels", "smaller"]
    worst = max(check["errors"]["kernels"]["gradients"] for check in record["checks"])
    return (
        f"Forward and backward on an {record['device']}, torch {record['hardware']['torch']}, Triton "
        f"{record['triton']} (`{record['command']}`): median times, and the most memory allocated on top of the "
        f"inputs. Attention and layer: one stream of 16,384 tokens, n = 512, d = 512, 8 heads, m = 16, float32. "
        f"Update: the deep model of THUMOS14, n = 256, d = 1024, pieces of 256 tokens, autocast to bfloat16. In "
        f"{len(record['checks'])} checks against float64, the largest relative error of a gradient was "
        f"{worst:.0e}:\n\n" + table(head, rows)
    )


def _models(record: dict[str, Any]) -> list[str]:
    """What is known of whole models; a part of the benchmark that failed is left out."""
    times, lines = record["model"], []
    eager = {name.removeprefix("eager "): row for name, row in times.items() if name.startswith("eager")}
    if "pool" in times and eager:
        ours = times["pool"]
        ratios = (f"×{row['milliseconds'] / ours['milliseconds']:.0f} {EAGER[name]}" for name, row in eager.items())
        lines.append(
            f"The whole model of GTZAN with one block, {ours['streams']:,} streams, {ours['dtype']}: "
            f"{ours['milliseconds']:.2f} ms for `push_many`, {ours['graph_milliseconds']:.2f} ms of it on the device, "
            f"{ours['steps_per_second'] / 1e6:.0f} million steps per second. That is faster than full attention over "
            f"rings of keys and values in eager torch: {', '.join(ratios)}. SDPA is only fast for heads with a "
            f"multiple of eight dimensions; those of this model have 12."
        )
    lines += [
        f"{row['streams']:,} streams take {row['gigabytes']:.0f} GB and {row['milliseconds']:.1f} ms per step."
        for row in record["crowd"].values()
    ]
    return lines
