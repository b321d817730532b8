"""The tables of a report: each task's own with the paper beside ours, paired differences, sweeps and ablations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nystream.costs import tables as printed
from nystream.lab.reproduce import paper
from nystream.lab.reproduce.report import numbers
from nystream.lab.reproduce.report.choice import best
from nystream.lab.reproduce.report.compare import FULL, Comparison, Difference, difference
from nystream.lab.reproduce.report.document import MISSING, Grid, GridColumn, GridRow
from nystream.lab.reproduce.report.grouping import OWN_WORDS, Build, GroupTable, Setting, describe, ordered
from nystream.lab.reproduce.report.records import Record

LABELS = (GridColumn("model", False), GridColumn("blocks"))
COSTS = tuple(
    GridColumn(name)
    for name in (
        "operations, M", "times fewer", "corrected, M", "times fewer", "µs per step", "times faster", "kB per stream",
    )
)  # fmt: skip
DIFFERENCE = (
    GridColumn("mean"),
    GridColumn("95 % interval"),
    GridColumn("corrected"),
    GridColumn("over"),
    GridColumn("verdict", False),
    GridColumn("on validation data"),
    GridColumn("corrected"),
)


def result(table: GroupTable) -> Grid:
    """The paper's table: its scores, ours, operations, time and memory."""
    metric = table.metric
    columns = (*LABELS, *_score_columns(table, metric), *COSTS)
    rows = []
    for model, layers in _keys(table):
        scores, costs = _scores(table, model, layers, table.group.metric), _costs(table.cells.get((model, layers)))
        rows.append(_model_row(model, layers, *scores, *costs))
    for place, baseline in enumerate(table.baselines):
        cells = [baseline.label, *[""] * (len(columns) - 1)]
        cells[columns.index(_ours(metric))] = numbers.score(baseline.score, metric)
        rows.append(GridRow(tuple(cells), starts=place == 0))
    sizes = printed.SIZES[table.group.task]
    some = next(iter(table.cells.values()), None)
    width = f", d = {some.cell['embed_dim']}, {some.cell['num_heads']} heads" if some is not None else ""
    title = f"{table.group.title}: n = {sizes.n}, m = {sizes.m}{width}"
    return Grid(title, columns, tuple(rows), tuple(_notes(table)))


def further(table: GroupTable, name: str) -> Grid:
    """A second metric of the paper's table."""
    metric = paper.METRICS[name]
    rows = []
    for model, layers in _keys(table):
        record, full = (table.cells.get((variant, layers)) for variant in (model, FULL.get(model, "")))
        by = None if record is None or full is None else difference(record, full, name)
        rows.append(_model_row(model, layers, *_scores(table, model, layers, name), *_with_corrected(by, metric)))
    by_full = GridColumn("ours − our full attention, 95 % interval")
    columns = (*LABELS, *_score_columns(table, metric), by_full, GridColumn("corrected"))
    return Grid(f"{table.group.title}: {metric.title}", columns, tuple(rows))


def differences(table: GroupTable, items: Sequence[Comparison], title: str) -> Grid:
    """One row per comparison, grouped by kind."""
    columns = (GridColumn(f"difference, {table.metric.change}", False), *DIFFERENCE)
    rows: list[GridRow] = []
    for kind in dict.fromkeys(item.kind for item in items):
        rows.append(GridRow((kind[0].upper() + kind[1:],), heading=True))
        rows += [_difference(item) for item in items if item.kind == kind]
    return Grid(title, columns, tuple(rows))


def summary(tables: Sequence[tuple[GroupTable, Sequence[Comparison]]]) -> Grid:
    """The main differences of every table."""
    columns = (GridColumn("difference", False), *DIFFERENCE)
    rows: list[GridRow] = []
    for table, items in tables:
        metric = table.metric
        title = f"{table.group.title}: {metric.title}, {metric.change}, {metric.better}"
        rows.append(GridRow((title,), heading=True))
        # The chosen model is named once, above its differences.
        named = {item.kind: item for item in reversed(items) if item.part == "stacks"}
        for item in items:
            if item is named.get(item.kind):
                rows.append(GridRow((item.kind[0].upper() + item.kind[1:],), heading=True))
            rows.append(_difference(item))
    return Grid("In short: paired differences", columns, tuple(rows))


def _difference(item: Comparison) -> GridRow:
    by, metric = item.difference, paper.METRICS[item.first.metric]
    verdict = f"{item.verdict} ({item.budgets})" if item.budgets else item.verdict
    mean = numbers.signed(metric.scale * by.mean, metric.digits)
    mark = item.verdict if item.verdict in ("better", "worse") else ""
    intervals = (numbers.interval(by, metric, plain=True), numbers.interval(by, metric))
    over = numbers.over(by, item.first.group.task)
    return GridRow((item.label, mean, *intervals, over, verdict, *_with_corrected(item.valid, metric)), mark=mark)


def _with_corrected(by: Difference | None, metric: paper.Metric) -> tuple[str, str]:
    """A difference with its plain interval, and the corrected one."""
    return numbers.difference(by, metric), numbers.interval(by, metric)


