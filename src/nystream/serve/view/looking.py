"""What a page sees of streams."""

from __future__ import annotations

import time
from typing import NamedTuple

from nystream.serve.engine import Engine, Reply
from nystream.serve.protocol import Message, RequestError
from nystream.serve.residents import StreamName
from nystream.serve.stores.seals import unsealed, unsealed_answer
from nystream.serve.stores.store import StoreError

MAX_LISTED = 100
MAX_KEPT = 64  # answers of a stream

Kept = tuple[bytes, bytes | None]  # an answer, and its record if that is known


class Look(NamedTuple):
    """A list of streams, or one stream."""

    search: str = ""  # what keys begin with or, those of streams in memory, contain
    key: str = ""  # of the one stream
    with_answers: bool = False  # those that are kept of it, too


def looked(engine: Engine, owner: str, look: Look) -> Reply:
    """Return the streams of an owner, or one of them."""
    if not look.key:
        return _listed(engine, owner, look.search)
    name = StreamName(owner, look.key)
    found = engine.find(name)
    if isinstance(found, RequestError):
        return found
    return {"stream": _row(engine, owner, found), "kept": _kept(engine, name) if look.with_answers else []}


def _listed(engine: Engine, owner: str, search: str) -> Reply:
    found = engine.streams(owner, search, MAX_LISTED)
    if isinstance(found, RequestError):
        return found
    rows = {stream["key"]: stream for stream in found["streams"] if stream["key"].startswith(search)}
    inside = [name.key for name in engine.residents if name.owner == owner and search in name.key] if search else []
    for key in [search, *inside[: MAX_LISTED - len(rows)]]:
        if key and key not in rows and isinstance(one := engine.find(StreamName(owner, key)), dict):
            rows[key] = one
    try:
        owned = engine.store.count(owner)
    except StoreError:
        owned = len(rows)
    streams = [_row(engine, owner, rows[key]) for key in sorted(rows)]
    return {"streams": streams, "owned": owned, "more": len(found["streams"]) == MAX_LISTED}


def _row(engine: Engine, owner: str, stream: Message) -> Message:
    """A row of the list; what is not in memory has no last answer."""
    resident = engine.residents.get(StreamName(owner, stream["key"]))
    last = resident.answers[-1] if resident is not None and resident.answers else None
    answer = None if last is None else unsealed_answer(last[1], last[0])[1]
    seen = None if resident is None else round(time.monotonic() - resident.used, 1)
    described = {"key": stream["key"], "records": stream["next"] - 1, "in_memory": stream["in_memory"]}
    return {**described, "seen_seconds": seen, "last": answer}


def _kept(engine: Engine, name: StreamName) -> list[Kept]:
    """The last answers of a stream, and their records as far as the log has them, all packed."""
    resident = engine.residents.get(name)
    try:
        stream = engine.store.find(*name)
        if stream is None:
            return []
        if resident is not None and not (resident.id == stream.id and engine.store.owns(stream.id)):
            engine.residents.drop(name)  # what follows makes this process the owner, which the one in memory is not
            resident = None
        saved = engine.store.load(stream.id)
    except (StoreError, ValueError):  # the list of streams says so, or a push
        saved = None
    if saved is None:
        return []
    answers = dict(saved.snapshot.answers if saved.snapshot is not None else ())
    answers |= {row.number: row.answer for row in saved.rows}
    if resident is not None:  # without a log, it knows more than the store
        answers |= dict(resident.answers)
    records = {row.number: row.record for row in saved.rows}
    try:
        return [
            (
                unsealed_answer(answers[number], number)[1],
                unsealed(records[number], number) if number in records else None,
            )
            for number in sorted(answers)[-MAX_KEPT:]
        ]
    except ValueError:  # it is damaged, which a push will tell
        return []
