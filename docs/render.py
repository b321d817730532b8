"""Write the measured numbers of results/*.json into the marked places of README.md and docs/*.md.

    python docs/render.py          # write
    python docs/render.py --check  # fail if a page does not say what the results say

A place is marked by <!-- name --> and <!-- /name -->; nothing between them is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def source(record: Any) -> str:
    """Where the numbers come from."""
    machine = record["hardware"]
    return f"`{record['command']}` on {machine['cores']} cores of an {machine['cpu']}, torch {machine['torch']}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured() -> str:
    record = results("step")
    window, phases = record["window"], record["phases"]
    times = window["microseconds"]
    rows = [
        [
            f"`{row['variant']}`",
            f"{row['n']}/{row['d']}/{row['heads']}/{row['m']}",
            f"×{row['ratio']:.0f}",
            f"×{row['ratio_one_thread']:.0f}",
        ]
        for row in record["steps"]
    ]
    cores = record["steps"][0]["threads"]
    spread = max(row["max_over_median"] for row in phases)
    device = results("device")
    return "\n\n".join(
        [
            f"In eager PyTorch ({source(record)}; ratios of medians of one run):",
            f"- An in-place step of `co-fixed-single` at n = 16,384 takes ×{window['ratio']:.2f} the time it takes at "
            f"n = 128 ({times['16384']:.0f} and {times['128']:.0f} µs; d = {window['d']}, {window['heads']} heads, "
            f"m = {window['m']}).\n- The slowest phase of its window takes ×{spread:.2f} the median one.\n"
            f"- `steps` over 4,096 tokens is so many times faster than a loop over `step(inplace=True)`:",
            table(["variant", "n/d/heads/m", f"{cores} threads", "1 thread"], rows),
            f"The contract suite also passes on an {device['device']} (`{device['command']}`).",
        ]
    )


def number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.0e}"


def drift() -> str:
    record = results("drift")
    outlier = record["outlier"]
    rows = []
    for curve in outlier["curves"]:
        name = "`subtract`" if curve["sums"] == "subtract" else f"default (`{curve['form']}`)"
        errors = [number(curve[part]) for part in ("inside", "after", "end")]
        rows.append([f"`{curve['variant']}`", f"{curve['logit']:,.0f}", name, *errors])
    head = ["variant", "logit", "sums", "while it is in the window", "after it left", "three windows later"]
    return (
        f"One token whose logit with the landmarks is 15, 20 or 10,000 enters an ordinary float32 stream "
        f"(n = {outlier['n']}, m = {outlier['m']}). Largest error against float64, relative to the largest output "
        f"({source(record)}):\n\n{table(head, rows)}"
    )


def million() -> str:
    record = results("drift")
    run = record["million"]
    rows = [
        [
            f"`{row['variant']}`",
            number(row["largest_error_of_all_against_float64_steps"]),
            number(row["largest_error_of_sampled_against_reference"]),
        ]
        for row in run["runs"]
    ]
    sampled = run["runs"][0]["sampled"]
    return (
        f"{run['tokens']:,} float32 tokens through `steps` in pieces of {run['piece']:,}, the last "
        f"{run['by_step_at_the_end']:,} through `step`, with {run['outliers']:,} outliers of logits up to "
        f"{run['largest_logit']:,.0f} on the way ({source(record)}):\n\n"
        + table(
            ["variant", "largest error, all outputs, against float64", f"{sampled} outputs, against the reference"],
            rows,
        )
    )


BLOCKS: dict[str, Callable[[], str]] = {"measured": measured, "drift": drift, "million": million}


def rendered(page: str) -> str:
    for name, block in BLOCKS.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        if place.search(page):
            text = block()
            page = place.sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
    return page


def main() -> int:
    stale = []
    for path in PAGES:
        page = path.read_text()
        new = rendered(page)
        if new != page:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new)
    if "--check" in sys.argv and stale:
        sys.stderr.write(f"{', '.join(stale)}: not what the results say; run python docs/render.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
