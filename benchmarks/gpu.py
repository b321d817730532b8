"""The GPU pool: is it right at real sizes, then how fast is it? `python benchmarks/gpu.py`, or --quick.

Writes results/gpu.json after every part. Every part is a process of its own, because after an error on the device, a
process can do nothing more there: what failed is recorded, and another process goes on with the rest. The exit status
is then 1. Needs a GPU, PyTorch and Triton, but no Numba.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

SHAPES = ((120, 192, 16, 4), (64, 1024, 8, 16), (512, 512, 8, 16))
STREAMS = (16_384, 4_096, 4_096)
VARIANTS = ("co-fixed-single", "co-cont-single", "co-full-single")
SECONDS = {"checks": 200, "attention": 150, "model": 80, "crowd": 80}  # what a part may take
UNFINISHED = "its process ended"

Item = tuple[str, Callable[[], Any]]


def checks(quick: bool) -> dict[str, tuple[Callable[[], float], float]]:
    """What is checked, and the largest error that is right."""
    from _gpu_checks import check_attention, check_growth, check_model, check_snapshots

    fixed, continual, full = VARIANTS
    cases: list[tuple[str, tuple[int, int, int, int], str, dict[str, Any], float]] = [
        (fixed, sizes, ring_dtype, {}, 1e-4)
        for sizes in (SHAPES[:2] if quick else SHAPES)
        for ring_dtype in ("bfloat16", "float32")
    ]
    cases += [
        (variant, (100, 96, 8, 5), "float32", options, 1e-3)
        for variant in VARIANTS
        for options in ({"decay": True}, {"update_size": 4})
    ]
    cases += [
        (fixed, (100, 256, 8, 8), "bfloat16", {"pinv": "newton"}, 1e-3),
        (fixed, (96, 192, 16, 32), "float32", {}, 1e-3),
        (continual, (64, 1024, 8, 16), "bfloat16", {"pinv": "newton"}, 1e-3),
        (continual, (120, 192, 16, 4), "float32", {"pinv": "newton"}, 1e-3),
        (full, (64, 1024, 8, 16), "bfloat16", {}, 1e-3),
        (full, (120, 192, 16, 4), "float32", {}, 1e-3),
    ]
    found: dict[str, tuple[Callable[[], float], float]] = {
        f"{variant} {sizes} {ring_dtype} {options or ''}".strip(): (
            partial(check_attention, variant, sizes, ring_dtype, **options),
            largest,
        )
        for variant, sizes, ring_dtype, options, largest in cases
    }
    for variant in VARIANTS:
        found[f"snapshots of {variant}"] = partial(check_snapshots, variant), 1e-3
        found[f"pool of {variant}, float32"] = partial(check_model, torch.float32, variant), 1e-3
    found["pool of co-fixed-single, two blocks"] = partial(check_model, torch.float32, layers=2, stack="deep"), 1e-3
    found["pool of co-fixed-single, bfloat16"] = partial(check_model, torch.bfloat16), 0.1
    found["pool that grows"] = check_growth, 1e-3
    return found


def items(part: str, quick: bool) -> Iterator[Item]:
    """What a part measures."""
    if part == "checks":
        yield from ((what, partial(checked, *case)) for what, case in checks(quick).items())
        return
    from _gpu_times import attention_times, copy_bandwidth, crowd_times, eager_times, pool_times

    if part == "attention":
        bandwidth = copy_bandwidth()
        yield "copy_terabytes_per_second", lambda: bandwidth / 1e12
        cases = [(sizes, streams, "bfloat16") for sizes, streams in zip(SHAPES, STREAMS, strict=True)]
        cases += [] if quick else [(SHAPES[0], 65_536, "bfloat16")]
        cases += [(sizes, streams, "float32") for sizes, streams in zip(SHAPES, STREAMS, strict=True)]
        for case in cases:
            yield f"{case[0]} {case[1]:,} streams {case[2]}", partial(attention_times, *case, bandwidth)
    elif part == "model":
        crowd = 8_192 if quick else 65_536
        yield "pool", partial(pool_times, crowd, 30)
        for kernel in ("sdpa", "padded sdpa", "matmul"):
            yield f"eager {kernel}", partial(eager_times, crowd, kernel)
    elif not quick:
        yield "500,000 streams", partial(crowd_times, 500_000)


def checked(check: Callable[[], float], largest: float) -> dict[str, Any]:
    error = check()
    return {"error": error if error < 1e30 else None, "largest": largest, "right": error <= largest}


def measure(part: str, quick: bool, out: Path) -> None:
    """Measure what `out` does not have of a part, and write what is known after every item.

    An item has failed until it has come to its end, so that one which ends the process is not tried again.
    """
    begun, known = time.monotonic(), read(out)
    found, failures = known["found"], known["failures"]
    for what, item in items(part, quick):
        if what in found or what in failures:
            continue
        start = time.monotonic()
        try:
            if start - begun > SECONDS[part]:
                raise TimeoutError("no time left")
            failures[what] = UNFINISHED
            write(out, known)
            found[what] = item()
            del failures[what]
            print(f"{what}: {found[what]}  [{time.monotonic() - start:.1f} s]", flush=True)
        except Exception as error:
            print(f"FAILED {what}: {traceback.format_exc(limit=-3).strip()}", flush=True)
            failures[what] = f"{type(error).__name__}: {error}"[:600]
        write(out, known)
        gc.collect()
        torch.cuda.empty_cache()  # after an error on the device, this ends the process


def read(out: Path) -> dict[str, dict[str, Any]]:
    """The figures and failures of a part that are known."""
    return json.loads(out.read_text()) if out.exists() else {"found": {}, "failures": {}}


def write(out: Path, known: dict[str, dict[str, Any]]) -> None:
    """Replace the file at once: the process can end at any time."""
    new = out.with_suffix(".new")
    new.write_text(json.dumps(known))
    new.replace(out)


def collect(part: str, quick: bool) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The figures and failures of a part, measured in other processes: a new one after each that ends early."""
    end = time.monotonic() + 2 * SECONDS[part]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        command = [sys.executable, __file__, "--part", part, "--out", str(out), *(["--quick"] if quick else [])]
        while True:
            before = read(out)
            why = run(command, end - time.monotonic())
            known = read(out)
            done = why is None or time.monotonic() > end or known == before
            for what in [what for what, said in known["failures"].items() if said == UNFINISHED]:
                known["failures"][what] = why or UNFINISHED
            if done:
                break
            write(out, known)
    failures = known["failures"] | ({} if why is None else {part: why})
    return known["found"], [{"what": what, "why": said} for what, said in failures.items()]


