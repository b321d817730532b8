"""Paired differences between two records, over the runs that both have, with a 95 % t interval of their mean.

Runs that share a split are not independent: how hard a split is moves all of them. So where there are several splits,
seeds are averaged within each and the interval is over splits; with one split it is over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.cells import TWINS
from nystream.lab.reproduce.report.grouping import GroupTable, say
from nystream.lab.reproduce.report.records import Record, RunKey

CONFIDENCE = 0.95
SAME = 1e-4  # of a score: what one function computed in two ways may differ by
# kind -> (minuend, subtrahend) models
PAIRS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "low rank against full attention": (
        ("co-fixed-single", "co-full-single"),
        ("co-cont-single", "co-full-single"),
        ("nystrom-fixed", "full"),
        ("nystrom", "full"),
    ),
    "continual against plain": (
        ("co-full-single", "full"),
        ("co-cont-single", "nystrom"),
        ("co-fixed-single", "nystrom-fixed"),
    ),
}
FULL = dict(PAIRS["low rank against full attention"])  # low rank -> its full attention
DEPTH = "two blocks against one"
HEADLINE = {("co-fixed-single", "co-full-single"), ("co-cont-single", "co-full-single")}  # what the paper is about


class Difference(NamedTuple):
    """`first` minus `second`, in the metric's own unit."""

    mean: float
    low: float | None  # None where there are fewer than two independent differences
    high: float | None
    number: int  # of independent differences
    over: str  # what they are: "splits" or "seeds"
    runs: int  # of both records
    same: bool  # every run, but for rounding

    def verdict(self, higher: bool) -> str:
        """In plain words, by whether the interval excludes 0."""
        if self.low is None or self.high is None:
            return f"one {self.over[:-1]} only"
        if self.same:
            return "the same"
        if self.low <= 0 <= self.high:
            return "no difference found"
        return "better" if (self.mean > 0) == higher else "worse"


class Comparison(NamedTuple):
    """`part` says what is compared: "models", a "baseline", or a "setting" or "landmarks" with the table's own.

    Comparisons of one `kind` stand together.
    """

    part: str
    kind: str
    label: str
    first: Record
    second: Record
    difference: Difference
    valid: Difference | None  # on validation data; None for a baseline, which has no such scores

    @property
    def verdict(self) -> str:
        return self.difference.verdict(paper.METRICS[self.first.metric].higher)

    @property
    def budgets(self) -> str:
        """Empty where both were trained for as long, or one is a baseline."""
        first, second = self.first.epochs, self.second.epochs
        if None in (first, second):
            return ""
        if first != second:
            return f"{first} against {second} epochs"
        (ours, size), (theirs, other) = self.first.updates, self.second.updates
        if None in (ours, theirs) or (ours, size) == (theirs, other):
            return ""
        return f"{ours} updates of {size} against {theirs} of {other}"


def difference(first: Record, second: Record, metric: str = "", part: str = "metrics") -> Difference | None:
    """On test data, or on those of the part "valid"; None where the two share no run, or one has no such score.

    A baseline that draws nothing has one run for all seeds of a split.
    """
    ours, others = (getattr(one, part).get(metric or first.metric) for one in (first, second))
    if ours is None or others is None:
        return None
    theirs = dict(zip(second.runs, others.values, strict=True))
    by_split: dict[int | None, list[float]] = {}
    same = True
    for run, value in zip(first.runs, ours.values, strict=True):
        other = theirs.get(run, theirs.get(RunKey(run.split, None)))
        if other is not None:
            by_split.setdefault(run.split, []).append(value - other)
            same = same and abs(value - other) <= SAME * abs(other)
    runs = sum(map(len, by_split.values()))
    if not runs:
        return None
    if len(by_split) > 1:
        over, values = "splits", [fmean(one) for one in by_split.values()]
    else:
        over, values = "seeds", next(iter(by_split.values()))
    mean, half = fmean(values), half_width(values)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Difference(mean, low, high, len(values), over, runs, same)


def half_width(values: list[float]) -> float | None:
    """Of the t interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "confidence intervals need scipy, which comes with pip install 'nystream[train]'", name="scipy"
        ) from error
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return quantile * stdev(values) / len(values) ** 0.5


def comparisons(table: GroupTable) -> list[Comparison]:
    """Every difference that a reader of a table asks for, as far as its records are there."""
    found = []
    for part, kind, label, first, second in _pairs(table):
        known = difference(first, second)
        if known is not None:
            found.append(Comparison(part, kind, label, first, second, known, difference(first, second, part="valid")))
    return found


def best_baseline(table: GroupTable) -> Record | None:
    """By test score, which favours the baseline."""
    return table.baselines[0] if table.baselines else None


def headline(found: Sequence[Comparison]) -> list[Comparison]:
    """CoNy-Fix and CoNy-Cont, distilled ones too, against Co, at every depth."""
    return [one for one in found if one.part == "models" and (one.first.model, one.second.model) in HEADLINE]


def _pairs(table: GroupTable) -> Iterator[tuple[str, str, str, Record, Record]]:
    depths = sorted({layers for _, layers in table.cells})
    for kind, pairs in PAIRS.items():
        for layers in depths:
            for pair in pairs:
                first, second = (table.cells.get((model, layers)) for model in pair)
                if first is not None and second is not None:
                    label = f"{first.label} − {second.label}, {blocks(layers)}"
                    yield "models", kind, label, first, second
                taught = table.distilled(pair[0], layers)
                if pair in HEADLINE and taught is not None and second is not None:
                    label = f"{taught.label}, distilled − {second.label}, {blocks(layers)}"
                    yield "models", kind, label, taught, second
    for (model, layers), one in table.cells.items():
        if layers > 1 and (model, 1) in table.cells:
            yield "models", DEPTH, f"{one.label}, {blocks(layers)} − 1", one, table.cells[model, 1]
    baseline = best_baseline(table)
    if baseline is not None:
        kind = f"against the best baseline, {baseline.label}"
        for (model, layers), one in table.cells.items():
            if model in TWINS.values():
                yield "baseline", kind, f"{one.label} − baseline, {blocks(layers)}", one, baseline
    for one, differs in table.others:
        own = table.cells.get((one.model, one.layers))
        if own is not None:
            part = "landmarks" if set(differs) == {"landmarks"} else "setting"
            yield part, f"{one.label}, {blocks(one.layers)}", say(differs), one, own


def blocks(layers: int) -> str:
    return "1 block" if layers == 1 else f"{layers} blocks"
