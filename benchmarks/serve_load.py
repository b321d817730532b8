"""How many live streams `nystream serve` holds, and how long an answer takes.

    python benchmarks/serve_load.py --write          # about twelve minutes, writes results/serve_load.json
    python benchmarks/serve_load.py --streams 100 --seconds 5 --parts cases --cases log none

Streams of the one-block model of GTZAN (random weights) push 4 tokens a second each, with Poisson arrivals, over
WebSockets on the loopback interface. The service is a process of its own, the clients are this one. A latency counts
from the time at which a record was to be sent, so that a client that falls behind does not hide it; a record without an
answer at the end counts with the time it has waited. What is refused is sent again, as a client must. The first records
are pushed beforehand, so that snapshots are written while it measures.

cases     one number of streams, with the durabilities, and with several limits of batches
search    the largest number of streams with a p99 of at most 50 ms, by doubling and then bisecting; memory and size of
          the store for each stream
migrate   how much longer a service takes to start that continues the streams of another model
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import write_results
from _load import Load
from _service import Service, gtzan_model

RATE = 4.0  # tokens a second and stream
WARM_UP_SECONDS = 3.0  # that are not measured
AHEAD, AHEAD_SECONDS = 56, 20.0  # records of each stream beforehand: half as many as are between two snapshots
LIMIT_MS = 50.0  # of p99, for a number of streams that is held
MOST_TRIALS, RESOLUTION, ROUND = 7, 0.1, 50  # of the search
CASES: dict[str, list[str]] = {
    "log": ["--durability", "log"],
    "snapshot": ["--durability", "snapshot"],
    "none": ["--durability", "none"],
    "log, max-wait-ms 0": ["--durability", "log", "--max-wait-ms", "0"],
    "log, max-wait-ms 10": ["--durability", "log", "--max-wait-ms", "10"],
    "log, max-wait-ms 25": ["--durability", "log", "--max-wait-ms", "25"],
    "log, max-batch 1": ["--durability", "log", "--max-batch", "1"],
}
PARTS = ("cases", "search", "migrate")


def measure(
    case: str, streams: int, seconds: float, model: Path, store: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    service = Service(model, store, *CASES[case])
    try:
        # Without batches the first records would still wait when the measurement begins.
        ahead = 0 if "--max-batch" in CASES[case] else AHEAD
        figures = asyncio.run(_measured(service, Load(service, streams, arguments.connections), ahead, seconds))
    finally:
        service.stop()
    figures = {"case": case, "streams": streams, "seconds": seconds} | figures
    print(json.dumps(figures), flush=True)
    return figures


async def _measured(service: Service, load: Load, ahead: int, seconds: float) -> dict[str, Any]:
    await load.open(ahead, AHEAD_SECONDS)
    await load.pace(RATE, WARM_UP_SECONDS)
    before, cpu, own, began = service.metrics(), service.cpu_seconds(), _own_cpu(), time.perf_counter()
    load.tally.begin()
    await load.pace(RATE, seconds)
    took, cpu, own = time.perf_counter() - began, service.cpu_seconds() - cpu, _own_cpu() - own
    memory, store = service.memory_bytes(), sum(service.store_bytes())
    counts = {name: value - before.get(name, 0.0) for name, value in service.metrics().items()}
    unanswered = await load.close()
    tally, commits = load.tally, counts["nystream_commit_seconds_count"]
    figures = {
        "answers": len(tally.latencies) - unanswered,
        "unanswered": unanswered,
        "refusals": tally.refusals,
        "retries": tally.retries,
        "errors": tally.errors,
        "records_per_second": round(counts['nystream_records_total{outcome="answered"}'] / took),
        "records_per_batch": round(counts["nystream_batch_records_sum"] / counts["nystream_batch_records_count"], 2),
        "commit_ms": round(counts["nystream_commit_seconds_sum"] / commits * 1000, 2) if commits else None,
        "service_cores": round(cpu / took, 2),
        "client_cores": round(own / took, 2),
        "service_memory_mb": round(memory / 1e6, 1),
        "store_mb": round(store / 1e6, 1),
    }
    levels = {f"p{level}_ms": float(np.percentile(tally.latencies, level)) * 1000 for level in (50, 99, 99.9)}
    return figures | {name: round(value, 2) for name, value in levels.items()}


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def is_held(trial: dict[str, Any]) -> bool:
    return trial["p99_ms"] <= LIMIT_MS and not (trial["unanswered"] or trial["refusals"] or trial["errors"])


def search(model: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The largest number of streams that is held, and what a stream takes, from the smallest to that number."""
    trials = list[dict[str, Any]]()
    low, high, streams = 0, 0, max(1, arguments.streams // 2)
    while len(trials) < MOST_TRIALS and (not high or high - low > max(RESOLUTION * low, ROUND)):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            store = Path(folder) / "streams.db"
            trials.append(measure("log", streams, arguments.trial_seconds, model, store, arguments))
        low, high = (streams, high) if is_held(trials[-1]) else (low, streams)
        streams = max(1, round((low + high) / 2 / ROUND)) * ROUND if high else 2 * streams
    held = [trial for trial in trials if is_held(trial)]
    if not held:
        return {"trials": trials}
    least, most = (choose(held, key=lambda trial: trial["streams"]) for choose in (min, max))
    figures: dict[str, Any] = {"trials": trials, "held": {"limit_ms": LIMIT_MS, **most}}
    if more := most["streams"] - least["streams"]:
        for name, field in (("memory_per_stream", "service_memory_mb"), ("store_per_stream", "store_mb")):
            figures[name] = round((most[field] - least[field]) * 1e6 / more)
    return figures


def migration(other: Path, store: Path, streams: int) -> dict[str, Any]:
    """How much longer a start takes with `--migrate` than the next one, which finds nothing to do."""
    seconds = []
    for options in (["--migrate"], []):
        service = Service(other, store, *options)
        replayed = service.metrics()["nystream_replayed_total"]
        seconds.append(service.start_seconds)
        service.stop()
        if options:
            records = int(replayed)
    took = seconds[0] - seconds[1]
    figures = {"streams": streams, "records": records, "seconds": round(took, 2)}
    figures |= {"start_seconds": round(seconds[1], 2), "streams_per_second": round(streams / took)}
    print(json.dumps({"migrate": figures}), flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each case")
    parser.add_argument("--trial-seconds", type=float, default=15.0, help="of each trial of the search")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the store is written; by default a temporary one"
    )
    parser.add_argument("--write", action="store_true", help="write results/serve_load.json")
    arguments = parser.parse_args()
    if "migrate" in arguments.parts and not ("cases" in arguments.parts and "log" in arguments.cases):
        parser.error("--parts migrate continues the streams of the case log; add cases to --parts, and log to --cases")
    if arguments.write and (set(arguments.parts), set(arguments.cases)) != (set(PARTS), set(CASES)):
        parser.error("--write needs all parts and all cases, which the documentation shows")
    # A collection that goes through all of torch would look like a slow answer.
    gc.freeze()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        model, other = Path(folder) / "model", Path(folder) / "other"
        gtzan_model(0).save_pretrained(model)
        gtzan_model(1).save_pretrained(other)
        if "cases" in arguments.parts:
            figures["cases"] = []
            for place, case in enumerate(arguments.cases):
                store = Path(folder) / f"{place}.db"
                figures["cases"].append(measure(case, arguments.streams, arguments.seconds, model, store, arguments))
                if case == "log" and "migrate" in arguments.parts:
                    figures["migrate"] = migration(other, store, arguments.streams)
                for path in Path(folder).glob(f"{place}.db*"):
                    path.unlink()
        if "search" in arguments.parts:
            figures |= search(model, arguments)
            print(json.dumps({name: value for name, value in figures.items() if name not in ("cases", "trials")}))
    if arguments.write:
        write_results("serve_load", figures)
    if "search" in arguments.parts and "held" not in figures:
        sys.exit(f"no number of streams was held with a p99 of at most {LIMIT_MS:.0f} ms")


if __name__ == "__main__":
    main()
