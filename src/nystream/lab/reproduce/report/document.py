"""What a report holds, whatever it is written as. Text may have `code` and **bold** in it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MISSING = "–"


@dataclass(frozen=True)
class GridColumn:
    name: str
    number: bool = True  # set to the right


@dataclass(frozen=True)
class GridRow:
    cells: tuple[str, ...]
    mark: str = ""  # why it stands out: "better", "worse" or "chosen"
    starts: bool = False  # a line above it
    heading: bool = False  # one cell over all columns


@dataclass(frozen=True)
class Grid:
    """A table, and `notes` beneath it."""

    title: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A plot, drawn by `plots` under this name."""

    name: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """Where the numbers of the tables before it come from; folded up."""

    lines: tuple[str, ...]


Part = Grid | Figure | Paragraph | Bullets | Sources


@dataclass(frozen=True)
class Section:
    title: str
    anchor: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Document:
    title: str
    summary: tuple[Part, ...]
    sections: tuple[Section, ...] = field(default=())

    def figures(self) -> Iterator[Figure]:
        """Every plot, in order."""
        open_sections = list(self.sections)
        yield from (part for part in self.summary if isinstance(part, Figure))
        while open_sections:
            section = open_sections.pop(0)
            yield from (part for part in section.parts if isinstance(part, Figure))
            open_sections = [*section.sections, *open_sections]
