"""`nystream costs`: what attention costs, by the paper's formulas, by ours and by what the library runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from rich import box
from rich.filesize import decimal
from rich.table import Table
from tyro.conf import arg

import nystream as ns
import nystream.costs as costs
from nystream import files
from nystream.cli import screen
from nystream.costs import plot, tables
from nystream.files import require_writable

Block = tuple[str, Table, list[str]]  # title, table, notes


def _group(variant: str) -> str:
    """Full attention, plain low rank, or a continual family."""
    record = ns.variants.get(variant)
    return "full" if not record.low_rank else "plain" if record.plain else record.family


ENDS = [this for this, after in pairwise(ns.VARIANTS) if _group(this) != _group(after)]


@dataclass
class Costs:
    """What attention costs a step: operations and memory of all nine variants, as they grow and in numbers.

    Example:
        nystream costs --table gtzan --plot costs.png
    """

    window: Annotated[int, arg(metavar="N", aliases=["-n"])] = 120
    """Tokens n that a token attends to."""
    embed_dim: Annotated[int, arg(metavar="D", aliases=["-d"])] = 192
    """Width d of a token, of all heads together."""
    landmarks: Annotated[int, arg(metavar="M", aliases=["-m"])] = 4
    """Landmarks m of the low-rank variants."""
    layers: int = 1
    """Blocks. From two on, a continual variant's name means its family: retroactive, plain, ..., single."""
    num_heads: int = 1
    """Heads, each embed_dim / num_heads wide. The paper counts GTZAN's 16 heads as one."""
    sums: Literal["auto", "partials", "recompute"] = "auto"
    """How the continual low-rank variants keep their window, for what is executed and stored: auto recomputes below 128
    tokens."""
    table: Literal["gtzan", "thumos14", "electricity"] | None = None
    """Print this result table of the paper instead, each cell beside what the formulas give."""
    plot: Annotated[Path | None, arg(metavar="FILE")] = None
    """Draw the paper's figure here (png, svg or pdf; needs the extra `plot`): operations and peak memory against n, one
    and two blocks, d = 200, m = 8."""
    corrected: bool = False
    """Draw our counts instead of the paper's."""
    json: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the numbers here; - prints them instead of the tables."""
    plain: bool = False
    """No colours, as in a pipe."""

    def run(self) -> None:
        record = tables_record(self.table) if self.table else self.record()
        to_stdout = str(self.json) == "-"
        for name, path in (("json", None if to_stdout else self.json), ("plot", self.plot)):
            if path is not None:
                require_writable(name, path)
        if self.plot is not None:
            plot.draw(self.plot, corrected=self.corrected)
        if self.json is not None:
            text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
            if to_stdout:
                sys.stdout.write(text)
                return
            files.write_text(self.json, text)
        console = screen.console(self.plain)
        for title, table, notes in [printed_table(record)] if self.table else blocks(record):
            console.print(screen.filled([title], console.width), style="bold")
            for part in screen.fitting(table, console):
                console.print(part)
            console.print(screen.filled([*notes, ""], console.width), style="dim")

    def record(self) -> dict[str, Any]:
        """Everything that is printed, as plain values."""
        n, d, m, layers, heads = self.window, self.embed_dim, self.landmarks, self.layers, self.num_heads
        rows = []
        for variant in ns.VARIANTS:
            # The config's checks name what is wrong.
            sums = self.sums if "partials" in ns.variants.get(variant).sums else "auto"
            form = ns.AttentionConfig(variant, d, heads, n, m, sums=sums).form
            sizes = (variant, n, d // heads, m, layers)
            paper, ours = (costs.flops(*sizes, heads, corrected=corrected) for corrected in (False, True))
            held = costs.memory(*sizes)
            run = costs.executed(variant, n, d, m, layers, heads, form=sums)
            rows.append(
                {
                    "variant": variant,
                    "paper_operations": paper,
                    "corrected_operations": ours,
                    "executed_products": run.products,
                    "executed_combines": run.combines,
                    "valley_numbers": heads * held.valley,
                    "peak_numbers": heads * held.peak,
                    "state_bytes": costs.state_bytes(variant, n, d, m, heads, form=form, layers=layers),
                    "form": form,
                }
            )
        growth = {
            variant: {
                "paper": costs.growth(variant)._asdict(),
                "corrected": costs.growth(variant, corrected=True)._asdict(),
            }
            for variant in ns.VARIANTS
        }
        given = {"window": n, "embed_dim": d, "landmarks": m, "layers": layers, "num_heads": heads}
        return {"sizes": given, "sums": self.sums, "growth": growth, "rows": rows}


def blocks(record: Mapping[str, Any]) -> Iterator[Block]:
    yield _growth(record["growth"])
    yield _exact(record["sizes"], record["sums"], record["rows"])


def _growth(growth: Mapping[str, Any]) -> Block:
    table = _table(("variant", "operations", "memory between steps", "within a step"), ())
    for variant, of in growth.items():
        paper, ours = of["paper"], of["corrected"]
        table.add_row(variant, *paper.values(), end_section=paper == ours and variant in ENDS)
        if ours != paper:
            cells = ("" if ours[name] == paper[name] else ours[name] for name in paper)
            table.add_row("  corrected", *cells, style="cyan", end_section=variant in ENDS)
    note = (
        "corrected: where the paper's order is not what its method needs. With landmarks renewed at m steps out of n "
        "the paper gives the cost of a renewal, we the mean; and what will leave the window must be kept."
    )
    return "Order of growth of a step, one block", table, [note]


def _exact(sizes: Mapping[str, int], sums: str, rows: list[dict[str, Any]]) -> Block:
    table = _table(("variant",), ("paper", "ours", "executed", "valley", "peak", "state"))
    for row in rows:
        executed = row["executed_products"] + row["executed_combines"]
        counts = (row["paper_operations"], row["corrected_operations"], executed, row["valley_numbers"])
        cells = (*map(_short, counts), _short(row["peak_numbers"]), decimal(row["state_bytes"]))
        table.add_row(row["variant"], *cells, end_section=row["variant"] in ENDS)
    layers = sizes["layers"]
    title = (
        f"A step with n = {sizes['window']:,}, d = {sizes['embed_dim']:,}, m = {sizes['landmarks']}, "
        f"{layers} block{'s' if layers > 1 else ''}, {sizes['num_heads']} head{'s' if sizes['num_heads'] > 1 else ''}"
    )
    notes = [
        "paper, ours: operations by the paper's formulas, and with their errors corrected. executed: multiply-adds of "
        f"the matrix products that a step of this library runs, and of combining partial sums (--sums {sums}: "
        f"{rows[-1]['form']}).",
        "valley, peak: numbers held between steps and within one, as the paper counts. state: bytes that a stream "
        "keeps here, in float32.",
    ]
    if layers > 1:
        notes.append(
            "A stack is a retroactive block, plain ones and a single-output one; both names of a family mean it. "
            "Projections and feed-forward, which it runs on n rows, are not in it: nystream.costs.dense has them."
        )
    return title, table, notes


def tables_record(name: str) -> dict[str, Any]:
    """The printed cells of one of the paper's tables."""
    return {"table": name, "sizes": tables.SIZES[name]._asdict(), "cells": [c._asdict() for c in tables.cells(name)]}


