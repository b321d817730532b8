"""Blocks about the service, for `render.py`."""

from __future__ import annotations

from typing import Any

from _source import results, source, table


def load() -> str:
    """Latencies under load, by durability and limits of batches; how many streams are held, and what one takes."""
    record = results("serve_load")
    cases = record["cases"]
    # What overload does is only worth columns if it happened.
    is_overloaded = any(case.get("refusals") or case["unanswered"] for case in cases)
    extra = {"records_per_second": "answers per second", "refusals": "refused"} if is_overloaded else {}
    rows = [
        [
            f"`{case['case']}`",
            *(f"{case[name]:,.1f} ms" for name in ("p50_ms", "p99_ms", "p99.9_ms")),
            f"{case['records_per_batch']:.1f}",
            f"{case['service_cores']:.2f}",
            f"{case['client_cores']:.2f}",
            f"{case['service_memory_mb']:,.0f} MB",
            f"{case['store_mb']:,.0f} MB",
            *(f"{case[name]:,}" for name in extra),
        ]
        for case in cases
    ]
    head = ["durability", "p50", "p99", "p99.9", "batch", "cores, service", "cores, client", "memory", "store"]
    return "\n\n".join(
        [
            f"{cases[0]['streams']:,} streams of a model of GTZAN's size, each with 4 tokens per second at random "
            f"times, over WebSockets on the same machine ({source(record)}). A batch is the mean number of records "
            "that ran together"
            + ("; a record without an answer at the end counts with the time it has waited." if is_overloaded else "."),
            table([*head, *extra.values()], rows),
            *([_held(record)] if "held" in record else []),
        ]
    )


def _held(record: Any) -> str:
    held = record["held"]
    text = (
        f"The largest number of streams with a p99 of at most {held['limit_ms']:.0f} ms was {held['streams']:,} with "
        f"durability `log`: a p99 of {held['p99_ms']:.1f} ms and a p99.9 of {held['p99.9_ms']:.1f} ms, with "
        f"{held['service_cores']:.2f} cores for the service and {held['client_cores']:.2f} for the clients."
    )
    if "memory_per_stream" in record:
        text += (
            f" Each stream more took {record['memory_per_stream'] / 1e3:,.0f} kB of memory and "
            f"{record['store_per_stream'] / 1e3:,.0f} kB of the store."
        )
    return text


def migration() -> str:
    """How long a retrained model takes to continue the streams of another; nothing if that was not measured."""
    record = results("serve_load")
    if "migrate" not in record:
        return ""
    run = record["migrate"]
    return (
        f"A retrained model continued {run['streams']:,} streams of GTZAN's size in {run['seconds']:.1f} s "
        f"({run['streams_per_second']:,} per second), in which it read {run['records']:,} records ({source(record)})."
    )


def faults() -> str:
    """A service that is killed under load."""
    record = results("serve_faults")
    return (
        f"Under load, {record['streams']} streams of a model of GTZAN's size, a service was killed with SIGKILL "
        f"{record['kills']} times at random moments and started again ({source(record)}). Of {record['records']:,} "
        f"records none was lost or applied twice, and all answers were those of an uninterrupted run; the largest "
        f"difference was {record['largest_difference']:.0e}. A client waited for an answer for at most "
        f"{record['longest_wait_seconds']:.0f} s, of which a start took up to {record['longest_start_seconds']:.0f} s."
    )


def memory() -> str:
    """Memory and store over many records."""
    record = results("serve_memory")
    used, store = record["memory_mb"], record["store"]
    bound = store["bound_per_stream"]
    shares = ", ".join(f"{name} {size / 1e3:,.0f} kB" for name, size in bound["parts"].items())
    return (
        f"Over {record['records']:,} records of {record['streams']} streams of a model of GTZAN's size, "
        f"{record['records_per_second']:,} per second, the service took {used['after 10 %']:,.0f} MB of memory after "
        f"the first tenth and {used['after 100 %']:,.0f} MB at the end ({source(record)}). The file took at most "
        f"{store['file_per_stream'] / 1e3:,.0f} kB per stream; its bound is {bound['bytes'] / 1e3:,.0f} kB ({shares}). "
        f"The WAL, which all streams share, took at most {store['largest_wal_mb']:,.0f} MB."
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
