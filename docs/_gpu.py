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
    if not (ROOT / "results" / "gpu.json").exists():
        return "No GPU has run these kernels yet, so there are no times here: what the plot shows are limits."
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
        f"(`{record['command']}`; streams at mixed phases, for the last column all of one age). The dots in the "
        f"plot are these times:\n\n" + table(head, rows) + "".join(f"\n\n{line}" for line in _models(record))
    )


def _models(record: dict[str, Any]) -> list[str]:
    """What is known of whole models; a part of the benchmark that failed is left out."""
    times, lines = record["model"], []
    eager = {name.removeprefix("eager "): row for name, row in times.items() if name.startswith("eager")}
    if "pool" in times and eager:
        ours = times["pool"]
        ratios = (f"×{row['milliseconds'] / ours['milliseconds']:.0f} ({name})" for name, row in eager.items())
        lines.append(
            f"The whole model of GTZAN with one block, {ours['streams']:,} streams, {ours['dtype']}: "
            f"{ours['milliseconds']:.2f} ms for `push_many`, {ours['graph_milliseconds']:.2f} ms of it on the device, "
            f"{ours['steps_per_second'] / 1e6:.0f} million steps per second. Compared with full attention over rings "
            f"of keys and values in eager torch: {', '.join(ratios)}. SDPA needs heads with a multiple of eight "
            f"dimensions to be fast, so those of this model, which have 12, are padded in the second."
        )
    lines += [
        f"{row['streams']:,} streams take {row['gigabytes']:.0f} GB and {row['milliseconds']:.1f} ms per step."
        for row in record["crowd"].values()
    ]
    return lines
