"""What a service does to its streams, one batch of requests after another. One thread calls it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from nystream.data.reader import ReaderError, RecordError
from nystream.live import Answer, Sessions
from nystream.live.taken import Outcome
from nystream.serve.metrics import Metrics
from nystream.serve.protocol import Message, Push, RequestError, loggable, pack, unpack
from nystream.serve.residents import Resident, Residents, StreamName, unknown
from nystream.serve.settings import Settings
from nystream.serve.stores.seals import digest, sealed, sealed_answer
from nystream.serve.stores.store import LogRow, Store, StoredStream, StoreError

log = logging.getLogger(__name__)

OwnedPush = tuple[str, Push]  # the owner and the record
Reply = Message | RequestError


class Numbered(NamedTuple):
    """A record of a batch, with its number."""

    place: int  # in the batch
    resident: Resident
    number: int
    record: Any


class Engine:
    """Opens streams, takes in their records and answers them, so that what is answered is stored.

    Args:
        sessions: Without any stream.
        store: Has all streams.
        model: What identifies the model of the sessions in the store.
        settings: Those of the service.
        metrics: Counts what happens.
    """

    def __init__(self, sessions: Sessions, store: Store, model: str, settings: Settings, metrics: Metrics) -> None:
        self._sessions, self.store, self._settings, self._metrics = sessions, store, settings, metrics
        self.residents = Residents(sessions, store, model, settings, metrics)
        self._logs = settings.durability == "log"

    def open(self, names: Sequence[StreamName]) -> list[Reply]:
        """Open new streams and find existing ones."""
        most, counts = self._settings.max_streams_per_token, dict[str, int]()
        allowed, refused = list[StreamName](), RequestError("too_many_streams", f"a token may own {most} streams")
        try:
            for owner in {name.owner for name in names}:
                counts[owner] = self.store.count(owner)
            for name in dict.fromkeys(names):
                is_new = self.store.find(*name) is None
                if not is_new or counts[name.owner] < most:
                    allowed.append(name)
                    counts[name.owner] += is_new
            opened = {StreamName(stream.owner, stream.key): (stream, new) for stream, new in self.store.open(allowed)}
        except StoreError as error:
            return [self._failed(error)] * len(names)
        return [self._described(*opened[name]) if name in opened else refused for name in names]

    def find(self, name: StreamName) -> Reply:
        """Describe a stream."""
        try:
            stream = self.store.find(*name)
        except StoreError as error:
            return self._failed(error)
        return unknown(name) if stream is None else self._described(stream)

    def streams(self, owner: str, after: str, limit: int) -> Reply:
        """Describe streams of an owner, in order of their keys."""
        try:
            streams = self.store.streams(owner, after, limit)
        except StoreError as error:
            return self._failed(error)
        return {"streams": [self._described(stream) for stream in streams]}

    def close(self, name: StreamName) -> Reply:
        """Delete a stream."""
        try:
            stream = self.store.find(*name)
            if stream is None:
                return unknown(name)
            self.store.delete(stream.id)
        except StoreError as error:
            return self._failed(error)
        self.residents.drop(name)
        return {"key": name.key}

    def restore(self, names: Collection[StreamName], seconds: float) -> dict[StreamName, RequestError | None]:
        """Load streams for about so long, at least one; return those that are now ready, or why they cannot be."""
        try:
            loaded = self.residents.load(names, seconds)
        except StoreError as error:
            return dict.fromkeys(names, self._failed(error))
        except Exception as error:
            self.residents.failures.note("streams could not be restored", error, streams=len(names))
            return {name: self._internal(name) for name in names}
        return {name: found if isinstance(found, RequestError) else None for name, found in loaded.items()}

    def push(self, pushes: Sequence[OwnedPush]) -> list[Reply]:
        """Take in records and return their answers, or why they were refused."""
        names = [StreamName(owner, push.key) for owner, push in pushes]
        try:
            ready = self.residents.use(dict.fromkeys(names))
            ready |= self._caught_up(
                ready, [(name, push.number) for name, (_, push) in zip(names, pushes, strict=True)]
            )
        except StoreError as error:
            return [self._failed(error)] * len(pushes)
        replies: list[Reply | None] = [None] * len(pushes)
        fresh, repeated = list[Numbered](), list[Numbered]()
        latest = dict[int, int]()  # by id: the last number, those of this batch included
        for place, (name, (_, push)) in enumerate(zip(names, pushes, strict=True)):
            resident = ready[name]
            if isinstance(resident, RequestError):
                replies[place] = resident
                continue
            expected = latest.get(resident.id, resident.last) + 1
            number = expected if push.number is None else push.number
            if number > expected:
                message = f"number {number} of key {name.key!r} came, but number {expected} is expected"
                replies[place] = RequestError("gap", message, expected=expected)
            elif number < expected:
                repeated.append(Numbered(place, resident, number, push.record))
            else:
                fresh.append(Numbered(place, resident, number, push.record))
                latest[resident.id] = number
        if fresh:
            self._apply(fresh, replies)
        refused = {resident.id: replies[place] for place, resident, _, _ in fresh}
        for place, resident, number, record in repeated:
            current = self.residents.get(resident.name)  # None if it was dropped with this batch
            if current is None or number > current.last:
                replies[place] = refused[resident.id]
            else:
                replies[place] = self._again(current, number, record)
        return [self._internal(name) if reply is None else reply for name, reply in zip(names, replies, strict=True)]

    def _caught_up(
        self, ready: Mapping[StreamName, Resident | RequestError], numbers: Sequence[tuple[StreamName, int | None]]
    ) -> dict[StreamName, Resident | RequestError]:
        """Load streams again that have moved to another process and back, and advanced or ended there.

        What they write would be refused, but other numbers than the next ones would be answered from memory.
        """
        behind, counts = set[StreamName](), Counter(name for name, _ in numbers)
        for name, number in numbers:
            resident = ready[name]
            if isinstance(resident, RequestError) or number is None:
                continue
            is_next = resident.last < number <= resident.last + counts[name]
            if not is_next and name not in behind and not self.store.owns(resident.id):
                behind.add(name)
        for name in behind:
            self.residents.drop(name)
        return self.residents.use(behind)

    def tidy(self, records: int) -> None:
        """Write snapshots that are due, after a batch of so many records."""
        self.residents.write_due(records)
        try:
            self.residents.write_overdue()
            self.store.tidy()
        except StoreError as error:
            self.residents.failures.note("the log could not be trimmed", error)
        self._metrics.streams.set(len(self.residents))

    def shut_down(self) -> None:
        """Write out everything and release the store."""
        try:
            self.residents.write_all()
        except StoreError as error:
            log.error("streams could not be written out", extra={"fields": {"error": str(error)}})
        self.store.close()

    def _apply(self, fresh: Sequence[Numbered], replies: list[Reply | None]) -> None:
        """Take in the next records of streams and write them to the log."""
        pairs = [loggable(one.record) for one in fresh]
        try:
            taken = self._sessions.take_many([one.resident.id for one in fresh], [record for record, _ in pairs])
            notes = dict(self._sessions.notes)
        except Exception as error:
            self._apply_singly(fresh, replies, error)
            return
        answers, rows = list[Message](), list[LogRow]()
        for i, ((_, resident, number, _), (_, packed)) in enumerate(zip(fresh, pairs, strict=True)):
            answer, packed_answer = self._answer(resident, number, taken, i, notes.get(i, ""))
            answers.append(answer)
            stored = sealed_answer(packed, packed_answer, number)
            rows.append(LogRow(resident.id, number, sealed(packed, number) if self._logs else b"", stored))
        moved = set[int]()
        if self._logs:
            try:
                with self._metrics.commit_seconds.time():
                    moved = self.store.append(rows)
            except Exception as error:
                # In memory the streams are ahead of the store: they are loaded again when they are next used.
                failure = self._failed(error)
                for one in fresh:
                    self.residents.drop(one.resident.name)
                    replies[one.place] = failure
                return
        for (place, resident, number, _), answer, row in zip(fresh, answers, rows, strict=True):
            if resident.id in moved:
                self.residents.drop(resident.name)
                replies[place] = RequestError("moved", f"key {resident.name.key!r} has moved; send it again")
                continue
            replies[place] = answer
            size = len(row.record) + len(row.answer)
            resident.add(number, row.answer, size)
            self._metrics.records[answer_kind(answer)].inc()
            self.residents.note(resident, size)

    def _answer(
        self, resident: Resident, number: int, taken: Sequence[Outcome], place: int, note: str
    ) -> tuple[Message, bytes]:
        """The answer to a record that was taken in, and its packed form.

        The stream has advanced. So if its answer cannot be expressed, that is the answer: the record must not be sent
        again, and the other records of the batch have nothing to do with it.
        """
        try:
            outcome = taken[place]
            if isinstance(outcome, ReaderError):
                error = outcome.__cause__ if isinstance(outcome.__cause__, Exception) else outcome
                self.residents.failures.note("a record could not be read", error, key=resident.name.key)
            answer = answered(number, outcome, note)
            if resident.exact_after and any(
                token["token"] <= resident.exact_after for token in answer.get("answers", ())
            ):
                answer["inexact"] = True
            return answer, pack(answer)
        except Exception as error:
            self.residents.failures.note("an answer could not be expressed", error, key=resident.name.key)
            message = "the record was taken in, but its answer could not be expressed"
            answer = {"number": number, "error": {"code": "failed", "message": message}}
            return answer, pack(answer)

    def _apply_singly(self, fresh: Sequence[Numbered], replies: list[Reply | None], error: Exception) -> None:
        """After an unexpected error: every stream starts again from the store, each record on its own."""
        self.residents.failures.note("a batch failed", error, records=len(fresh))
        for one in fresh:
            self.residents.drop(one.resident.name)
        if len(fresh) == 1:
            replies[fresh[0].place] = self._internal(fresh[0].resident.name)
            return
        for place, resident, number, record in fresh:
            (replies[place],) = self.push([(resident.name.owner, Push(resident.name.key, number, record))])

    def _again(self, resident: Resident, number: int, record: Any) -> Reply:
        """The answer to a record that came before, if it is the same."""
        stored, key = resident.answer(number), resident.name.key
        if stored is None:
            kept = self._settings.keep_answers
            return RequestError(
                "too_old",
                f"number {number} of key {key!r} was taken long ago: the last is {resident.last}, and the answers to "
                f"the last {kept} are kept",
                expected=resident.last + 1,
            )
        of_record, answer = stored
        if of_record != digest(loggable(record)[1]):
            return RequestError(
                "conflict",
                f"number {number} of key {key!r} was taken with another record, perhaps from another client; the next "
                f"is {resident.last + 1}",
                expected=resident.last + 1,
            )
        self._metrics.records["repeated"].inc()
        message: Message = unpack(answer)
        return message

    def _described(self, stream: StoredStream, new: bool | None = None) -> Message:
        name = StreamName(stream.owner, stream.key)
        resident = self.residents.get(name)
        if resident is not None and resident.id != stream.id:  # another process has deleted it, and opened it anew
            self.residents.drop(name)
            resident = None
        last = stream.last if resident is None else max(stream.last, resident.last)  # another process may be ahead
        described = {"key": stream.key, "next": last + 1, "kept": self._settings.keep_answers}
        if resident is not None and (inexact := self.residents.inexact(resident)):
            described["inexact"] = inexact
        if new is not None:
            return {**described, "max_frame_bytes": self._settings.max_frame_bytes, "new": new}
        return {**described, "in_memory": resident is not None}

    def _failed(self, error: Exception) -> RequestError:
        self.residents.failures.note("the store failed", error)
        self._metrics.refused.labels("store_failed").inc()
        return RequestError(
            "store_failed", "the store does not answer now; send it again, with its number", retry_after=1
        )

    @staticmethod
    def _internal(name: StreamName) -> RequestError:
        return RequestError("failed", f"the record of key {name.key!r} could not be processed; it was not taken in")


def answered(number: int, outcome: list[Answer] | RecordError, note: str = "") -> Message:
    """Return the answer to a record: to each of its tokens, as `nystream stream --json` prints it, or an error."""
    if isinstance(outcome, RecordError):
        code = "failed" if isinstance(outcome, ReaderError) else "bad_record"
        return {"number": number, "error": {"code": code, "message": str(outcome)}}
    answer: Message = {"number": number, "answers": [token.to_dict(record=number) for token in outcome]}
    return {**answer, "note": note} if note else answer


def answer_kind(answer: Message) -> str:
    """Return what became of a record, for the metrics: answered, dropped or rejected."""
    return "rejected" if "error" in answer else "answered" if answer["answers"] else "dropped"
