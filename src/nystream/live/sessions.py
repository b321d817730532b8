"""Many streams of records by key, over one pool: a model, the reader of its records, and the states of both."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.data.reader import LiveReader, Policy, ReaderError, RecordError, Token
from nystream.data.records import Records, as_records, rounds
from nystream.live.answers import Answer, Interpreter
from nystream.live.inputs import Inputs
from nystream.live.readers import live_reader
from nystream.live.slots import Slots
from nystream.live.taken import Taken
from nystream.models import StreamModel
from nystream.stream import StreamPool
from nystream.stream.errors import UnknownStreamError

Snapshot = tuple[bytes, dict[str, Any]]  # the state of a stream, and the reader's memory

MIN_BATCH = 4  # records from which on arrays are faster than one record after another


class Sessions:
    """Takes in the records of any number of streams and answers each in the user's units.

    Every stream has a key, such as the name of a customer or a sensor, and is independent of the others: its answers
    are those of a `Session` of its own. With `backend="numba"` they are bitwise the same. All streams share one model,
    one reader and one `StreamPool`; a stream takes the memory of one in the pool and a row of numbers for the reader.
    Methods can be called from several threads; they take turns.

    Args:
        model: A trained model.
        missing: What to do about missing fields: "fail", "fill" or "skip"; by default as in training.
        gaps: What to do about rows missing in time, likewise.
        backend: The backend of the pool.
        capacity: Number of streams to make room for at first.
        reader: Turns records into tokens, instead of `live_reader(model, missing, gaps)`.

    Attributes:
        notes: Remarks about records of the last call, by place: why a record was dropped, or how its time jumped.
        lost: The number of records that were dropped by the last call: of its own, or held back before.

    Example:
        >>> import nystream as ns
        >>> from nystream.live import Sessions
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> info = ns.ModelInfo(inputs=("a", "b"), labels=("sum",))
        >>> config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
        >>> sessions = Sessions(ns.StreamModel(config, info))
        >>> [answer.token for answer in sessions.take("north", {"a": 1, "b": 2})]
        [1]
        >>> taken = sessions.take_many(["north", "south", "south"], [[3, 4], [5, 6], [7, "oops"]])
        >>> [[answer.token for answer in answers] for answers in taken[:2]]
        [[2], [1]]
        >>> taken[2]  # the others were taken in
        RecordError("b is 'oops', which is not a number")
        >>> sessions.keys()
        ('north', 'south')
    """

    def __init__(
        self,
        model: StreamModel,
        missing: Policy | None = None,
        gaps: Policy | None = None,
        backend: str = "auto",
        capacity: int = 1024,
        *,
        reader: LiveReader | None = None,
    ) -> None:
        if reader is not None and (missing or gaps):
            raise ValueError("missing and gaps are policies of the reader, so they cannot be given together with one")
        self.model = model
        self.reader = live_reader(model, missing, gaps) if reader is None else reader
        self.notes: dict[int, str] = {}
        self.lost = 0
        self._pool = StreamPool(model, capacity=capacity, backend=backend)
        self._interpreter = Interpreter(
            model.info, model.config.output_dim, self.reader.ahead, self.reader.zoned, self.reader.timezone
        )
        self._together = model.config.update_size
        self._inputs = Inputs(model)
        self._fresh = self.reader.state
        self._states = self.reader.states()
        self._slots = Slots()
        self._torn: set[int] = set()  # slots of streams whose states may not fit together
        # The reader has the state of this slot, which is written to `_states` only when it reads another stream.
        self._loaded: int | None = None
        self._streams = np.zeros(0, np.int64)  # [slots], ids in the pool
        self._tokens = np.zeros(0, np.int64)  # [slots], numbers of tokens taken in
        self._lock = RLock()
        self._grow(capacity)

    @property
    def backend(self) -> str:
        """The backend of the pool."""
        return self._pool.backend

    @property
    def bytes_per_stream(self) -> int:
        """Memory of one more stream, without its key: in the pool, and for its reader."""
        arrays = self._streams, self._tokens, self._states.rows
        return self._pool.bytes_per_stream + sum(array.itemsize for array in arrays)

    def open(self, key: Hashable, memory: dict[str, Any] | None = None, tokens: int = 0) -> None:
        """Start a stream; ValueError if there is one with this key.

        Args:
            key: What identifies it.
            memory: What the reader remembers of records before, as in a snapshot.
            tokens: The number of tokens before. The model knows nothing of them, so the answers are those of a stream
                that has read them only after the model's `replay_length` of tokens.
        """
        with self._lock:
            if key in self._slots:
                raise ValueError(f"key={key!r} is open already; restart(key) starts it anew")
            self._unload()
            before = self.reader.state
            try:
                state = self._fresh if memory is None else self._remembered(memory)
            finally:
                self.reader.state = before
            self._start(key, state, tokens)

    def close(self, key: Hashable) -> None:
        """End a stream; another one can use its memory."""
        with self._lock:
            slot = self._slot(key)
            self._pool.close(int(self._streams[slot]))
            if self._loaded == slot:
                self._loaded = None
            self._states.store(slot, self._fresh)  # states that are objects would take memory
            self._torn.discard(slot)
            self._slots.release(key)

    def restart(self, key: Hashable) -> None:
        """Start a stream anew."""
        with self._lock:
            slot = self._slot(key)
            self._unload()
            self._pool.reset(int(self._streams[slot]))
            self.reader.state, self._loaded, self._tokens[slot] = self._fresh, slot, 0
            self._torn.discard(slot)

    def take(self, key: Hashable, record: Any) -> list[Answer]:
        """Return the answers to a record: none if it is dropped, several if it fills a gap. A new key is opened.

        Raises RecordError if the record cannot be taken in; the stream is then unchanged, or not opened.
        """
        with self._lock:
            is_new = key not in self._slots
            slot = self._start(key) if is_new else self._whole_slot(key)
            self.notes, self.lost = {}, 0
            try:
                return self._take(slot, record, 0)
            except BaseException:
                if is_new:
                    self.close(key)
                raise

    def take_many(self, keys: Sequence[Hashable], records: Any) -> Taken:
        """Return the answers to one record of each key, as `take` does, in much less time per record.

        A record that cannot be taken in leaves its stream unchanged and has a RecordError in its place, which is
        returned, not raised, so that no answer to another record is lost. A ReaderError, which is one too, tells that
        the reader itself failed; its cause is the exception.

        Args:
            keys: The streams of the records; new ones are opened. A key may come several times: its records are taken
                in order.
            records: As many: a list of records, an array with one vector in each row, a dict of columns (lists, arrays
                or Series), or a DataFrame of polars or pandas.

        Returns:
            A sequence with a list of answers or a RecordError for each record, in the order of the records.
        """
        keys, given = list(keys), as_records(records)
        if len(keys) != len(given):
            raise ValueError(f"keys has {len(keys)} keys, but there are {len(given)} records; each needs a key")
        with self._lock:
            for key in self._slots.keys() & keys if self._torn else ():
                self._whole_slot(key)
            self.notes, self.lost = {}, 0
            taken = Taken(len(keys))
            for places in rounds(keys):
                chosen = given if len(places) == len(keys) else given.chosen(places)
                self._take_round([keys[place] for place in places], chosen, places, taken)
        return taken

    def tokens(self, key: Hashable) -> int:
        """Return the number of tokens that a stream has taken in."""
        return int(self._tokens[self._slot(key)])

    def whole(self, key: Hashable) -> bool:
        """Whether every record of a stream was taken in completely; if not, its state is not valid."""
        return self._slot(key) not in self._torn

    def snapshot(self, key: Hashable) -> Snapshot:
        """Return the state of a stream and the reader's memory, for `restore` here or in a `Session`."""
        with self._lock:
            slot = self._whole_slot(key)
            self._load(slot)
            return self._pool.snapshot(int(self._streams[slot])), self.reader.memory()

    def restore(self, key: Hashable, state: bytes, memory: dict[str, Any]) -> None:
        """Continue a stream from a snapshot, in place of the open one with this key, if there is one.

        If the snapshot is of another model, this raises and nothing changes.
        """
        with self._lock:
            self.restore_many({key: (state, memory)})
            self._load(self._slots[key])

    def restore_many(self, snapshots: Mapping[Hashable, Snapshot]) -> None:
        """Continue several streams from their snapshots, by key, as `restore` does: all of them or none."""
        with self._lock:
            self._unload()
            before, streams, states = self.reader.state, list[int](), list[Any]()
            try:
                for state, memory in snapshots.values():
                    streams.append(self._pool.restore(state))
                    states.append(self._remembered(memory))
            except BaseException:
                for stream in streams:
                    self._pool.close(stream)
                raise
            finally:
                self.reader.state = before
            for key, stream, remembered in zip(snapshots, streams, states, strict=True):
                if key in self._slots:
                    self._pool.close(int(self._streams[self._slots[key]]))
                else:
                    self._new_slot(key)
                slot = self._slots[key]
                self._streams[slot], self._tokens[slot] = stream, self._pool.time(stream)
                self._states.store(slot, remembered)
                self._torn.discard(slot)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all streams to one file, atomically; keys must be text or integers."""
        from nystream.live import sessions_file

        with self._lock:
            sessions_file.save(Path(path), self)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace all streams by those of a file of `save`; if it does not fit, this raises and nothing changes."""
        from nystream.live import sessions_file

        with self._lock:
            snapshots = sessions_file.load(Path(path), self)
            self.restore_many(snapshots)
            for key in [key for key in self._slots if key not in snapshots]:
                self.close(key)

    def keys(self) -> tuple[Hashable, ...]:
        """Return the keys of all open streams, oldest first."""
        return tuple(self._slots)

    def __len__(self) -> int:
        """Number of open streams."""
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        """Whether a stream with this key is open."""
        return key in self._slots

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.keys())

    def __repr__(self) -> str:
        size = f"{self.bytes_per_stream:,} bytes per stream"
        return f"Sessions({len(self)} streams open, backend={self.backend!r}, {size})"

    def _take_round(self, keys: Sequence[Hashable], records: Records, places: Sequence[int], taken: Taken) -> None:
        """Take one record of each of several streams; `places` are those of the records in the call."""
        new = [(key, place) for key, place in zip(keys, places, strict=True) if key not in self._slots]
        try:
            for key, _ in new:
                self._start(key)
            slots, rest = np.array([self._slots[key] for key in keys], np.int64), np.ones(len(keys), bool)
            if len(keys) >= MIN_BATCH:
                rest[self._take_batch(slots, records, np.array(places), taken)] = False
            for i in np.flatnonzero(rest).tolist():
                try:
                    taken.put(places[i], self._take(int(slots[i]), records.rows[i], places[i]))
                except RecordError as error:
                    taken.put(places[i], error)
                except Exception as error:
                    if int(slots[i]) in self._torn:
                        raise
                    failed = ReaderError(f"the record could not be read: {error!r:.200}", "reader failed")
                    failed.__cause__ = error
                    taken.put(places[i], failed)
        finally:
            for key, place in new:
                if key in self._slots and not taken.is_taken(place):
                    self.close(key)

    def _take_batch(
        self, slots: NDArray[np.int64], records: Records, places: NDArray[np.int64], taken: Taken
    ) -> NDArray[np.int64]:
        """Take the records that need no rules of the reader, all at once; return their numbers among those given."""
        self._unload()
        try:
            batch = self._states.batch(slots, records)
        except Exception:  # of one record: the reader, to which all of them go now, tells which
            batch = None
        batch = None if batch is None else self._inputs.accepted(batch)
        if batch is None:
            return np.zeros(0, np.int64)
        chosen = slots[batch.places]
        x = batch.x[:, 0] if self._together == 1 else batch.x
        self._torn.update(chosen.tolist())
        began = time.perf_counter_ns()
        y = self._pool.push_many(self._streams[chosen], x).reshape(len(chosen), self._together, -1)
        took = (time.perf_counter_ns() - began) / 1000 / len(chosen)
        self._states.advance(chosen, batch)
        first = self._tokens[chosen] + 1
        self._tokens[chosen] += self._together
        self._torn.difference_update(chosen.tolist())
        taken.put_many(places[batch.places], self._interpreter.answers(first, batch, y, took))
        return batch.places

    def _take(self, slot: int, record: Any, place: int) -> list[Answer]:
        """Take one record through the reader."""
        self._load(slot)
        before = self.reader.state
        self._torn.add(slot)
        try:
            groups = self._inputs.groups(self.reader.read(record))
            if len(groups) > 1:  # the pool rejects a single bad group itself, without any change
                self._inputs.require_finite([x for _, x in groups])
        except Exception:
            self.reader.state = before
            self._torn.discard(slot)
            raise
        try:
            answers = [answer for group in groups for answer in self._push(slot, *group)]
        except ValueError:
            if len(groups) > 1:
                raise
            self.reader.state = before
            self._torn.discard(slot)
            self._inputs.require_finite([groups[0][1]])
            raise
        self._torn.discard(slot)
        if self.reader.note:
            self.notes[place] = self.reader.note
        self.lost += self.reader.lost
        return answers

    def _push(self, slot: int, tokens: list[Token], x: NDArray[Any]) -> list[Answer]:
        """Push tokens that arrive together; x is [input_dim], or [r, input_dim]."""
        began = time.perf_counter_ns()
        y = self._pool.push(int(self._streams[slot]), x).reshape(len(tokens), -1)
        took = (time.perf_counter_ns() - began) / 1000
        first = int(self._tokens[slot]) + 1
        self._tokens[slot] += len(tokens)
        return [self._interpreter.answer(first + place, token, y[place], took) for place, token in enumerate(tokens)]

    def _remembered(self, memory: dict[str, Any]) -> Any:
        """The state that `memory` describes; the reader then has it."""
        try:
            self.reader.remember(memory)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the reader's memory does not fit this reader: {error!r}") from error
        return self.reader.state

    def _slot(self, key: Hashable) -> int:
        try:
            return self._slots[key]
        except KeyError:
            raise UnknownStreamError(f"key={key!r} is not open; open(key) or take(key, record) starts it") from None

    def _whole_slot(self, key: Hashable) -> int:
        if not self.whole(key):
            raise RuntimeError(f"the stream of key={key!r} was interrupted within a record; restart or restore it")
        return self._slots[key]

    def _start(self, key: Hashable, state: Any = None, tokens: int = 0) -> int:
        slot = self._new_slot(key)
        try:
            self._streams[slot] = self._pool.open(time=tokens)
        except BaseException:
            self._slots.release(key)
            raise
        self._states.store(slot, self._fresh if state is None else state)
        self._tokens[slot] = tokens
        return slot

    def _new_slot(self, key: Hashable) -> int:
        if len(self._slots) == len(self._streams):
            self._grow(2 * len(self._slots))
        return self._slots.assign(key)

    def _grow(self, slots: int) -> None:
        self._states.grow(slots)
        more = np.zeros(slots - len(self._streams), np.int64)
        self._streams, self._tokens = (np.concatenate([array, more]) for array in (self._streams, self._tokens))

    def _load(self, slot: int) -> None:
        """Give the reader the state of a stream."""
        if self._loaded != slot:
            self._unload()
            self.reader.state, self._loaded = self._states.load(slot), slot

    def _unload(self) -> None:
        """Write the state that the reader has to the others."""
        if self._loaded is not None:
            self._states.store(self._loaded, self.reader.state)
            self._loaded = None