def sweep(table: GroupTable) -> Grid | None:
    """Scores against m for models with several; None if there are none. The best m on validation data is bold."""
    metric = table.metric
    sweeps = {key: sweep for key in table.trained() if len(sweep := table.sweep(*key)) > 1}
    if not sweeps:
        return None
    landmarks = sorted({m for sweep in sweeps.values() for m in sweep})
    rows = []
    for (model, layers), sweep in sweeps.items():
        chosen = best(list(sweep.values()), metric.higher)
        scores = {m: numbers.score(record.score, metric) for m, record in sweep.items()}
        texts = (f"**{scores[m]}**" if sweep.get(m) is chosen else scores.get(m, MISSING) for m in landmarks)
        rows.append(GridRow((paper.MODELS[model], str(layers), *texts)))
    note = "Test scores; bold: the m with the best validation score, which is the one to choose."
    columns = (*LABELS, *(GridColumn(f"m = {m}") for m in landmarks))
    title = f"{table.group.title}: {metric.head} against the number of landmarks"
    return Grid(title, columns, tuple(rows), (note,))


def ablations(table: GroupTable) -> Grid | None:
    """Scores of other settings below those of the table's own, model by model; None if there are none."""
    metric = table.metric
    rows: list[GridRow] = []
    for key, pairs in _by_model(table):
        settings = [
            (record, describe(differs))
            for record, differs in pairs
            if key.stack in ("deep", "rival") or set(differs) != {"landmarks"}
        ]
        if all(words == OWN_WORDS for _, words in settings):
            continue
        chosen = best([record for record, _ in settings], metric.higher) if len(settings) > 1 else None
        for place, (record, words) in enumerate(settings):
            label = f"{record.label}, deep stack" if key.stack == "deep" else record.label
            names = (label, str(key.layers)) if place == 0 else ("", "")
            scores = (numbers.score(record.valid[record.metric], metric), numbers.score(record.score, metric))
            mark = "chosen" if record is chosen else ""
            rows.append(GridRow((*names, words, *scores, mark), mark=mark, starts=place == 0 and bool(rows)))
    if not rows:
        return None
    columns = (
        *LABELS,
        GridColumn("setting", False),
        GridColumn(f"validation, {metric.unit}"),
        GridColumn(f"test, {metric.unit}"),
        GridColumn("", False),
    )
    note = "Chosen: the setting with the best validation score. Test scores are not used for the choice."
    return Grid(f"{table.group.title}: other settings", columns, tuple(rows), (note,))


def _by_model(table: GroupTable) -> Iterator[tuple[Build, list[tuple[Record, Setting]]]]:
    """The records of every build, those of one model after each other; rivals last."""
    models = [*paper.MODELS, *paper.RIVALS]
    for key in sorted(table.builds, key=lambda key: (models.index(key.model), key.layers, key.stack == "deep")):
        yield key, table.builds[key]


def _model_row(model: str, layers: int, *cells: str) -> GridRow:
    return GridRow((paper.MODELS[model], str(layers), *cells), starts=layers == 1 and model != "full")


def _ours(metric: paper.Metric) -> GridColumn:
    return GridColumn(f"ours, {metric.title} ({metric.unit})")


def _score_columns(table: GroupTable, metric: paper.Metric) -> list[GridColumn]:
    if table.group.extra:
        return [_ours(metric)]
    names = paper.TASKS[table.group.task].columns
    ours = (_ours(metric), GridColumn("ours − paper"))
    return [*(GridColumn(f"paper, {name}" if name else "paper") for name in names), *ours]


def _scores(table: GroupTable, model: str, layers: int, name: str) -> list[str]:
    task, metric = table.group.task, paper.METRICS[name]
    record = table.cells.get((model, layers))
    ours = record.metrics.get(name) if record is not None else None
    score = numbers.score(ours, metric)
    if table.group.extra:
        return [score]
    printed = [paper.score(task, model, layers, name, column) for column in paper.TASKS[task].columns]
    return [*(str(text or MISSING) for text in printed), score, numbers.to_paper(ours, printed[0], metric)]


def _costs(record: Record | None) -> tuple[str, ...]:
    if record is None:
        return (MISSING,) * len(COSTS)
    count = record.raw["operations"]
    return (
        numbers.millions(count["paper"]),
        numbers.times(count["relative_paper"]),
        numbers.millions(count["corrected"]),
        numbers.times(count["relative_corrected"]),
        *numbers.step(record),
    )


def _keys(table: GroupTable) -> list[tuple[str, int]]:
    """The (model, layers) of the rows: those of the paper's table, and others that have been run."""
    return ordered({*table.cells, *(() if table.group.extra else paper.rows(table.group.task))})


def _notes(table: GroupTable) -> Iterator[str]:
    runs = sorted({len(record.runs) for record in table.cells.values()})
    if runs:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        plural = "s" if runs[-1] > 1 else ""
        yield (
            f"Ours: streaming scores on test data, mean ± standard deviation of {count} run{plural} per cell; "
            f"{table.metric.better}."
        )
    keys = _keys(table)
    missing = len(set(keys) - set(table.cells))
    if missing:
        yield f"{MISSING}: not run yet, {missing} of {len(keys)} models."
    yield (
        "Operations: those of attention, in millions per step, by the paper's formulas and with their errors "
        f"corrected. µs per step: the whole model, one stream, median on one CPU core, {numbers.RUNTIMES}. Times fewer "
        "and times faster: compared with Att with the same number of blocks. kB per stream: memory of the stream that "
        "was timed."
    )
    wrong = sum(not cell.follows for cell in printed.cells(table.group.task))
    if wrong and not table.group.extra:
        yield (
            f"{wrong} of the counts and ratios that the paper prints do not follow from its formulas: "
            f"`nystream costs --table {table.group.task}` lists them."
        )
