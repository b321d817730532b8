"""One stream of records: `Sessions` with a single key."""

from __future__ import annotations

from typing import Any

from nystream.data.reader import LiveReader
from nystream.live.answers import Answer
from nystream.live.readers import live_reader
from nystream.live.sessions import Sessions
from nystream.models import StreamModel
from nystream.stream import StreamPool

__all__ = ["Session", "live_reader"]

KEY = "session"


class Session:
    """Takes in the records of one stream, one at a time, and answers each in the user's units.

    `Sessions` does so for many streams.

    Args:
        model: A trained model.
        reader: Turns records into tokens; by default `live_reader(model)`.
        backend: The backend of its `StreamPool`.

    Example:
        >>> import nystream as ns
        >>> from nystream.live import Session
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> info = ns.ModelInfo(inputs=("a", "b"), labels=("sum",))
        >>> config = ns.ModelConfig(input_dim=2, output_dim=1, attention=attention)
        >>> session = Session(ns.StreamModel(config, info))
        >>> records = [1, 2], {"b": 4, "a": 3}
        >>> [answer.token for record in records for answer in session.take(record)]
        [1, 2]
    """

    def __init__(self, model: StreamModel, reader: LiveReader | None = None, backend: str = "auto") -> None:
        self.model = model
        self._sessions = Sessions(model, backend=backend, capacity=1, reader=reader)
        self._sessions.open(KEY)

    @property
    def reader(self) -> LiveReader:
        """What turns records into tokens."""
        return self._sessions.reader

    @property
    def backend(self) -> str:
        """The backend of the pool."""
        return self._sessions.backend

    @property
    def series(self) -> str:
        """The series of the last record, if its stream has a name."""
        return ""

    @property
    def tokens(self) -> int:
        """The number of tokens taken in."""
        return self._sessions.tokens(KEY)

    @property
    def whole(self) -> bool:
        """Whether every record was taken in completely; if not, the state is not valid."""
        return self._sessions.whole(KEY)

    @property
    def note(self) -> str:
        """A remark about the last record: why it was dropped, or how its time jumped."""
        return self.reader.note

    @property
    def lost(self) -> int:
        """The number of records that were dropped by the last call: the record itself, or one held back before."""
        return self.reader.lost

    def take(self, record: Any) -> list[Answer]:
        """Return the answers to a record: none if its reader drops it, several if it fills a gap.

        Raises RecordError if the record cannot be taken in; the session is then unchanged.
        """
        return self._sessions.take(KEY, record)

    def restart(self) -> None:
        """Start a new stream."""
        self._sessions.restart(KEY)

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """Return the stream's state and the reader's memory, for `restore`."""
        return self._sessions.snapshot(KEY)

    def restore(self, state: bytes, memory: dict[str, Any]) -> None:
        """Continue from a snapshot. If it is of another model, this raises and the session is unchanged."""
        self._sessions.restore(KEY, state, memory)

    @property
    def _pool(self) -> StreamPool:
        return self._sessions._pool
