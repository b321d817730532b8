"""The ids of a pool's streams, and the slots in which a backend keeps their states."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

from nystream.stream import inputs
from nystream.stream.errors import UnknownStreamError

FEW = 128  # ids of a batch that are looked up one by one
CHUNK = 8192  # ids that are looked up together: what is computed for them stays in the processor's cache
PLACES_PER_SLOT = 8  # of the table; with fewer, more ids share a place
NOBODY = -1  # the owner of a slot without a stream that can be pushed
SKIPPED = -1  # the slot of a row that is padding

Array = np.ndarray[Any, Any]
NOTHING: Array = np.empty(0, np.int64)


class Ids:
    """Which streams are open, and where. Not thread-safe: the pool has a lock.

    A stream that is looked up alone, or with few others, is found in a dict. Large batches are found in a table: the
    slot of a stream is in place `sid % len(table)`, unless a newer stream has taken that place, which shows because
    the owner of the slot is then another one. Such streams, which are few, are found in the dict, too.

    Args:
        padding: Whether `inputs.PADDING` is allowed among the ids of a batch; its slot is −1.
    """

    def __init__(self, padding: bool) -> None:
        self.slots: dict[int, int] = {}  # of the streams that can be pushed, by id
        self.broken: dict[int, int] = {}  # of the streams that a failed push left half-written
        self._padding = padding
        self._free: list[int] = []  # a heap of the slots of closed streams
        self._used = 0  # number of slots that have ever been used
        self._next = 0  # the next id
        self._owners = np.full(64, NOBODY)  # the ids of the streams in `slots`, by slot
        self._table = np.zeros(PLACES_PER_SLOT * len(self._owners), np.int32)
        self._last_few: tuple[bytes, Array] = (b"", NOTHING)  # ids and slots of the last batch
        self._last_many: tuple[Array, Array] = (NOTHING, NOTHING)

    def __iter__(self) -> Iterator[int]:
        """The ids of all open streams, oldest first."""
        return iter(sorted((*self.slots, *self.broken)))

    def __len__(self) -> int:
        """Number of open streams."""
        return len(self.slots) + len(self.broken)

    def __contains__(self, sid: object) -> bool:
        """Whether a stream with this id is open."""
        return sid in self.slots or sid in self.broken

    @property
    def free_slot(self) -> int:
        """The slot of the next stream: the lowest one, as adjacent slots are the fastest to step together."""
        return self._free[0] if self._free else self._used

    def open(self) -> int:
        """The id of a new stream in `free_slot`. Ids count up, so none is used twice."""
        slot, sid = self.free_slot, self._next
        if slot == len(self._owners):
            self._grow()
        if self._free:
            heapq.heappop(self._free)
        else:
            self._used += 1
        self._next += 1
        self._enter(sid, slot)
        return sid

    def close(self, sid: Any) -> None:
        """End a stream; the slot is free."""
        slot = self.slot(sid, broken=True)
        for slots in (self.slots, self.broken):
            slots.pop(int(sid), None)
        self._owners[slot] = NOBODY
        self._forget_last()
        heapq.heappush(self._free, slot)

    def set_aside(self, spoiled: set[int]) -> None:
        """Mark the streams in these slots as broken, so that they are not pushed again."""
        for sid in [sid for sid, slot in self.slots.items() if slot in spoiled]:
            slot = self.broken[sid] = self.slots.pop(sid)
            self._owners[slot] = NOBODY
        self._forget_last()

    def restart(self, sid: int) -> None:
        """A broken stream can be pushed again."""
        if sid in self.broken:
            self._enter(sid, self.broken.pop(sid))

    def slot(self, sid: Any, broken: bool = False) -> int:
        """The slot of a stream; raise an error if it cannot be used."""
        sid = inputs.stream_id(sid)
        if sid in self.slots:
            return self.slots[sid]
        if sid in self.broken:
            if broken:
                return self.broken[sid]
            raise RuntimeError(
                f"stream {sid} cannot be used: an error during a push or a reset left its state half-written; "
                f"call reset({sid}), or close it and restore a snapshot"
            )
        if 0 <= sid < self._next:
            raise UnknownStreamError(f"stream {sid} is closed; open() starts a new one, with a new id")
        known = f"has returned the ids 0 to {self._next - 1}" if self._next else "has not been called yet"
        raise UnknownStreamError(f"stream {sid} was never opened in this pool: open() {known}")

    def slots_of(self, ids: Array) -> Array:
        """The slots, int64 [S], of different streams [S]: the same array again for the ids of the last call."""
        if len(ids) <= FEW:
            key = ids.tobytes()
            if key != self._last_few[0]:
                self._last_few = key, self._one_by_one(ids)
            return self._last_few[1]
        if not np.array_equal(ids, self._last_many[0]):
            ids = ids.copy()  # the caller may write into its array
            self._last_many = ids, self._together(ids)
        return self._last_many[1]

    def _one_by_one(self, ids: Array) -> Array:
        sids = ids.tolist()
        padding = {inputs.PADDING: SKIPPED} if self._padding else {}
        slots = [self.slots.get(sid, padding.get(sid)) for sid in sids]
        if None in slots:
            self.slot(sids[slots.index(None)])  # raises the error
        real = [slot for slot in slots if slot != SKIPPED]
        if len(set(real)) < len(real):
            self._raise_duplicate(sids)
        return np.array(slots, np.int64)

    def _together(self, ids: Array) -> Array:
        slots, last = np.empty(len(ids), np.int64), len(self._table) - 1
        for low in range(0, len(ids), CHUNK):
            part = ids[low : low + CHUNK]
            # All places exist, so none is clipped: this is only the fastest mode.
            found = self._table.take(part & last, mode="clip")
            elsewhere = (self._owners.take(found, mode="clip") != part) | (part < 0)
            if elsewhere.any():
                found[elsewhere] = self._in_dict(part[elsewhere])
            slots[low : low + CHUNK] = found
        taken = np.zeros(self._used + 1, np.bool_)
        taken[slots] = True  # that of padding is the last one
        if np.count_nonzero(taken[:-1]) < len(ids) - np.count_nonzero(slots == SKIPPED):
            self._raise_duplicate(ids.tolist())
        return slots

    def _in_dict(self, ids: Array) -> Array:
        slots = np.full(len(ids), SKIPPED)
        real = ids != inputs.PADDING if self._padding else np.ones(len(ids), np.bool_)
        unknown = SKIPPED - 1
        sids = ids[real].tolist()
        slots[real] = np.fromiter(map(self.slots.get, sids, repeat(unknown)), np.int64, len(sids))
        if (slots == unknown).any():
            self.slot(int(ids[(slots == unknown).argmax()]))  # raises the error
        return slots

    def _raise_duplicate(self, sids: list[int]) -> None:
        padding = inputs.PADDING if self._padding else None
        duplicate = next(sid for sid, times in Counter(sids).items() if times > 1 and sid != padding)
        raise ValueError(f"sids has stream {duplicate} more than once; push its tokens one after another")

    def _enter(self, sid: int, slot: int) -> None:
        self.slots[sid] = slot
        self._owners[slot] = sid
        self._table[sid & (len(self._table) - 1)] = slot

    def _grow(self) -> None:
        """Make room for twice as many slots."""
        owners = np.concatenate([self._owners, np.full(len(self._owners), NOBODY)])
        table = np.zeros(PLACES_PER_SLOT * len(owners), np.int32)
        (slots,) = np.nonzero(owners != NOBODY)
        table[owners[slots] & (len(table) - 1)] = slots
        self._owners, self._table = owners, table

    def _forget_last(self) -> None:
        self._last_few, self._last_many = (b"", NOTHING), (NOTHING, NOTHING)
