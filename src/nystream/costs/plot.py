"""The paper's cost figure: operations and peak memory against the window, for one and two blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nystream import files, plotting, variants
from nystream.costs.flops import flops
from nystream.costs.memory import memory

DATE = {".pdf": "CreationDate", ".svg": "Date"}
WIDTH, LANDMARKS = 200, 8
WINDOWS = tuple(range(LANDMARKS, 1001, 8))

# Colours that are distinguishable with colour blindness. Fixed landmarks are dashed, in a darker shade that remains
# visible on top of another line.
LINES: tuple[tuple[str, str, str], ...] = (
    ("full", "#333333", "-"),
    ("nystrom", "#E69F00", "-"),
    ("nystrom-fixed", "#9A5B00", "--"),
    ("co-full-single", "#009E73", "-"),
    ("co-cont-single", "#56B4E9", "-"),
    ("co-fixed-single", "#00507D", "--"),
)
STYLE = plotting.STYLE | {"axes.titleweight": "normal"}


def draw(
    path: Path,
    *,
    d: int = WIDTH,
    m: int = LANDMARKS,
    windows: Sequence[int] = WINDOWS,
    corrected: bool = False,
) -> None:
    """Draw four panels with logarithmic scales, of the paper's counts or the corrected ones.

    The extension of `path` selects the format. Memory is in numbers, not bytes.
    """
    plotting.require_for(path)
    import matplotlib as mpl

    def operations(variant: str, n: int, layers: int) -> float:
        return flops(variant, n, d, m, layers, corrected=corrected)

    def peak(variant: str, n: int, layers: int) -> float:
        return memory(variant, n, d, m, layers, corrected=corrected).peak

    ns = [n for n in windows if n >= m]
    with mpl.rc_context(STYLE):
        figure = plotting.new_figure(figsize=(8.6, 7.0))
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        letters = iter("abcd")
        for row, (name, count) in enumerate((("operations per step", operations), ("peak memory", peak))):
            for axis, layers in zip(axes[row], (1, 2), strict=True):
                for variant, colour, dashes in LINES:
                    label = variants.get(variant).family
                    values = [count(variant, n, layers) for n in ns]
                    axis.plot(ns, values, color=colour, linestyle=dashes, linewidth=1.6, label=label)
                blocks = "1 block" if layers == 1 else f"{layers} blocks"
                axis.set_title(f"({next(letters)}) {name}, {blocks}")
                _scales(axis)
            axes[row][0].set_ylabel("multiply-adds" if row == 0 else "stored numbers")
        for axis in axes[1]:
            axis.set_xlabel("window n")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(LINES), handlelength=2.4)
        counts = "corrected counts" if corrected else "the paper's counts"
        figure.suptitle(f"Attention alone, d = {d}, m = {m}: {counts}", x=0.01, ha="left", fontsize=11, weight="bold")
        # No date, so that the same figure gives the same file.
        options: dict[str, Any] = {} if path.suffix == ".png" else {"metadata": {DATE[path.suffix]: None}}
        files.replace(path, lambda partial: figure.savefig(partial, dpi=150, format=path.suffix[1:], **options))


def _scales(axis: Any) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: _short(value))
    axis.tick_params(labelleft=True)
    axis.grid(color="0.92", linewidth=0.6)
    axis.set_axisbelow(True)


def _short(number: float) -> str:
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
