"""The time of a step: against the window, over its phases, and in a loop compared with `steps`.

    python benchmarks/step.py            # all of it, five to ten minutes on two cores
    python benchmarks/step.py window     # or some parts: window, forms, phases, steps

window   co-fixed-single, in place: n = 16,384 against n = 128. The cost is free of n, so the ratio must stay near 1.
forms    sums="recompute" against "partials" over n: from where on partials are faster, for `config.RECOMPUTE_BELOW`.
phases   sums="partials": the median step of every phase of a cycle. Work is bounded, so no phase stands out.
steps    `steps` over 4,096 tokens against a loop over `step(inplace=True)`.

One thread, but for `steps`, which is timed with all cores too; medians of interleaved runs: the ratios can be trusted
further than the times.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby, pairwise, product
from math import exp, log
from statistics import median, quantiles
from typing import Any

import torch
from _common import build, interleaved, write_results

from nystream import state as states

WINDOW_LIMIT, STEPS_LIMIT = 1.3, 20.0
SMALL, LARGE, WIDE = (192, 16, 4), (512, 8, 16), (1024, 8, 16)  # d, heads, m


def filled(attn: Any, tokens: int, batch: int) -> Any:
    """The state of one stream after some tokens, copied `batch` times."""
    _, held = attn.steps(torch.randn(1, tokens, attn.config.embed_dim), attn.init_state(1))
    return states.select(held, [0] * batch)


def stepper(attn: Any, batch: int = 1) -> Callable[[], object]:
    """One in-place step of a stream whose window is full, at the next phase with every call."""
    held = filled(attn, attn.config.window, batch)
    x = torch.randn(batch, attn.config.embed_dim)

    def step() -> object:
        nonlocal held
        y, held = attn.step(x, held, inplace=True)
        return y

    return step


def window() -> dict[str, Any]:
    d, heads, m = LARGE
    jobs = {str(n): stepper(build("co-fixed-single", n, d, heads, m)) for n in (128, 16_384)}
    took = interleaved(jobs, rounds=120, block=25)
    ratio = took["16384"] / took["128"]
    print(f"co-fixed-single, d={d}, {heads} heads, m={m}, in place")
    for n, seconds in took.items():
        print(f"  n = {int(n):>6,}  {seconds * 1e6:7.1f} µs")
    print(f"  ratio {ratio:.3f} (at most {WINDOW_LIMIT})\n")
    microseconds = {n: seconds * 1e6 for n, seconds in took.items()}
    return {"d": d, "heads": heads, "m": m, "microseconds": microseconds, "ratio": ratio, "limit": WINDOW_LIMIT}


def forms() -> dict[str, Any]:
    rows = []
    print("µs a step in place, recompute against partials; continual landmarks: the mean over a round of renewals")
    print(f"  {'variant':<16} {'d/heads/m':<10} {'batch':>5} {'n':>6} {'recompute':>10} {'partials':>10}  ratio")
    cases = [("co-fixed-single", *SMALL), ("co-fixed-single", *LARGE), ("co-cont-single", *SMALL)]
    for variant, d, heads, m in cases:
        for batch, n in product((1, 64), (32, 64, 120, 128, 256, 512, 1024, 4096)):
            if batch * n * d > 1 << 23:
                continue  # seconds a round, and the answer is plain by then
            took = form_times(variant, n, d, heads, m, batch)
            ratio = took["partials"] / took["recompute"]
            rows.append({"variant": variant, "d": d, "heads": heads, "m": m, "batch": batch, "n": n})
            rows[-1] |= {f"{form}_microseconds": seconds * 1e6 for form, seconds in took.items()} | {"ratio": ratio}
            print(
                f"  {variant:<16} {f'{d}/{heads}/{m}':<10} {batch:>5} {n:>6,} "
                f"{took['recompute'] * 1e6:>10,.0f} {took['partials'] * 1e6:>10,.0f}  {ratio:.2f}",
                flush=True,
            )
    print("\nwindow from which partials are the faster")
    meets = crossovers(rows)
    for row in meets:
        at = f"n = {row['n']:.0f}" if row["n"] else "not in this range"
        print(f"  {row['variant']:<16} d = {row['d']:<4} batch {row['batch']:>3}: {at}")
    print()
    return {"crossovers": meets, "times": rows}


def crossovers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where the ratio of the two forms crosses 1, on a line between the windows beside it in log n and log ratio."""
    found = []
    keys = ("variant", "d", "heads", "m", "batch")
    for key, group in groupby(rows, lambda row: [row[name] for name in keys]):
        at = None
        for a, b in pairwise(group):
            if a["ratio"] > 1 >= b["ratio"]:
                share = log(a["ratio"]) / (log(a["ratio"]) - log(b["ratio"]))
                at = exp(log(a["n"]) + share * (log(b["n"]) - log(a["n"])))
        found.append(dict(zip(keys, key, strict=True)) | {"n": at})
    return found