def printed_table(record: Mapping[str, Any]) -> Block:
    table = _table(("variant",), ("blocks", "M", "formula", "ours", "ratio", "formula", "ours"))
    cells = [tables.PrintedCell(**cell) for cell in record["cells"]]
    odd = [cell for cell in cells if not cell.follows]
    for millions, ratio in zip(cells[::2], cells[1::2], strict=True):
        row = [millions.variant, str(millions.layers)]
        for cell in (millions, ratio):
            mark = "" if cell.follows else "*"
            row += [mark + cell.printed, cell.formula, cell.corrected]
        table.add_row(*row, style=None if millions.follows and ratio.follows else "yellow")
    sizes = tables.Sizes(**record["sizes"])
    heads = f", {sizes.heads} heads" if sizes.heads > 1 else ""
    notes = [
        "M: millions of operations a step, as printed. ratio: how many times fewer than full, as printed. formula: "
        "what the paper's appendix gives. ours: with its errors corrected.",
        f"* does not follow from the formulas: {len(odd)} of {len(cells)}." if odd else "All cells follow.",
    ]
    for cell in odd:
        blocks = "1 block" if cell.layers == 1 else f"{cell.layers} blocks"
        notes.append(f"  {cell.variant}, {blocks}, {cell.printed}: {cell.why}")
    title = f"The paper's table for {record['table']}: n = {sizes.n}, d = {sizes.d:,}, m = {sizes.m}{heads}"
    return title, table, notes


def _table(left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(left):
        table.add_column(name, style="bold" if place == 0 else None, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _short(number: float) -> str:
    """Four digits: 5.416 k, 67.7 M."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g} {unit}"
    return f"{number:.0f}"
