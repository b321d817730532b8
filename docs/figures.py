"""Draw the pictures of the documentation that show no measurement: python docs/figures.py -> docs/img."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

FIGURES = Path(__file__).parent / "img"

MEANS, FIXED, PLAIN = "#f4a259", "#93c5b1", "#d9dde3"
INK = "#222831"

WINDOW, BLOCK = 16, 4  # tokens of the window and of a block, in the picture of the sliding window
OLD, MIDDLE, NEW = MEANS, "#8fa8c8", "#5fa08a"

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


def save(figure: Any, name: str) -> None:
    FIGURES.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(FIGURES / f"{name}.{kind}", dpi=130, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)


def two_phases() -> None:
    """The landmarks of each block during the two phases."""
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
    save(figure, "two_phases")


def cell(axes: Any, x: float, y: float, kind: str) -> None:
    style: dict[str, Any] = {"facecolor": {"new": MEANS, "kept": PLAIN, "left": "white"}[kind]}
    if kind == "left":
        style |= {"edgecolor": "#9aa3ad", "lw": 0.9, "linestyle": (0, (1.5, 1.5))}
    axes.add_patch(Rectangle((x, y), 0.18, 0.18, **style))


def matrix(axes: Any, x: float, size: tuple[int, int], title: str, note: str, moves: tuple[bool, bool]) -> float:
    """Draw a matrix whose rows, columns or both advance with the window; return its right edge."""
    rows, columns = size[0] + moves[0], size[1] + moves[1]
    for row in range(rows):
        for column in range(columns):
            left = (moves[0] and row == 0) or (moves[1] and column == 0)
            new = (moves[0] and row == rows - 1) or (moves[1] and column == columns - 1)
            kind = "left" if left else "new" if new else "kept"
            if not (left and new):
                cell(axes, x + 0.2 * column, 0.1 * rows - 0.2 * (row + 1), kind)
    middle = x + 0.1 * columns
    axes.text(middle, 0.1 * rows + 0.12, title, ha="center", fontsize=12, color=INK)
    axes.text(middle, -0.1 * rows - 0.12, note, ha="center", va="top", fontsize=9.5, color=INK)
    return x + 0.2 * columns


def low_rank() -> None:
    """Full attention and its three factors, with what a new token changes."""
    n, m = 12, 3
    figure, axes = plt.subplots(figsize=(10, 3.45))
    x = matrix(axes, 0.0, (n, n), "full attention", "n × n: tokens see tokens", (True, True))
    axes.text(x + 0.3, 0, "≈", ha="center", va="center", fontsize=20, color=INK)
    x = matrix(axes, x + 0.65, (n, m), "B", "n × m: tokens\nsee landmarks", (True, False))
    x = matrix(axes, x + 0.45, (m, m), "Γ†", "m × m: fixed", (False, False))
    x = matrix(axes, x + 0.45, (m, n), "Δ", "m × n: landmarks see tokens", (False, True))
    words = {"new": "comes with the new token", "kept": "as it was", "left": "leaves with the oldest"}
    for place, kind in enumerate(words):
        cell(axes, x + 0.5, 0.31 - 0.4 * place, kind)
        axes.text(x + 0.78, 0.4 - 0.4 * place, words[kind], va="center", fontsize=9.5, color=INK)
    axes.set_xlim(-0.1, x + 2.6)
    axes.set_ylim(-1.8, 1.55)
    axes.set_aspect("equal")
    axes.set_axis_off()
    figure.tight_layout(pad=0.2)
    save(figure, "low_rank")


def token_cell(axes: Any, token: float, y: float, colour: str, **style: Any) -> None:
    axes.add_patch(Rectangle((token, y), 0.9, 0.6, facecolor=colour, **{"edgecolor": "none"} | style))


def sliding() -> None:
    """Five steps of the sliding window as two landmarks see it: their edges, and the middle that each has."""
    figure, axes = plt.subplots(figsize=(10, 5.6))
    for place in range(BLOCK + 1):
        newest = WINDOW + place
        top = -2.05 * place
        time = f"t + {place}" if place else "t"
        axes.text(-3.9, top - 0.15, time, ha="right", va="center", fontsize=11, fontweight="bold", color=INK)
        for row in range(2):
            y = top - 0.8 * row
            begin = newest - (newest - row * BLOCK // 2) % BLOCK  # the first token of the landmark's block
            axes.text(-0.4, y + 0.3, f"landmark {row + 1}", ha="right", va="center", fontsize=9.5, color=INK)
            token_cell(axes, place, y, "white", edgecolor="#9aa3ad", lw=0.9, linestyle=(0, (1.5, 1.5)))
            first, end = begin - WINDOW + BLOCK, begin
            for token in range(place + 1, first):
                token_cell(axes, token, y, OLD)
            for token in range(begin, newest + 1):
                token_cell(axes, token, y, NEW)
            if begin == newest:
                for token in range(first, end):
                    token_cell(axes, token, y, MIDDLE)
                words = f"summed again, from {end - first} tokens"
            else:
                axes.add_patch(Rectangle((first, y), end - first - 0.1, 0.6, facecolor=MIDDLE))
                words = "as it was"
            behind = {"facecolor": MIDDLE, "edgecolor": "none", "pad": 1.5}
            axes.text(
                (first + end) / 2, y + 0.28, words, ha="center", va="center", fontsize=8.5, color=INK, bbox=behind
            )
    y = -2.05 * (BLOCK + 1) - 0.25
    for x, colour, words in (
        (-3.9, OLD, "edges: old tokens of the block\nthat is being overwritten"),
        (4.6, MIDDLE, "middle: all other tokens,\none partial sum per landmark"),
        (12.6, NEW, "edges: new tokens\nof that block"),
        (18.3, "white", "has just left"),
    ):
        dotted = {"edgecolor": "#9aa3ad", "lw": 0.9, "linestyle": (0, (1.5, 1.5))} if colour == "white" else {}
        token_cell(axes, x, y, colour, **dotted)
        axes.text(x + 1.15, y + 0.3, words, va="center", fontsize=9, color=INK)
    axes.set_xlim(-5.4, WINDOW + BLOCK + 3)
    axes.set_ylim(y - 0.4, 0.9)
    axes.set_axis_off()
    figure.tight_layout(pad=0.2)
    save(figure, "sliding")


if __name__ == "__main__":
    plt.rcParams.update({"svg.hashsalt": "nystream", "font.family": "DejaVu Sans"})
    two_phases()
    low_rank()
    sliding()
