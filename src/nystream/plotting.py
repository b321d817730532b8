"""Figures: their common style, drawn without a window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nystream import extras

FORMATS = (".pdf", ".png", ".svg")
# Distinguishable with colour blindness, and in grey.
BLUE, SKY, ORANGE, RED, GREY = "#0072B2", "#3A9BD9", "#E69F00", "#D55E00", "#555555"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "nystream",  # reproducible files
}


def require(what: str = "a plot", instead: str = "") -> None:
    """Raise if matplotlib is missing, before the work that needs it."""
    extras.require(what, "matplotlib", instead)


def require_for(path: Path) -> None:
    """Raise if a plot cannot be written to `path`, whose suffix selects the format."""
    if path.suffix not in FORMATS:
        raise ValueError(f"plot={path} must end in one of {', '.join(FORMATS)}")
    require()


def new_figure(**options: Any) -> Any:
    """An empty figure that opens no window, with any backend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained", **options)
    FigureCanvasAgg(figure)
    return figure
