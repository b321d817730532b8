"""The streams of several services in one folder that all of their machines share, such as NFS.

    STORE/about.json                            the format and the model
    STORE/lane-017/EPOCH-TOKEN.claim            who owns a lane: `lane_claims.py`, which says why nothing is lost
    STORE/lane-017/EPOCH-TOKEN-COUNT.log        the streams of the lane: `lane.py`

Streams are owned by the lane: who opens, loads or deletes a stream claims its lane, with all streams in it, and what an
earlier owner still wants to write to any of them is refused. Requests are routed by lane, so that one process normally
uses a lane. Lists of streams are read from the logs of all lanes, without claiming them.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from nystream.files import is_remnant, write_text
from nystream.serve.lanes import LANES, lane_of
from nystream.serve.protocol import pack
from nystream.serve.stores.frames import Frame, Kind
from nystream.serve.stores.lane import Lane, row_frame
from nystream.serve.stores.lane_claims import PAUSE_SECONDS, LostError, newest_log
from nystream.serve.stores.lane_index import Index
from nystream.serve.stores.store import Kept, LogRow, Saved, Segment, Snapshot, StoredStream, StoreError, other_model

FORMAT = "nystream-folder-1"
TRIES = 10  # to use a lane that other processes claim again and again
SYNCS = 8  # logs that are brought to the disk at the same time

T = TypeVar("T")
log = logging.getLogger(__name__)


class FolderStore:
    """Streams in a folder that several processes share; only one thread of each may use it at a time.

    Snapshots reach the disk with the next rows of their lanes. Until then the rows before them are enough.

    Args:
        path: The folder; it is created if it does not exist.
        model: What identifies the model and its reader. A folder of another model is refused.
        kept: How much of each stream is kept before its snapshot.
        migrate: Accept a folder of another model, which is from now on one of this model. No other process may use it.
    """

    def __init__(self, path: Path, model: str, kept: Kept, migrate: bool) -> None:
        self._path, self._model, self._kept = path, model, kept
        self._check(migrate)
        self._lanes: dict[int, Lane] = {}
        self._seen: dict[int, tuple[str, int, Index]] = {}  # logs of other lanes, and how much of them was read
        self._pool = ThreadPoolExecutor(SYNCS, "nystream-sync")

    def _check(self, migrate: bool) -> None:
        """Create a new folder; raise ValueError if the folder is not of this model."""
        path, about = self._path, self._path / "about.json"
        if not path.resolve().parent.is_dir():
            raise FileNotFoundError(f"store={path}: its folder does not exist; create it first")
        if path.exists() and not path.is_dir():
            raise ValueError(f"store={path} is a file, but must be a folder")
        try:
            path.mkdir(exist_ok=True)
            is_empty = all(is_remnant(entry) for entry in path.iterdir())
            if not about.exists():  # after the look into it: another process may be creating it
                if not is_empty:
                    raise ValueError(f"store={path} is not a folder of streams, and not empty; give another one")
                self._describe()
            known = _about(about)
            if known.get("format") != FORMAT:
                raise ValueError(
                    f"store={path} is not a folder of streams, or one of another version of nystream; give another one"
                )
            if known.get("model") != self._model:
                if not migrate:
                    raise other_model(str(path), str(known.get("model", "")), self._model)
                self._describe()
            for lane in range(LANES):  # only here: a folder that is missing later is not an empty lane
                self._folder(lane).mkdir(exist_ok=True)
        except OSError as error:
            raise OSError(f"store={path} cannot be opened: {error}") from error

    def _describe(self) -> None:
        write_text(self._path / "about.json", json.dumps({"format": FORMAT, "model": self._model}) + "\n")

    def open(self, streams: Sequence[tuple[str, str]]) -> list[tuple[StoredStream, bool]]:
        names, new = dict.fromkeys(streams), set[tuple[str, str]]()
        for _ in range(TRIES):
            lanes = {number: self._use(number, lambda lane: lane) for number in {lane_of(*name) for name in names}}
            of_name = {name: lanes[lane_of(*name)] for name in names}
            missing = defaultdict[Lane, list[Frame]](list)
            for name, lane in of_name.items():
                if name not in lane.index.ids:
                    missing[lane].append(Frame(Kind.OPEN, lane.index.new_id(lane.number), 0, pack(name)))
                    new.add(name)
            if not missing:
                break
            with self._errors():
                self._commit(missing, sync=True)
            new.difference_update(name for name, lane in of_name.items() if lane.number not in self._lanes)
        else:
            raise StoreError(f"{self._path}: its lanes are being claimed by other processes")
        opened = list[tuple[StoredStream, bool]]()
        for name in streams:
            index = of_name[name].index
            opened.append((index.streams[index.ids[name]].stored, name in new))
            new.discard(name)  # not new if it comes again
        return opened

    def find(self, owner: str, key: str) -> StoredStream | None:
        with self._errors():
            index = self._index(lane_of(owner, key))
        id = index.ids.get((owner, key))
        return None if id is None else index.streams[id].stored

    def streams(self, owner: str, after: str, limit: int) -> list[StoredStream]:
        chosen = (stream for stream in self._listed(owner) if stream.key > after)
        return heapq.nsmallest(limit, chosen, key=lambda stream: stream.key)

    def count(self, owner: str) -> int:
        return sum(1 for _ in self._listed(owner))

    def load(self, stream: int) -> Saved | None:
        return self._use(stream % LANES, lambda lane: lane.load(stream))

    def owns(self, stream: int) -> bool:
        lane = self._lanes.get(stream % LANES)
        with self._errors():
            return lane is not None and stream in lane.loaded and stream in lane.index.streams and lane.holds()

    def history(self, stream: int) -> list[Segment]:
        return self._use(stream % LANES, lambda lane: lane.history(stream))

    def append(self, rows: Iterable[LogRow]) -> set[int]:
        last = dict[int, int]()

        def frames(lane: Lane, row: LogRow) -> list[Frame]:
            before = last.get(row.stream, lane.index.streams[row.stream].last)
            if row.number != before + 1:
                raise ValueError(f"row.number={row.number} of stream {row.stream} came, but {before + 1} is needed")
            last[row.stream] = row.number
            return [row_frame(row)]

        return self._add([(row.stream, row) for row in rows], frames, sync=True)

    def save(self, snapshots: Iterable[Snapshot]) -> set[int]:
        chosen = [(snapshot.stream, snapshot) for snapshot in snapshots]
        return self._add(chosen, lambda lane, snapshot: lane.replacing(snapshot, self._kept), sync=False)

    def delete(self, stream: int) -> None:
        def deleted(lane: Lane) -> None:
            if stream in lane.index.streams:
                self._write(lane, [Frame(Kind.DELETE, stream, 0, b"")])
                lane.loaded.discard(stream)

        self._use(stream % LANES, deleted)

    def overdue(self) -> StoredStream | None:
        return None  # rows that are rarely used are written again

    def outdated(self, after: int, limit: int) -> list[StoredStream]:
        entries = (
            entry
            for number in range(LANES)
            for entry in self._use(number, lambda lane: list(lane.index.streams.values()))
            if entry.snapshot_size and entry.model != self._model and entry.id > after
        )
        return [entry.stored for entry in heapq.nsmallest(limit, entries, key=lambda entry: entry.id)]

    def tidy(self) -> None:
        # Bounded work: one log at most, and one piece of one part.
        long = next((lane for lane in self._lanes.values() if lane.is_long), None)
        wasteful = max(self._lanes.values(), key=lambda lane: lane.waste, default=None)
        with self._errors():
            if long is not None:
                try:
                    long.follow()
                except (LostError, OSError) as error:
                    self._forget(long)
                    if isinstance(error, OSError):
                        raise
            if wasteful is not None and wasteful.waste > 0 and wasteful.number in self._lanes:
                with self._unless_lost(wasteful):
                    frames = wasteful.movable()
                    self._commit({wasteful: frames}, sync=not frames)  # if all are moved, what is left can be removed

    def size(self) -> int | None:
        return None  # others have their part in it

    def close(self) -> None:
        for lane in self._lanes.values():
            try:
                lane.sync()
            except OSError as error:
                log.error("a log could not be written", extra={"fields": {"error": str(error)}})
            lane.close()
        self._lanes.clear()
        self._pool.shutdown()

    def _folder(self, number: int) -> Path:
        return self._path / f"lane-{number:03}"

    def _use(self, number: int, action: Callable[[Lane], T]) -> T:
        """Return what `action` does to a lane, which is claimed if needed, and again if it is lost meanwhile."""
        with self._errors():
            for tried in range(TRIES):
                time.sleep(random.random() * PAUSE_SECONDS * tried)
                with suppress(LostError):
                    lane = self._lanes.get(number)
                    if lane is not None and not lane.holds():
                        self._forget(lane)
                        lane = None
                    if lane is None:
                        lane = self._lanes[number] = Lane(self._folder(number), number)
                        self._seen.pop(number, None)
                    with self._unless_lost(lane, again=True):
                        return action(lane)
        raise StoreError(f"{self._folder(number)} is being claimed by other processes")

    @contextmanager
    def _unless_lost(self, lane: Lane, again: bool = False) -> Iterator[None]:
        """Forget the lane if another process has claimed it meanwhile; `again` raises LostError then."""
        try:
            yield
        except (LostError, OSError) as error:
            # The other process removes files that are being read here.
            if not isinstance(error, LostError) and lane.holds():
                raise
            self._forget(lane)
            if again:
                raise LostError from error

    def _add(
        self, items: Sequence[tuple[int, T]], frames: Callable[[Lane, T], Sequence[Frame]], sync: bool
    ) -> set[int]:
        """Write the frames of items with their streams; return the ids of those that another process owns."""
        moved, by_lane = set[int](), defaultdict[Lane, list[tuple[int, T]]](list)
        for id, item in items:
            lane = self._lanes.get(id % LANES)
            if lane is None or id not in lane.loaded or id not in lane.index.streams:
                moved.add(id)
            else:
                by_lane[lane].append((id, item))
        with self._errors():
            written = dict[Lane, list[Frame]]()
            for lane, of_lane in by_lane.items():
                with self._unless_lost(lane):
                    written[lane] = [frame for _, item in of_lane for frame in frames(lane, item)]
            self._commit(written, sync)
        lost = (lane for lane in by_lane if lane.number not in self._lanes)
        return moved.union(id for lane in lost for id, _ in by_lane[lane])

    def _write(self, lane: Lane, frames: Sequence[Frame]) -> None:
        """Write frames to a lane; LostError if another process owns it."""
        if frames:
            self._commit({lane: frames}, sync=True)
            if lane.number not in self._lanes:
                raise LostError

    def _commit(self, written: Mapping[Lane, Sequence[Frame]], sync: bool) -> None:
        """Write frames to lanes: to all, or OSError. Lanes that another process owns are forgotten instead."""
        try:
            for lane, frames in written.items():
                lane.write(frames)
            if sync:
                # To the end of all, even if one fails: none may still be under way when the next begins.
                syncs = [self._pool.submit(lane.sync) for lane in written]
                wait(syncs)
                for done in syncs:
                    done.result()
            held = {lane for lane in written if lane.holds()}
        except Exception:
            for lane in written:
                try:
                    lane.roll_back()
                except OSError:  # the next claim reads the log as it is
                    lane.is_doubtful = True
                if lane.is_doubtful:
                    self._forget(lane)
            raise
        for lane in written:
            if lane in held:
                lane.accept()
                if sync:
                    lane.remove_dead()
            else:
                with suppress(OSError):  # the new owner may have read them: then they were taken, as their numbers say
                    lane.roll_back()
                self._forget(lane)

    def _forget(self, lane: Lane) -> None:
        self._lanes.pop(lane.number, None)
        lane.close()

    def _listed(self, owner: str) -> Iterator[StoredStream]:
        with self._errors():
            for number in range(LANES):
                yield from (entry.stored for entry in self._index(number).streams.values() if entry.owner == owner)

    def _index(self, number: int) -> Index:
        """Return what a lane has, without claiming it."""
        lane = self._lanes.get(number)
        return lane.index if lane is not None and lane.holds() else self._look(number)

    def _look(self, number: int) -> Index:
        """Return the index of a lane that another process may own, as it is in the newest log."""
        folder = self._folder(number)
        for _ in range(TRIES):
            name = newest_log(folder)
            if name is None:
                return Index()
            seen, end, index = self._seen.pop(number, ("", 0, Index()))
            try:
                with (folder / name).open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(end)
                    read = index.extend(file.read(), 0, end) if seen == name else 0
                    if not read and (seen != name or size != end):  # frames that were read may have been rolled back
                        file.seek(0)
                        end, (index, read) = 0, Index.read(file.read())
                    self._seen[number] = (name, end + read, index)
                    return index
            except FileNotFoundError:
                continue
        raise OSError(f"{folder} is being claimed by other processes")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self._path}: {error}") from error


def _about(path: Path) -> Mapping[str, object]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        about = None
    return about if isinstance(about, dict) else {}
