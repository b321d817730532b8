"""Blocks about the GPU, for `render.py`."""

from __future__ import annotations

from typing import Any

from _source import ROOT, results, table

BANDWIDTH, MEMORY = 4.8e12, 141e9  # of an H200, by its data sheet
STREAMS = 16_384


def gpu_bytes() -> str:
    """What a step moves, from the code alone."""
    record = results("gpu_kernels")
    rows = [
        [
            row["n/d/heads/m"],
            row["ring_dtype"],
            f"{row['bytes_per_stream'] / 1e3:,.0f} kB",
            f"{MEMORY / row['bytes_per_stream']:,.0f}",
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
        "streams in 141 GB",
        "moved by a step",
        f"{STREAMS:,} streams at 4.8 TB/s",
        "for a stream and head",
        "registers",
    ]
    return (
        f"Computed, not measured: what the attention of one step moves, the least time that this takes on an H200, and "
        f"the registers of the kernel, compiled for it by Triton {record['triton']} (`{record['command']}`):\n\n"
        + table(head, rows)
    )


def gpu() -> str:
    """What a GPU measured."""
    if not (ROOT / "results" / "gpu.json").exists():
        return "No GPU has run these kernels yet, so there are no times here: the lines of the plot are limits."
    record = results("gpu")
    attention = [row for row in record["attention"].values() if isinstance(row, dict)]
    rows = [
        [
            row["n/d/heads/m"],
            f"{row['streams']:,}",
            row["ring_dtype"],
            f"{row['microseconds']:.0f} µs",
            f"{row['share_of_bandwidth']:.0%}",
            f"{row['worst_over_mean']:.2f}",
        ]
        for row in attention
    ]
    head = ["n/d/heads/m", "streams", "rings", "attention of a step", "share of copy bandwidth", "slowest call / mean"]
    return (
        f"Measured on an {record['device']}, torch {record['hardware']['torch']}, Triton {record['triton']} "
        f"(`{record['command']}`; copies reach {record['attention']['copy_terabytes_per_second']:.2f} TB/s; streams at "
        f"mixed phases, for the last column all of one age):\n\n" + table(head, rows) + "\n\n" + _models(record)
    )


def _models(record: dict[str, Any]) -> str:
    found, ours = record["model"], record["model"]["pool"]
    eager = min((found[name] for name in found if name.startswith("eager")), key=lambda row: row["milliseconds"])
    crowd = record["crowd"]["500,000 streams"]
    return (
        f"The whole model of GTZAN with one block, {ours['streams']:,} streams, {ours['dtype']}: "
        f"{ours['milliseconds']:.2f} ms per step, ×{eager['milliseconds'] / ours['milliseconds']:.0f} the speed of "
        f"full attention over rings of keys and values in eager torch. {crowd['streams']:,} streams take "
        f"{crowd['gigabytes']:.0f} GB and {crowd['milliseconds']:.1f} ms per step."
    )
