"""Blocks about the service, for `render.py`."""

from __future__ import annotations

from _source import results, source, table


def load() -> str:
    """Latencies under load, by durability."""
    record = results("serve_load")
    rows = [
        [
            f"`{case['case']}`",
            *(f"{case[name]:.1f} ms" for name in ("p50_ms", "p99_ms", "p99.9_ms")),
            f"{case['service_cores']:.2f}",
            f"{case['client_cores']:.2f}",
            f"{case['service_memory_mb']:,} MB",
            f"{case['store_mb']:,.0f} MB",
        ]
        for case in record["cases"]
    ]
    streams = record["cases"][0]["streams"]
    head = ["durability", "p50", "p99", "p99.9", "cores, service", "cores, client", "memory", "store"]
    return (
        f"{streams:,} streams of a model of GTZAN's size, each with 4 tokens per second at random times, over "
        f"WebSockets on the same machine ({source(record)}):\n\n" + table(head, rows)
    )


def sizing() -> str:
    """What a stream takes, from the measurement of `load`."""
    record = results("serve_load")
    (case,) = (case for case in record["cases"] if case["case"] == "log")
    streams = case["streams"]
    lines = [
        f"- {streams:,} streams with 4 records per second each took {case['service_cores']:.2f} cores: "
        f"{streams / case['service_cores']:,.0f} streams per core."
    ]
    if "memory_per_stream" in record:
        memory, store = record["memory_per_stream"], record["store_per_stream"]
        lines += [
            f"- Each stream more took {memory / 1e3:,.0f} kB of memory: {1e9 / memory:,.0f} streams per GB.",
            f"- Each stream more took {store / 1e3:,.0f} kB of the disk: {1e9 / store:,.0f} streams per GB.",
        ]
    else:
        lines += [
            f"- The process took {case['service_memory_mb']:,} MB of memory for them, with all that it loads.",
            f"- The store took {case['store_mb']:,.0f} MB: {case['store_mb'] * 1e3 / streams:,.0f} kB for each stream.",
        ]
    if "held" in record:
        held = record["held"]
        lines.append(
            f"- On {record['hardware']['cores']} cores, which the clients shared, {held['streams']:,} streams were the "
            f"most with a p99 of at most {held['limit_ms']:.0f} ms."
        )
    return (
        f"Durability `log`, the record of the [table above](#batching-and-limits), {source(record)}:\n\n"
        + "\n".join(lines)
    )
