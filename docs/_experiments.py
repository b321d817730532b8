"""Experiments as blocks of pages: `nystream reproduce`, lighter pools, and your own data; for `render.py`."""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any

from _source import ROOT, results, source, table

from nystream.lab.reproduce.report import grouping, records


def cells() -> list[records.Record]:
    """The records of `nystream reproduce`."""
    return records.read(ROOT / "results")


def search() -> str:
    """The settings that were tried before the tables were run, by their validation scores.

    Splits differ in how hard they are, so rows are compared by the mean of the runs that all of a task, depth and stack
    have; the mean of all its own runs stands beside it where a row has more. Bold is the setting of the tables.
    """
    paths = sorted((ROOT / "results" / "search").glob("*.json"))
    found = [records.parse(json.loads(path.read_text()), path.name) for path in paths]
    budgets = {record.name: record.raw.get("budget") for record in cells()}
    groups = {one.group for one in found}
    widths = {group: grouping.widths([one for one in found if one.group == group]) for group in groups}

    def kind(one: records.Record) -> tuple[str, int, str, str]:
        stack = grouping.build(one).stack
        return one.group.task, one.layers, one.group.tokens, stack if stack in ("deep", "rival") else ""

    def setting(one: records.Record) -> str:
        differs = grouping.setting(one, widths[one.group])
        differs.pop("stack", None)
        words = [grouping.describe(differs)] if differs else []
        context = one.raw["budget"].get("context")
        return ", ".join([*words, f"context {context}"] if context else words)

    def score(values: list[float]) -> str:
        mean = fmean(values)
        return f"{mean:.4f}" if mean > 0.1 else f"{mean * 1e3:.3f}e-3"

    shared = {key: set.intersection(*(set(one.runs) for one in found if kind(one) == key)) for key in map(kind, found)}
    settings = any(map(setting, found))
    rows = []
    for one in sorted(found, key=lambda one: (kind(one), one.model, one.raw["budget"]["lr"], one.name)):
        budget, values = one.raw["budget"], list(one.valid[one.metric].values)
        mark = "**" if budgets.get(one.name) == budget else ""
        some = [value for value, run in zip(values, one.runs, strict=True) if run in shared[kind(one)]]
        updates = one.raw["training"]["phases"][0]["steps_per_epoch"]
        rows.append(
            [
                one.group.task + (f", {one.group.tokens}" if one.group.task == "electricity" else ""),
                f"{one.layers}, deep" if kind(one)[-1] == "deep" else str(one.layers),
                f"`{one.model}`",
                *([setting(one)] * settings),
                f"{budget['lr']:g}",
                f"{budget['epochs']} × {updates} × {budget['batch_size']}",
                f"{mark}{score(some)}{mark} ({len(some)})" if some else "",
                f"{mark}{score(values)}{mark} ({len(values)})" if len(values) > len(some) else "",
                score(list(one.score.values)),
            ]
        )
    budget_columns = ["lr", "epochs × updates × batch", "validation (runs)", "all its runs", "test, all its runs"]
    return table(["task", "blocks", "model", *(["setting"] * settings), *budget_columns], rows)


def durations() -> str:
    """How long cells were trained, by task and depth: those of the tables, and the longest of all."""
    found = [one for one in cells() if "cell" in one.raw]
    pairs = [pair for group in grouping.tables(found) for build in group.builds.values() for pair in build]
    own = {one.name for one, differs in pairs if not differs}

    def place(one: records.Record) -> tuple[str, str]:
        kind = {"deep": ", deep", "rival": ", recurrent"}.get(grouping.build(one).stack, "")
        return one.group.task, f"{one.layers}{kind}"

    rows = []
    for task, depth in sorted(set(map(place, found))):
        every = [one for one in found if place(one) == (task, depth)]
        tabled = [seconds(one) for one in every if one.name in own and one.group.protocol != "filtered"]
        longest = max(every, key=seconds)
        runs = max(len(one.runs) for one in every)
        most = f"{seconds(longest):.0f} s, `{longest.name}`"
        rows.append([task, depth, str(runs), f"{min(tabled):.0f} to {max(tabled):.0f} s" if tabled else "–", most])
    device = {one.raw["training"]["device"] for one in found}
    alone = [json.loads(path.read_text()) for path in sorted((ROOT / "results" / "laptop").glob("*.json"))]
    told = ", ".join(f"`{one['cell']['model']}` {one['training']['seconds']:.0f} s" for one in alone if "cell" in one)
    return (
        f"Training of a cell on one {' or '.join(sorted(device))}, all of its runs at once:\n\n"
        + table(["task", "blocks", "runs", "cells of the tables", "longest of all cells"], rows)
        + f"\n\nA single run of GTZAN with one block on a CPU: {told} ({source(alone[0])})."
    )


def seconds(record: records.Record) -> float:
    return float(record.raw["training"]["seconds"])


