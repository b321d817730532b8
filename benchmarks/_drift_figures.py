"""The two figures of `drift.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import torch
from _common import FIGURES
from torch import Tensor

mpl.use("Agg")
import matplotlib.pyplot as plt

# Distinguishable with colour blindness, and in greyscale.
COLOURS = {15.0: "#56B4E9", 20.0: "#E69F00", 1e4: "#D55E00"}
BLUE, ORANGE = "#0072B2", "#D55E00"
NAMES = {
    "co-fixed-single": "fixed landmarks (co-fixed-single)",
    "co-cont-single": "continual landmarks (co-cont-single)",
}
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "nystream",  # the same figure gives the same file
}


def draw_outlier(curves: Sequence[dict[str, Any]], n: int) -> None:
    """Error against time since the outlier, one panel per variant."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.2), sharey=True, layout="constrained")
        for axis, variant in zip(axes, NAMES, strict=True):
            mine = [curve for curve in curves if curve["variant"] == variant]
            since = mine[0]["since"]
            for curve in mine:
                if curve["sums"] == "subtract":
                    _subtract(axis, curve)
            worst = torch.tensor([curve["error"] for curve in mine if curve["sums"] != "subtract"]).amax(0)
            axis.plot(since, worst, color=BLUE, linewidth=1.2, label="default, the worst of the three")
            axis.axvline(0, color="0.6", linewidth=0.8)
            axis.axvline(n, color="0.3", linewidth=0.8, linestyle="--")
            axis.text(-8, 1e-4, "outlier enters", color="0.3", rotation=90, ha="right", va="center")
            axis.text(n - 8, 1e-4, "outlier leaves", color="0.3", rotation=90, ha="right", va="center")
            axis.set(title=NAMES[variant], xlabel="tokens since the outlier entered", yscale="log", ylim=(1e-8, 3e3))
            axis.set_xlim(since[0], since[-1])
            axis.set_yticks([10.0**power for power in (-8, -6, -4, -2, 0)])
            axis.grid(axis="y", color="0.92", linewidth=0.6)
        axes[0].set_ylabel("largest error, relative to the output")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        _save(figure, "drift")


def _subtract(axis: Any, curve: dict[str, Any]) -> None:
    since, error, colour = curve["since"], torch.tensor(curve["error"]), COLOURS[curve["logit"]]
    label = f'sums="subtract", logit {curve["logit"]:,.0f}'
    axis.plot(since, error, color=colour, linewidth=1.3, label=label)
    lost = [s for s, finite in zip(since, error.isfinite().tolist(), strict=True) if not finite]
    if lost:
        # A band above the scale: a line would look like a number.
        axis.plot([lost[0], lost[-1]], [2e2, 2e2], color=colour, linewidth=5, solid_capstyle="butt")
        axis.text(lost[0] + 5, 4e2, "not a number", color=colour, va="bottom")


def draw_million(runs: Sequence[dict[str, Any]], places: Tensor, sizes: Tensor, limit: float, bins: int = 200) -> None:
    """Error along a long stream, one panel per variant."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(2, 1, figsize=(9.0, 5.0), sharex=True, sharey=True, layout="constrained")
        for axis, run in zip(axes, runs, strict=True):
            every = run["every"]
            width = len(every) // bins
            peaks = every[: bins * width].reshape(bins, width).amax(-1)
            middle = (torch.arange(bins) + 0.5) * width / 1e6
            axis.plot(
                middle, peaks, color=BLUE, linewidth=1.2, label=f"largest of {width:,} outputs, against float64 steps"
            )
            times = torch.tensor(run["times"])
            axis.scatter(
                times / 1e6,
                run["errors"],
                s=9,
                color=ORANGE,
                zorder=3,
                label="sampled outputs, against the reference (at the end: by step)",
            )
            axis.axhline(limit, color="0.3", linewidth=0.8, linestyle="--")
            axis.text(1.0, limit * 1.25, "limit", color="0.3", ha="right")
            axis.set(
                title=NAMES[run["variant"]], yscale="log", ylim=(1e-8, 1e-3), ylabel="error, relative to the output"
            )
            axis.grid(axis="y", color="0.92", linewidth=0.6)
        axes[1].set(xlabel=f"million tokens ({len(places):,} outliers, logits up to {float(sizes.max()):,.0f} in size)")
        axes[1].set_xlim(0, 1.002 * run["times"][-1] / 1e6)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        _save(figure, "million")


def _save(figure: Any, name: str) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / f"{name}.png", dpi=130)
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
