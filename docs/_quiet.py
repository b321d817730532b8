"""The part of the bench run on slow steps, and its causes; for `render.py`."""

from __future__ import annotations

from typing import Any

from _source import table, us


def quiet(figures: dict[str, Any]) -> list[str]:
    """Paragraphs and tables."""
    times = ("median", "p99", "p999", "worst")
    rows = [
        [
            f"`{row['name']}`" if row["name"] == "pool.push" else row["name"],
            *(us(row[f"{name}_microseconds"]) for name in times),
            f"{row['p99_over_median']:.2f}",
            f"{row['slow_share']:.2%}",
        ]
        for row in figures["rows"]
    ]
    causes = [
        [row["name"], f"{row['steps']:,}", f"{row['of_slow']:.1%}", f"{row['of_all']:.3%}"] for row in figures["causes"]
    ]
    machine = figures["machine"]
    noisy = (
        f"This machine is noisy: it delays even the loop that computes by more than "
        f"{us(machine['delay_microseconds'])}, {machine['delays_per_second']:,.0f} times per second."
    )
    if figures["rows"][0]["p99_over_median"] > 2:
        noisy += (
            f" A pool whose steps have no delays but those of the loops would have a p99 of "
            f"{machine['p99_over_median']:.2f} times its median."
        )
    return [
        f"Single steps of one stream with fixed landmarks ({figures['rows'][0]['steps']:,}, each of them timed). A "
        "step is slow if it takes more than twice the median. The loops take turns with the steps and last as long, "
        "and show what this machine does to any code: one only computes, the other first reads as much as the weights "
        "of the model.",
        table(["", "median", "p99", "p99.9", "worst", "p99 / median", "slow"], rows),
        *([noisy] if machine["noisy"] else []),
        "Causes of the slow steps of the pool: each counts for the first of these that was seen during it. The machine "
        f"has as many of the others as the loops have of such delays, give or take {figures['chance']} by chance. "
        f"Without the machine and other processes, {figures['own_share']:.2%} of all steps would be slow; p99 leaves "
        "room for 1 %.",
        table(["cause", "steps", "of slow steps", "of all steps"], causes),
    ]
