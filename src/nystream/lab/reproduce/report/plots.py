"""The plots of a report: score against cost, paired differences, score against the number of landmarks."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nystream import files, plotting
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.cells import TWINS
from nystream.lab.reproduce.report import compare, stack_plot, stacks
from nystream.lab.reproduce.report.compare import Comparison, blocks
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.labels import place
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.style import COLOURS, GREY, INK, PAGE, STYLE, VARIABLES, headed
from nystream.plotting import BLUE, RED

DPI = 150  # also of the layout: the width of hinted letters depends on it, and with it the place of labels
# Markers of continual models are filled, those of plain ones hollow.
CONTINUAL = tuple(TWINS.values())
CURVES = (
    ("nystrom-fixed", "-", "s"),
    ("co-fixed-single", "-", "o"),
    ("nystrom", ":", "s"),
    ("co-cont-single", ":", "o"),
)
MAX_RATIO = 3  # between the largest differences in one panel; a group that reaches further gets its own

Cost = Callable[[Record], float | None]


class Plot(NamedTuple):
    """A plot that can be drawn: `fill` draws it into an empty figure."""

    name: str
    alt: str
    caption: str
    fill: Callable[[Any], None]


def require() -> None:
    """Raise if matplotlib is missing."""
    plotting.require("the report", ", or use --no-plots")


def drawable(table: GroupTable) -> dict[str, Plot]:
    """Every plot that the records of a table allow, by name."""
    slug, title, metric = table.group.slug, table.group.title, table.metric
    plots = []
    if len(table.cells) > 1:
        panels = _cost_panels(table)
        caption = (
            f"Score against cost, {metric.better}; log scales. Grey: full attention, vermilion: landmarks that are "
            "means, blue: fixed landmarks. Filled: continual, hollow: over whole windows. Circles: one block, squares: "
            "two; the number beside a name is the number of blocks."
        )
        alt = f"{metric.title} against {' and '.join(name for name, _ in panels)}"
        plots.append(Plot(f"{slug}-costs", f"{title}: {alt}", caption, partial(_costs, table, panels)))
    if stack_plot.drawable(table):
        alt = f"{title}: {metric.title} against µs per step of {stacks.title(table)}"
        plots.append(Plot(f"{slug}-stacks", alt, stack_plot.caption(table), partial(stack_plot.draw, table)))
    comparisons = compare.comparisons(table)
    for name, what, parts in (
        ("differences", "paired differences", ("models", "baseline")),
        ("settings", "other settings minus the table's own", ("setting",)),
    ):
        groups = _panels([item for item in comparisons if item.part in parts])
        if groups:
            caption = (
                f"{what.capitalize()} with their corrected 95 % intervals. Blue: better, vermilion: worse, grey: no "
                "difference found. Hollow: no interval." + " Each panel has its own scale." * (len(groups) > 1)
            )
            draw = partial(_differences, table, groups, what)
            plots.append(Plot(f"{slug}-{name}", f"{title}: {what}, with intervals", caption, draw))
    if any(len(records) > 1 for records in _sweeps(table).values()):
        caption = (
            f"Score against the number of landmarks, {metric.better}, as in the paper's figures. Blue: fixed "
            "landmarks; dotted: means over segments. The line is full attention. A whisker is the corrected 95 % "
            "interval of the paired difference to it; if it crosses the line, no difference was found."
        )
        alt = f"{title}: {metric.title} against the number of landmarks"
        plots.append(Plot(f"{slug}-landmarks", alt, caption, partial(_landmarks, table)))
    return {plot.name: plot for plot in plots}


def drawn(plot: Plot) -> Drawn:
    """The plot as PNG and SVG; the same records give the same bytes."""
    require()
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = filled(plot)
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png")
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return Drawn(plot.name, png.getvalue(), svg.getvalue())


def filled(plot: Plot) -> Any:
    """The plot as a matplotlib figure."""
    figure = plotting.new_figure(dpi=DPI)
    plot.fill(figure)
    return figure


class Drawn(NamedTuple):
    name: str
    png: bytes
    svg: bytes

    def write(self, folder: Path) -> None:
        for kind, data in (("png", self.png), ("svg", self.svg)):
            files.replace(folder / f"{self.name}.{kind}", lambda partial, data=data: partial.write_bytes(data))  # type: ignore[misc]

    def inline(self) -> str:
        """An SVG element for a page: transparent, in the page's colours, with unique ids."""
        svg = self.svg.decode()
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :].strip(), flags=re.S)
        svg = re.sub(r'<g id="patch_1">.*?</g>', "", svg, count=1, flags=re.S)  # the figure's own background
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{self.name}-", svg)
        for colour, name in VARIABLES.items():
            svg = svg.replace(colour, name).replace(colour.lower(), name)
        head, rest = svg.split(">", 1)
        # The same font size in all plots of a page, whatever their widths.
        points = float(re.search(r'viewBox="0 0 ([\d.]+)', head)[1])  # type: ignore[index]
        head = re.sub(r' (width|height)="[^"]*"', "", head)
        return f'{head} class="plot" style="max-width: {points * 1.4:.0f}px">{rest}'


