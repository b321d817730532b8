"""The style of the plots of a report.

Blue is for fixed landmarks and vermilion for means, as in the paper's figures: colours that colour-blind readers can
tell apart. In greyscale, markers and line styles differ.
"""

from __future__ import annotations

from typing import Any

from nystream import plotting
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.cells import RECORDS
from nystream.plotting import BLUE, RED

GREY = "#767676"
# Placeholders of the page's own colours, which replace them in the HTML page: that may be dark.
INK, LINE, PAGE = "#1b1f24", "#dfe2e6", "#fefefe"
VARIABLES = {
    INK: "currentColor",
    LINE: "var(--line)",
    PAGE: "var(--page)",
    BLUE: "var(--blue)",
    RED: "var(--red)",
    GREY: "var(--grey)",
}
COLOURS = {record.name: BLUE if record.fixed else RED if record.low_rank else GREY for record in RECORDS}
COLOURS |= dict.fromkeys(paper.RIVALS, INK)
STYLE = plotting.STYLE | {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.axisbelow": True,
    "figure.facecolor": PAGE,
    "axes.facecolor": "none",
    "savefig.facecolor": PAGE,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
}


def headed(figure: Any, text: str) -> None:
    """Write the title of a plot."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, weight="bold")
