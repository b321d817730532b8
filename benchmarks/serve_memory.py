"""Memory and store of a service that takes in a million records.

    python benchmarks/serve_memory.py --write        # about four minutes, writes results/serve_memory.json
    python benchmarks/serve_memory.py --streams 20 --records 20_000

100 streams of GTZAN's one-block model get records as fast as they are answered, with durability log. Resident memory
and the size of the store are sampled over the run. The exit status is 1 if memory grows by more than 5 % after the
first tenth, or if the file of streams gets larger than its settings allow: for each stream

snapshot  its state, the reader's memory and the answers that are kept
log       the records since the snapshot, until they take as much space. Only the oldest rows of the log, which all
          streams share, can be deleted: it may have `MAX_SPAN` times as many rows as are needed, and `MIN_SPAN` more
segments  records before the snapshot for a retrained model: as many as the window, and one piece between two snapshots

each in whole pages of SQLite. The WAL comes on top. It does not depend on the streams; it may become four times as
large as it is when it begins to be moved into the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import websockets
from _common import write_results
from _service import Service, gtzan_model, record

from nystream.serve.stores.checkpoints import WAL_BYTES
from nystream.serve.stores.sqlite import MAX_SPAN, MIN_SPAN

CONNECTIONS = 10
PIECE = 32  # records of a stream in one message
SHARES = 10  # samples that are stored, besides the first
SAMPLE_SECONDS = 0.2
GROWTH_LIMIT = 0.05
WAL_LIMIT = 4 * WAL_BYTES  # it grows while it is moved
MOST_SECONDS = 300.0
CELL = 16  # bytes that SQLite adds to a row, at most, besides its values
PAGE_HEADER = 35  # bytes of a page that no row can use


class Progress:
    """What was answered so far, and what the service took meanwhile.

    Attributes:
        samples: One for each tenth of the records.
        largest_file, largest_wal: Bytes.
    """

    def __init__(self, service: Service, records: int) -> None:
        self._service, self._records = service, records
        self.answered = 0
        self.samples: list[dict[str, Any]] = []
        self.largest_file = self.largest_wal = 0

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    def sample(self) -> None:
        """Look at the service."""
        file, wal = self._service.store_bytes()
        self.largest_file, self.largest_wal = max(file, self.largest_file), max(wal, self.largest_wal)
        if self.answered * SHARES >= len(self.samples) * self._records:
            memory = self._service.memory_bytes()
            self.samples.append({"records": self.answered, "memory_mb": round(memory / 1e6, 1)})
            self.samples[-1] |= {"file_mb": round(file / 1e6, 1), "wal_mb": round(wal / 1e6, 1)}
            print(json.dumps(self.samples[-1]), flush=True)


async def push(url: str, places: range, records: int, progress: Progress) -> None:
    """Push so many records of each of these streams, a piece of each at a time."""
    async with websockets.connect(f"{url}/v1/stream", compression=None, max_size=1 << 24) as socket:
        await socket.send(msgpack.packb([{"type": "open", "key": f"stream {place}"} for place in places]))
        await _replies(socket, "opened", len(places))
        for first in range(1, records + 1, PIECE):
            numbers = range(first, min(first + PIECE, records + 1))
            for place in places:
                piece = [record(place, number) for number in numbers]
                message = {"type": "push", "key": f"stream {place}", "number": first, "records": piece}
                await socket.send(msgpack.packb(message))
            await _replies(socket, "answer", len(places) * len(numbers))
            progress.answered += len(places) * len(numbers)


async def _replies(socket: Any, kind: str, count: int) -> None:
    while count:
        frame = msgpack.unpackb(await socket.recv())
        for message in frame if isinstance(frame, list) else [frame]:
            if message["type"] != kind or "error" in message:
                raise RuntimeError(f"the service did not take a message: {message}")
            count -= 1


async def fill(service: Service, streams: int, records: int) -> Progress:
    """Push records to all streams, `records` in total, while memory and store are watched."""
    progress, each = Progress(service, streams * (records // streams)), records // streams
    watch = asyncio.create_task(progress.watch())
    places = [range(place, streams, CONNECTIONS) for place in range(min(CONNECTIONS, streams))]
    await asyncio.gather(*(push(service.url, some, each, progress) for some in places))
    watch.cancel()
    progress.sample()
    return progress


def pages(size: int, page: int) -> int:
    """Bytes of the pages that a row of this size takes: a share of one, or several of its own."""
    usable = page - PAGE_HEADER
    if size + CELL > usable:
        return math.ceil((size + CELL) / (usable - 4)) * page + page
    return math.ceil(page / (usable // (size + CELL)))


def bound(store: Path, streams: int, window: int) -> dict[str, Any]:
    """The bytes that a stream may take in the file, from the largest rows there are."""
    with closing(sqlite3.connect(store)) as db:
        (page,) = db.execute("PRAGMA page_size").fetchone()
        parts = "max(length(state) + length(memory) + length(answers))"
        (snapshot,) = db.execute(f"SELECT {parts} FROM snapshots").fetchone()
        row, raw = db.execute("SELECT max(length(record) + length(answer)), max(length(record)) FROM log").fetchone()
        (memory,) = db.execute("SELECT max(length(memory)) FROM segments").fetchone()
    # A batch may bring a piece more before a snapshot is written.
    least = math.ceil(snapshot / row)
    between = least + PIECE
    log = (MAX_SPAN * between + math.ceil(MIN_SPAN / streams)) * pages(row, page)
    segment = pages(between * (raw + 3) + (memory or 0), page)
    kept = (math.ceil(window / least) + 1) * segment
    shares = {"snapshot": pages(snapshot, page), "log": log, "segments": kept}
    return {"bytes": sum(shares.values()), "parts": shares, "snapshot_bytes": snapshot, "log_row_bytes": row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--records", type=int, default=1_000_000, help="of all streams")
    parser.add_argument("--write", action="store_true", help="write results/serve_memory.json")
    arguments = parser.parse_args()
    model, streams = gtzan_model(), arguments.streams
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "streams.db"
        model.save_pretrained(Path(folder) / "model")
        service = Service(Path(folder) / "model", store, "--durability", "log")
        try:
            began = time.perf_counter()
            filling = fill(service, streams, arguments.records)
            progress = asyncio.run(asyncio.wait_for(filling, MOST_SECONDS))
            seconds = time.perf_counter() - began
        finally:
            service.stop()
        allowed = bound(store, streams, model.replay_length)
    first, last = progress.samples[1], progress.samples[-1]
    growth = last["memory_mb"] / first["memory_mb"] - 1
    figures: dict[str, Any] = {
        "streams": streams,
        "records": progress.answered,
        "seconds": round(seconds, 1),
        "records_per_second": round(progress.answered / seconds),
        "memory_mb": {"after 10 %": first["memory_mb"], "after 100 %": last["memory_mb"]},
        "growth": round(growth, 4),
        "growth_limit": GROWTH_LIMIT,
        "store": {
            "largest_file_mb": round(progress.largest_file / 1e6, 1),
            "largest_wal_mb": round(progress.largest_wal / 1e6, 1),
            "wal_limit_mb": round(WAL_LIMIT / 1e6, 1),
            "file_per_stream": round(progress.largest_file / streams),
            "bound_per_stream": allowed,
        },
        "samples": progress.samples,
    }
    print(json.dumps(figures))
    if growth > GROWTH_LIMIT:
        sys.exit(f"memory grew by {growth:.1%} after the first tenth, but may grow by {GROWTH_LIMIT:.0%}")
    if progress.largest_file > streams * allowed["bytes"]:
        sys.exit(
            f"a stream took {progress.largest_file // streams:,} bytes of the file, more than {allowed['bytes']:,}"
        )
    if progress.largest_wal > WAL_LIMIT:
        sys.exit(f"the WAL grew to {progress.largest_wal:,} bytes, more than {WAL_LIMIT:,}")
    if arguments.write:
        write_results("serve_memory", figures)


if __name__ == "__main__":
    main()
