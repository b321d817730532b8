"""The figure of a run: latency of every contender, and tokens per second against the number of streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nystream import files
from nystream.plotting import BLUE, GREY, ORANGE, RED, SKY, STYLE, new_figure, require

CURVES = (
    ("push_many_steps_per_second", "pool, push_many", BLUE, "o"),
    ("one_by_one_steps_per_second", "pool, push one by one", SKY, "s"),
    ("torch_batch_steps_per_second", "torch, model.step of one batch", ORANGE, "^"),
)


def draw(record: dict[str, Any], path: Path) -> None:
    """Write the figure; the suffix of `path` selects the format."""
    require()
    import matplotlib as mpl

    panels = [draw for part, draw in (("model", _latency), ("streams", _throughput)) if part in record]
    if not panels:
        raise ValueError("a plot shows the parts model and streams, but this run has neither")
    with mpl.rc_context(STYLE):
        figure = new_figure(figsize=(5.6 * len(panels), 4.4))
        for axis, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            panel(axis, record)
        hardware = record.get("hardware", {})
        if hardware:
            figure.supxlabel(
                f"{hardware['cpu']}, {hardware['cores']} cores, torch {hardware['torch']}, {record['commit'][:7]}",
                fontsize=7,
                color="0.45",
                x=0.99,
                ha="right",
            )
        files.replace(path, lambda partial: figure.savefig(partial, dpi=150, format=path.suffix[1:]))


def _latency(axis: Any, record: dict[str, Any]) -> None:
    """Medians as dots on a log scale, a whisker up to the 99th percentile, the floor as a line."""
    part, sizes = record["model"], record["settings"]["sizes"]
    rows = [row for row in part["rows"] if row["blocks"] == sizes["layers"]][::-1]
    floor = part["floor"]["microseconds"]
    left = min([floor, *(row["median_microseconds"] for row in rows)]) / 2
    right = 2 * max(row["p99_microseconds"] for row in rows)
    for place, row in enumerate(rows):
        middle, p99, colour = row["median_microseconds"], row["p99_microseconds"], _colour(row["name"])
        axis.plot([left, middle], [place, place], color="0.88", linewidth=0.8, zorder=1)
        axis.plot([middle, p99], [place, place], color=colour, linewidth=1.5, zorder=2)
        axis.plot([p99, p99], [place - 0.14, place + 0.14], color=colour, linewidth=1.5, zorder=2)
        axis.plot(middle, place, "o", color=colour, markersize=7, zorder=3)
        axis.text(middle, place + 0.17, _short(middle), ha="center", va="bottom", fontsize=8, color=colour)
    axis.axvline(floor, color=RED, linewidth=1, linestyle="--", zorder=1)
    label = f"floor: read weights\nonce, {_short(floor)}"
    axis.annotate(
        label, (floor, len(rows) + 0.1), textcoords="offset points", xytext=(4, 0), color=RED, fontsize=8, va="center"
    )
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(-0.5, len(rows) + 0.5)
    axis.set_xscale("log")
    axis.set_xlim(left, right)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xlabel("µs: median, with whisker to the 99th percentile")
    heads, m = sizes["num_heads"], sizes["landmarks"]
    axis.set_title(f"Time per step: n = {sizes['window']:,}, d = {sizes['embed_dim']}, {heads} heads, m = {m}")
    axis.grid(axis="x", color="0.92", linewidth=0.6)
    axis.set_axisbelow(True)


def _throughput(axis: Any, record: dict[str, Any]) -> None:
    part = record["streams"]
    counts = [row["streams"] for row in part["rows"]]
    for key, label, colour, marker in CURVES:
        axis.plot(
            counts,
            [row[key] for row in part["rows"]],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.5,
            label=label,
        )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(counts, [f"{count:,}" for count in counts])
    axis.minorticks_off()
    low, high = axis.get_ylim()
    axis.set_ylim(low / 1.2, high * 3)
    axis.set_xlabel("number of streams")
    axis.set_title(f"Tokens per second, all streams together, {part['threads']} threads")
    axis.yaxis.set_major_formatter(lambda rate, _: f"{rate / 1e6:g} M" if rate >= 1e6 else f"{rate / 1e3:g} k")
    axis.grid(color="0.92", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.legend(loc="upper left")


def _colour(name: str) -> str:
    if name.startswith("nystream pool"):
        return BLUE
    return SKY if name.startswith("nystream") else GREY


def _short(microseconds: float) -> str:
    if microseconds >= 1000:
        return f"{microseconds / 1000:.2g} ms"
    return f"{microseconds:.0f} µs" if microseconds >= 10 else f"{microseconds:.1f} µs"