def run(command: list[str], seconds: float) -> str | None:
    """Run a process, and say how it failed, if it did."""
    try:
        status = subprocess.run(command, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return "its process took too long"
    return f"its process ended with status {status}" if status else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and streams, written to gpu_quick.json")
    parser.add_argument("--part", choices=tuple(SECONDS), help="measure one part only, and write it to --out")
    parser.add_argument("--out", type=Path, help="file for the figures of --part, instead of results/gpu.json")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        # `make bench` runs this on any machine: the record of a GPU must not be overwritten.
        print("no CUDA device here: nothing was checked, timed or written")
        return 1 if options.part else 0  # to the process that asks for a part, there was one
    if options.part:
        if options.out is None:
            parser.error("--part needs --out")
        measure(options.part, options.quick, options.out)
        return 0
    from _common import ROOT, write_results

    from nystream import provenance

    sys.path.insert(0, str(ROOT))
    from lab import gpu_sources

    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "triton": provenance.installed("triton"),
        "sources": gpu_sources.digest(),
        "failures": [],
    }
    for part in SECONDS:
        figures[part], failures = collect(part, options.quick)
        figures["failures"] += failures
        write_results("gpu_quick" if options.quick else "gpu", figures)
    wrong = [what for what, check in figures["checks"].items() if not check["right"]]
    print(
        f"{len(wrong)} of {len(figures['checks'])} checks wrong {wrong}; {len(figures['failures'])} failures",
        flush=True,
    )
    return 1 if wrong or figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
