"""The record of a bench run as tables that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from nystream.cli import quiet_tables
from nystream.cli.bench_cells import rate, ratio, size, three, us
from nystream.cli.screen import Block, new_table

STEP = ("error", "median", "p99", "worst")


def blocks(record: dict[str, Any]) -> Iterator[Block]:
    """All parts that were measured, and the targets at the end."""
    if "attention" in record:
        yield from map(_attention, record["attention"]["cases"])
    if "window" in record:
        yield _window(record["window"])
    if "model" in record:
        yield from _model(record["model"], record["settings"]["sizes"])
    if "phases" in record:
        yield _phases(record["phases"])
    if "quiet" in record:
        yield from quiet_tables.blocks(record["quiet"])
    if "streams" in record:
        yield _streams(record["streams"])
    if "overhead" in record:
        yield _overhead(record["overhead"])
    if "export" in record:
        yield from _export(record["export"], record["settings"]["sizes"])
    if record["targets"]:
        yield "Targets", _targets(record["targets"]), _target_notes(record["targets"])


def _attention(case: dict[str, Any]) -> Block:
    table = new_table(("contender",), (*STEP, "ratio", "state"))
    ratios = case.get("ratios", {})
    for row in case["rows"]:
        table.add_row(row["name"], *_step(row), ratio(ratios.get(row["name"])), size(row["bytes_per_stream"]))
    title = f"Attention alone, µs: n = {case['n']:,}, d = {case['d']}, {case['heads']} heads, m = {case['m']}"
    note = "ratio: time relative to the compiled step. q, k and v are given; one thread."
    return title, table, [note]


def _window(figures: dict[str, Any]) -> Block:
    table = new_table(("what",), ("n", "median", "p99", "ratio", "stream", "formula"))
    for row in figures["rows"]:
        for n, figures_n in row["windows"].items():
            last = n == list(row["windows"])[-1]
            table.add_row(
                row["name"],
                f"{int(n):,}",
                us(figures_n["median_microseconds"]),
                us(figures_n["p99_microseconds"]),
                ratio(row["ratio"]) if last else "",
                size(figures_n["bytes_per_stream"]),
                size(figures_n["formula_bytes"]),
            )
    title = f"The window, µs: d = {figures['d']}, {figures['heads']} heads, m = {figures['m']}, fixed landmarks"
    note = (
        "stream: memory per stream. formula: n (d + h m) numbers and the partial sums, as nystream.costs counts the "
        "state of model.step."
    )
    return title, table, [note]


def _model(figures: dict[str, Any], sizes: dict[str, int]) -> Iterator[Block]:
    """One table per depth."""
    floor = figures["floor"]
    whole = floor["with_state"]
    notes = [
        f"error: largest difference from float64. ratio: time relative to the {figures['backend']} pool with co-fixed. "
        "bfloat16, int8: the same pool with such weights. torch uses one thread. worst: the slowest single step, "
        "usually slowed down by other work on the machine.",
        f"floor: reading {floor['reads']} once takes {floor['microseconds']:.1f} µs ({size(floor['bytes'])} at "
        f"{floor['gigabytes_per_second']:.0f} GB/s); a step of the pool takes {floor['pool_over_floor']:.2f} times as "
        f"long. Reading the whole state too, of which a step uses only a part, takes {whole['microseconds']:.1f} µs "
        f"({size(whole['bytes'])}), and the step {whole['pool_over_floor']:.2f} times that.",
    ]
    deep = (
        "continual-inference computes n rows at every step; the pool has a deep stack, in which each block has its "
        "own window."
    )
    for depth in sorted({row["blocks"] for row in figures["rows"]}):
        table = new_table(("contender",), (*STEP, "ratio", "state"), first="")
        for row in figures["rows"]:
            if row["blocks"] == depth:
                cells = (*_step(row), ratio(row["ratio"]), size(row["bytes_per_stream"]))
                ours = row["name"].startswith("nystream pool")
                table.add_row(row["name"].partition(f", {depth} blocks")[0], *cells, style="bold" if ours else None)
        title = (
            f"Whole model, µs, {depth} block{'s' if depth > 1 else ''}: n = {sizes['window']:,}, "
            f"d = {sizes['embed_dim']}, {sizes['num_heads']} heads, m = {sizes['landmarks']}, ff {sizes['ff_dim']}"
        )
        main = depth == sizes["layers"]
        yield title, table, [*_missing(figures["skipped"]), *notes] if main else [deep]


def _phases(figures: dict[str, Any]) -> Block:
    table = new_table(("what",), ("cycles", "median phase", "mean", "slowest phase", "ratio"))
    for row in figures["rows"]:
        table.add_row(
            row["name"],
            f"{row['cycles']}",
            us(row["median_microseconds"]),
            us(row["mean_microseconds"]),
            us(row["slowest_microseconds"]),
            ratio(row["slowest_over_median"]),
        )
    notes = ["co-cont renews a landmark every n / m steps; such a step takes n d operations more."]
    if len(figures["rows"]) > 2:
        notes.append("attention: alone, with fixed landmarks, of which four renew their sums in the same step.")
    title = f"Phases, µs: the median step at every phase of the window ({figures['cycle']:,} in the pool)"
    return title, table, notes


def _streams(figures: dict[str, Any]) -> Block:
    table = new_table((), ("streams", "push", "push_many", "torch batch", "many / one", "stream"))
    for row in figures["rows"]:
        table.add_row(
            f"{row['streams']:,}",
            rate(row["one_by_one_steps_per_second"]),
            rate(row["push_many_steps_per_second"]),
            rate(row["torch_batch_steps_per_second"]),
            ratio(row["many_over_one"]),
            size(row["bytes_per_stream"]),
        )
    notes = [
        "push: one stream after the other. torch batch: model.step of all streams at once, with one thread or all, "
        "whichever is faster. stream: memory per stream."
    ]
    notes += [f"{row['streams']:,} streams were not measured: {row['why']}." for row in figures["skipped"]]
    return f"Many streams: tokens per second of all together, {figures['threads']} threads, co-fixed", table, notes


def _overhead(figures: dict[str, Any]) -> Block:
    table = new_table(("what",), ("median",))
    for row in figures["rows"]:
        table.add_row(row["name"], f"{row['median_microseconds']:.2f}")
    note = f"A push takes {figures['microseconds']:.2f} µs longer than the {figures['against']}."
    return "Overhead of Python in a step of the pool, µs", table, [note]


def _export(figures: dict[str, Any], sizes: dict[str, int]) -> Iterator[Block]:
    """The exported model beside others, and over two windows."""
    table = new_table(("step",), ("error", "median", "p99", "ratio"))
    for row in figures["rows"]:
        error = "" if row["error"] is None else f"{row['error']:.0e}"
        table.add_row(
            row["name"], error, us(row["median_microseconds"]), us(row["p99_microseconds"]), ratio(row["ratio"])
        )
    notes = ["ratio: time relative to onnxruntime. One stream, one thread, states overwritten in place."]
    if "skipped" in figures:
        notes = [f"not available; {figures['skipped']}"]
    title = f"Exported model, µs: n = {sizes['window']:,}, d = {sizes['embed_dim']}, fixed landmarks"
    yield title, table, notes
    if not figures["windows"]:
        return
    table = new_table((), ("n", "median", "p99", "ratio", "stream"))
    for row in figures["windows"]:
        cells = us(row["median_microseconds"]), us(row["p99_microseconds"]), ratio(row["ratio"])
        table.add_row(f"{row['n']:,}", *cells, size(row["bytes_per_stream"]))
    note = "A long window is divided into blocks of 32 tokens; a step that enters the next one takes longer."
    yield "Exported model over two windows, µs", table, [note]


def _targets(targets: Sequence[dict[str, Any]]) -> Table:
    table = new_table(("", "target"), ("measured", "limit"))
    table.columns[1].no_wrap = False
    for target in targets:
        sign = "≥" if target["kind"] == "at least" else "≤"
        unit = " µs" if target["unit"] == "µs" else " x"
        table.add_row(
            _mark(target), target["what"], f"{three(target['value'])}{unit}", f"{sign} {three(target['limit'])}{unit}"
        )
    return table


def _target_notes(targets: Sequence[dict[str, Any]]) -> list[str]:
    notes = [f"{target['what']}: {target['note']}." for target in targets if "note" in target]
    if any(target.get("noisy") and not target["met"] for target in targets):
        notes.append("NOISY: not met, but a loop that does nothing else would not meet it on this machine either.")
    return notes


def _mark(target: dict[str, Any]) -> Text:
    """Whether a target is met; one that no code can meet on a machine this busy is neither met nor missed."""
    if target["met"]:
        return Text("met", style="green")
    return Text("NOISY", style="bold yellow") if target.get("noisy") else Text("MISSED", style="bold red")


def _missing(skipped: Iterable[dict[str, str]]) -> list[str]:
    return [f"{row['name']}: not available; {row['why']}" for row in skipped]


def _step(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        f"{row['error']:.0e}",
        us(row["median_microseconds"]),
        us(row["p99_microseconds"]),
        us(row["worst_microseconds"]),
    )
