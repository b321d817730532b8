"""The record of a run as tables that fit 80 columns, on a terminal and in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

WIDTH = 80
STEP = ("error", "median", "p99", "worst")

Block = tuple[str, Table, list[str]]  # title, table, notes: a paragraph each


def lines(record: dict[str, Any]) -> Iterator[Table | Text]:
    """What was measured, part by part, and the targets at the end; to be printed one after the other."""
    for title, table, notes in blocks(record):
        yield Text(_wrapped(title), style="bold")
        yield table
        yield Text("\n".join([*map(_wrapped, notes), ""]), style="dim")
    if not record["targets"]:
        yield Text("No targets: they are set for the default sizes and the compiled backend.", style="dim")


def blocks(record: dict[str, Any]) -> Iterator[Block]:
    if "attention" in record:
        yield from map(_attention, record["attention"]["cases"])
    if "window" in record:
        yield _window(record["window"])
    if "model" in record:
        yield from _model(record["model"], record["settings"]["sizes"])
    if "phases" in record:
        yield _phases(record["phases"])
    if "streams" in record:
        yield _streams(record["streams"])
    if "overhead" in record:
        yield _overhead(record["overhead"])
    if record["targets"]:
        yield "Targets", _targets(record["targets"]), []


def _attention(case: dict[str, Any]) -> Block:
    table = _table(("contender",), (*STEP, "ratio", "state"))
    ratios = case.get("ratios", {})
    for row in case["rows"]:
        table.add_row(row["name"], *_step(row), _ratio(ratios.get(row["name"])), _size(row["bytes_per_stream"]))
    title = f"Attention alone, µs: n = {case['n']:,}, d = {case['d']}, {case['heads']} heads, m = {case['m']}"
    note = "ratio: how many compiled steps it takes. q, k and v are given; one thread."
    return title, table, [*_missing(case["skipped"]), note]


def _window(figures: dict[str, Any]) -> Block:
    table = _table(("what",), ("n", "median", "p99", "ratio", "a stream", "formula"))
    for row in figures["rows"]:
        for n, found in row["windows"].items():
            last = n == list(row["windows"])[-1]
            table.add_row(
                row["name"],
                f"{int(n):,}",
                _us(found["median_microseconds"]),
                _us(found["p99_microseconds"]),
                _ratio(row["ratio"]) if last else "",
                _size(found["bytes_per_stream"]),
                _size(found["formula_bytes"]),
            )
    title = f"The window, µs: d = {figures['d']}, {figures['heads']} heads, m = {figures['m']}, fixed landmarks"
    note = (
        "a stream: the bytes that one more takes. formula: n (d + h m) numbers and the partial sums, as nystream.costs "
        "counts the state of model.step."
    )
    return title, table, [*_missing(figures["skipped"]), note]


def _model(figures: dict[str, Any], sizes: dict[str, int]) -> Iterator[Block]:
    """One table for every depth."""
    floor = figures["floor"]
    whole = floor["with_state"]
    notes = [
        f"error: largest difference from float64. ratio: how many steps of the {figures['backend']} pool with co-fixed "
        "it takes. torch has one thread. worst: the slowest single step, more often the machine's fault than the "
        "contender's.",
        f"floor: {floor['microseconds']:.1f} µs, to read {floor['reads']} once, {_size(floor['bytes'])} at "
        f"{floor['gigabytes_per_second']:.0f} GB/s; the pool's step takes {floor['pool_over_floor']:.2f} times as "
        f"long. With the whole state, of which a step touches a part, {_size(whole['bytes'])} in "
        f"{whole['microseconds']:.1f} µs: {whole['pool_over_floor']:.2f} times.",
    ]
    deep = (
        "continual-inference works on n rows at every step; the pool has a deep stack, each block with a window of "
        "its own."
    )
    for depth in sorted({row["blocks"] for row in figures["rows"]}):
        table = _table(("contender",), (*STEP, "ratio", "state"))
        for row in figures["rows"]:
            if row["blocks"] == depth:
                cells = (*_step(row), _ratio(row["ratio"]), _size(row["bytes_per_stream"]))
                ours = row["name"].startswith("nystream pool")
                table.add_row(row["name"].partition(f", {depth} blocks")[0], *cells, style="bold" if ours else None)
        title = (
            f"Whole model, µs, {depth} block{'s' if depth > 1 else ''}: n = {sizes['window']:,}, "
            f"d = {sizes['embed_dim']}, {sizes['num_heads']} heads, m = {sizes['landmarks']}, ff {sizes['ff_dim']}"
        )
        main = depth == sizes["layers"]
        yield title, table, [*_missing(figures["skipped"]), *notes] if main else [deep]


def _phases(figures: dict[str, Any]) -> Block:
    table = _table(("landmarks",), ("cycles", "median phase", "slowest phase", "ratio"))
    for row in figures["rows"]:
        table.add_row(
            row["name"],
            f"{row['cycles']}",
            _us(row["median_microseconds"]),
            _us(row["slowest_microseconds"]),
            _ratio(row["slowest_over_median"]),
        )
    title = f"Phases, µs: the pool's median step at each of {figures['cycle']:,} phases of the window"
    return title, table, ["co-cont renews a landmark every n / m steps, which takes n d operations then."]


def _streams(figures: dict[str, Any]) -> Block:
    table = _table((), ("streams", "push", "push_many", "torch batch", "many / one", "a stream"))
    for row in figures["rows"]:
        table.add_row(
            f"{row['streams']:,}",
            _rate(row["one_by_one_steps_per_second"]),
            _rate(row["push_many_steps_per_second"]),
            _rate(row["torch_batch_steps_per_second"]),
            _ratio(row["many_over_one"]),
            _size(row["bytes_per_stream"]),
        )
    notes = [
        "push: one stream after the other. torch batch: model.step of all streams at once, with one thread or all, "
        "whichever is the faster."
    ]
    notes += [f"{row['streams']:,} streams were left out: {row['why']}." for row in figures["skipped"]]
    return f"Many streams: stream-steps a second, {figures['threads']} threads, co-fixed", table, notes


def _overhead(figures: dict[str, Any]) -> Block:
    table = _table(("what",), ("median",))
    for row in figures["rows"]:
        table.add_row(row["name"], f"{row['median_microseconds']:.2f}")
    note = f"A push takes {figures['microseconds']:.2f} µs more than the {figures['against']}."
    return "What Python adds to a step of the pool, µs", table, [note]


def _targets(targets: Sequence[dict[str, Any]]) -> Table:
    table = _table(("", "what"), ("found", "wanted"))
    table.columns[1].no_wrap = False
    for target in targets:
        mark = Text("met", style="green") if target["met"] else Text("MISSED", style="bold red")
        sign = "≥" if target["kind"] == "at least" else "≤"
        unit = " µs" if target["unit"] == "µs" else " x"
        table.add_row(
            mark, target["what"], f"{_three(target['value'])}{unit}", f"{sign} {_three(target['limit'])}{unit}"
        )
    return table


def _table(left: Iterable[str], right: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def _missing(skipped: Iterable[dict[str, str]]) -> list[str]:
    return [f"{row['name']}: not here; {row['why']}" for row in skipped]


def _step(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        f"{row['error']:.0e}",
        _us(row["median_microseconds"]),
        _us(row["p99_microseconds"]),
        _us(row["worst_microseconds"]),
    )


def _size(nbytes: int) -> str:
    return decimal(nbytes).replace("bytes", "B")


def _us(microseconds: float) -> str:
    if microseconds >= 100_000:
        return f"{microseconds / 1e3:,.0f} ms"
    return f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{_three(ratio)} x"


def _three(number: float) -> str:
    """About three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _rate(per_second: float) -> str:
    if per_second < 1e3:
        return f"{per_second:.0f}"
    return f"{per_second / 1e6:.2f} M" if per_second >= 1e6 else f"{per_second / 1e3:.1f} k"
