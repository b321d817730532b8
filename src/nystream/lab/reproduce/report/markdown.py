"""A report as Markdown, and the parts of it that README.md and docs/results.md hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers
from nystream.lab.reproduce.report.compare import comparisons, headline
from nystream.lab.reproduce.report.document import (
    MISSING,
    Bullets,
    Document,
    Figure,
    Grid,
    GridColumn,
    GridRow,
    Paragraph,
    Part,
    Section,
    Sources,
)
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.grouping import tables as grouped
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.sections import document, sentence
from nystream.lab.reproduce.report.sources import sources

README_MODELS = ("full", "co-full-single", "co-cont-single", "co-fixed-single")


def render(document: Document, images: Mapping[str, str] | None = None) -> str:
    """The whole page; `images` has the address of every plot that it shows, by name."""
    lines = [f"# {document.title}", *_parts(document.summary, images or {})]
    lines += [line for section in document.sections for line in _section(section, 2, images or {})]
    return "\n\n".join(lines) + "\n"


def results_page(records: Sequence[Record], images: str | None = None, level: int = 2) -> str:
    """All tables for docs/results.md, headings from `level` on; plots are linked as images/NAME.png."""
    page = document(records, figures=images is not None)
    known = {figure.name: f"{images}/{figure.name}.png" for figure in page.figures()}
    lines = list(_parts(page.summary, known))
    lines += [line for section in page.sections for line in _section(section, level, known)]
    return "\n\n".join(lines)


def readme_results(records: Sequence[Record]) -> str:
    """A short table for each task and kind of token, the paper beside ours, and the difference that matters in a line.

    The fault-filtered split of GTZAN is left to the page of results.
    """
    blocks = []
    for table in grouped(records):
        if table.group.protocol == "filtered" or not table.cells:
            continue
        grid, used = _short(table)
        blocks.append(f"**{grid.title}.** Data: {paper.TASKS[table.group.task].short}\n\n{_grid(grid)}")
        told = headline(comparisons(table))
        if told:
            blocks.append("\n".join(f"- {sentence(one)}." for one in told))
        blocks.append(_sources(sources(used)))
    return "\n\n".join(blocks)


def _short(table: GroupTable) -> tuple[Grid, list[Record]]:
    """The table, and the records that are in it."""
    task, metric = paper.TASKS[table.group.task], table.metric
    # The paper's first column is the one that ours compares with.
    columns = (
        GridColumn("model", False),
        GridColumn("blocks"),
        GridColumn("paper" + (f" ({task.columns[0]})" if task.columns[0] else "")),
        GridColumn("ours"),
        GridColumn("µs a step"),
        GridColumn("times faster than Att"),
        GridColumn("kB a stream"),
    )
    rows, used = [], []
    for (model, layers), one in table.cells.items():
        if model not in README_MODELS:
            continue
        # Other tokens are another experiment than the paper's.
        printed = None if table.group.extra else paper.score(table.group.task, model, layers)
        step = one.raw["step"]
        cells = (
            one.label,
            str(layers),
            str(printed) if printed else MISSING,
            numbers.score(one.score, metric),
            numbers.microseconds(step),
            numbers.times(step["relative"] if step else None),
            numbers.kilobytes(step["bytes_per_stream"] if step else None),
        )
        rows.append(GridRow(cells))
        used.append(one)
    for baseline in table.baselines:
        rows.append(GridRow((baseline.label, "", "", numbers.score(baseline.score, metric), "", "", "")))
    return Grid(f"{table.group.title}: {metric.head}, {metric.better}", columns, tuple(rows)), [*used, *table.baselines]


def _section(section: Section, level: int, images: Mapping[str, str]) -> Iterator[str]:
    yield f"{'#' * level} {section.title}"
    yield from _parts(section.parts, images)
    for inner in section.sections:
        yield from _section(inner, level + 1, images)


def _parts(parts: Sequence[Part], images: Mapping[str, str]) -> Iterator[str]:
    for part in parts:
        match part:
            case Paragraph(text):
                yield text
            case Bullets(items):
                yield "\n".join(f"- {item}" for item in items)
            case Figure(name, alt, caption):
                if name in images:
                    yield f"![{alt}]({images[name]})"
                    yield f"*{caption}*"
            case Grid():
                yield f"**{part.title}**"
                yield _grid(part)
                yield from part.notes
            case Sources(lines):
                yield _sources(lines)


def _grid(grid: Grid) -> str:
    lines = [_line([column.name for column in grid.columns])]
    lines.append(_line(["---:" if column.number else "---" for column in grid.columns], plain=True))
    for row in grid.rows:
        cells = [f"**{row.cells[0]}**"] if row.heading else list(row.cells)
        cells += [""] * (len(grid.columns) - len(cells))
        if row.mark:
            cells = [f"**{cell}**" if cell.startswith(row.mark) else cell for cell in cells]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str], plain: bool = False) -> str:
    return f"| {' | '.join(cells if plain else map(_escape, cells))} |"


def _escape(cell: str) -> str:
    """A bar would end the cell, an angle bracket open a tag."""
    return re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("<", "&lt;")


def _sources(lines: Sequence[str]) -> str:
    inner = "\n".join(f"- {line}" for line in lines)
    return f"<details><summary>Where these numbers come from</summary>\n\n{inner}\n\n</details>"
