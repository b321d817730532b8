"""Time the low-rank models and the GRU of the README's results in one runtime, ONNX Runtime, and in their pools.

All models of a task take turns on one thread. Their weights are random, which does not change the time of a step.
Written to results/runtimes.json; takes about a minute.
"""

from pathlib import Path
from typing import Any

from nystream import provenance
from nystream.lab.bench.exported import Exported
from nystream.lab.bench.sizes import tokens
from nystream.lab.bench.timing import TimedCall, measure, threads
from nystream.lab.reproduce.cells import Cell
from nystream.lab.reproduce.report import records, stacks
from nystream.lab.reproduce.report.grouping import GroupTable
from nystream.lab.reproduce.report.readme import STACK_ROWS, shown_tables
from nystream.lab.reproduce.steps import random_model
from nystream.lab.rivals.recurrent import RecurrentModel
from nystream.lab.rivals.steppers import FORMS, OnnxStep
from nystream.stream import StreamPool

RESULTS = Path(__file__).parent.parent / "results"
ROWS = ("low rank, one block", "low rank, deep stack", "GRU")
TOKENS, ROUNDS = 64, 300


def main() -> None:
    rows = [row for table in shown_tables(records.read(RESULTS)) for row in times(table)]
    figures = {"onnxruntime": provenance.installed("onnxruntime"), "rows": rows}
    path = provenance.write(RESULTS / "runtimes.json", "python -m lab runtimes", figures)
    print(f"wrote {path}")


def times(table: GroupTable) -> list[dict[str, Any]]:
    """A row for each model: the task, what it is, and the median of a step in each runtime, in microseconds."""
    calls: dict[str, TimedCall] = {}
    names = {}
    for what, *kind in STACK_ROWS:
        record = stacks.best_of(table, *kind)
        if what not in ROWS or record is None:
            continue
        names[what] = record.name
        model = random_model(Cell(**record.cell), record.raw["input_dim"])
        feed = tokens(TOKENS, record.raw["input_dim"])
        arrays = [(x.numpy(),) for x in feed]
        if isinstance(model, RecurrentModel):
            calls |= {f"{what}|{form}": TimedCall(OnnxStep(model, form).push, arrays) for form in FORMS}
            continue
        window = tokens(max(block.window for block in model.config.blocks), record.raw["input_dim"])
        exported, pool = Exported(model), StreamPool(model, capacity=1)
        exported.fill(window)
        sid = pool.open()
        for x in window.numpy():
            pool.push(sid, x)
        calls[f"{what}|onnxruntime"] = exported.job(feed)
        calls[f"{what}|pool"] = TimedCall(pool.push, [(sid, *x) for x in arrays])
    with threads(1):
        took = measure(calls, ROUNDS)
    rows = []
    for what, name in names.items():
        own = {key.partition("|")[2]: took[key].median * 1e6 for key in calls if key.startswith(f"{what}|")}
        if "pool" not in own:  # the faster form of the graph
            own = {"onnxruntime": min(own.values())}
        rows.append({"task": table.group.task, "model": what, "cell": name, "median_microseconds": own})
        print(f"{table.group.task}, {what}: {', '.join(f'{k} {v:,.1f} µs' for k, v in own.items())}", flush=True)
    return rows
