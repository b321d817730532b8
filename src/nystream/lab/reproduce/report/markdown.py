"""A report as Markdown, and the parts of it in README.md and docs/results.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers
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
from nystream.lab.reproduce.report.sections import document

README_MODELS = ("co-full-single", "co-cont-single", "co-fixed-single")
README_COLUMNS = (
    GridColumn("task", False),
    GridColumn("model", False),
    GridColumn("paper"),
    GridColumn("ours"),
    GridColumn("µs per step"),
    GridColumn("speed-up over Att"),
    GridColumn("kB per stream"),
)


def render(document: Document, images: Mapping[str, str] | None = None) -> str:
    """The whole report; `images` has the address of every plot that is shown, by name."""
    return f"# {document.title}\n\n{_body(document, images or {}, 2)}\n"


def results_page(records: Sequence[Record], images: str | None = None, level: int = 2) -> str:
    """All tables for docs/results.md, with headings from `level` on; plots are linked as IMAGES/NAME.png."""
    report = document(records, figures=images is not None)
    return _body(report, {figure.name: f"{images}/{figure.name}.png" for figure in report.figures()}, level)


def readme_results(records: Sequence[Record]) -> str:
    """One short table for the README: the continual models with one block, and the best baseline of each task.

    The fault-filtered split of GTZAN, stacks of two blocks and the sources of the numbers are on the results page.
    """
    rows: list[GridRow] = []
    for table in grouped(records):
        if table.group.protocol != "filtered":
            rows += _readme_rows(table)
    return _grid(Grid("", README_COLUMNS, tuple(rows)))


def _readme_rows(table: GroupTable) -> Iterator[GridRow]:
    """The rows of one task; the first one names it."""
    group, metric = table.group, table.metric
    name = f"{group.title}: {metric.head}"
    for (model, layers), record in table.cells.items():
        if model not in README_MODELS or layers != 1:
            continue
        # With other tokens, the experiment is not the paper's.
        printed = None if group.extra else paper.score(group.task, model, layers)
        score = numbers.score(record.score, metric)
        yield GridRow((name, record.label, str(printed or MISSING), score, *numbers.step(record)))
        name = ""
    for baseline in table.baselines[:1]:
        yield GridRow((name, baseline.label, "", numbers.score(baseline.score, metric), "", "", ""))


def _body(document: Document, images: Mapping[str, str], level: int) -> str:
    lines = list(_parts(document.summary, images))
    lines += [line for section in document.sections for line in _section(section, level, images)]
    return "\n\n".join(lines)


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
                yield _bullets(items)
            case Figure(name, alt, caption):
                if name in images:
                    yield f"![{alt}]({images[name]})"
                    yield f"*{caption}*"
            case Grid():
                yield f"**{part.title}**"
                yield _grid(part)
                yield from part.notes
            case Sources(lines):
                yield f"<details><summary>Where these numbers come from</summary>\n\n{_bullets(lines)}\n\n</details>"


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _grid(grid: Grid) -> str:
    lines = [_line([column.name for column in grid.columns])]
    lines.append(_line(["---:" if column.number else "---" for column in grid.columns]))
    for row in grid.rows:
        cells = [f"**{row.cells[0]}**"] if row.heading else list(row.cells)
        cells += [""] * (len(grid.columns) - len(cells))
        if row.mark:
            cells = [f"**{cell}**" if cell.startswith(row.mark) else cell for cell in cells]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    """A line of a table, with bars and angle brackets escaped: they would end a cell or open a tag."""
    escaped = (re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"
