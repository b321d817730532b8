"""Write the measured numbers of results/*.json into the marked places of README.md and docs/*.md.

    python docs/render.py          # write
    python docs/render.py --check  # fail if a page does not say what the results say

A place is marked by <!-- name --> and <!-- /name -->; nothing between them is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from _browser import browser
from _claims import Claims
from _experiments import cells, compiling, durations, narrow, own_data, own_folders, own_series, search
from _export import code, export_step, exported, exported_scores, traced
from _gpu import gpu, gpu_bytes, gpu_smoke, gpu_steps
from _quiet import quiet
from _serving import faults, load, memory, migration, sizing
from _source import ROOT, results, source, table, us

from nystream.cli.bench_cells import three
from nystream.lab.reproduce.report import markdown, readme

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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
            f"The contract suite also passes on an {device['device']}, in float64 (`{device['command']}`).",
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
            ("ring KV + SDPA", "a sliding-window KV cache"),
            ("continual-inference", "continual-inference"),
            ("nystream torch, co-fixed", "nystream without its compiled code"),
        )
    )
    return (
        f"*One step of a whole model (n = {size['window']}, d = {size['embed_dim']}, m = {size['landmarks']}) on one "
        f"CPU core: {us(ours)} in a nystream pool with fixed landmarks, which is compiled. In PyTorch, {others}. "
        f"With {crowd['streams']:,} streams, a pool on {record['hardware']['cores']} cores takes "
        f"{crowd['push_many_steps_per_second'] / 1e3:,.0f},000 tokens per second. `nystream bench` measures it on your "
        "machine; see [Performance](docs/performance.md).*"
    )


def verdict(target: dict[str, Any]) -> str:
    """One that no code can meet on the machine of the run is neither met nor missed."""
    if target["met"]:
        return "met"
    return "for an idle core; the machine is noisy" if target.get("noisy") else "**missed**"


def bench() -> str:
    """All of it, for the page on performance."""
    record = results("bench")
    targets = [
        [
            target["what"],
            f"{three(target['value'])} {target['unit']}",
            f"{target['kind']} {target['limit']:g} {target['unit']}",
            verdict(target),
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
            *(quiet(record["quiet"]) if "quiet" in record else []),
            f"Tokens per second of all streams together, {record['streams']['threads']} threads:",
            table(["streams", "`push`, one by one", "`push_many`", "torch, one batch"], streams),
            *(exported(record["export"]) if record.get("export", {}).get("rows") else []),
            "Targets, and what this run measured:",
            table(["", "measured", "target", ""], targets),
        ]
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "own-data": own_data,
    "own-folders": own_folders,
    "own-series": own_series,
    "measured": measured,
    "drift": drift,
    "inverse": inverse,
    "million": million,
    "landmarks": landmarks,
    "deep": deep,
    "many": many,
    "results": lambda: readme.results(cells()),
    "results-page": lambda: markdown.results_page(cells(), images="img/results"),
    "claims": lambda: Claims().block("readme"),
    "found": lambda: Claims().block("found"),
    "search": search,
    "durations": durations,
    "converted": converted,
    "pool": pool,
    "bench": bench,
    "export-step": export_step,
    "exported": exported_scores,
    "traced": traced,
    "browser": browser,
    "client-js": lambda: code("examples/browser/src/stream.js", "js"),
    "client-cpp": lambda: code("examples/cpp/stream.cpp", "cpp"),
    "load": load,
    "faults": faults,
    "memory": memory,
    "migration": migration,
    "sizing": sizing,
    "narrow": narrow,
    "gpu-bytes": gpu_bytes,
    "gpu-smoke": gpu_smoke,
    "gpu": gpu,
    "gpu-steps": gpu_steps,
    "compiling": compiling,
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
