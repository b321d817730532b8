"""The contract suite and step times on an accelerator: `python benchmarks/device.py --device cuda`.

Correct before fast: every variant passes the contract on the device before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

import nystream as ns
from nystream import testing, variants


def build(variant: str, width: int, heads: int, n: int, m: int, device: str, dtype: torch.dtype, **options: object):
    torch.manual_seed(1)
    cfg = ns.AttentionConfig(variant, width, heads, n, m, **options)  # type: ignore[arg-type]
    attn = ns.MultiheadAttention(cfg, dtype=dtype).eval()
    if cfg.fixed:
        attn.set_landmarks(*torch.randn(2, heads, m, width // heads))
    return attn.to(device)


def check(device: str) -> list[str]:
    """The checks that fail on the device."""
    broken = []
    for variant in ns.VARIANTS:
        for sums in variants.get(variant).forms:
            for n, m, r in ((7, 3, 1), (12, 5, 3), (30, 4, 1)):
                attn = build(variant, 8, 2, n, m, device, torch.float64, sums=sums, update_size=r)
                try:
                    testing.check_stream_module(attn)
                except Exception:
                    broken.append(f"{variant} {sums} n={n} m={m} r={r}: {traceback.format_exc(limit=-2)}")
    return broken


def microseconds(function: Callable[[], object], device: str, repeats: int) -> float:
    """Median time of one call."""
    for _ in range(10):
        function()
    times = []
    for _ in range(repeats):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


@torch.no_grad()
def measure(device: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for variant in ("co-fixed-single", "co-cont-single", "co-full-single"):
        for n, width, heads, m in ((120, 192, 16, 4), (64, 1024, 8, 16), (16384, 512, 8, 16)):
            attn = build(variant, width, heads, n, m, device, torch.float32)
            for batch in (1, 256) if n < 1000 else (1, 16):
                state = attn.init_state(batch)
                x = torch.randn(batch, min(4096, n), width, device=device)
                for _ in range(-(-n // x.shape[1])):
                    _, state = attn.steps(x, state)
                held = [state]

                def step(attn=attn, x=x, held=held) -> None:
                    _, held[0] = attn.step(x[:, 0], held[0], inplace=True)

                row = {"variant": variant, "n": n, "d": width, "heads": heads, "m": m, "batch": batch}
                row["step_us"] = microseconds(step, device, 100)
                if batch == 1:
                    piece = torch.randn(1, 4096, width, device=device)
                    row["steps_4096_us"] = microseconds(lambda a=attn, p=piece, h=held: a.steps(p, h[0]), device, 10)
                rows.append(row)
                print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("results/device.json"))
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        # `make bench` runs this on any machine: the record of an accelerator must not be overwritten.
        print("no CUDA device here: nothing was checked, timed or written")
        return
    broken = check(options.device)
    print(f"{len(broken)} promises broken on {options.device}", *broken, sep="\n")
    rows = [] if broken else measure(options.device)
    name = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    record = {"command": f"python benchmarks/device.py --device {options.device}", "device": name}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record |= {"torch": torch.__version__, "broken": len(broken), "rows": rows}
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