def own_data() -> str:
    """Tables with all defaults: test errors of the model, relative to those of baselines."""
    record = results("own_data")
    naive = ("persistence", "a day ago", "a week ago")

    def error(test: Any, name: str) -> float:
        return float(test[name]["mean absolute error"])

    rows = []
    for one in record["tables"]:
        test, ours = one["test"], error(one["test"], "model")
        best = min(error(test, name) for name in naive if name in test)
        others = [error(test, name) if name in test else None for name in ("ridge", "boosted trees")]
        rows.append(
            [
                one["table"],
                f"{one['horizon']}",
                f"{ours:,.4g}" if ours < 10_000 else f"{ours:,.0f}",
                *("–" if other is None else f"{ours / other - 1:+.1%}".replace("-", "−") for other in [*others, best]),
                f"{one['seconds']} s",
            ]
        )
    head = [
        "table",
        "hours ahead",
        "mean absolute error, MW",
        "to ridge",
        "to boosted trees",
        "to the best naive",
        "time",
    ]
    longest = max(one["rows"] for one in record["tables"])
    return (
        f"Hourly tables of up to {longest:,} rows with all defaults ({source(record)}): the mean absolute error on the "
        f"test part, its difference to those of the baselines, and the time of the whole run with its baselines. The "
        f"best naive forecast is the last value, or that of a day or a week ago.\n\n" + table(head, rows)
    )


def own_series() -> str:
    """Long tables of many series with all defaults: errors relative to persistence."""
    record = results("own_data")
    names = ("model", "ridge", "boosted trees", "a week ago")
    rows = []
    for one in record["series"]:
        first = next(iter(one["test"]["model"]))
        errors = [f"{one['test'][name][first]:.3f}" if name in one["test"] else "–" for name in names]
        rows.append([one["table"], f"{one['rows']:,}", f"{one['horizon']}", *errors, f"{one['seconds']} s"])
    return (
        f"With all defaults (`{record['command']}`): the mean absolute error on the test part "
        f"relative to that of the last value, the geometric mean over series. This is one run: runs of "
        f"this table differ, and another one was only as good as ridge regression.\n\n"
        + table(["table", "rows", "hours ahead", *names, "time"], rows)
    )


def own_folders() -> str:
    """Folders with all defaults: test scores of the model and of logistic regression."""
    record = results("own_data")
    scores = ("mean average precision", "accuracy at the end of a file")
    rows = []
    for one in record["folders"]:
        name = next(name for name in scores if name in one["test"]["model"])
        ours, logistic = (one["test"][model][name] for model in ("model", "logistic regression"))
        rows.append([one["folder"], name, f"{ours:.3f}", f"{logistic:.3f}", f"{one['seconds']} s"])
    return f"Folders with all defaults (`{record['command']}`), on their test files:\n\n" + table(
        ["folder", "score", "model", "logistic regression", "time"], rows
    )


def narrow() -> str:
    """The scores of the recommended models in pools with lighter weights and rings."""
    record = results("narrow")
    rows = []
    for one in record["tasks"]:
        relative, base = one["metric"] == "mse", one["pools"][0]["score"]
        for pool in one["pools"]:
            by = base if relative else 1.0
            change = [x / by * 100 for x in (pool["difference"], *pool["interval"])] if "difference" in pool else []
            signed = [f"{round(x, 2) + 0.0:+.2f}".replace("-", "−") for x in change]  # without −0.00
            rows.append(
                [
                    one["task"],
                    pool["weights"],
                    pool["ring_dtype"],
                    f"{pool['score'] * 1e3:.4f}e-3" if relative else f"{pool['score'] * 100:.2f}",
                    f"{signed[0]}{' %' * relative} ({signed[1]} to {signed[2]})" if signed else "",
                    changed(pool["changes"]) if signed else "",
                    f"{pool['weight_bytes'] / 1e6:.2f}",
                    f"{pool['bytes_per_stream'] / 1e3:,.0f}",
                ]
            )
    head = ["task", "weights", "rings", "score", "difference", "change of outputs", "weights, MB", "per stream, kB"]
    models = "; ".join(f"{one['task']}, {_model(one)}" for one in record["tasks"])
    return "\n\n".join(
        [
            f"Accuracy on GTZAN and mAP on THUMOS14, in points, and the normalised squared error on electricity, of "
            f"test streams that are pushed through a pool from the first token to the last ({source(record)}). "
            "Differences are to float32 on the same streams, with 95 % intervals over resampled tracks, videos or "
            "weeks. The change of outputs is the share of another most likely class and the mean change of all "
            "probabilities, or relative to the error of the forecast (root mean squares).",
            table(head, rows),
            f"One model of each task, with landmarks fixed early: {models}.",
        ]
    )


def compiling() -> str:
    """How long the first pool takes, by kind of model."""
    record = results("compile")
    rows = [
        [one["model"], f"{one['seconds']:.1f} s", f"{one['llvm']:.1f} s", f"{one['cached']:.1f} s"]
        for one in record["models"]
    ]
    return "\n\n".join(
        [
            f"From torch and nystream imported to the first output of a pool, with one block unless it says otherwise "
            f"({source(record)}):",
            table(["model", "first pool", "of it LLVM", "kernels in the cache"], rows),
        ]
    )


def _model(one: Any) -> str:
    cell = one["model"]
    blocks = "one block" if cell["layers"] == 1 else f"{cell['layers']} {cell['stack']} blocks"
    split = ", on the fault-filtered split" if cell["protocol"] == "filtered" else ""
    return f"{blocks}, n = {cell['window']}, d = {cell['embed_dim']}, m = {cell['landmarks']}{split}"


def changed(changes: Any) -> str:
    """How much the outputs of a task differ from those of float32."""
    if "rms_over_rms_error" in changes:
        return f"by {changes['rms_over_rms_error']:.1%} of the error".replace("%", " %")
    other, probabilities = changes["other_class"], changes["mean_of_probabilities"]
    return f"another class {other:.2%}, probabilities by {probabilities:.1e}".replace("%", " %")
