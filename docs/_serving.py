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
