"""The plot of stacks and rivals: score against the time of a step."""

from __future__ import annotations

from typing import Any, NamedTuple

from nystream.lab.reproduce.report import numbers, stacks
from nystream.lab.reproduce.report.choice import best
from nystream.lab.reproduce.report.compare import difference
from nystream.lab.reproduce.report.grouping import Build, GroupTable, build
from nystream.lab.reproduce.report.labels import place
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.style import COLOURS, GREY, INK, PAGE, headed

# Kind of stack: the marker, its size, and what the legend says.
MARKERS = {
    "one": ("o", 7.0, "one block"),
    "deep": ("D", 6.0, "deep stack"),
    "paper": ("s", 6.5, "paper stack"),
    "rival": ("^", 7.5, "GRU, LSTM"),
}


class Point(NamedTuple):
    """The model of a build with the best validation score, in the unit of the plot."""

    build: Build
    record: Record
    time: float
    score: float
    interval: tuple[float, float] | None  # of the paired difference to the chosen model, added to the score of that


def points(table: GroupTable) -> list[Point]:
    """One point for every build whose best model was timed."""
    metric, chosen = table.metric, stacks.chosen(table)
    found = []
    for key, pairs in stacks.entries(table).items():
        record = best([record for record, _ in pairs], metric.higher)
        if record.microseconds is None:
            continue
        interval = None
        by = None if chosen is None or record is chosen else difference(record, chosen)
        if chosen is not None and by is not None and by.low is not None and by.high is not None:
            level = metric.scale * chosen.score.mean
            interval = (level + metric.scale * by.low, level + metric.scale * by.high)
        found.append(Point(key, record, record.microseconds, metric.scale * record.score.mean, interval))
    return found


def drawable(table: GroupTable) -> bool:
    """Whether several kinds of stacks, or rivals, were timed."""
    return len({point.build.stack for point in points(table)}) > 1


def caption(table: GroupTable) -> str:
    parts = [
        f"Score on test data against time, {table.metric.better}. For each kind, the setting with the best validation "
        "score, if it was timed; the number is that of blocks or layers. Hollow: full attention, vermilion: continual "
        f"landmarks, blue: fixed landmarks{', black: recurrent networks, in onnxruntime' if table.rivals else ''}."
    ]
    if stacks.chosen(table) is not None:
        parts.append(
            "The line is the score of the chosen model. A whisker is the corrected 95 % interval of the paired "
            "difference to it; if it crosses the line, no difference was found."
        )
    for baseline in table.baselines[:1]:
        if _near(table, baseline):
            parts.append(f"Dotted: {baseline.label}.")
        else:
            level = numbers.score(baseline.score, table.metric)
            parts.append(f"Out of sight: {baseline.label}, {level}.")
    return " ".join(parts)


def _near(table: GroupTable, baseline: Record) -> bool:
    """Whether a baseline is near enough to the points that its line does not squeeze them into half of the plot."""
    found = points(table)
    ends = [end for point in found for end in (point.score, *(point.interval or ()))]
    low, high, level = min(ends), max(ends), table.metric.scale * baseline.score.mean
    return 2 * low - high <= level <= 2 * high - low


def draw(table: GroupTable, figure: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    metric = table.metric
    figure.set_size_inches(8.4, 4.9)
    axis = figure.subplots()
    whiskers = _points(table, axis)
    levels = _levels(table, axis)
    axis.set_xscale("log")
    axis.margins(0.1, 0.08)
    axis.set_xlabel("µs per step, whole model, one stream on one CPU core")
    axis.set_ylabel(f"{metric.head}, {metric.better}")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5), numticks=20))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid()
    _legend(table, axis, figure)
    figure.get_layout_engine().set(w_pad=0.12)  # room for the last number of the time axis
    headed(figure, f"{table.group.title}: {stacks.title(table)}")
    left, right = axis.get_xlim()
    labels = [
        (point.time, point.score, f"{point.record.label} {point.build.layers}", COLOURS[point.build.model])
        for point in points(table)
    ]
    place(figure, axis, labels, [*whiskers, *(((left, level), (right, level)) for level in levels)])


def _points(table: GroupTable, axis: Any) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Draw the points; the ends of their whiskers."""
    whiskers = []
    for key, _, time, score, interval in points(table):
        colour = COLOURS[key.model]
        marker, size, _ = MARKERS[key.stack]
        if interval is not None:
            axis.plot([time, time], interval, color=colour, linewidth=0.9, alpha=0.6, zorder=2)
            whiskers.append(((time, interval[0]), (time, interval[1])))
        axis.plot(
            time, score, marker, color=colour, markersize=size, markeredgewidth=1.4, zorder=3,
            markerfacecolor=PAGE if key.model in stacks.FULL_RANK else colour,
        )  # fmt: skip
    return whiskers


def _levels(table: GroupTable, axis: Any) -> list[float]:
    """Draw a line at the score of the chosen model, and one at that of the baseline; the scores."""
    levels = []
    chosen = stacks.chosen(table)
    if chosen is not None:
        levels.append(table.metric.scale * chosen.score.mean)
        label = f"{stacks.CHOSEN}: {build(chosen).label}"
        axis.axhline(levels[-1], color=INK, linewidth=0.9, zorder=1, label=label)
    for baseline in table.baselines[:1]:
        if _near(table, baseline):
            levels.append(table.metric.scale * baseline.score.mean)
            axis.axhline(levels[-1], color=GREY, linewidth=1.2, linestyle=":", zorder=1, label="best baseline")
    return levels


def _legend(table: GroupTable, axis: Any, figure: Any) -> None:
    """The markers and the lines. The names beside the points say which model each is."""
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        Line2D([], [], linestyle="", marker=marker, markersize=size, color=INK, markerfacecolor="none", label=words)
        for marker, size, words in (MARKERS[stack] for stack in dict.fromkeys(p.build.stack for p in points(table)))
    ]
    handles += axis.get_legend_handles_labels()[0]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, handlelength=1.5,
        handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip
