"""A process that continues streams in a folder, beside others that do the same; it prints what was acknowledged.

Its sessions are lists of records, so that a snapshot shows what it has read.
"""

import random
import sys
from pathlib import Path

import nystream.serve.stores.lane as lane
from nystream.serve.lanes import lane_of
from nystream.serve.protocol import pack, unpack
from nystream.serve.stores.folder import FolderStore
from nystream.serve.stores.store import Kept, LogRow, Snapshot, StoreError

KEYS = [key for key in map(str, range(500)) if lane_of("", key) in (3, 4)][:6]


def read(saved):
    """Return the records of a stream."""
    records = [] if saved.snapshot is None else unpack(saved.snapshot.state)
    return records + [row.record.decode() for row in saved.rows]


def follow(path, name):
    lane.LOG_BYTES, lane.SLACK_BYTES, lane.MOVED_BYTES = 20_000, 5_000, 5_000
    chance, store = random.Random(name), FolderStore(path, "model", Kept(20, 0), False)
    sessions, sent = {}, 0
    while True:
        try:
            if not sent:
                names = [("", key) for key in KEYS]
                ids = {key: stream.id for key, (stream, _) in zip(KEYS, store.open(names), strict=True)}
            chosen = chance.sample(KEYS, chance.randint(1, len(KEYS)))
            for key in chosen:
                if key not in sessions:
                    sessions[key] = read(store.load(ids[key]))
            batch = []
            for key in chosen:
                sent += 1
                sessions[key].append(f"{name} {sent}")
                batch.append((key, len(sessions[key]), sessions[key][-1]))
            moved = store.append([LogRow(ids[key], number, text.encode(), b"answer") for key, number, text in batch])
            for key, number, text in batch:
                if ids[key] in moved:
                    del sessions[key]
                else:
                    print(key, number, text, flush=True)  # noqa: T201
            due = [key for key in sessions if chance.random() < 0.05]
            moved = store.save(
                Snapshot(ids[key], len(sessions[key]), len(sessions[key]), pack(sessions[key]), {}, [], "model")
                for key in due
            )
            for key in due:
                if ids[key] in moved:
                    del sessions[key]
            store.tidy()
        except StoreError as error:  # claimed by others again and again
            print(error, file=sys.stderr, flush=True)  # noqa: T201
            sessions.clear()


if __name__ == "__main__":
    follow(Path(sys.argv[1]), sys.argv[2])
