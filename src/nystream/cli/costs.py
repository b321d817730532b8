"""`nystream costs`: the cost of attention by the paper's formulas, corrected, and as the library executes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.filesize import decimal
from tyro.conf import arg

import nystream as ns
import nystream.costs as costs
from nystream import files
from nystream.cli import screen
from nystream.cli.options import plain_option
from nystream.cli.screen import Block, new_table
from nystream.config.option import option
from nystream.costs import plot, tables
from nystream.files import require_writable


def _group(variant: str) -> str:
    """Full attention, plain low-rank attention, or a continual family."""
    record = ns.variants.get(variant)
    return "full" if not record.low_rank else "plain" if record.plain else record.family


LAST_OF_GROUP = [this for this, after in pairwise(ns.VARIANTS) if _group(this) != _group(after)]


@dataclass
class Costs:
    """Cost of an attention step: operations and memory of all nine variants, as formulas and as numbers.

    Example:
        nystream costs --table gtzan --plot costs.png
    """

    window: Annotated[int, arg(aliases=["-n"])] = option(120, "Window length n, in tokens.", "N")
    embed_dim: Annotated[int, arg(aliases=["-d"])] = option(192, "Width d of a token, all heads together.", "D")
    landmarks: Annotated[int, arg(aliases=["-m"])] = option(4, "Number of landmarks m of low-rank variants.", "M")
    layers: int = option(
        1,
        "Number of blocks. With two or more, the name of a continual variant stands for its family: retroactive, "
        "plain, ..., single.",
    )
    num_heads: int = option(
        1, "Number of heads, each embed_dim / num_heads wide. The paper counts the 16 heads of GTZAN as one."
    )
    sums: Literal["auto", "partials", "recompute"] = option(
        "auto",
        "How continual low-rank variants keep their window, for the columns executed and state. auto recomputes "
        "windows of less than 128 tokens.",
    )
    table: Literal["gtzan", "thumos14", "electricity"] | None = option(
        None, "Print this table of the paper instead, with the result of the formulas next to each cell."
    )
    plot: Path | None = option(
        None,
        "Draw the paper's figure to this file (.png, .svg or .pdf; needs the extra `plot`): operations and peak memory "
        "against n, for one and two blocks, d = 200, m = 8.",
        "FILE",
    )
    corrected: bool = option(False, "Draw the corrected counts instead of the paper's.")
    json: Path | None = option(None, "Write the numbers to this file; - prints them instead of the tables.", "FILE")
    plain: bool = plain_option()

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
        screen.print_blocks(screen.console(self.plain), [printed_table(record)] if self.table else blocks(record))

    def record(self) -> dict[str, Any]:
        """All numbers that are printed, as plain values."""
        n, d, m, layers, heads = self.window, self.embed_dim, self.landmarks, self.layers, self.num_heads
        rows = []
        for variant in ns.VARIANTS:
            sums = self.sums if "partials" in ns.variants.get(variant).sums else "auto"
            form = ns.AttentionConfig(variant, d, heads, n, m, sums=sums).form  # which checks the sizes
            sizes = (variant, n, d // heads, m, layers)
            paper, ours = (costs.flops(*sizes, heads, corrected=corrected) for corrected in (False, True))
            memory = costs.memory(*sizes)
            run = costs.executed(variant, n, d, m, layers, heads, form=sums)
            rows.append(
                {
                    "variant": variant,
                    "paper_operations": paper,
                    "corrected_operations": ours,
                    "executed_products": run.products,
                    "executed_combines": run.combines,
                    "valley_numbers": heads * memory.valley,
                    "peak_numbers": heads * memory.peak,
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
    table = new_table(("variant", "operations", "memory between steps", "within a step"), ())
    for variant, orders in growth.items():
        paper, ours = orders["paper"], orders["corrected"]
        table.add_row(variant, *paper.values(), end_section=paper == ours and variant in LAST_OF_GROUP)
        if ours != paper:
            cells = ("" if ours[name] == paper[name] else ours[name] for name in paper)
            table.add_row("  corrected", *cells, style="cyan", end_section=variant in LAST_OF_GROUP)
    note = (
        "corrected: where the order differs from the paper's. For landmarks renewed at m steps out of n, the paper "
        "gives the cost of a renewal, we give the mean; and tokens must be kept until they leave the window."
    )
    return "Order of growth per step, one block", table, [note]


def _exact(sizes: Mapping[str, int], sums: str, rows: list[dict[str, Any]]) -> Block:
    table = new_table(("variant",), ("paper", "ours", "executed", "valley", "peak", "state"))
    for row in rows:
        executed = row["executed_products"] + row["executed_combines"]
        counts = (row["paper_operations"], row["corrected_operations"], executed, row["valley_numbers"])
        cells = (*map(_short, counts), _short(row["peak_numbers"]), decimal(row["state_bytes"]))
        table.add_row(row["variant"], *cells, end_section=row["variant"] in LAST_OF_GROUP)
    layers = sizes["layers"]
    title = (
        f"One step with n = {sizes['window']:,}, d = {sizes['embed_dim']:,}, m = {sizes['landmarks']}, "
        f"{layers} block{'s' if layers > 1 else ''}, {sizes['num_heads']} head{'s' if sizes['num_heads'] > 1 else ''}"
    )
    notes = [
        "paper, ours: operations by the paper's formulas, and with their errors corrected. executed: multiply-adds of "
        f"the matrix products in a step of this library, and of combining partial sums (--sums {sums}: "
        f"{rows[-1]['form']}).",
        "valley, peak: numbers kept between steps and within a step, by the paper's formulas. state: memory of a "
        "stream in this library, in float32.",
    ]
    if layers > 1:
        notes.append(
            "A stack has a retroactive block, plain blocks and a single-output block; both names of a family stand for "
            "it. Projections and feed-forward on n rows are not included: see nystream.costs.dense."
        )
    return title, table, notes


def tables_record(name: str) -> dict[str, Any]:
    """The printed cells of one of the paper's tables."""
    return {"table": name, "sizes": tables.SIZES[name]._asdict(), "cells": [c._asdict() for c in tables.cells(name)]}


