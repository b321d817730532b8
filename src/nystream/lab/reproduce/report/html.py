"""A report as one HTML page that needs nothing else: plots are in it, and so is how it looks, by day and by night."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from nystream.lab.reproduce.report.document import Bullets, Document, Figure, Grid, Paragraph, Part, Section, Sources

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --soft: #57606a; --line: #dfe2e6; --band: #f5f7f9;
  --link: #0969da; --better: #0080d01a; --worse: #ee77101f; --blue: #0072b2; --red: #d55e00; --grey: #767676;
  --shade: #1b1f2459; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --ink: #e4e8ec; --soft: #9aa5b1; --line: #323a43; --band: #1c2229; --link: #6cb2ff;
    --better: #2080d040; --worse: #f0682038; --blue: #56b4e9; --red: #ff8a4c; --grey: #9aa5b1;
    --shade: #e4e8ec59; }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 78rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.35rem; margin-top: 3rem; padding-top: .8rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.1rem; margin-top: 2.2rem; }
p, ul { max-width: 48rem; }
li { margin: .25rem 0; }
a { color: var(--link); }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--band);
  padding: .1em .3em; border-radius: 3px; }
nav ul { padding-left: 1.2rem; }
nav li { margin: .1rem 0; }
.scroll { overflow-x: auto; width: fit-content; max-width: 100%; margin: 1.6rem 0 .6rem;
  border: 1px solid var(--line); border-radius: 6px; }
.scroll, .wide {
  /* Shaded where something is out of sight: the first layer moves with it and covers the second at its end. */
  background: linear-gradient(to left, var(--page) 1.2rem, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 1.2rem 100% no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-size: .86rem; line-height: 1.35; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
caption { caption-side: top; text-align: left; font-weight: 650; font-size: .95rem; padding: .6rem .7rem; }
th, td { padding: .32rem .55rem; text-align: left; white-space: nowrap; }
thead th { white-space: normal; vertical-align: bottom; color: var(--soft); font-weight: 600;
  border-bottom: 1px solid var(--line); min-width: 3.6rem; }
.n { text-align: right; }
tbody th { font-weight: 600; white-space: normal; min-width: 7rem; max-width: 19rem; }
tr.heading th { max-width: none; }
tbody th, thead th:first-child { position: sticky; left: 0; background-color: var(--page); }
tr.starts > * { border-top: 1px solid var(--line); }
tr.heading th { padding-top: .8rem; color: var(--soft); background: none; }
/* A tint of its row over what is beneath: the shade at the edge, or the page where a column stays in sight. */
tr.better > *, tr.chosen > * { background-image: linear-gradient(var(--better), var(--better)); }
tr.worse > * { background-image: linear-gradient(var(--worse), var(--worse)); }
/* What is over all columns stays in sight while they scroll. */
caption span, tr.heading span { display: inline-block; position: sticky; left: .55rem; max-width: calc(100vw - 4rem); }
.note { color: var(--soft); font-size: .86rem; margin: .3rem 0; }
details { font-size: .84rem; color: var(--soft); margin: .4rem 0 1.6rem; }
summary { cursor: pointer; }
figure { margin: 1.8rem 0; }
svg.plot { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .86rem; max-width: 48rem; margin-top: .4rem; }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 3rem; }
  h1 { font-size: 1.4rem; }
  tbody th { min-width: 6.5rem; max-width: 8rem; }
  th, td { padding: .3rem .5rem; }
  .wide { overflow-x: auto; }
  .wide svg.plot { min-width: 38rem; }
}
@media print {
  /* Paper does not scroll: all columns have to fit. */
  .scroll, .wide { overflow: visible; background: none; }
  .wide svg.plot { min-width: 0; }
  table { font-size: .62rem; }
  th, td { padding: .2rem; }
  thead th, tbody th { min-width: 0; }
  td:not(.n) { white-space: normal; }
  tr, figure { break-inside: avoid; }
  details { display: none; }
}
"""


def render(document: Document, plots: Mapping[str, str], style: str = "") -> str:
    """The page; `plots` has the SVG element of every figure, by name, and `style` what looks otherwise on this page."""
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(document.title)}</title>",
        f"<style>{STYLE}{style}</style>",
        "</head>",
        "<body>",
        f"<h1>{_inline(document.title)}</h1>",
        *_parts(document.summary, plots),
        *_contents(document.sections),
        "<main>",
    ]
    for section in document.sections:
        lines += _section(section, 2, plots)
    return "\n".join([*lines, "</main>", "</body>", "</html>", ""])


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    def entries(of: Sequence[Section]) -> str:
        items = (
            f'<li><a href="#{one.anchor}">{_inline(one.title)}</a>{entries(one.sections) if one.sections else ""}</li>'
            for one in of
        )
        return f"<ul>{''.join(items)}</ul>"

    yield f'<nav aria-label="Contents">{entries(sections)}</nav>'


def _section(section: Section, level: int, plots: Mapping[str, str]) -> Iterator[str]:
    yield f'<section id="{section.anchor}">'
    yield f"<h{level}>{_inline(section.title)}</h{level}>"
    yield from _parts(section.parts, plots)
    for inner in section.sections:
        yield from _section(inner, level + 1, plots)
    yield "</section>"


def _parts(parts: Sequence[Part], plots: Mapping[str, str]) -> Iterator[str]:
    for part in parts:
        match part:
            case Paragraph(text):
                yield f"<p>{_inline(text)}</p>"
            case Bullets(items):
                yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
            case Figure(name, alt, caption):
                if name in plots:
                    yield f'<figure id="plot-{name}"><div class="wide" role="img" aria-label="{html.escape(alt)}">'
                    yield f"{plots[name]}</div><figcaption>{_inline(caption)}</figcaption></figure>"
            case Grid():
                yield from _grid(part)
            case Sources(lines):
                folded = "".join(f"<li>{_inline(line)}</li>" for line in lines)
                yield f"<details><summary>Where these numbers come from</summary><ul>{folded}</ul></details>"


def _grid(grid: Grid) -> Iterator[str]:
    # A region that scrolls can be reached by the keyboard.
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(grid.title)}"><table>'
    yield f"<caption><span>{_inline(grid.title)}</span></caption><thead><tr>"
    yield from (f'<th scope="col"{_number(column.number)}>{_inline(column.name)}</th>' for column in grid.columns)
    yield "</tr></thead><tbody>"
    for row in grid.rows:
        kinds = [row.mark, "starts" * row.starts, "heading" * row.heading]
        yield f"<tr{_class([kind for kind in kinds if kind])}>"
        if row.heading:
            yield f'<th scope="rowgroup" colspan="{len(grid.columns)}"><span>{_inline(row.cells[0])}</span></th>'
        else:
            for place, (column, cell) in enumerate(zip(grid.columns, row.cells, strict=True)):
                if place == 0:
                    yield f'<th scope="row">{_inline(cell)}</th>'
                else:
                    yield f"<td{_number(column.number)}>{_inline(cell)}</td>"
        yield "</tr>"
    yield "</tbody></table></div>"
    yield from (f'<p class="note">{_inline(note)}</p>' for note in grid.notes)


def _class(kinds: Sequence[str]) -> str:
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _number(number: bool) -> str:
    return ' class="n"' if number else ""


def _inline(text: str) -> str:
    """Escaped, with `code` and **bold** as elements."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
