"""The tables of a report: each task's own with the paper beside ours, paired differences, sweeps and ablations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nystream.costs import tables as printed
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers
from nystream.lab.reproduce.report.compare import FULL, Comparison, difference
from nystream.lab.reproduce.report.document import MISSING, Grid, GridColumn, GridRow
from nystream.lab.reproduce.report.grouping import GroupTable, say
from nystream.lab.reproduce.report.records import Record

LABELS = (GridColumn("model", False), GridColumn("blocks"))
DIFFERENCE = (
    GridColumn("mean"),
    GridColumn("95 % interval"),
    GridColumn("over"),
    GridColumn("verdict", False),
    GridColumn("on validation data"),
)


def result(table: GroupTable) -> Grid:
    """The paper's table: its scores, ours, operations, time and memory."""
    task, metric = paper.TASKS[table.group.task], table.metric
    beside = not table.group.extra
    columns = [
        *LABELS,
        *_score_columns(table, metric, beside),
        GridColumn("operations, M"),
        GridColumn("times fewer"),
        GridColumn("corrected, M"),
        GridColumn("times fewer"),
        GridColumn("µs a step"),
        GridColumn("times faster"),
        GridColumn("kB a stream"),
    ]
    rows = []
    for model, layers in _keys(table, beside):
        one = table.cells.get((model, layers))
        starts = layers == 1 and model != "full"
        scores = _scores(table, model, layers, task.metric, beside)
        rows.append(GridRow((paper.MODELS[model], str(layers), *scores, *_costs(one)), starts=starts))
    for place, baseline in enumerate(table.baselines):
        cells = [baseline.label, "", *[""] * (len(columns) - 2)]
        cells[columns.index(_ours(metric))] = numbers.score(baseline.score, metric)
        rows.append(GridRow(tuple(cells), starts=place == 0))
    return Grid(_title(table), tuple(columns), tuple(rows), tuple(_notes(table, beside)))


def further(table: GroupTable, name: str) -> Grid:
    """A second metric of the paper's table."""
    metric, beside = paper.METRICS[name], not table.group.extra
    rows = []
    for model, layers in _keys(table, beside):
        one, full = (table.cells.get((of, layers)) for of in (model, FULL.get(model, "")))
        by = None if one is None or full is None else difference(one, full, name)
        cells = (paper.MODELS[model], str(layers), *_scores(table, model, layers, name, beside))
        rows.append(GridRow((*cells, numbers.difference(by, metric)), starts=layers == 1 and model != "full"))
    columns = (*LABELS, *_score_columns(table, metric, beside), GridColumn("ours − our full attention, 95 % interval"))
    return Grid(f"{table.group.title}: {metric.title}", columns, tuple(rows))


def differences(table: GroupTable, found: Sequence[Comparison], title: str) -> Grid:
    """One row for each comparison, those of a kind together."""
    columns = (GridColumn(f"difference, {table.metric.change}", False), *DIFFERENCE)
    rows: list[GridRow] = []
    for kind in dict.fromkeys(one.kind for one in found):
        rows.append(GridRow((kind[0].upper() + kind[1:],), heading=True))
        rows += [_difference(one) for one in found if one.kind == kind]
    return Grid(title, columns, tuple(rows))


def summary(found: Sequence[tuple[GroupTable, Sequence[Comparison]]]) -> Grid:
    """What low rank costs, in short: each table's few differences that matter."""
    columns = (GridColumn("difference", False), *DIFFERENCE)
    rows: list[GridRow] = []
    for table, few in found:
        metric = table.metric
        title = f"{table.group.title}: {metric.title}, {metric.change}, {metric.better}"
        rows += [GridRow((title,), heading=True), *(_difference(one) for one in few)]
    return Grid("In short: paired differences", columns, tuple(rows))


def _difference(one: Comparison) -> GridRow:
    by, metric = one.difference, paper.METRICS[one.first.metric]
    verdict = f"{one.verdict} ({one.budgets})" if one.budgets else one.verdict
    mean = numbers.signed(metric.scale * by.mean, metric.digits)
    over = f"{by.number} {by.over if by.number > 1 else by.over[:-1]}"
    mark = one.verdict if one.verdict in ("better", "worse") else ""
    valid = numbers.difference(one.valid, metric)
    return GridRow((one.label, mean, numbers.interval(by, metric), over, verdict, valid), mark=mark)


def sweep(table: GroupTable) -> Grid | None:
    """Scores against m, where a model was trained with several; the m with the best validation score is marked."""
    metric = table.metric
    keys = [(model, layers) for model, layers in _trained(table) if len(table.sweep(model, layers)) > 1]
    if not keys:
        return None
    every = sorted({m for key in keys for m in table.sweep(*key)})
    rows = []
    for model, layers in keys:
        found = table.sweep(model, layers)
        chosen = best(list(found.values()), metric.higher)
        cells = []
        for m in every:
            text = numbers.score(found[m].score, metric) if m in found else MISSING
            cells.append(f"**{text}**" if found.get(m) is chosen else text)
        rows.append(GridRow((paper.MODELS[model], str(layers), *cells)))
    note = "Test scores; bold is the m with the best validation score, which is the one to choose."
    columns = (*LABELS, *(GridColumn(f"m = {m}") for m in every))
    title = f"{table.group.title}: {metric.head} against the number of landmarks"
    return Grid(title, columns, tuple(rows), (note,))


