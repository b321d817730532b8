"""The streams of a service in Redis, for services of several processes.

Whoever loads a stream raises its epoch. Rows and snapshots are written by scripts, which Redis runs one at a time, and
only if the stream still has the epoch that the writer knows. So a process that was paused while its streams moved
writes nothing when it comes back.

Keys begin with a prefix, which is in braces so that all of them are on one node of a Redis Cluster:

    about       the format and the model
    next        the last id
    ids         owner and key -> id
    keys:OWNER  the keys of an owner, in order
    s:ID        a stream: owner, key, epoch, number of its last record, snapshot, starts of the segments
    log:ID      the records and answers after the snapshot
    old:ID      the segments before it
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any

from nystream.extras import require
from nystream.serve.protocol import pack, unpack
from nystream.serve.stores.store import Kept, LogRow, Saved, Segment, Snapshot, StoredStream, StoreError, other_model

FORMAT = "nystream-streams-2"
SCHEMES = ("redis://", "rediss://", "unix://")
PREFIX = "nystream"
TIMEOUT_SECONDS = 5.0

# KEYS: all keys that a script uses. Streams that do not exist have no epoch.
OPEN = """
local id = redis.call('HGET', KEYS[1], ARGV[1])
if id then return {id, 0, redis.call('HGET', KEYS[4] .. id, 'last') or '0'} end
id = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], id)
redis.call('ZADD', KEYS[3], 0, ARGV[3])
redis.call('HSET', KEYS[4] .. id, 'owner', ARGV[2], 'key', ARGV[3], 'epoch', 0, 'last', 0, 'number', 0)
return {id, 1, '0'}
"""
LOAD = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1)}
"""
APPEND = """
local moved, place = {}, 1
for stream = 1, #KEYS, 2 do
  local epoch, last, rows = ARGV[place], tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
  local known = redis.call('HMGET', KEYS[stream], 'epoch', 'last')
  if known[1] == epoch and tonumber(known[2]) == last - rows then
    redis.call('HSET', KEYS[stream], 'last', last)
    for row = place + 3, place + 2 + rows do redis.call('RPUSH', KEYS[stream + 1], ARGV[row]) end
  else
    moved[#moved + 1] = (stream + 1) / 2
  end
  place = place + 3 + rows
end
return moved
"""
SAVE = """
local known = redis.call('HMGET', KEYS[1], 'epoch', 'last')
if known[1] ~= ARGV[1] or tonumber(known[2]) > tonumber(ARGV[6]) then return 0 end
redis.call('LTRIM', KEYS[2], ARGV[2], -1)
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[3]) end
if ARGV[4] == '0' then redis.call('DEL', KEYS[3]) else redis.call('LTRIM', KEYS[3], -ARGV[4], -1) end
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
return 1
"""
DELETE = """
local owner, key = unpack(redis.call('HMGET', KEYS[1], 'owner', 'key'))
if owner then
  redis.call('HDEL', KEYS[4], owner .. '\\0' .. key)
  redis.call('ZREM', KEYS[5] .. owner, key)
end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
"""

log = logging.getLogger(__name__)


