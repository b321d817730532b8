"""How long the first pool on a machine takes, and what the time goes into.

    python benchmarks/compile.py   # about a minute on an idle core

Each kind of model is built in a new process that has imported torch and nystream already, with an empty cache of
compiled kernels: until the pool exists and has taken a token, the least of three runs. One more process measures what
LLVM takes of it; the rest is Numba, which infers types and writes LLVM's input. A second process finds the kernels in
the cache. Written to results/compile.json.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from _common import write_results

import nystream as ns

MODELS: dict[str, dict[str, Any]] = {
    "fixed landmarks": {"variants": ["co-fixed-single"]},
    "fixed landmarks, weights in int8": {"variants": ["co-fixed-single"], "weights": "int8"},
    "continual landmarks": {"variants": ["co-cont-single"]},
    "full attention": {"variants": ["co-full-single"]},
    "a block of each kind, linear path": {
        "variants": ["co-full-single", "co-cont-single", "co-fixed-single"],
        "linear": ns.LinearConfig(segments=(1, 1, 3), embedded=True),
    },
}
RUNS = 3


def first_pool(variants: list[str], record: bool, linear: ns.LinearConfig | None = None, **options: Any) -> float:
    """Seconds until a pool has taken its first token, or, with `record`, those of them that LLVM takes."""
    torch.manual_seed(0)
    blocks = tuple(
        ns.AttentionConfig(variant, 192, 16, 120, landmarks=None if variant == "co-full-single" else 4)
        for variant in variants
    )
    config = ns.ModelConfig(
        input_dim=128, output_dim=10, attention=blocks, layers=len(blocks), stack="deep", linear=linear
    )
    model = ns.StreamModel(config).eval()
    for layer, attention in enumerate(blocks):
        if attention.fixed:
            ns.fit_landmarks(model, [torch.randn(4, 300, 128)], layer=layer)
    start = time.perf_counter()
    with llvm_calls() if record else nullcontext() as calls:
        pool = ns.StreamPool(model, backend="numba", **options)
        pool.push(pool.open(), np.zeros(128, np.float32))
    if calls is None:
        return time.perf_counter() - start
    return sum(-moment if call.is_start else moment for moment, call in calls.buffer)


def llvm_calls() -> Any:
    from numba.core import event  # imported only here: importing Numba is part of the time

    return event.install_recorder("numba:llvm_lock")


def in_a_process(name: str, cache: str, *options: str) -> float:
    command = [sys.executable, __file__, name, *options]
    done = subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def main() -> None:
    rows = []
    for name in MODELS:
        compiled, loaded = [], []
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory() as cache:
                compiled.append(in_a_process(name, cache))
                loaded.append(in_a_process(name, cache))
        with tempfile.TemporaryDirectory() as cache:
            llvm = in_a_process(name, cache, "llvm")
        rows.append({"model": name, "seconds": min(compiled), "llvm": llvm, "cached": min(loaded)})
        print(f"{name}: {min(compiled):.1f} s, {llvm:.1f} s of them LLVM; cached {min(loaded):.2f} s")
    print(write_results("compile", {"models": rows}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        torch.set_num_threads(1)
        print(first_pool(record="llvm" in sys.argv[2:], **MODELS[sys.argv[1]]))
    else:
        main()
