"""A report as one self-contained HTML page, with its plots and its style, light and dark.

The page is `page.html.jinja` beside this file, and its style `page.css`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nystream.lab.reproduce.report.document import Document

FOLDER = Path(__file__).parent


def render(document: Document, plots: Mapping[str, str], style: str = "") -> str:
    """The page; `plots` has the SVG element of every figure, by name, and `style` is CSS for this page alone."""
    environment = Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=FileSystemLoader(FOLDER),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["inline"] = _inline
    environment.globals["paired"] = partial(zip, strict=True)
    environment.tests["a"] = lambda part, kind: type(part).__name__ == kind
    css = Markup((FOLDER / "page.css").read_text("utf-8") + style)
    elements = {name: Markup(svg) for name, svg in plots.items()}
    return environment.get_template("page.html.jinja").render(document=document, plots=elements, css=css)


def _inline(text: str) -> Markup:
    """Escaped, with `code` and **bold** as elements."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text))
