"""Draw the pictures of the documentation that show no measurement: python docs/figures.py -> docs/img."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

FIGURES = Path(__file__).parent / "img"

MEANS, FIXED, PLAIN = "#f4a259", "#93c5b1", "#d9dde3"
INK = "#222831"

STAGES = [
    ("Phase 1", "train end to end", ("means", "means")),
    ("Phase 2, block 1", "cluster its q and k", ("find", "means")),
    ("", "fine-tune end to end", ("fixed", "means")),
    ("Phase 2, block 2", "cluster its q and k", ("fixed", "find")),
    ("", "fine-tune end to end", ("fixed", "fixed")),
]
WORDS = {"means": "segment means", "find": "m-means → fixed", "fixed": "fixed"}
COLOURS = {"means": MEANS, "find": FIXED, "fixed": FIXED}


def box(axes: Any, x: float, y: float, text: str, colour: str, edge: str = "none", height: float = 0.62) -> None:
    style = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "facecolor": colour, "edgecolor": edge, "lw": 2.2}
    axes.add_patch(FancyBboxPatch((x - 0.8, y), 1.6, height, **style))
    axes.text(x, y + height / 2, text, ha="center", va="center", fontsize=9, color=INK)


def two_phases() -> None:
    """Which landmarks each block has while the two phases go on."""
    figure, axes = plt.subplots(figsize=(10, 3.9))
    for column, (title, action, blocks) in enumerate(STAGES):
        x = 2.1 * column
        trains = "find" not in blocks
        axes.text(x - 0.8, 3.62, title, fontsize=10.5, fontweight="bold", color=INK)
        axes.text(x - 0.8, 3.27, action, fontsize=9.5, color=INK)
        box(axes, x, 0.0, "input, positions", PLAIN, height=0.4)
        for row, kind in enumerate(blocks):
            edge = INK if kind == "find" else "none"
            box(axes, x, 0.62 + 0.85 * row, f"block {row + 1}\n{WORDS[kind]}", COLOURS[kind], edge)
        box(axes, x, 2.35, "norm, head", PLAIN, height=0.4)
        weights = "all weights train" if trains else "no weight changes"
        axes.text(x, -0.33, weights, ha="center", fontsize=8.5, style="italic", color=INK)
        if column:
            arrow = FancyArrowPatch((x - 1.28, 1.4), (x - 0.85, 1.4), arrowstyle="-|>", mutation_scale=12, color=INK)
            axes.add_patch(arrow)
    axes.set_xlim(-1.0, 2.1 * len(STAGES) - 1.05)
    axes.set_ylim(-0.5, 3.9)
    axes.set_axis_off()
    figure.tight_layout(pad=0.2)
    FIGURES.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(FIGURES / f"two_phases.{kind}", dpi=130, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)


if __name__ == "__main__":
    plt.rcParams.update({"svg.hashsalt": "nystream", "font.family": "DejaVu Sans"})
    two_phases()
