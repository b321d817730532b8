"""The records of several series in one source: each goes to the stream of its series."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from nystream.data.columns import category_name
from nystream.data.reader import LiveReader, RecordError, is_empty
from nystream.live.answers import Answer
from nystream.live.session import Session
from nystream.live.sessions import Sessions, Snapshot
from nystream.models import StreamModel


class SeriesSession(Session):
    """Takes in the records of several series, each a stream of its own, by the column that names them.

    Records without that column are one stream without a name.

    Args:
        model: A trained model.
        column: The column that names the series of a record.
        reader: Turns records into tokens; by default `live_reader(model)`.
        backend: The backend of its `StreamPool`.
    """

    def __init__(
        self, model: StreamModel, column: str, reader: LiveReader | None = None, backend: str = "auto"
    ) -> None:
        self.model, self.column = model, column
        self._sessions = Sessions(model, backend=backend, capacity=16, reader=reader)
        self._tokens, self._series = 0, ""

    @property
    def series(self) -> str:
        return self._series

    @property
    def tokens(self) -> int:
        """The number of tokens taken in, of all series."""
        return self._tokens

    @property
    def whole(self) -> bool:
        return all(map(self._sessions.whole, self._sessions))

    def take(self, record: Any) -> list[Answer]:
        self._series = ""  # in case there is none
        self._series = self._name(record)
        answers = self._sessions.take(self._series, record)
        self._tokens += len(answers)
        return answers

    def restart(self) -> None:
        for key in self._sessions:
            self._sessions.close(key)
        self._tokens, self._series = 0, ""

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """Return the states of all streams, one after another, and their names, sizes and memories."""
        snapshots = {str(key): self._sessions.snapshot(key) for key in self._sessions}
        series = [[name, len(state), memory] for name, (state, memory) in snapshots.items()]
        return b"".join(state for state, _ in snapshots.values()), {"series": series, "tokens": self._tokens}

    def restore(self, state: bytes, memory: dict[str, Any]) -> None:
        snapshots, end = dict[Hashable, Snapshot](), 0
        try:
            series, tokens = memory["series"], int(memory["tokens"])
            for name, size, of_series in series:
                snapshots[str(name)] = state[end : end + size], of_series
                end += size
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it was not saved by a session of several series: {error!r}") from error
        before = set(self._sessions.keys())
        self._sessions.restore_many(snapshots)
        for key in before - set(snapshots):
            self._sessions.close(key)
        self._tokens, self._series = tokens, ""

    def _name(self, record: Any) -> str:
        """The series of a record; "" if it has no such field."""
        if not isinstance(record, dict) or self.column not in record:
            return ""
        if is_empty(record[self.column]):
            raise RecordError(f"column {self.column!r} is empty, so the series of the record is unknown")
        return category_name(record[self.column])
