"""Continuing streams with another model: it reads the records that the store has kept.

What a stream will say depends on its last tokens and its time. So a model that has read as many records as its window
needs is where it would be had it read the stream from its start. If fewer were kept, its answers are inexact until the
window is full.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nystream.data.reader import LiveReader, reader_from_dict
from nystream.data.table_reader import TableReader
from nystream.live import Sessions, live_reader
from nystream.models import StreamModel
from nystream.serve.stores.seals import unsealed
from nystream.serve.stores.store import Segment, Snapshot, Store
from nystream.stream.snapshot import fingerprint

if TYPE_CHECKING:
    from nystream.serve.residents import Residents

BATCH = 256  # streams that are read together

log = logging.getLogger(__name__)


def identity(model: StreamModel, reader: LiveReader | None = None) -> str:
    """Return what identifies a model in a store: a hash of its weights, inputs and outputs, and one of its reader.

    A state needs the same weights; what a reader remembers needs the same reader, with the same policies.

    Args:
        model: The model.
        reader: What reads its records; by default `live_reader(model)`.
    """
    reader = reader or live_reader(model)
    whole = f"{fingerprint(model)} {json.dumps(model.info.to_dict(), sort_keys=True)}"
    # Without a reader of its own, a model reads vectors of its inputs.
    kind = model.info.reader or [model.config.input_dim, model.info.inputs, model.config.update_size]
    reading = json.dumps([kind, reader.missing, reader.gaps], sort_keys=True)
    return f"{_hash(whole)}-{_hash(reading)}"


def reader_of(model: str) -> str:
    """Return the part of `identity` that is the reader's."""
    return model.rpartition("-")[2]


class Start(NamedTuple):
    """Where a session begins that continues a stream of another model.

    Attributes:
        records: What it has to read to be where the other model was, packed.
        exact_after: Tokens after which its answers are exact.
    """

    records: Sequence[bytes]
    exact_after: int

    @classmethod
    def of(cls, snapshot: Snapshot, segments: Sequence[Segment], model: str, sessions: Sessions) -> Start:
        """Open the session of a stream.

        Args:
            snapshot: Of another model.
            segments: What the store has kept before it.
            model: What identifies the model of `sessions`.
            sessions: The session is opened here, with the id of the stream as its key.
        """
        segments = connected(segments, snapshot.number)
        number, tokens, memory, _ = segments[0] if segments else (snapshot.number, snapshot.tokens, snapshot.memory, ())
        is_same_reader = memory is None or memory["reader"] == reader_of(model)
        remembered = memory["memory"] if memory is not None and is_same_reader else None
        sessions.open(snapshot.stream, remembered or None, tokens - tokens % sessions.model.config.update_size)
        needed = sessions.model.replay_length + (0 if is_same_reader else look_back(sessions.model))
        records = [
            unsealed(record, number)
            for segment in segments
            for number, record in enumerate(segment.records, segment.number + 1)
        ]
        return cls(records, tokens + needed - 1 if number else 0)


def connected(segments: Sequence[Segment], number: int) -> Sequence[Segment]:
    """Return the last segments that follow each other, up to the record of a number: others may be missing."""
    first = len(segments)
    while first and segments[first - 1].number + len(segments[first - 1].records) == number:
        first -= 1
        number = segments[first].number
    return segments[first:]


def look_back(model: StreamModel) -> int:
    """Return the number of earlier records on which a token may depend, by lags or by statistics of its series."""
    reader = None if model.info.reader is None else reader_from_dict(model.info.reader)
    if not isinstance(reader, TableReader):
        return 0
    return max(reader.history, reader.series_rows if reader.series else 0)


def migrate(residents: Residents, store: Store) -> None:
    """Continue all streams of a store with this model, and say in the log what became of them."""
    streams, after, counts = 0, 0, list[int]()
    while outdated := store.outdated(after, min(BATCH, residents.most)):
        counts += residents.rewrite(outdated).values()
        streams, after = streams + len(outdated), outdated[-1].id
    inexact = sum(count > 0 for count in counts)
    report = {"streams": streams, "exact": len(counts) - inexact, "inexact": inexact, "damaged": streams - len(counts)}
    fields = {**report, "inexact_answers_at_most": max(counts, default=0)}
    log.info("the streams continue with this model", extra={"fields": fields})


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
