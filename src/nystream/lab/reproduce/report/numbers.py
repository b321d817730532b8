"""Numbers as text, for tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nystream.lab.reproduce.paper import TASKS, Metric, PrintedScore
from nystream.lab.reproduce.report.compare import Difference
from nystream.lab.reproduce.report.document import MISSING
from nystream.lab.reproduce.report.records import Record, ScoreSummary

# How a step is timed, which `step.backend` of a record says.
RUNTIMES = "in compiled code where every block streams, otherwise in torch"


def score(scores: ScoreSummary | None, metric: Metric) -> str:
    """82.80 ± 4.40; without a deviation for one run."""
    if scores is None:
        return MISSING
    mean = f"{metric.scale * scores.mean:.{metric.digits}f}"
    return mean if scores.std is None else f"{mean} ± {metric.scale * scores.std:.{metric.digits}f}"


def to_paper(scores: ScoreSummary | None, printed: PrintedScore | None, metric: Metric) -> str:
    """Ours minus the paper's, at the paper's precision."""
    if scores is None or printed is None:
        return MISSING
    digits = len(printed.mean.partition(".")[2])
    return signed(metric.scale * scores.mean - float(printed.mean), digits)


def signed(value: float, digits: int) -> str:
    """+0.24, −1.31, 0.00."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def interval(by: Difference | None, metric: Metric, plain: bool = False) -> str:
    """−0.97 to +1.45: the corrected interval, or the plain one."""
    if by is None:
        return MISSING
    if by.low is None or by.high is None or by.plain is None:
        return "no interval"
    ends = (by.mean - by.plain, by.mean + by.plain) if plain else (by.low, by.high)
    return " to ".join(signed(metric.scale * end, metric.digits) for end in ends)


def difference(by: Difference | None, metric: Metric) -> str:
    """+0.24 (−0.97 to +1.45), with the plain interval."""
    if by is None:
        return MISSING
    mean = signed(metric.scale * by.mean, metric.digits)
    return mean if by.low is None else f"{mean} ({interval(by, metric, plain=True)})"


def over(by: Difference, task: str) -> str:
    """5 splits, one test set."""
    shared = ", one test set" * (by.over == "splits" and TASKS[task].shares_test)
    return f"{by.number} {by.over if by.number > 1 else by.over[:-1]}{shared}"


def millions(count: float | None) -> str:
    """Three digits: 67.7, 0.0694."""
    return MISSING if count is None else digits(count / 1e6, 3)


def times(ratio: float | None) -> str:
    """×1028, ×80.3, ×1."""
    return MISSING if ratio is None else f"×{digits(ratio, 3)}".removesuffix(".00")


def microseconds(step: Mapping[str, Any] | None) -> str:
    """431, 12.3."""
    return MISSING if step is None else digits(step["median_microseconds"], 3)


def kilobytes(record: Record) -> str:
    """Memory of the stream that was timed; a rival's stream is its state."""
    size = (record.raw["step"] or {}).get("bytes_per_stream")
    if size is None and record.rival:
        size = record.raw["bytes_per_stream"]
    return MISSING if size is None else digits(size / 1e3, 3)


def step(record: Record) -> tuple[str, str, str]:
    """µs per step, times faster than full attention, and kB per stream."""
    timed = record.raw["step"]
    if timed is None:
        return MISSING, MISSING, MISSING
    return microseconds(timed), times(timed["relative"]), digits(timed["bytes_per_stream"] / 1e3, 3)


def digits(value: float, count: int) -> str:
    """Fixed point with this many significant digits, or all digits before the point."""
    if value == 0:
        return "0"
    places = count - 1 - int(f"{value:e}".partition("e")[2])
    return f"{value:,.{max(0, places)}f}"
