"""The part of a bench run on slow steps, as tables: how slow they are, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nystream.cli.bench_cells import ratio, us
from nystream.cli.screen import Block, new_table


def blocks(figures: dict[str, Any]) -> Iterator[Block]:
    yield _steps(figures)
    yield _causes(figures)


def _steps(figures: dict[str, Any]) -> Block:
    table = new_table(("what",), ("median", "p99", "p99.9", "worst", "p99 / median", "slow"))
    for row in figures["rows"]:
        times = (us(row[f"{name}_microseconds"]) for name in ("median", "p99", "p999", "worst"))
        table.add_row(row["name"], *times, ratio(row["p99_over_median"]), f"{row['slow_share']:.2%}")
    title = f"Quiet steps, µs: {figures['rows'][0]['steps']:,} steps of one stream, co-fixed, each timed"
    notes = [
        "slow: more than twice the median. The loops take turns with the steps and last as long, so they show what "
        "this machine does to any code: one only computes, the other first reads as much as the weights of the model."
    ]
    machine = figures["machine"]
    if machine["noisy"]:
        notes.append(
            f"This machine is noisy: it delays even the loop that computes by more than "
            f"{us(machine['delay_microseconds'])} µs, {machine['delays_per_second']:,.0f} times per second."
        )
        if figures["rows"][0]["p99_over_median"] > 2:
            notes[-1] += (
                f" A pool whose steps have no delays but those of the loops would have a p99 of "
                f"{machine['p99_over_median']:.2f} times its median."
            )
    return title, table, notes


def _causes(figures: dict[str, Any]) -> Block:
    table = new_table(("cause",), ("steps", "of slow", "of all"))
    for row in figures["causes"]:
        table.add_row(row["name"], f"{row['steps']:,}", f"{row['of_slow']:.1%}", f"{row['of_all']:.3%}")
    notes = [
        "Each slow step counts for the first of these that was seen during it. The machine: as many of the others as "
        f"the loops have of such delays. Up to {figures['chance']} more or fewer are chance. Without the machine and "
        f"other processes, {figures['own_share']:.2%} of all steps would be slow; p99 leaves room for 1 %."
    ]
    if not figures["counts_switches"]:
        notes.append("This system does not tell when a thread lost the core, or had a page fault.")
    if figures["slow_phases"] is None:
        notes.append(f"Too few steps to tell slow ones from slow phases: the window has {figures['cycle']:,} phases.")
    return "Causes of slow steps", table, notes
