"""Plots of a run: the loss, and the outputs of the model on the test data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nystream import files
from nystream.data import class_plots
from nystream.data.class_scores import ClassScores
from nystream.data.forecast_options import level_name
from nystream.data.forecast_problem import Forecast, levels
from nystream.data.run import PLOTS, Result, history
from nystream.data.table import counted
from nystream.data.timestamps.zone import find_zone
from nystream.plotting import BLUE, GREY, ORANGE, STYLE, new_figure, require

MAX_ROWS = 168  # plotted, at the end of the test data
MAX_TARGETS = 10  # plotted
TALL = 4  # targets whose panels are not made lower


def draw(result: Result) -> list[Path]:
    """Write the plots of a run into its folder."""
    require()
    folder = result.folder / PLOTS
    folder.mkdir(exist_ok=True)
    plots = {"loss.png": _losses}
    if isinstance(result.problem, Forecast):
        plots["forecast.png"] = _forecast
    drawn = [_written(folder / name, panel, result) for name, panel in plots.items()]
    classes = result.problem.class_scores("test", result.output)
    if classes is not None:
        drawn += [_written(folder / name, panel, classes) for name, panel in class_plots.panels(classes).items()]
    return drawn


def _written(path: Path, panel: Any, drawn: Result | ClassScores) -> Path:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = new_figure()
        panel(figure, drawn)
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
    """Plot forecasts and truth for the last rows of the test data; of several horizons, the first and the last."""
    problem = result.problem
    assert isinstance(problem, Forecast)
    quantiles, predicted, truth = levels(problem, "test", result.warm, result.output)
    rows, time, series = problem.scored("test", result.warm), problem.rows.time, ""
    if problem.split.series:  # the last one
        tables = problem.split.table_of(rows)
        last, series = tables == tables[-1], f", {problem.split.series[int(tables[-1])]}"
        rows, quantiles, predicted, truth = rows[last], quantiles[last], predicted[last], truth[last]
    rows = rows[-MAX_ROWS:]
    targets, levels_of = problem.reader.targets, problem.info.quantiles
    ends = sorted({0, len(problem.horizons) - 1})
    names = targets[: MAX_TARGETS // len(ends)]
    panels = [(target, horizon) for target in range(len(names)) for horizon in ends]
    figure.set_size_inches(8.0, 1.0 + (2.6 if len(panels) <= TALL else 1.8) * len(panels))
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (target, horizon) in zip(axes, panels, strict=True):
        if time is not None and problem.reader.timezone:
            axis.xaxis_date(find_zone(problem.reader.timezone))
        ahead = problem.horizons[horizon]
        along = rows + ahead if time is None else time[rows + ahead]  # the rows that are forecast
        place = (slice(-MAX_ROWS, None), target, horizon)
        axis.plot(along, truth[place], color=GREY, linewidth=1.2, label="truth")
        what = "forecast" if not levels_of else "median" if 0.5 in levels_of else "middle"
        label = what if len(ends) > 1 else f"{what}, {counted(ahead, 'row')} ahead"
        axis.plot(along, predicted[place], color=BLUE, linewidth=1.2, label=label)
        if len(levels_of) > 1:
            band = f"{level_name(levels_of[0])} to {level_name(levels_of[-1])}"
            low, high = quantiles[place][:, 0], quantiles[place][:, -1]
            axis.fill_between(along, low, high, color=BLUE, alpha=0.2, linewidth=0, label=band)
        units = problem.info.units
        axis.set_ylabel(units[target if len(units) > 1 else 0] if units else "")
        several = f", {counted(ahead, 'row')} ahead" if len(ends) > 1 else ""
        axis.set_title(f"{names[target]}{series}{several}")
    if len(targets) > len(names):
        figure.suptitle(f"the first {len(names)} of {len(targets)} targets", x=0.01, ha="left", fontsize=8, color=GREY)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    axes[-1].set_xlabel("row" if time is None else "")
    axes[-1].tick_params(axis="x", labelrotation=0 if time is None else 20)