class RedisStore:
    """Streams in Redis; only one thread may use it at a time, but any number of processes.

    Args:
        url: Where Redis is, such as redis://localhost:6379/0. A fragment, as in redis://localhost#cars, is the prefix
            of all keys.
        model: What identifies the model and its reader. A store of another model is refused.
        kept: How much of each stream is kept before its snapshot.
        migrate: Accept a store of another model, which is from now on one of this model.
    """

    def __init__(self, url: str, model: str, kept: Kept, migrate: bool = False) -> None:
        redis = require("a store in Redis", "redis")
        self._error: type[Exception] = redis.RedisError
        address, _, prefix = url.partition("#")
        self._model, self._kept = model, kept
        self._name = address.rpartition("@")[2]  # without a password
        self._prefix = f"{{{prefix or PREFIX}}}:"
        self._epochs: dict[int, int] = {}  # of the streams that were loaded here
        options = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
        self._redis = redis.Redis.from_url(address, **options)
        self._open, self._load, self._append, self._save, self._delete = map(
            self._redis.register_script, (OPEN, LOAD, APPEND, SAVE, DELETE)
        )
        try:
            self._check(migrate)
        except self._error as error:
            raise OSError(f"store={self._name} cannot be opened: {error}") from error

    def _check(self, migrate: bool) -> None:
        about = self._key("about")
        for name, value in (("format", FORMAT), ("model", self._model)):
            self._redis.hsetnx(about, name, value)
        form, theirs = (value.decode() for value in self._redis.hmget(about, "format", "model"))
        if form != FORMAT:
            raise ValueError(f"store={self._name} has streams of another version of nystream ({form!r:.40})")
        if theirs != self._model:
            if not migrate:
                raise other_model(self._name, theirs, self._model)
            self._redis.hset(about, "model", self._model)
        try:
            found = self._redis.config_get("append*")
        except self._error:
            return  # services in a cloud do not tell
        if found.get("appendonly") != "yes" or found.get("appendfsync") != "always":
            log.warning("a crash of Redis can lose records: set appendonly to yes and appendfsync to always")
        if self._redis.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction") != "noeviction":
            log.warning("Redis may delete streams when its memory is full: set maxmemory-policy to noeviction")

    def open(self, streams: Sequence[tuple[str, str]]) -> list[tuple[StoredStream, bool]]:
        opened = []
        with self._errors():
            for owner, key in streams:
                keys = [self._key("ids"), self._key("next"), self._key("keys:", owner), self._key("s:")]
                id, is_new, last = self._open(keys, [_name(owner, key), owner, key])
                opened.append((StoredStream(int(id), owner, key, int(last)), bool(is_new)))
        return opened

    def find(self, owner: str, key: str) -> StoredStream | None:
        with self._errors():
            id = self._redis.hget(self._key("ids"), _name(owner, key))
            last = None if id is None else self._redis.hget(self._key("s:", int(id)), "last")
        return None if id is None or last is None else StoredStream(int(id), owner, key, int(last))

    def streams(self, owner: str, after: str, limit: int) -> list[StoredStream]:
        least = b"(" + after.encode() if after else b"-"
        with self._errors():
            names = self._redis.zrange(self._key("keys:", owner), least, b"+", bylex=True, offset=0, num=limit)
            keys = [name.decode() for name in names]
            ids = self._redis.hmget(self._key("ids"), [_name(owner, key) for key in keys]) if keys else []
            pipeline = self._redis.pipeline(transaction=False)
            for id in ids:
                pipeline.hget(self._key("s:", int(id or 0)), "last")
            found = zip(ids, keys, pipeline.execute(), strict=True)
        return [StoredStream(int(id), owner, key, int(last)) for id, key, last in found if id and last is not None]

    def count(self, owner: str) -> int:
        with self._errors():
            return int(self._redis.zcard(self._key("keys:", owner)))

    def load(self, stream: int) -> Saved | None:
        with self._errors():
            loaded = self._load([self._key("s:", stream), self._key("log:", stream)])
        if not loaded:
            return None
        fields = dict(zip(*[iter(loaded[0])] * 2, strict=True))
        self._epochs[stream] = int(fields[b"epoch"])
        rows = [LogRow(stream, *unpack(row)) for row in loaded[1]]
        if int(fields[b"last"]) != int(fields[b"number"]) + len(rows):
            raise ValueError(f"Redis has {len(rows)} records after number {int(fields[b'number'])}; some are missing")
        if b"model" not in fields:
            return Saved(None, rows)
        tokens, state, memory, answers, model, exact_after = unpack(fields[b"snapshot"])
        kept = [(number, answer) for number, answer in answers]
        return Saved(
            Snapshot(stream, int(fields[b"number"]), tokens, state, json.loads(memory), kept, model, exact_after), rows
        )

    def owns(self, stream: int) -> bool:
        with self._errors():
            epoch = self._redis.hget(self._key("s:", stream), "epoch")
        return epoch is not None and int(epoch) == self._epochs.get(stream)

    def history(self, stream: int) -> list[Segment]:
        with self._errors():
            packed = self._redis.lrange(self._key("old:", stream), 0, -1)
        return [
            Segment(number, tokens, None if memory is None else json.loads(memory), records)
            for number, tokens, memory, records in map(unpack, packed)
        ]

    def append(self, rows: Iterable[LogRow]) -> set[int]:
        keys, values, streams = list[bytes](), list[Any](), list[int]()
        for stream, group in groupby(sorted(rows, key=attrgetter("stream", "number")), key=attrgetter("stream")):
            of_stream = list(group)
            streams.append(stream)
            keys += [self._key("s:", stream), self._key("log:", stream)]
            values += [self._epochs.get(stream, -1), of_stream[-1].number, len(of_stream)]
            values += [pack([row.number, row.record, row.answer]) for row in of_stream]
        with self._errors():
            moved = {streams[int(place) - 1] for place in self._append(keys, values)}
        return self._lost(moved)

    def save(self, snapshots: Iterable[Snapshot]) -> set[int]:
        with self._errors():
            return self._lost({snapshot.stream for snapshot in snapshots if not self._write(snapshot)})

    def _write(self, snapshot: Snapshot) -> bool:
        """Write a snapshot; False if the stream is another's."""
        stream = snapshot.stream
        keys = [self._key(kind, stream) for kind in ("s:", "log:", "old:")]
        number, packed, starts = self._redis.hmget(keys[0], "number", "snapshot", "starts")
        rows = [unpack(row) for row in self._redis.lrange(keys[1], 0, -1)]
        begun = [tuple(start) for start in unpack(starts)] if starts else []
        segment = b""
        if rows and self._kept != (0, 0):
            tokens, _, memory, *_ = unpack(packed) if packed else (0, None, None)
            begun.append((int(number), tokens))
            segment = pack([int(number), tokens, memory, [record for _, record, _ in rows]])
        needed = self._kept.needed(begun, snapshot.number, snapshot.tokens)
        _, last, tokens, state, given, answers, model, exact_after = snapshot
        fields = {
            "number": last,
            "last": last,
            "model": model,
            "starts": pack(begun[len(begun) - needed :]),
            "snapshot": pack([tokens, state, json.dumps(given), list(answers), model, exact_after]),
        }
        flat = [part for field in fields.items() for part in field]
        return bool(self._save(keys, [self._epochs.get(stream, -1), len(rows), segment, needed, *flat]))

    def overdue(self) -> StoredStream | None:
        return None  # every stream has its own log

    def outdated(self, after: int, limit: int) -> list[StoredStream]:
        found = list[StoredStream]()
        with self._errors():
            for id in sorted(map(int, self._redis.hvals(self._key("ids")))):
                if id > after and len(found) < limit:
                    fields = self._redis.hmget(self._key("s:", id), "owner", "key", "last", "model")
                    owner, key, last, model = fields
                    if model is not None and model.decode() != self._model:
                        found.append(StoredStream(id, owner.decode(), key.decode(), int(last)))
        return found

    def tidy(self) -> None:
        pass

    def delete(self, stream: int) -> None:
        keys = [self._key(kind, stream) for kind in ("s:", "log:", "old:")]
        with self._errors():
            self._delete([*keys, self._key("ids"), self._key("keys:")])
        self._epochs.pop(stream, None)

    def size(self) -> int | None:
        return None  # Redis may have other things, too

    def close(self) -> None:
        self._redis.close()

    def _lost(self, streams: set[int]) -> set[int]:
        for stream in streams:
            self._epochs.pop(stream, None)
        return streams

    def _key(self, kind: str, name: int | str = "") -> bytes:
        return f"{self._prefix}{kind}{name}".encode()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise StoreError(f"{self._name}: {error}") from error


def _name(owner: str, key: str) -> bytes:
    return f"{owner}\0{key}".encode()