def printed_table(record: Mapping[str, Any]) -> Block:
    table = new_table(("variant",), ("blocks", "M", "formula", "ours", "ratio", "formula", "ours"))
    cells = [tables.PrintedCell(**cell) for cell in record["cells"]]
    odd = [cell for cell in cells if not cell.follows]
    for millions, ratio in zip(cells[::2], cells[1::2], strict=True):
        row = [millions.variant, str(millions.layers)]
        for cell in (millions, ratio):
            mark = "" if cell.follows else "*"
            row += [mark + cell.printed, cell.formula, cell.corrected]
        table.add_row(*row, style=None if millions.follows and ratio.follows else "yellow")
    sizes = tables.TableSizes(**record["sizes"])
    heads = f", {sizes.heads} heads" if sizes.heads > 1 else ""
    notes = [
        "M: millions of operations per step, as printed. ratio: how many times fewer than full attention, as printed. "
        "formula: by the formulas of the paper's appendix. ours: with their errors corrected.",
        f"* does not follow from the formulas: {len(odd)} of {len(cells)}."
        if odd
        else "All cells follow from the formulas.",
    ]
    for cell in odd:
        blocks = "1 block" if cell.layers == 1 else f"{cell.layers} blocks"
        notes.append(f"  {cell.variant}, {blocks}, {cell.printed}: {cell.why}")
    title = f"The paper's table for {record['table']}: n = {sizes.n}, d = {sizes.d:,}, m = {sizes.m}{heads}"
    return title, table, notes


def _short(number: float) -> str:
    """Four digits: 5.416 k, 67.7 M."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g} {unit}"
    return f"{number:.0f}"
