"""Scores of classes on the screen: all of a few, the worst of many, and what is confused with what."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nystream.cli.screen import WIDTH, Block, new_table, print_blocks, table_width
from nystream.data.class_scores import ClassScores
from nystream.data.table import counted

MAX_CLASSES = 15  # listed; of more, the worst
MAX_PAIRS = 10  # of confused classes
LONGEST_NAME = 28  # characters


def print_classes(output: Console, classes: ClassScores, everything: str) -> None:
    """Print the scores of every class and the confusion matrix. `everything` says where all of them are."""
    blocks = [_each(classes, everything)]
    if classes.confusion is not None and len(classes.classes) > 1:
        matrix = _matrix(classes)
        if table_width(matrix, output) <= min(output.width, WIDTH):
            blocks.append(("Confusion matrix: rows are true classes, columns predicted ones", matrix, []))
        else:
            blocks.append(_pairs(classes, everything))
    output.print()
    print_blocks(output, blocks)


def _each(classes: ClassScores, everything: str) -> Block:
    count, shown = len(classes.classes), list(range(len(classes.classes)))
    notes = []
    if count > MAX_CLASSES:
        shown = classes.worst()[:MAX_CLASSES]
        notes = [f"The {MAX_CLASSES} classes with the lowest {classes.main}, of {count}; {everything}."]
    heads = [score.replace(" ", "\n") for score in classes.scores]
    table = new_table(["class"], [classes.counted, *heads], first="")
    for place in shown:
        scores = ("–" if np.isnan(values[place]) else f"{values[place]:.3f}" for values in classes.scores.values())
        table.add_row(_short(classes.classes[place]), f"{classes.counts[place]:,}", *scores)
    return "Scores by class", table, notes


def _matrix(classes: ClassScores) -> Table:
    """All classes against all; a dot where two are never confused."""
    assert classes.confusion is not None
    table = new_table(["true class"], map(_cell, classes.classes), first="")
    for place, name in enumerate(classes.classes):
        row = [Text(f"{n:,}" if n else "·", "bold" * (place == i)) for i, n in enumerate(classes.confusion[place])]
        table.add_row(_cell(name), *row)
    return table


def _pairs(classes: ClassScores, everything: str) -> Block:
    pairs, table = classes.confused(), new_table(["true class", "predicted"], [classes.counted, "share"], first="")
    for pair in pairs[:MAX_PAIRS]:
        table.add_row(_short(pair.truth), _short(pair.predicted), f"{pair.errors:,}", f"{pair.share:.0%}")
    if not pairs:
        return "No classes are confused", table, []
    notes = ["The share is that of the true class."]
    if len(pairs) > MAX_PAIRS:
        errors, shown = (sum(pair.errors for pair in some) for some in (pairs, pairs[:MAX_PAIRS]))
        notes = [
            f"The share is that of the true class. These are {MAX_PAIRS} of {counted(len(pairs), 'pair')} of classes, "
            f"with {shown:,} of {counted(errors, 'error')}; {everything}."
        ]
    return "Classes that are confused most", table, notes


def _short(name: str) -> Text:
    """A name on one line, shortened in the middle, as names often differ at both ends."""
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME:
        half = (LONGEST_NAME - 1) // 2
        name = f"{name[: LONGEST_NAME - 1 - half]}…{name[-half:]}"
    return Text(name)


def _cell(name: str) -> Text:
    return Text(" ".join(name.split()))  # as text, square brackets are no markup
