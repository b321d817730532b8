"""Plots of a run: the loss, and the outputs of the model on the test data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nystream import files
from nystream.data.forecast import Forecast, levels
from nystream.data.labelled import Labelled
from nystream.data.run import PLOTS, Result, history
from nystream.data.table import counted
from nystream.plotting import BLUE, GREY, ORANGE, STYLE, new_figure, require
from nystream.train import Detection, metrics

MAX_ROWS = 168  # plotted, at the end of the test data
MAX_TARGETS = 4  # plotted
MAX_CLASSES = 40  # whose names fit


def draw(result: Result) -> list[Path]:
    """Write the plots of a run into its folder."""
    require()
    folder = result.folder / PLOTS
    folder.mkdir(exist_ok=True)
    plots = {"loss.png": _losses}
    if isinstance(result.problem, Forecast):
        plots["forecast.png"] = _forecast
    elif isinstance(result.problem, Labelled) and result.problem.clips.labelling == "classification":
        plots["confusion.png"] = _confusion
    else:
        plots["precision.png"] = _precision
    return [_written(folder / name, panel, result) for name, panel in plots.items()]


def _written(path: Path, panel: Any, result: Result) -> Path:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = new_figure()
        panel(figure, result)
        files.replace(path, lambda partial: figure.savefig(partial, dpi=130, format="png"))
    return path


def _losses(figure: Any, result: Result) -> None:
    """Plot training and validation loss over the epochs of all phases."""
    figure.set_size_inches(6.4, 3.6)
    axis = figure.subplots()
    lines = list(history(result.folder))
    epochs = range(1, len(lines) + 1)
    axis.plot(epochs, [line["train_loss"][0] for line in lines], color=BLUE, label="training")
    axis.plot(epochs, [line["valid"][0]["loss"] for line in lines], color=ORANGE, label="validation")
    phases = [line["phase"] for line in lines]
    for place in range(1, len(phases)):
        if phases[place] != phases[place - 1]:
            axis.axvline(place + 0.5, color=GREY, linewidth=0.8, linestyle=":")
            axis.annotate(
                " fixed landmarks", (place + 0.5, 0.9), xycoords=("data", "axes fraction"), color=GREY, fontsize=8
            )
    if any(line["train_loss"][0] > 0 for line in lines):  # a forecast can be exact
        axis.set_yscale("log")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel("epoch")
    axis.set_title("Loss")
    axis.legend()


def _forecast(figure: Any, result: Result) -> None:
    """Plot forecasts and truth for the last rows of the test data."""
    problem = result.problem
    assert isinstance(problem, Forecast)
    predicted, truth, _ = levels(problem, "test", result.warm, result.output)
    stop = problem.edges("test")[1]
    rows = np.arange(stop - len(predicted), stop) + problem.horizon  # the rows that are forecast
    time = None if problem.rows.time is None else problem.rows.time[rows]
    names = problem.reader.targets[:MAX_TARGETS]
    ahead = f"forecast, {counted(problem.horizon, 'row')} ahead"
    figure.set_size_inches(8.0, 1.0 + 2.6 * len(names))
    axes = figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
    for axis, place in zip(axes, range(len(names)), strict=True):
        along = (rows if time is None else time)[-MAX_ROWS:]
        axis.plot(along, truth[-MAX_ROWS:, place], color=GREY, linewidth=1.2, label="truth")
        axis.plot(along, predicted[-MAX_ROWS:, place], color=BLUE, linewidth=1.2, label=ahead)
        units = problem.info.units
        axis.set_ylabel(units[place if len(units) > 1 else 0] if units else "")
        axis.set_title(names[place])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    axes[-1].set_xlabel("row" if time is None else "")
    axes[-1].tick_params(axis="x", labelrotation=0 if time is None else 20)


def _confusion(figure: Any, result: Result) -> None:
    """Plot the confusion matrix of the test files, by the answer at the end of each file."""
    problem = result.problem
    assert isinstance(problem, Labelled)
    lengths = [len(problem.clips.clips[i].x) for i in problem.numbers("test")]
    ends = np.cumsum(lengths) - 1
    truth = problem.part("test", result.warm).y.numpy()[ends]
    predicted = result.output.argmax(-1).numpy()[ends]
    count = problem.output_dim
    table = np.zeros((count, count), int)
    np.add.at(table, (truth, predicted), 1)
    figure.set_size_inches(2.4 + 0.35 * count, 2.0 + 0.35 * count)
    axis = figure.subplots()
    axis.imshow(table, cmap="Blues")
    _named(axis, problem.info.labels)
    if count <= MAX_CLASSES:
        for row in range(count):
            for column in range(count):
                if table[row, column]:
                    dark = table[row, column] > table.max() / 2
                    axis.text(column, row, table[row, column], ha="center", va="center", color="w" if dark else "k")
    axis.set_xlabel("predicted class")
    axis.set_ylabel("true class")
    axis.set_title("Test files")


def _named(axis: Any, labels: Sequence[str]) -> None:
    if len(labels) <= MAX_CLASSES:
        axis.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
        axis.set_yticks(range(len(labels)), labels)


def _precision(figure: Any, result: Result) -> None:
    """Plot the average precision of every class, and that of random guessing."""
    problem = result.problem
    assert isinstance(problem.task, Detection)
    y = problem.part("test", result.warm).y
    known, hot = metrics.known(y), metrics.one_hot(y, problem.output_dim)
    score = problem.task.probabilities(result.output)[known]
    precision = metrics.average_precision(score, hot[known]).numpy()
    chance = hot[known].mean(0).numpy()
    places = np.arange(problem.output_dim)
    figure.set_size_inches(6.0, 1.2 + 0.25 * len(places))
    axis = figure.subplots()
    axis.barh(places, np.nan_to_num(precision), color=BLUE, label="model")
    axis.plot(chance, places, "|", color=ORANGE, markersize=10, label="chance")
    axis.set_yticks(places, problem.info.labels)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_title("Average precision by class, test files")
    axis.legend()
