"""A report from records: what is said, in which order. How it looks is up to `markdown` and `html`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import compare, numbers, tables
from nystream.lab.reproduce.report.compare import Comparison
from nystream.lab.reproduce.report.document import Bullets, Document, Figure, Paragraph, Part, Section, Sources
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.grouping import tables as grouped
from nystream.lab.reproduce.report.plots import Plot, drawable
from nystream.lab.reproduce.report.records import Record
from nystream.lab.reproduce.report.sources import sources

TITLE = "Continual low-rank attention: the paper's numbers and ours"
INTRODUCTION = (
    "Six attentions in the same model: over whole windows, full (Att), through landmarks that are means (Ny) or fixed "
    "(Ny-Fix); and continual, a token at a time: Co, CoNy-Cont and CoNy-Fix. What low rank costs against full "
    "attention:"
)
READING = (
    "A difference is taken run by run: same data, same seed, the second model's score from the first's. The interval "
    "is a 95 % t interval of the mean difference.",
    "Runs that share a split are not independent, so where there are several splits the seeds are averaged within each "
    "and the interval is over splits; with one split it is over seeds. With fewer than two there is none. Splits share "
    "most of what they learn from, so even these intervals are a little too short.",
    "**better** and **worse**: the interval excludes 0. **no difference found**: it does not, which is no proof that "
    "there is none. **the same**: every run has the same score but for rounding, as when a plain model computes over a "
    "window what its continual twin computes over the stream. Of twenty comparisons between equals, one is expected to "
    "come out as a difference by chance.",
    "The verdict is that of test data. Beside it stands the same difference on validation data, by which epochs were "
    "selected and settings chosen: where the two do not say the same, neither is certain.",
    "An interval is about chance in splitting and training. Other test data, such as other videos or another year, are "
    "not in it.",
    "Where the numbers come from is folded up after the last table of each part.",
    "Models are selected on validation data and scored as they stream, token by token. The budget of training is the "
    "same for all cells of a table and depth; where it is not, the verdict says so: epochs, or updates of so many "
    "windows or pieces of streams.",
)


def document(records: Sequence[Record], *, figures: bool = True) -> Document:
    """The whole report; `figures` says whether plots have a place in it."""
    found = grouped(records)
    by_task = {task: [one for one in found if one.group.task == task] for task in paper.TASKS}
    sections = [_task(task, of, figures) for task, of in by_task.items() if of]
    reading = Section("How to read the differences", "reading", (Bullets(READING),))
    return Document(TITLE, tuple(_summary(found)), (*sections, reading))


def sentence(one: Comparison) -> str:
    """A difference in one line: what, by how much, how sure, and the verdict."""
    metric, by = paper.METRICS[one.first.metric], one.difference
    points = " points" * (metric.change == "points")
    mean, *ends = (
        numbers.signed(metric.scale * value, metric.digits) + metric.suffix
        for value in (by.mean, by.low, by.high)
        if value is not None
    )
    within = f" ({' to '.join(ends)} over {by.number} {by.over})" if ends else ""
    budget = f", {one.budgets}" if one.budgets else ""
    valid = numbers.signed(metric.scale * one.valid.mean, metric.digits) + metric.suffix if one.valid else ""
    seen = f"; on validation data {valid}" if valid else ""
    return f"{one.label}: {metric.title} {mean}{points}{within}, {one.verdict}{budget}{seen}"


def _summary(found: Sequence[GroupTable]) -> Iterator[Part]:
    yield Paragraph(INTRODUCTION)
    told = []
    for table in found:
        every = compare.comparisons(table)
        few = compare.headline(every)
        few += [one for one in every if one.part == "baseline" and one.first.model == "co-fixed-single"]
        if few:
            told.append((table, few))
    if told:
        yield tables.summary(told)


def _task(task: str, found: Sequence[GroupTable], figures: bool) -> Section:
    of = paper.TASKS[task]
    differs = (Paragraph(of.data), Paragraph("How this differs from the paper's experiment:"), Bullets(of.differs))
    own = [table for table in found if not table.group.extra]
    others = [table for table in found if table.group.extra]
    parts: list[Part] = [*differs]
    for table in own:
        parts += _parts(table, figures)
    sections = tuple(
        Section(table.group.extra.capitalize(), table.group.slug, (*_beside(table), *_parts(table, figures)))
        for table in others
    )
    return Section(of.title, task, tuple(parts), sections)


def _beside(table: GroupTable) -> Iterator[Part]:
    for word in (table.group.protocol, table.group.tokens):
        if word in paper.BESIDE:
            yield Paragraph(paper.BESIDE[word])


def _parts(table: GroupTable, figures: bool) -> Iterator[Part]:
    plots = drawable(table) if figures else {}
    slug = table.group.slug
    yield tables.result(table)
    for name in paper.TASKS[table.group.task].metrics[1:]:
        if any(name in one.metrics for one in table.cells.values()):
            yield tables.further(table, name)
    yield from _figure(plots.get(f"{slug}-costs"))
    found = compare.comparisons(table)
    title = table.group.title
    between = [one for one in found if one.part in ("models", "baseline")]
    if between:
        yield tables.differences(table, between, f"{title}: paired differences")
        yield from _figure(plots.get(f"{slug}-differences"))
    swept = tables.sweep(table)
    if swept is not None:
        yield swept
        yield from _figure(plots.get(f"{slug}-landmarks"))
    by_landmarks = [one for one in found if one.part == "landmarks"]
    if by_landmarks:
        yield tables.differences(table, by_landmarks, f"{title}: other numbers of landmarks minus the table's own")
    changed = tables.ablations(table)
    if changed is not None:
        yield changed
    settings = [one for one in found if one.part == "setting"]
    if settings:
        yield tables.differences(table, settings, f"{title}: other settings minus the table's own")
        yield from _figure(plots.get(f"{slug}-settings"))
    yield Sources(sources(table.records()))


def _figure(plot: Plot | None) -> Iterator[Figure]:
    if plot is not None:
        yield Figure(plot.name, plot.alt, plot.caption)
