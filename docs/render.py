"""Write the measured numbers of results/*.json into the marked places of README.md and docs/*.md.

    python docs/render.py          # write
    python docs/render.py --check  # fail if a page does not say what the results say

A place is marked by <!-- name --> and <!-- /name -->; nothing between them is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from nystream.lab.reproduce.report import grouping, markdown, readme, records

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def source(record: Any) -> str:
    """Where the numbers come from."""
    machine = record["hardware"]
    return f"`{record['command']}` on {machine['cores']} cores of an {machine['cpu']}, torch {machine['torch']}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured() -> str:
    record = results("step")
    window, phases = record["window"], record["phases"]
    times = window["microseconds"]
    rows = [
        [
            f"`{row['variant']}`",
            f"{row['n']}/{row['d']}/{row['heads']}/{row['m']}",
            f"×{row['ratio']:.0f}",
            f"×{row['ratio_one_thread']:.0f}",
        ]
        for row in record["steps"]
    ]
    cores = record["steps"][0]["threads"]
    spread = max(row["max_over_median"] for row in phases)
    device = results("device")
    return "\n\n".join(
        [
            f"In eager PyTorch ({source(record)}; ratios of medians of one run):",
            f"- An in-place step of `co-fixed-single` at n = 16,384 takes ×{window['ratio']:.2f} the time it takes at "
            f"n = 128 ({times['16384']:.0f} and {times['128']:.0f} µs; d = {window['d']}, {window['heads']} heads, "
            f"m = {window['m']}).\n- The slowest phase of its window takes ×{spread:.2f} the median one.\n"
            f"- The speed-up of `steps` over 4,096 tokens, compared with a loop over `step(inplace=True)`:",
            table(["variant", "n/d/heads/m", f"{cores} threads", "1 thread"], rows),
            f"The contract suite also passes on an {device['device']} (`{device['command']}`).",
        ]
    )


def number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.0e}"


def drift() -> str:
    record = results("drift")
    outlier = record["outlier"]
    rows = []
    for curve in outlier["curves"]:
        name = "`subtract`" if curve["sums"] == "subtract" else f"default (`{curve['form']}`)"
        errors = [number(curve[part]) for part in ("inside", "after", "end")]
        rows.append([f"`{curve['variant']}`", f"{curve['logit']:,.0f}", name, *errors])
    head = ["variant", "logit", "sums", "while it is in the window", "after it left", "three windows later"]
    return (
        f"One token whose logit with the landmarks is 15, 20 or 10,000 enters an ordinary float32 stream "
        f"(n = {outlier['n']}, m = {outlier['m']}). Largest error against float64, relative to the largest output "
        f"({source(record)}):\n\n{table(head, rows)}"
    )


def inverse() -> str:
    record = results("inverse")
    rows = []
    for row in record["rows"]:
        what = f"λ = {row['value']:g}" if row["pinv"] == "ridge" else f"{row['value']} iterations"
        rows.append([f"`{row['pinv']}`, {what}", row["dtype"], *(f"{error:.0e}" for error in row["errors"].values())])
    return (
        f"Largest error of `co-cont-single` (n = {record['n']}, m = {record['m']}; `steps`, in float32 the compiled "
        f"pool too) against the float64 reference, relative to the largest output ({source(record)}):\n\n"
        + table(["inverse", "model", *(f"{name} stream" for name in record["rows"][0]["errors"])], rows)
    )


def million() -> str:
    record = results("drift")
    run = record["million"]
    rows = [
        [
            f"`{row['variant']}`",
            number(row["largest_error_of_all_against_float64_steps"]),
            number(row["largest_error_of_sampled_against_reference"]),
        ]
        for row in run["runs"]
    ]
    sampled = run["runs"][0]["sampled"]
    return (
        f"{run['tokens']:,} float32 tokens through `steps` in pieces of {run['piece']:,}, the last "
        f"{run['by_step_at_the_end']:,} through `step`, with {run['outliers']:,} outliers of logits up to "
        f"{run['largest_logit']:,.0f} on the way ({source(record)}):\n\n"
        + table(
            ["variant", "largest error, all outputs, against float64", f"{sampled} outputs, against the reference"],
            rows,
        )
    )


def landmarks() -> str:
    record = results("landmarks")
    few, many = record["runs"][:2]
    return (
        f"A sample of {record['tokens']:,} tokens, {record['heads']} heads of width {record['head_dim']}, "
        f"m = {record['m']} ({source(record)}): {record['seconds']:.0f} s, of which clustering "
        f"{few['cluster_seconds']:.0f} s. With {many['batches']:,} batches instead of {few['batches']:,}, it uses "
        f"{many['peak_extra_megabytes']:.0f} MB of memory instead of {few['peak_extra_megabytes']:.0f}."
    )


def deep() -> str:
    record = results("deep")
    times, windows = record["depth"]["microseconds"], record["window"]
    rows = [["µs per step", *(f"{t:,.0f}" for t in times.values())]]
    head = [f"blocks, n = {record['depth']['window']:,}", *times]
    line = record["depth"]["largest_deviation_from_a_line"]
    return "\n\n".join(
        [
            f"Whole models of `co-fixed-single` blocks, d = {record['d']}, {record['heads']} heads, m = {record['m']}, "
            f"in eager PyTorch ({source(record)}):",
            table(head, rows),
            f"The time is linear in the number of blocks to within {line:.0%}. With {windows['layers']} blocks, a step "
            f'at n = 16,384 takes ×{windows["ratio"]:.2f} the time of a step at n = 128. At n = 128, `stack="paper"` '
            f"takes ×{record['paper_over_deep']:.1f} the time.",
        ]
    )


def many() -> str:
    record = results("many")
    seconds = record["seconds_per_epoch"]
    return (
        f"On an {record['device']}, an epoch of {record['updates_per_epoch']} updates of the GTZAN model takes "
        f"{seconds['1']:.2f} s for one model, {seconds['5']:.2f} s for 5 and {seconds['25']:.2f} s for 25 "
        f"(`{record['command']}`)."
    )


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


def converted() -> str:
    record = results("convert")
    sizes = list(record["rows"][0]["errors"])
    rows = [
        [f"×{row['sharpness']}", f"`{row['variant']}`", *(f"{error:.0%}" for error in row["errors"].values())]
        for row in record["rows"]
    ]
    return (
        f"Relative error of the newest row of an untrained encoder of two blocks, n = {record['window']}, "
        f'`pinv="{record["pinv"]}"`, with the logits that torch starts from and with larger ones '
        f"(`{record['command']}`):\n\n" + table(["logits", "variant", *(f"m = {m}" for m in sizes)], rows)
    )


def us(value: float) -> str:
    return f"{value:,.0f} µs" if value >= 100 else f"{value:.1f} µs"


def pool() -> str:
    """The headline, for the README; the page on performance has the rest, and where it comes from."""
    record = results("bench")
    rows = {row["name"]: row["median_microseconds"] for row in record["model"]["rows"] if row["blocks"] == 1}
    ours = rows["nystream pool, co-fixed"]
    crowd = max(record["streams"]["rows"], key=lambda row: row["push_many_steps_per_second"])
    size = record["settings"]["sizes"]
    others = ", ".join(
        f"{us(rows[name])} for {what}"
        for name, what in (
            ("window recompute", "recomputing the window"),
            ("ring KV + SDPA", "a sliding-window KV cache in PyTorch"),
            ("continual-inference", "continual-inference"),
        )
    )
    return (
        f"*One step of a whole model (n = {size['window']}, d = {size['embed_dim']}, m = {size['landmarks']}) on one "
        f"CPU core: {us(ours)} in a nystream pool with fixed landmarks, {others}. With {crowd['streams']:,} streams, a "
        f"pool on {record['hardware']['cores']} cores takes {crowd['push_many_steps_per_second'] / 1e3:,.0f},000 "
        f"tokens per second. `nystream bench` measures it on your machine; see [Performance](docs/performance.md).*"
    )


def bench() -> str:
    """All of it, for the page on performance."""
    record = results("bench")
    targets = [
        [
            target["what"],
            f"{target['value']:.3g} {target['unit']}",
            f"{target['kind']} {target['limit']:g} {target['unit']}",
            "met" if target["met"] else "**missed**",
        ]
        for target in record["targets"]
    ]
    attention = [
        [
            f"{case['n']:,}/{case['d']}/{case['heads']}/{case['m']}",
            row["name"],
            us(row["median_microseconds"]),
            us(row["p99_microseconds"]),
            f"{row['bytes_per_stream'] / 1e3:,.0f} kB",
        ]
        for case in record["attention"]["cases"]
        for row in case["rows"]
    ]
    models = [
        [
            str(row["blocks"]),
            row["name"],
            us(row["median_microseconds"]),
            us(row["p99_microseconds"]),
            f"{row['bytes_per_stream'] / 1e3:,.0f} kB",
        ]
        for row in record["model"]["rows"]
    ]
    streams = [
        [
            f"{row['streams']:,}",
            *(
                f"{row[name] / 1e3:,.0f} k"
                for name in (
                    "one_by_one_steps_per_second",
                    "push_many_steps_per_second",
                    "torch_batch_steps_per_second",
                )
            ),
        ]
        for row in record["streams"]["rows"]
    ]
    commit = record["commit"][:7]
    return "\n\n".join(
        [
            f"{source(record)}, numba {record['hardware']['numba']}, {commit}. All contenders are first checked "
            "against each other, then timed in turn, on one thread except for many streams.",
            "Attention alone, with q, k and v given:",
            table(["n/d/heads/m", "", "median", "p99", "per stream"], attention),
            "Whole models (input projection, positions, norms, attention, feed-forward, head):",
            table(["blocks", "", "median", "p99", "per stream"], models),
            f"Tokens per second of all streams together, {record['streams']['threads']} threads:",
            table(["streams", "`push`, one by one", "`push_many`", "torch, one batch"], streams),
            "Targets, and what this run measured:",
            table(["", "measured", "target", ""], targets),
        ]
    )


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


BLOCKS: dict[str, Callable[[], str]] = {
    "own-data": own_data,
    "measured": measured,
    "drift": drift,
    "inverse": inverse,
    "million": million,
    "landmarks": landmarks,
    "deep": deep,
    "many": many,
    "results": lambda: readme.results(cells()),
    "results-page": lambda: markdown.results_page(cells(), images="img/results"),
    "search": search,
    "durations": durations,
    "converted": converted,
    "pool": pool,
    "bench": bench,
}


def rendered(page: str) -> str:
    for name, block in BLOCKS.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        if place.search(page):
            text = block()
            page = place.sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
    return page


def main() -> int:
    stale = []
    for path in PAGES:
        page = path.read_text()
        new = rendered(page)
        if new != page:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new)
    if "--check" in sys.argv and stale:
        sys.stderr.write(f"{', '.join(stale)}: not what the results say; run python docs/render.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