def form_times(variant: str, n: int, d: int, heads: int, m: int, batch: int) -> dict[str, float]:
    """Seconds per step of both forms; the mix of ordinary steps and renewals for continual landmarks."""
    modules = {form: build(variant, n, d, heads, m, sums=form) for form in ("recompute", "partials")}
    rounds, block = (5, 2) if batch * n * d > 1 << 21 else (20, 8) if batch > 1 else (40, 10)
    if variant == "co-fixed-single":
        return interleaved({form: stepper(attn, batch) for form, attn in modules.items()}, rounds, block)
    # With a full window: the next token completes a segment, or it does not.
    renewal = {form: same_phase(attn, filled(attn, 2 * n - 1, batch)) for form, attn in modules.items()}
    ordinary = {form: same_phase(attn, filled(attn, 2 * n, batch)) for form, attn in modules.items()}
    slow, fast = interleaved(renewal, max(rounds, 12)), interleaved(ordinary, max(rounds, 12), block)
    return {form: (m * slow[form] + (n - m) * fast[form]) / n for form in modules}


def same_phase(attn: Any, held: Any) -> Callable[[], object]:
    """One in-place step that can be repeated: the token count is reset, and everything it wrote is overwritten."""
    x, count = torch.randn(held.time.shape[0], attn.config.embed_dim), held.time.clone()

    def step() -> object:
        held.time.copy_(count)
        return attn.step(x, held, inplace=True)

    return step


def phases() -> list[dict[str, Any]]:
    rows = []
    print('sums="partials": medians of a step at every phase of a cycle of 2n')
    for n, rounds in ((120, 60), (1024, 21)):
        d, heads, m = SMALL
        step = stepper(build("co-fixed-single", n, d, heads, m, sums="partials"))
        took: list[list[float]] = [[] for _ in range(2 * n)]
        for number in range(rounds + 1):
            for phase in range(2 * n):
                begin = time.perf_counter()
                step()
                if number:
                    took[phase].append((time.perf_counter() - begin) * 1e6)
        medians = [median(t) for t in took]
        middle, top = median(medians), max(medians)
        p99 = quantiles(medians, n=100)[98]
        rows.append({"n": n, "d": d, "heads": heads, "m": m, "cycles": rounds, "median_microseconds": middle})
        rows[-1] |= {"max_microseconds": top, "max_over_median": top / middle, "p99_over_median": p99 / middle}
        print(f"  n = {n:>5,}: median phase {middle:.0f} µs, slowest {top:.0f} µs: {top / middle:.2f} times\n")
    return rows


def steps() -> list[dict[str, Any]]:
    rows, length, cores = [], 4096, os.cpu_count() or 1
    print(f"`steps` over {length:,} tokens, with one thread and {cores}, against a loop over step(inplace=True)")
    print(f"  {'variant':<16} {'n/d/heads/m':<12}     loop   steps, 1 thread   {f'{cores} threads':>12}")
    sizes = ((120, *SMALL), (64, *WIDE))
    for variant, (n, d, heads, m) in product(("co-fixed-single", "co-cont-single", "co-full-single"), sizes):
        took = loop_and_steps(build(variant, n, d, heads, m), length, cores)
        one, many = took["loop"] / took["one"], took["loop"] / took["many"]
        row = {"variant": variant, "n": n, "d": d, "heads": heads, "m": m, "tokens": length, "threads": cores}
        row |= {"loop_seconds": took["loop"], "steps_seconds": took["many"], "ratio": many}
        row |= {"steps_seconds_one_thread": took["one"], "ratio_one_thread": one}
        if (variant, n) == ("co-fixed-single", 120):
            row["limit"] = STEPS_LIMIT
        rows.append(row)
        print(
            f"  {variant:<16} {f'{n}/{d}/{heads}/{m}':<12} {took['loop']:>6.2f} s "
            f"{took['one'] * 1e3:>7.0f} ms ({one:>4.1f} x) {took['many'] * 1e3:>7.0f} ms ({many:>4.1f} x)"
            + (f", at least {STEPS_LIMIT:.0f}" if "limit" in row else ""),
            flush=True,
        )
    print()
    return rows


def loop_and_steps(attn: Any, length: int, cores: int) -> dict[str, float]:
    """Seconds for a number of tokens: a loop, and `steps` with one thread and with many.

    The loop has one thread, at which it is fastest: a step is too small to share. It is timed in pieces of four
    windows, to last about as long as `steps`: a busy machine interrupts long runs more often than short ones.
    """
    x, piece = torch.randn(1, length, attn.config.embed_dim), 4 * attn.config.window
    held = attn.init_state(1)

    def loop() -> None:
        nonlocal held
        torch.set_num_threads(1)
        for t in range(piece):
            _, held = attn.step(x[:, t], held, inplace=True)

    def at_once(threads: int) -> None:
        torch.set_num_threads(threads)
        attn.steps(x, attn.init_state(1))

    jobs = {"loop": loop, "one": partial(at_once, 1), "many": partial(at_once, cores)}
    took = interleaved(jobs, rounds=9)
    torch.set_num_threads(1)
    return took | {"loop": took["loop"] * length / piece}


PARTS: dict[str, Callable[[], Any]] = {"window": window, "forms": forms, "phases": phases, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all of them unless told")
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"parts {', '.join(sorted(unknown))} are not known; there are {', '.join(PARTS)}")
    torch.set_num_threads(1)
    with torch.inference_mode():
        figures = {name: PARTS[name]() for name in args.parts or PARTS}
    if args.parts and set(args.parts) != set(PARTS):
        return  # a part alone is to look at; the record holds all of them
    print(f"written to {write_results('step', figures).name}")


if __name__ == "__main__":
    main()
