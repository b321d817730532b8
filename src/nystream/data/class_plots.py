"""Plots of the scores of classes: precision and recall, average precision, the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.class_scores import AVERAGE, F1, PRECISION, RECALL, ClassScores
from nystream.plotting import BLUE, GREY, ORANGE, RED

MAX_CLASSES = 40  # whose names fit
MOST_DIGITS = 3  # of counts that fit into a cell
LONGEST_NAME = 30  # characters


def panels(classes: ClassScores) -> dict[str, Callable[[Any, ClassScores], None]]:
    """The plots that these scores have, by the names of their files."""
    found: dict[str, Callable[[Any, ClassScores], None]] = {}
    if F1 in classes.scores:
        found["classes.png"] = draw_single
    if AVERAGE in classes.scores:
        found["precision.png"] = draw_average_precision
    if classes.confusion is not None:
        found["confusion.png"] = draw_confusion
    return found


def draw_single(figure: Any, classes: ClassScores) -> None:
    """Plot F1, precision and recall of every class; of many, those with the lowest F1."""
    axis, chosen, places = _bars(figure, classes, F1, "F1, precision and recall")
    axis.plot(_values(classes, PRECISION, chosen), places, "|", color=ORANGE, markersize=11, mew=2, label=PRECISION)
    axis.plot(_values(classes, RECALL, chosen), places, "o", color=RED, markersize=4, label=RECALL)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower right", ncols=3)


def draw_average_precision(figure: Any, classes: ClassScores) -> None:
    """Plot the average precision of every class, and that of random guessing; of many, the lowest."""
    axis, chosen, places = _bars(figure, classes, AVERAGE, "Average precision")
    axis.plot(classes.counts[chosen] / classes.total, places, "|", color=ORANGE, markersize=11, mew=2, label="chance")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower right", ncols=2)


def draw_confusion(figure: Any, classes: ClassScores) -> None:
    """Plot the confusion matrix; of many classes, those with the most errors. Colours are shares of the true class."""
    table = classes.confusion
    assert table is not None
    chosen = np.arange(len(table))
    if len(table) > MAX_CLASSES:
        errors = table.sum(1) + table.sum(0) - 2 * np.diag(table)
        chosen = np.sort(np.argsort(-errors, kind="stable")[:MAX_CLASSES])
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    part, shares = table[np.ix_(chosen, chosen)], shares[np.ix_(chosen, chosen)]
    names, percent = _names(classes, chosen), len(str(part.max())) > MOST_DIGITS
    side = 0.35 * len(chosen)
    room = 0.07 * max(map(len, names))
    figure.set_size_inches(max(1.4 + room + side, 4.0), 1.6 + room + side)
    axis = figure.subplots()
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(names)), names)
    for row, column in zip(*np.nonzero(part), strict=True):
        text = _percent(shares[row, column]) if percent else str(part[row, column])
        colour = "w" if shares[row, column] > 0.5 else "k"
        axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    axis.set_xlabel("predicted class")
    axis.set_ylabel("true class")
    what = f"Confusion matrix, test {classes.counted}" + "\npercent of the true class" * percent
    left_out = f"\n{len(chosen)} of {len(table)} classes, those with the most errors" * (len(chosen) < len(table))
    axis.set_title(what + left_out)


def _bars(figure: Any, classes: ClassScores, score: str, what: str) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Bars of one score; also the chosen classes, and where they are on the axis."""
    chosen = np.arange(len(classes.classes))
    title = f"{what} by class, test {classes.counted}"
    if len(chosen) > MAX_CLASSES:
        order = classes.worst(score)
        chosen = np.array(order[:MAX_CLASSES])
        title += f"\nlowest {MAX_CLASSES} of {len(order)} classes"
    places = np.arange(len(chosen))
    figure.set_size_inches(7.0, 1.5 + 0.25 * len(places))
    axis = figure.subplots()
    values = _values(classes, score, chosen)
    axis.barh(places, np.nan_to_num(values), color=BLUE, label=score)
    for place in places[np.isnan(values)]:
        axis.text(0.01, place, "none", va="center", color=GREY, fontsize=7)
    axis.set_yticks(places, _names(classes, chosen))
    axis.set_ylim(len(places) - 0.4, -0.6)  # the first at the top
    axis.set_xlim(0, 1.02)
    axis.set_title(title)
    return axis, chosen, places


def _values(classes: ClassScores, score: str, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    return classes.scores[score][chosen]


def _names(classes: ClassScores, chosen: Sequence[int] | NDArray[np.int64]) -> list[str]:
    """The names of classes, shortened; a dollar sign is no formula."""
    names = [classes.classes[place] for place in chosen]
    short = (name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names)
    return [name.replace("$", r"\$") for name in short]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.005 else "<1"
