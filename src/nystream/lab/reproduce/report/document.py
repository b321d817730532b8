"""The parts of a report, independent of its format. Text may contain `code` and **bold**, and no other markup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MISSING = "–"


@dataclass(frozen=True)
class GridColumn:
    name: str
    number: bool = True  # right-aligned


@dataclass(frozen=True)
class GridRow:
    cells: tuple[str, ...]
    mark: str = ""  # why it is highlighted: "better", "worse" or "chosen"
    starts: bool = False  # has a line above it
    heading: bool = False  # one cell across all columns


@dataclass(frozen=True)
class Grid:
    """A table, with `notes` beneath it."""

    title: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A plot, which `plots` draws under this name."""

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
    """Where the numbers of the tables before it come from; collapsed."""

    lines: tuple[str, ...]


Part = Grid | Figure | Paragraph | Bullets | Sources


@dataclass(frozen=True)
class Section:
    title: str
    anchor: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()

    def figures(self) -> Iterator[Figure]:
        """Every plot, in order."""
        yield from (part for part in self.parts if isinstance(part, Figure))
        for section in self.sections:
            yield from section.figures()


@dataclass(frozen=True)
class Document:
    title: str
    summary: tuple[Part, ...]
    sections: tuple[Section, ...] = field(default=())

    def figures(self) -> Iterator[Figure]:
        """Every plot, in order."""
        return Section(self.title, "", self.summary, self.sections).figures()