def _cost_panels(table: GroupTable) -> list[tuple[str, Cost]]:
    """The kinds of cost that are known, with their axis labels."""

    def time(record: Record) -> float | None:
        return record.raw["step"]["median_microseconds"] if record.raw["step"] else None

    operations = ("operations of attention per step, corrected", lambda record: record.raw["operations"]["corrected"])
    if sum(time(record) is not None for record in table.cells.values()) > 1:
        return [("µs per step, whole model", time), operations]
    return [operations]


def _costs(table: GroupTable, panels: Sequence[tuple[str, Cost]], figure: Any) -> None:
    from matplotlib.ticker import EngFormatter

    metric = table.metric
    figure.set_size_inches(4.9 * len(panels) if len(panels) > 1 else 6.0, 4.0)
    labels = []
    for axis, (name, cost) in zip(figure.subplots(1, len(panels), squeeze=False, sharey=True)[0], panels, strict=True):
        points: list[tuple[float, float, str, str]] = []
        for (model, layers), record in table.cells.items():
            x = cost(record)
            if x is None:
                continue
            y, colour = metric.scale * record.score.mean, COLOURS[model]
            fill = colour if model in CONTINUAL else PAGE
            axis.plot(
                x, y, "o" if layers == 1 else "s", color=colour, markerfacecolor=fill, markersize=6.5,
                markeredgewidth=1.4, zorder=3,
            )  # fmt: skip
            points.append((x, y, record.label if table.depths == [1] else f"{record.label} {layers}", colour))
        axis.set_xscale("log")
        axis.margins(0.14, 0.14)
        axis.set_xlabel(name)
        axis.xaxis.set_major_formatter(EngFormatter())
        axis.grid()
        labels.append((axis, points))
    figure.axes[0].set_ylabel(f"{metric.head}, {metric.better}")
    headed(figure, table.group.title)
    for axis, points in labels:
        place(figure, axis, points)


def _landmarks(table: GroupTable, figure: Any) -> None:
    metric = table.metric
    sweeps = _sweeps(table)
    depths = sorted({layers for (_, layers), records in sweeps.items() if len(records) > 1})
    figure.set_size_inches(max(5.6, 4.4 * len(depths)), 3.9)
    ticks = sorted({m for records in sweeps.values() for m in records})
    axes = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axis, layers in zip(axes, depths, strict=True):
        full = table.cells.get(("co-full-single", layers)) or table.cells.get(("full", layers))
        if full is not None:
            axis.axhline(
                metric.scale * full.score.mean, color=GREY, linewidth=1.2, zorder=1, label=f"{full.label} (full)"
            )
        for number, (model, dashes, marker) in enumerate(CURVES):
            records = sweeps.get((model, layers))
            if not records:
                continue
            shift = 2 ** (0.09 * (number - 1.5))  # so that the whiskers of one m do not overlap
            xs = [m * shift for m in records]
            ys = [metric.scale * record.score.mean for record in records.values()]
            colour = COLOURS[model]
            filled = colour if model in CONTINUAL else PAGE
            axis.plot(
                xs, ys, dashes, color=colour, marker=marker, markersize=5, markerfacecolor=filled, linewidth=1.5,
                label=paper.MODELS[model], zorder=3,
            )  # fmt: skip
            for x, y, record in zip(xs, ys, records.values(), strict=True):
                by = compare.difference(record, full) if full is not None else None
                if by is not None and by.low is not None and by.high is not None:
                    ends = [y + metric.scale * (end - by.mean) for end in (by.low, by.high)]
                    axis.plot([x, x], ends, color=colour, linewidth=0.9, alpha=0.55, zorder=2)
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(m) for m in ticks])
        axis.minorticks_off()
        axis.set_title(blocks(layers))
        axis.set_xlabel("landmarks m")
        axis.grid()
    axes[0].set_ylabel(f"{metric.head}, {metric.better}")
    handles, labels = max((axis.get_legend_handles_labels() for axis in axes), key=lambda pair: len(pair[1]))
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=2.6)
    headed(figure, table.group.title)