def ablations(table: GroupTable) -> Grid | None:
    """Other settings beneath the table's own, one model after another."""
    metric = table.metric
    found = table.ablations()
    if not found:
        return None
    rows: list[GridRow] = []
    for model, layers in _trained(table):
        of = [(one, say(differs)) for one, differs in found if (one.model, one.layers) == (model, layers)]
        if not of:
            continue
        own = table.cells.get((model, layers))
        if own is not None:
            of.insert(0, (own, "the table's own"))
        chosen = best([one for one, _ in of], metric.higher) if len(of) > 1 else None
        for place, (one, words) in enumerate(of):
            names = (paper.MODELS[model], str(layers)) if place == 0 else ("", "")
            scores = (numbers.score(one.valid[one.metric], metric), numbers.score(one.score, metric))
            mark = "chosen" if one is chosen else ""
            rows.append(GridRow((*names, words, *scores, mark), mark=mark, starts=place == 0 and bool(rows)))
    columns = (
        *LABELS,
        GridColumn("setting", False),
        GridColumn(f"validation, {metric.unit}"),
        GridColumn(f"test, {metric.unit}"),
        GridColumn("", False),
    )
    note = "Chosen: the setting with the best validation score. Test scores take no part in it."
    return Grid(f"{table.group.title}: other settings", columns, tuple(rows), (note,))


def best(records: Sequence[Record], higher: bool) -> Record:
    """By validation score, the earlier of two that are as good."""
    sign = 1 if higher else -1
    return max(records, key=lambda one: sign * one.valid[one.metric].mean)


def _title(table: GroupTable) -> str:
    sizes = printed.SIZES[table.group.task]
    some = next(iter(table.cells.values()), None)
    width = f", d = {some.cell['embed_dim']}, {some.cell['num_heads']} heads" if some is not None else ""
    return f"{table.group.title}: n = {sizes.n}, m = {sizes.m}{width}"


def _ours(metric: paper.Metric) -> GridColumn:
    return GridColumn(f"ours, {metric.title} ({metric.unit})")


def _score_columns(table: GroupTable, metric: paper.Metric, beside: bool) -> Iterator[GridColumn]:
    if beside:
        for name in paper.TASKS[table.group.task].columns:
            yield GridColumn(f"paper, {name}" if name else "paper")
    yield _ours(metric)
    if beside:
        yield GridColumn("ours − paper")


def _scores(table: GroupTable, model: str, layers: int, metric: str, beside: bool) -> Iterator[str]:
    task = table.group.task
    one = table.cells.get((model, layers))
    ours = one.metrics.get(metric) if one is not None else None
    if beside:
        for column in paper.TASKS[task].columns:
            yield str(paper.score(task, model, layers, metric, column) or MISSING)
    yield numbers.score(ours, paper.METRICS[metric])
    if beside:
        yield numbers.to_paper(ours, paper.score(task, model, layers, metric), paper.METRICS[metric])


def _costs(one: Record | None) -> tuple[str, ...]:
    if one is None:
        return (MISSING,) * 7
    count, step = one.raw["operations"], one.raw["step"]
    return (
        numbers.millions(count["paper"]),
        numbers.times(count["relative_paper"]),
        numbers.millions(count["corrected"]),
        numbers.times(count["relative_corrected"]),
        numbers.microseconds(step),
        numbers.times(step["relative"] if step else None),
        numbers.kilobytes(step["bytes_per_stream"] if step else None),
    )


def _keys(table: GroupTable, beside: bool) -> list[tuple[str, int]]:
    """Rows: those of the paper, whether they were run or not, and what was run beside."""
    found = set(table.cells) | (set(paper.rows(table.group.task)) if beside else set())
    return _ordered(found)


def _trained(table: GroupTable) -> list[tuple[str, int]]:
    return _ordered({(one.model, one.layers) for one in table.records() if "cell" in one.raw})


def _ordered(keys: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    models = list(paper.MODELS)
    return sorted(keys, key=lambda key: (models.index(key[0]), key[1]))


def _notes(table: GroupTable, beside: bool) -> Iterator[str]:
    runs = sorted({len(one.runs) for one in table.cells.values()})
    if runs:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        plural = "s" if runs[-1] > 1 else ""
        yield (
            f"Ours: test scores of models that stream, mean ± standard deviation of {count} run{plural} a cell; "
            f"{table.metric.better}."
        )
    missing = len(set(_keys(table, beside)) - set(table.cells))
    if missing:
        yield f"{MISSING}: not run yet, {missing} of {len(_keys(table, beside))} models."
    yield (
        "operations: of attention, millions a step by the paper's formulas, then with their errors corrected. µs a "
        "step: the whole model, one stream, median on one CPU core. Times fewer and faster than Att with as many "
        "blocks. kB a stream: what the stream that was timed holds."
    )
    odd = sum(not cell.follows for cell in printed.cells(table.group.task))
    if beside and odd:
        yield (
            f"{odd} of the counts and ratios that the paper prints do not follow from its formulas: "
            f"`nystream costs --table {table.group.task}` lists them."
        )
