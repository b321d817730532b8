"""Records of thousands of keyed streams through `Sessions`: memory and time beside those of the bare pool.

    python benchmarks/sessions.py            # about a minute

A stream is a row of a table every hour: a target, three other numbers, a category, the target's values 1, 24 and 168
rows ago, and the phases of day and week. Every call brings one record of each stream. Written to results/sessions.json.

memory   what the process grows by when streams are opened and have taken a record, against a stream of the pool and
         the rows that the lags need; and what a `Session` for each of them grows it by
time     microseconds a record of `take_many`, less those of `push_many`, without garbage collection. The last two rows
         have no limit: with every answer looked at, and with some records that must go through the reader
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from _common import interleaved, write_results

import nystream as ns
from nystream.data.table_reader import Column, TableReader
from nystream.live import Session, Sessions

STREAMS, ROUNDS, SINGLE = 5_000, 41, 20
MEMORY_LIMIT, TIME_LIMIT = 1.2, 10.0  # times a stream of the pool; microseconds a record
SKIES = ("clear", "cloudy", "rain")
NUMBERS = ("load", "temperature", "wind", "price")
LAGS = (1, 24, 168)
ALL_READ = "dicts, all answers read"


def build() -> ns.StreamModel:
    torch.manual_seed(0)
    columns = (*(Column(name) for name in NUMBERS), Column("sky", SKIES))
    reader = TableReader(
        columns, ("load",), time="time", step=3600.0, zoned=False, centred=True, gaps="fill", lags=LAGS, ahead=24
    )
    attention = ns.AttentionConfig("co-cont-single", embed_dim=64, num_heads=8, window=64, landmarks=4)
    config = ns.ModelConfig(input_dim=len(reader.names), output_dim=1, attention=attention)
    info = ns.ModelInfo("forecasting", inputs=reader.names, labels=("load",), horizon=24, reader=reader.to_dict())
    return ns.StreamModel(config, info).eval()


def vector_model(width: int) -> ns.StreamModel:
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=64, num_heads=8, window=64, landmarks=4)
    return ns.StreamModel(ns.ModelConfig(input_dim=width, output_dim=1, attention=attention)).eval()


class Hours:
    """One record of each stream, hour after hour."""

    def __init__(self) -> None:
        self.now, self.random = datetime(2024, 1, 1), np.random.default_rng(0)

    def columns(self, text: bool = True) -> dict[str, Any]:
        self.now += timedelta(hours=1)
        stamp = self.now.isoformat(sep=" ") if text else np.datetime64(self.now, "us")
        return {
            "time": np.full(STREAMS, stamp),
            **{name: self.random.normal(100.0, 10.0, STREAMS).round(3) for name in NUMBERS},
            "sky": [SKIES[i] for i in self.random.integers(0, 3, STREAMS)],
        }

    def dicts(self, lacking: int = 0) -> list[dict[str, Any]]:
        """Records as dicts; every so many of them lack a field, if that is not 0."""
        columns = {
            name: getattr(column, "tolist", lambda column=column: column)() for name, column in self.columns().items()
        }
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for record in records[::lacking] if lacking else ():
            record["wind"] = None
        return records


def resident() -> int:
    """Bytes of memory that the process has."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def memory(model: ns.StreamModel) -> tuple[dict[str, Any], Sessions]:
    hours, keys = Hours(), [f"customer {i}" for i in range(STREAMS)]
    records = hours.dicts()
    Sessions(model, capacity=1).take_many(keys[:2], records[:2])  # compiles, and loads what is imported late
    before = resident()
    sessions = Sessions(model, missing="fill", capacity=STREAMS)
    began = time.perf_counter()
    for key in keys:
        sessions.open(key)
    opened = time.perf_counter() - began
    sessions.take_many(keys, records)
    grown = (resident() - before) / STREAMS
    before = resident()
    began = time.perf_counter()
    single = [Session(model) for _ in range(SINGLE)]
    one = (time.perf_counter() - began) / SINGLE
    for session in single:
        session.take(records[0])
    alone = (resident() - before) / SINGLE
    pool, rows = sessions._pool.bytes_per_stream, max(LAGS) * 8
    figures = {
        "bytes_per_stream": sessions.bytes_per_stream,
        "resident_bytes_per_stream": grown,
        "pool_bytes_per_stream": pool,
        "bytes_of_past_rows": rows,
        "ratio": (grown - rows) / pool,
        "limit": MEMORY_LIMIT,
        "seconds_to_open": opened,
        "microseconds_to_open_one": opened / STREAMS * 1e6,
        "session_bytes": alone,
        "session_seconds_to_open": one,
    }
    print(f"memory of one of {STREAMS:,} streams: {grown:,.0f} bytes in the process, {pool:,} in the pool,")
    print(f"  {rows:,} of them rows for the lags: {figures['ratio']:.2f} times the pool (at most {MEMORY_LIMIT})")
    print(f"  opened in {opened:.2f} s, {figures['microseconds_to_open_one']:.0f} µs each")
    print(f"  a Session of its own: {alone:,.0f} bytes, {one * 1e3:.0f} ms\n", flush=True)
    return figures, sessions


