"""Paired differences between two records, over the runs that both have, with 95 % t intervals of the mean.

Runs of one split are not independent: a hard split is hard for all of them. With several splits, seeds are therefore
averaged within each split and the interval is over splits; with one split, it is over seeds. Splits share most of
their training data, so the interval over them is corrected after Nadeau and Bengio (2003): the variance of the mean of
k differences is (1/k + n_test/n_train) s² instead of s²/k. The plain interval stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from nystream import extras
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.cells import TWINS
from nystream.lab.reproduce.report import stacks
from nystream.lab.reproduce.report.choice import independent
from nystream.lab.reproduce.report.grouping import Build, GroupTable, build, describe
from nystream.lab.reproduce.report.records import Record, RunKey

CONFIDENCE = 0.95
ROUNDING = 1e-4  # relative difference of scores that one function may have if it is computed in two ways
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
HEADLINE = {("co-fixed-single", "co-full-single"), ("co-cont-single", "co-full-single")}  # the paper's main claim


class Difference(NamedTuple):
    """`first` minus `second`, in the metric's own unit; `low` and `high` are the ends of the corrected interval."""

    mean: float
    low: float | None  # None if there are fewer than two independent differences
    high: float | None
    plain: float | None  # half the width of the interval that is not corrected
    number: int  # of independent differences
    over: str  # what they are: "splits" or "seeds"
    runs: int  # that both records have
    same: bool  # in every run, up to rounding

    def verdict(self, higher: bool) -> str:
        """The difference in words; "better" and "worse" if the corrected interval excludes 0."""
        if self.low is None or self.high is None:
            return f"one {self.over[:-1]} only"
        if self.same:
            return "the same"
        if self.low <= 0 <= self.high:
            return "no difference found"
        return "better" if (self.mean > 0) == higher else "worse"


class Comparison(NamedTuple):
    """A difference between two records; `part` is "models", "baseline", "stacks", "setting" or "landmarks".

    The last two compare a cell with the one in the table's own setting. Comparisons of one `kind` are listed together.
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
        """How the budgets of training differ; empty if they do not, or if one record is a baseline."""
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
    """The difference on test data, or validation data (part="valid"); None if there is no run or score in common.

    A baseline without randomness has one run for all seeds of a split.
    """
    ours, others = (getattr(record, part).get(metric or first.metric) for record in (first, second))
    if ours is None or others is None:
        return None
    theirs = dict(zip(second.runs, others.values, strict=True))
    by_run: dict[RunKey, float] = {}
    same = True
    for run, value in zip(first.runs, ours.values, strict=True):
        other = theirs.get(run, theirs.get(RunKey(run.split, None)))
        if other is not None:
            by_run[run] = value - other
            same = same and abs(value - other) <= ROUNDING * abs(other)
    if not by_run:
        return None
    over, values = independent(list(by_run), list(by_run.values()))
    mean, number, low, high, plain = fmean(values), len(values), None, None, None
    if number > 1:
        stats = extras.require("a confidence interval", "scipy.stats")
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1))
        held_out = paper.TASKS[first.group.task].held_out.get(part, 0.0) if over == "splits" else 0.0
        plain, half = (quantile * stdev(values) * (1 / number + more) ** 0.5 for more in (0.0, held_out))
        low, high = mean - half, mean + half
    return Difference(mean, low, high, plain, number, over, len(by_run), same)


def comparisons(table: GroupTable) -> list[Comparison]:
    """All comparisons of a report that the records of a table allow."""
    return [
        Comparison(part, kind, label, first, second, by, difference(first, second, part="valid"))
        for part, kind, label, first, second in _pairs(table)
        if (by := difference(first, second)) is not None
    ]


def headline(items: Sequence[Comparison]) -> list[Comparison]:
    """CoNy-Fix and CoNy-Cont, also distilled, against Co with one block and in the paper's stack, at every depth.

    Where there are deep stacks or rivals, which the paper does not have, the chosen model against the others too.
    """
    main = [
        item
        for item in items
        if item.part == "models"
        and (item.first.model, item.second.model) in HEADLINE
        and not stacks.beyond_paper(item.first)
    ]
    chosen = [item for item in items if item.part == "stacks"]
    beyond = any(stacks.beyond_paper(record) for item in chosen for record in (item.first, item.second))
    return main + chosen if beyond else main


def blocks(layers: int) -> str:
    return "1 block" if layers == 1 else f"{layers} blocks"


Pair = tuple[str, str, str, Record, Record]


def _pairs(table: GroupTable) -> Iterator[Pair]:
    yield from _model_pairs(table)
    yield from _depth_pairs(table)
    for baseline in table.baselines[:1]:  # the best by test score, which favours the baseline
        kind = f"against the best baseline, {baseline.label}"
        for (model, layers), record in table.cells.items():
            if model in TWINS.values():
                yield "baseline", kind, f"{record.label} − baseline, {blocks(layers)}", record, baseline
    for kind, label, first, second in stacks.pairs(table):
        yield "stacks", kind, label, first, second
    yield from _setting_pairs(table)


def _model_pairs(table: GroupTable) -> Iterator[Pair]:
    places = {(key.stack == "deep", key.layers, key.stack) for key in table.builds if key.stack != "rival"}
    for kind, pairs in PAIRS.items():
        for deep, layers, stack in sorted(places):
            where = f"deep stack of {layers}" if deep else blocks(layers)
            for pair in pairs:
                keys = [Build(stack, model, layers) for model in pair]
                first, second = map(table.own, keys)
                if first is not None and second is not None:
                    yield "models", kind, f"{first.label} − {second.label}, {where}", first, second
                distilled = table.own(keys[0], {"distilled": True})
                if pair in HEADLINE and distilled is not None and second is not None:
                    yield "models", kind, f"{distilled.label}, distilled − {second.label}, {where}", distilled, second


def _depth_pairs(table: GroupTable) -> Iterator[Pair]:
    for (model, layers), record in table.cells.items():
        if layers > 1 and (model, 1) in table.cells:
            yield "models", DEPTH, f"{record.label}, {blocks(layers)} − 1", record, table.cells[model, 1]
    deep = [(key, own) for key in table.builds if key.stack == "deep" and (own := table.own(key)) is not None]
    for key, record in deep:
        if (key.model, 1) in table.cells:
            label = f"{record.label}, deep stack of {key.layers} − 1 block"
            yield "models", "deep stack against one block", label, record, table.cells[key.model, 1]
    for key, record in deep:
        if (key.model, key.layers) in table.cells:
            label = f"{record.label}, deep − paper stack of {key.layers}"
            yield "models", "deep stack against the paper's", label, record, table.cells[key.model, key.layers]


def _setting_pairs(table: GroupTable) -> Iterator[Pair]:
    for record, differs in (*table.others, *table.rivals):
        key = build(record)
        own = table.own(key)
        if own is not None and own is not record:
            part = "landmarks" if set(differs) == {"landmarks"} and not record.rival else "setting"
            kind = f"{record.label}, {blocks(record.layers)}" if key.stack in ("one", "paper") else key.label
            words = describe({name: value for name, value in differs.items() if name != "stack"})
            yield part, kind, words, record, own