def _differences(table: GroupTable, panels: Sequence[Sequence[Comparison]], what: str, figure: Any) -> None:
    metric = table.metric
    written = [_lines(panel) for panel in panels]
    figure.set_size_inches(7.6, 0.7 + sum(0.235 * len(lines) + 0.55 for lines in written))
    axes = figure.subplots(len(written), squeeze=False, height_ratios=[len(lines) + 1 for lines in written])[:, 0]
    for axis, lines in zip(axes, written, strict=True):
        for row, line in enumerate(lines):
            if not isinstance(line, str):
                _interval(axis, row, line, metric)
        axis.axvline(0, color=INK, linewidth=0.9, zorder=1)
        axis.set_yticks(range(len(lines)), [line if isinstance(line, str) else line.label for line in lines])
        for text, line in zip(axis.get_yticklabels(), lines, strict=True):
            text.set_fontweight("bold" if isinstance(line, str) else "normal")
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(lines) - 0.4, -0.6)
        axis.spines["left"].set_visible(False)
        axis.grid(axis="x")
    left, right = ("worse", "better") if metric.higher else ("better", "worse")
    axes[-1].set_xlabel(f"← {left}     difference of {metric.title}, {metric.change}     {right} →")
    headed(figure, f"{table.group.title}: {what}")


def _panels(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    """Comparisons by panel: those of one part and of similar size, because the largest would hide the others.

    Comparisons of one kind stay together, except single ones that are much larger than the others of their part.
    """
    panels: list[list[Comparison]] = []
    for part in ("models", "setting", "baseline"):
        items = [item for item in comparisons if item.part == part]
        usual = _usual_reach(items)
        kinds: dict[tuple[str, bool], list[Comparison]] = {}
        for item in items:
            kinds.setdefault((item.kind, _reach([item]) > usual), []).append(item)
        shared: list[list[Comparison]] = []
        for group in kinds.values():
            panel = next((panel for panel in shared if _alike(_reach(panel), _reach(group))), None)
            if panel is None:
                shared.append([*group])
            else:
                panel += group
        panels += shared
    return panels


def _usual_reach(items: Sequence[Comparison]) -> float:
    """The reach of most differences: from the median upwards, as long as each is similar to the one before."""
    reaches = sorted(reach for item in items if (reach := _reach([item])))
    usual = reaches[len(reaches) // 2] if reaches else 0.0
    for reach in reaches[len(reaches) // 2 :]:
        if not _alike(usual, reach):
            break
        usual = reach
    return usual


def _reach(items: Sequence[Comparison]) -> float:
    """The largest distance from 0 that an axis must show; 0 if all differences are rounding."""
    differences = [item.difference for item in items if not item.difference.same]
    return max((abs(end) for by in differences for end in (by.mean, by.low, by.high) if end is not None), default=0.0)


def _alike(one: float, other: float) -> bool:
    return not one or not other or max(one, other) <= MAX_RATIO * min(one, other)


def _lines(panel: Sequence[Comparison]) -> list[Comparison | str]:
    """The comparisons of a panel, each kind beneath its name."""
    lines: list[Comparison | str] = []
    for kind in dict.fromkeys(item.kind for item in panel):
        items = [item for item in panel if item.kind == kind]
        title = kind.partition(",")[0] if items[0].part == "baseline" else kind  # a baseline's name may be long
        lines += [title[0].upper() + title[1:], *items]
    return lines


def _interval(axis: Any, row: int, line: Comparison, metric: paper.Metric) -> None:
    by, colour = line.difference, {"better": BLUE, "worse": RED}.get(line.verdict, GREY)
    if by.low is not None and by.high is not None:
        # Its ends extend above and below the dot, so that an interval narrower than the dot is visible.
        ends = [metric.scale * by.low, metric.scale * by.high]
        axis.plot(
            ends, [row, row], color=colour, linewidth=1.6, solid_capstyle="butt", marker="|", markersize=8,
            markeredgewidth=1.1, zorder=3,
        )  # fmt: skip
    filled = colour if by.low is not None else PAGE
    axis.plot(metric.scale * by.mean, row, "o", color=colour, markerfacecolor=filled, markersize=4.2, zorder=2)


def _sweeps(table: GroupTable) -> dict[tuple[str, int], dict[int, Record]]:
    """The records of each curve, by m."""
    models = [model for model, *_ in CURVES]
    return {key: table.sweep(*key) for key in table.trained() if key[0] in models}


def every(tables: Sequence[GroupTable]) -> list[Plot]:
    """All plots of a report."""
    return [plot for table in tables for plot in drawable(table).values()]
