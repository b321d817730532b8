"""A report from records: its contents, in order. `markdown` and `html` format it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import compare, numbers, stack_table, tables
from nystream.lab.reproduce.report.compare import Comparison
from nystream.lab.reproduce.report.document import Bullets, Document, Figure, Paragraph, Part, Section, Sources
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.grouping import tables as grouped
from nystream.lab.reproduce.report.plots import drawable
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.sources import sources

TITLE = "Continual low-rank attention: the paper's numbers and ours"
INTRODUCTION = (
    "Six attentions in the same model. Over whole windows: full (Att), and low rank with landmarks that are means (Ny) "
    "or fixed (Ny-Fix). The same three, continual, one token at a time: Co, CoNy-Cont and CoNy-Fix. The cost of low "
    "rank, compared with full attention:"
)
READING = (
    "A difference is taken run by run, with the same data and seed: the first model's score minus the second's. The "
    "interval is a 95 % t interval of the mean difference.",
    "Runs that share a split are not independent. With several splits, the seeds are therefore averaged within each "
    "split and the interval is over splits; with one split, it is over seeds. With fewer than two, there is none.",
    "Splits share most of their training data, so plain intervals over splits are too short. The corrected interval "
    "beside each has (1/k + n_test/n_train) s² as the variance of the mean of k differences, instead of s²/k (Nadeau "
    "and Bengio, 2003). n_test/n_train is 10/72 on the splits of GTZAN, or 18/72 for validation data, and 28/160 on "
    'THUMOS14: its splits set 28 of the 188 training videos aside for validation and share all 200 test videos ("one '
    'test set"). Seeds of one split, as on electricity, have the same training and test data: there is nothing to '
    "correct, and both intervals are the same.",
    "**better** and **worse**: the corrected interval excludes 0. **no difference found**: it does not, which does "
    "not prove that there is none. **the same**: every run has the same score up to rounding, as when a plain model "
    "computes over a window what its continual twin computes over the stream. Of twenty comparisons between equals, "
    "one is expected to show a difference by chance.",
    "The verdict is based on test data. Next to it is the same difference on validation data, on which epochs and "
    "settings were chosen; where the two disagree, trust neither.",
    "An interval covers chance in what varies: seeds, and where there are several splits, which data are trained on. "
    "It does not cover other test videos on THUMOS14, or another year on electricity.",
    "The sources of the numbers are collapsed after the last table of each part.",
    "Models are selected on validation data and scored while they stream, token by token. The budget of training is "
    "the same for all cells of a table and depth. Where it is not, the verdict gives both budgets: epochs, or updates "
    "and the number of windows or pieces of streams in each.",
)


def document(records: Sequence[Record], *, figures: bool = True) -> Document:
    """The whole report, with or without plots."""
    groups = grouped(records)
    by_task = {task: [table for table in groups if table.group.task == task] for task in paper.TASKS}
    sections = [_task(task, own, figures) for task, own in by_task.items() if own]
    reading = Section("How to read the differences", "reading", (Bullets(READING),))
    return Document(TITLE, tuple(_summary(groups)), (*sections, reading))


def sentence(item: Comparison) -> str:
    """A comparison in one line: the difference, its intervals, and the verdict."""
    metric, by = paper.METRICS[item.first.metric], item.difference
    points = " points" * (metric.change == "points")
    ends = () if by.plain is None else (by.mean - by.plain, by.mean + by.plain, by.low, by.high)
    mean, *texts = (
        numbers.signed(metric.scale * value, metric.digits) + metric.suffix
        for value in (by.mean, *ends)
        if value is not None
    )
    within = ""
    if texts:
        over = numbers.over(by, item.first.group.task)
        within = " ({} to {}, corrected {} to {}, over {})".format(*texts, over)
    budget = f", {item.budgets}" if item.budgets else ""
    valid = ""
    if item.valid:
        valid = f"; on validation data {numbers.signed(metric.scale * item.valid.mean, metric.digits)}{metric.suffix}"
    label = item.label.replace(item.kind.partition(":")[0], item.kind, 1) if item.part == "stacks" else item.label
    return f"{label}: {metric.title} {mean}{points}{within}, {item.verdict}{budget}{valid}"


def _summary(groups: Sequence[GroupTable]) -> Iterator[Part]:
    yield Paragraph(INTRODUCTION)
    summaries = []
    for table in groups:
        items = compare.comparisons(table)
        main = compare.headline(items)
        baseline = [item for item in items if item.part == "baseline" and item.first.model == "co-fixed-single"]
        chosen = [item for item in main if item.part == "stacks"]
        if differences := [item for item in main if item.part != "stacks"] + baseline + chosen:
            summaries.append((table, differences))
    if summaries:
        yield tables.summary(summaries)


def _task(task: str, groups: Sequence[GroupTable], figures: bool) -> Section:
    about = paper.TASKS[task]
    differs = Paragraph("How this differs from the paper's experiment:"), Bullets(about.differs)
    parts: list[Part] = [Paragraph(about.data), *differs]
    sections = []
    for table in groups:
        group = table.group
        if not group.extra:
            parts += _parts(table, figures)
            continue
        notes = [Paragraph(paper.FURTHER[name]) for name in (group.protocol, group.tokens) if name in paper.FURTHER]
        sections.append(Section(group.extra.capitalize(), group.slug, (*notes, *_parts(table, figures))))
    return Section(about.title, task, tuple(parts), tuple(sections))


def _parts(table: GroupTable, figures: bool) -> Iterator[Part]:
    plots = drawable(table) if figures else {}
    title, comparisons = table.group.title, compare.comparisons(table)

    def figure(name: str) -> Iterator[Figure]:
        plot = plots.get(f"{table.group.slug}-{name}")
        if plot is not None:
            yield Figure(plot.name, plot.alt, plot.caption)

    def differences(heading: str, *parts: str) -> Iterator[Part]:
        if items := [item for item in comparisons if item.part in parts]:
            yield tables.differences(table, items, f"{title}: {heading}")

    yield tables.result(table)
    for name in paper.TASKS[table.group.task].metrics[1:]:
        if any(name in record.metrics for record in table.cells.values()):
            yield tables.further(table, name)
    yield from figure("costs")
    if stacked := stack_table.grid(table):
        yield stacked
    yield from figure("stacks")
    yield from differences("the chosen model minus the best of each other kind", "stacks")
    yield from differences("paired differences", "models", "baseline")
    yield from figure("differences")
    if sweep := tables.sweep(table):
        yield sweep
    yield from figure("landmarks")
    yield from differences("other numbers of landmarks minus the table's own", "landmarks")
    if ablations := tables.ablations(table):
        yield ablations
    yield from differences("other settings minus the table's own", "setting")
    yield from figure("settings")
    yield Sources(sources(table.records()))
