"""A report as Markdown, and the part of it in docs/results.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nystream.lab.reproduce.report.document import (
    Bullets,
    Document,
    Figure,
    Grid,
    Paragraph,
    Part,
    Section,
    Sources,
)
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.sections import document


def render(document: Document, images: Mapping[str, str] | None = None) -> str:
    """The whole report; `images` has the address of every plot that is shown, by name."""
    return f"# {document.title}\n\n{_body(document, images or {}, 2)}\n"


def results_page(records: Sequence[Record], images: str | None = None, level: int = 2) -> str:
    """All tables for docs/results.md, with headings from `level` on; plots are linked as IMAGES/NAME.png."""
    report = document(records, figures=images is not None)
    return _body(report, {figure.name: f"{images}/{figure.name}.png" for figure in report.figures()}, level)


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
                yield grid(part)
                yield from part.notes
            case Sources(lines):
                yield f"<details><summary>Where these numbers come from</summary>\n\n{_bullets(lines)}\n\n</details>"


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def grid(part: Grid) -> str:
    """A table, without its title and notes."""
    lines = [_line([column.name for column in part.columns])]
    lines.append(_line(["---:" if column.number else "---" for column in part.columns]))
    for row in part.rows:
        cells = [f"**{row.cells[0]}**"] if row.heading else list(row.cells)
        cells += [""] * (len(part.columns) - len(cells))
        if row.mark:
            cells = [f"**{cell}**" if cell.startswith(row.mark) else cell for cell in cells]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    """A line of a table, with bars and angle brackets escaped: they would end a cell or open a tag."""
    escaped = (re.sub(r"\s+", " ", cell).replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"
