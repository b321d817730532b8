"""The time and memory of fitting fixed landmarks; memory must not grow with the data.

    python benchmarks/landmarks.py        # about two minutes on two cores

One block, 8 heads of width 128, m = 16, 50,000 tokens sampled. The tokens are Gaussian noise: without clusters to find,
m-means takes more iterations than on any real data. Memory is the growth of a process's peak over what it held before
the call, and each figure has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from _common import write_results

import nystream as ns
from nystream.landmarks import fit_landmarks

HEADS, HEAD_DIM, M, WINDOW, INPUT_DIM, TOKENS = 8, 128, 16, 64, 128, 50_000
BATCH = 8  # sequences of one window
SECONDS_LIMIT = 60.0
# For ten times the batches. The peak varies with what malloc keeps and how workers meet; keeping all tokens adds 2 GB.
GROWTH_LIMIT = 1.25


def build() -> ns.StreamModel:
    torch.manual_seed(0)
    attention = ns.AttentionConfig(
        "co-fixed-single", embed_dim=HEADS * HEAD_DIM, num_heads=HEADS, window=WINDOW, landmarks=M
    )
    return ns.StreamModel(ns.ModelConfig(input_dim=INPUT_DIM, output_dim=10, attention=attention, ff_dim=1024))


def fed(count: int, made: dict[str, float]) -> Iterator[torch.Tensor]:
    """`count` batches; `made` records the time spent on making them, and when the last one was consumed."""
    generator = torch.Generator().manual_seed(0)
    made["seconds"] = 0.0
    for _ in range(count):
        begin = time.perf_counter()
        x = torch.randn(BATCH, WINDOW, INPUT_DIM, generator=generator)
        made["seconds"] += time.perf_counter() - begin
        yield x
    made["end"] = time.perf_counter()


def measure(method: Any, count: int) -> dict[str, Any]:
    """One fit in this process: seconds, and peak memory in megabytes beyond what was in use before."""
    model, made = build(), {"seconds": 0.0, "end": 0.0}
    fit_landmarks(model, fed(2, made), tokens=256, method=method, progress=False)  # loads what it needs
    before = resident()
    begin, spent = time.perf_counter(), time.process_time()
    report = fit_landmarks(model, fed(count, made), tokens=TOKENS, method=method, progress=False)
    end, spent = time.perf_counter(), time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "method": method,
        "batches": count,
        "tokens_seen": report.tokens_seen,
        "tokens_used": report.tokens_used,
        "collect_seconds": made["end"] - begin - made["seconds"],
        "cluster_seconds": end - made["end"],
        "cpu_seconds": spent,  # of all cores, the making of the batches included
        "peak_extra_megabytes": peak - before,
        "mean_inertia": sum(report.q_inertia + report.k_inertia) / (2 * HEADS),
    }


def resident() -> float:
    """Memory of this process in megabytes; Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def alone(method: str, count: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", method, str(count)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "BATCHES"), help="one measurement, as JSON")
    one = parser.parse_args().one
    if one:
        print(json.dumps(measure(one[0], int(one[1]))))
        return
    print(f"{TOKENS:,} tokens, {HEADS} heads of {HEAD_DIM}, m = {M}; batches of {BATCH * WINDOW} tokens")
    print("  method  batches  tokens fed  collecting  clustering  peak extra memory")
    rows = []
    for method, count in (("qk", 100), ("qk", 1_000), ("x", 100)):
        row = alone(method, count)
        rows.append(row)
        print(
            f"  {method:<6}  {count:>7,}  {row['tokens_seen']:>10,}  {row['collect_seconds']:>8.1f} s  "
            f"{row['cluster_seconds']:>8.1f} s  {row['peak_extra_megabytes']:>14.0f} MB",
            flush=True,
        )
    seconds = rows[0]["collect_seconds"] + rows[0]["cluster_seconds"]
    growth = rows[1]["peak_extra_megabytes"] / rows[0]["peak_extra_megabytes"]
    print(f"  {seconds:.1f} s in all for 100 batches (at most {SECONDS_LIMIT:.0f})")
    print(f"  ten times the batches: {growth:.2f} times the memory (at most {GROWTH_LIMIT})")
    setting = {"tokens": TOKENS, "heads": HEADS, "head_dim": HEAD_DIM, "m": M, "tokens_a_batch": BATCH * WINDOW}
    figures = {"seconds": seconds, "seconds_limit": SECONDS_LIMIT, "growth": growth, "growth_limit": GROWTH_LIMIT}
    write_results("landmarks", setting | figures | {"runs": rows})


if __name__ == "__main__":
    main()