def prepared(make: Callable[[], Any], take: Callable[[Any], object]) -> Callable[[], object]:
    """A job that is timed without making its records: `rounds` and two to warm up are made before."""
    waiting = [make() for _ in range(ROUNDS + 2)]
    waiting.reverse()
    return lambda: take(waiting.pop())


def timing(model: ns.StreamModel, sessions: Sessions) -> list[dict[str, Any]]:
    keys = sessions.keys()
    width = model.config.input_dim
    x = np.random.default_rng(0).normal(size=(STREAMS, width)).astype(np.float32)
    vectors = Sessions(vector_model(width), capacity=STREAMS)
    for key in keys:
        vectors.open(key)
    cases: dict[str, tuple[Sessions, Callable[[Hours], Any]]] = {
        "dicts, times as text": (sessions, lambda hours: hours.dicts()),
        "dict of arrays, times as datetime64": (sessions, lambda hours: hours.columns(text=False)),
        "polars DataFrame": (sessions, lambda hours: pl.DataFrame(hours.columns(text=False))),
        "vectors, lists": (vectors, lambda _: x.tolist()),
        "vectors, array": (vectors, lambda _: x),
        ALL_READ: (sessions, lambda hours: hours.dicts()),
        "dicts, 1 in 20 lacks a field": (sessions, lambda hours: hours.dicts(20)),
    }
    rows = []
    print(f"µs a record of take_many over those of push_many, {STREAMS:,} streams, one record each")
    for name, (target, make) in cases.items():
        for key in keys:
            target.restart(key)
        hours = Hours()
        pool, ids = target._pool, target._streams[: len(keys)].copy()

        def take(records: Any, target: Sessions = target, name: str = name) -> object:
            taken = target.take_many(keys, records)
            return list(taken) if name == ALL_READ else taken

        def push(_: Any, pool: Any = pool, ids: Any = ids) -> object:
            return pool.push_many(ids, x)

        jobs = {
            "take": prepared(lambda make=make, hours=hours: make(hours), take),
            "push": prepared(lambda: None, push),
        }
        took = {job: seconds / STREAMS * 1e6 for job, seconds in interleaved(jobs, ROUNDS).items()}
        over = took["take"] - took["push"]
        rows.append({"records": name, "take_many_microseconds": took["take"], "push_many_microseconds": took["push"]})
        rows[-1] |= {"over_microseconds": over, "ratio": took["take"] / took["push"]}
        limited = len(rows) <= len(cases) - 2
        if limited:
            rows[-1]["limit"] = TIME_LIMIT
        limit = f" (at most {TIME_LIMIT:.0f})" * limited
        print(f"  {name:<36} {took['take']:>6.1f} - {took['push']:>5.1f} = {over:>5.1f}{limit}", flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)
    model = build()
    figures, sessions = memory(model)
    figures = {"streams": STREAMS, "memory": figures, "time": timing(model, sessions)}
    print(f"\nwritten to {write_results('sessions', figures).name}")


if __name__ == "__main__":
    main()
