"""The GPU pool: is it right at real sizes, then how fast is it? `python benchmarks/gpu.py`, or --quick.

Writes results/gpu.json after every part. A part that fails is recorded, and the others go on; the exit status is 1.
Needs a GPU, PyTorch and Triton, but no Numba.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

SHAPES = ((120, 192, 16, 4), (64, 1024, 8, 16), (512, 512, 8, 16))
STREAMS = (16_384, 4_096, 4_096)
VARIANTS = ("co-fixed-single", "co-cont-single", "co-full-single")
SECONDS = 450.0  # parts that would start later are skipped


def checks(quick: bool) -> dict[str, tuple[Callable[[], float], float]]:
    """What is checked, and the largest error that is right."""
    from _gpu_checks import check_attention, check_model, check_snapshots

    shapes = SHAPES[:2] if quick else SHAPES
    found: dict[str, tuple[Callable[[], float], float]] = {}
    for sizes in shapes:
        for ring_dtype in ("bfloat16", "float32"):
            found[f"co-fixed-single {sizes} {ring_dtype}"] = (
                partial(check_attention, VARIANTS[0], sizes, ring_dtype),
                1e-4,
            )
    for variant in VARIANTS:
        for options in ({"decay": True}, {"update_size": 4}):
            sizes = (100, 96, 8, 5)
            found[f"{variant} {sizes} {options}"] = partial(check_attention, variant, sizes, "float32", **options), 1e-3
        found[f"snapshots of {variant}"] = partial(check_snapshots, variant), 1e-3
        found[f"pool of {variant}, float32"] = partial(check_model, torch.float32, variant), 1e-3
    found["pool of co-fixed-single, two blocks"] = partial(check_model, torch.float32, layers=2, stack="deep"), 1e-3
    found["pool of co-fixed-single, bfloat16"] = partial(check_model, torch.bfloat16), 0.1
    return found


class Record:
    """Runs parts, and writes what is known so far."""

    def __init__(self, name: str) -> None:
        from _common import write_results

        self.write, self.start = write_results, time.monotonic()
        self.figures: dict[str, Any] = {"device": name, "triton": triton_version(), "failures": []}

    def run(self, what: str, part: Callable[[], Any]) -> Any:
        """The result of a part, or None if it fails or there is no time for it."""
        begun = time.monotonic()
        if begun - self.start > SECONDS:
            return self._failed(what, "no time left")
        try:
            result = part()
        except Exception:
            return self._failed(what, traceback.format_exc(limit=-3))
        finally:
            gc.collect()
            torch.cuda.empty_cache()
        print(f"{what}: {result}  [{time.monotonic() - begun:.1f} s]", flush=True)
        return result

    def keep(self, **figures: Any) -> None:
        self.figures |= figures
        self.figures["seconds"] = time.monotonic() - self.start
        self.write("gpu", self.figures)

    def _failed(self, what: str, why: str) -> None:
        print(f"FAILED {what}: {why}", flush=True)
        self.figures["failures"].append({"what": what, "why": why.strip().splitlines()[-1][:300]})
        self.keep()


def triton_version() -> str:
    import triton

    return str(triton.__version__)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and streams")
    quick = parser.parse_args().quick
    if not torch.cuda.is_available():
        # `make bench` runs this on any machine: the record of a GPU must not be overwritten.
        print("no CUDA device here: nothing was checked, timed or written")
        return 0
    from _gpu_times import attention_times, copy_bandwidth, eager_times, pool_times

    record = Record(torch.cuda.get_device_name())
    found = []
    for what, (check, largest) in checks(quick).items():
        worst = record.run(what, check)
        right = worst is not None and worst <= largest
        found.append({"what": what, "error": worst if worst is not None and worst < 1e30 else None, "right": right})
        if not right:
            print(f"WRONG: {what}, {worst} > {largest}", flush=True)
        record.keep(checks=found)
    bandwidth = record.run("copy bandwidth", copy_bandwidth)
    record.keep(copy_terabytes_per_second=None if bandwidth is None else bandwidth / 1e12)
    cases = [
        (sizes, streams, dtype)
        for sizes, streams in zip(SHAPES, STREAMS, strict=True)
        for dtype in ("bfloat16", "float32")
    ]
    cases += [] if quick else [(SHAPES[0], 65_536, "bfloat16")]
    times = []
    for case in cases:
        row = record.run(f"attention {case}", partial(attention_times, *case, bandwidth))
        times += [row] if row is not None else []
        record.keep(attention=times)
    crowd = 8_192 if quick else 65_536
    ours = record.run("whole model", partial(pool_times, crowd, 30))
    theirs = record.run("whole model, eager", partial(eager_times, crowd))
    both = ours is not None and theirs is not None
    record.keep(
        model=ours,
        eager=theirs,
        model_over_eager=ours["steps_per_second"] / theirs["steps_per_second"] if both else None,
    )
    if not quick:
        record.keep(crowd=record.run("500,000 streams", partial(pool_times, 500_000, 5)))
    wrong = [check["what"] for check in found if not check["right"]]
    print(
        f"{len(wrong)} of {len(found)} checks wrong {wrong}; {len(record.figures['failures'])} parts failed", flush=True
    )
    return 1 if wrong or record.figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
