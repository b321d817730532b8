"""What a service does to its streams, one batch of requests after another. One thread calls it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nystream.data.reader import RecordError
from nystream.live import Answer, Sessions
from nystream.serve.metrics import Metrics
from nystream.serve.protocol import Message, Push, RequestError, loggable, pack, unpack
from nystream.serve.residents import Resident, Residents, StreamName, unknown
from nystream.serve.settings import Settings
from nystream.serve.store import LogRow, Store, StoredStream, StoreError

RECORDS_PER_SNAPSHOT = 32  # of a batch: bounds how much longer snapshots make it

log = logging.getLogger(__name__)

OwnedPush = tuple[str, Push]  # the owner and the record
Reply = Message | RequestError


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
        fresh, repeated = list[tuple[int, Resident, int]](), list[tuple[int, Resident, int]]()
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
                repeated.append((place, resident, number))
            else:
                fresh.append((place, resident, number))
                latest[resident.id] = number
        failure = self._apply(fresh, [push.record for _, push in pushes], replies) if fresh else None
        for place, resident, number in repeated:
            current = self.residents.get(resident.name)  # None if it was dropped with this batch
            replies[place] = failure if current is None else self._again(current, number)
        return [self._internal(name) if reply is None else reply for name, reply in zip(names, replies, strict=True)]

    def _caught_up(
        self, ready: Mapping[StreamName, Resident | RequestError], numbers: Sequence[tuple[StreamName, int | None]]
    ) -> dict[StreamName, Resident | RequestError]:
        """Load streams again that have moved to another process and back, and advanced there."""
        behind, counts = set[StreamName](), Counter(name for name, _ in numbers)
        for name, number in numbers:
            resident = ready[name]
            if isinstance(resident, Resident) and number is not None and number > resident.last + counts[name]:
                stored = self.store.find(*name)
                if stored is not None and stored.last > resident.last:
                    behind.add(name)
        for name in behind:
            self.residents.drop(name)
        return self.residents.use(behind)

    def tidy(self, records: int) -> None:
        """Write snapshots that are due, after a batch of so many records."""
        self.residents.write_due(1 + records // RECORDS_PER_SNAPSHOT)
        try:
            self.residents.write_overdue()
            self.store.tidy()
        except StoreError as error:
            log.error("the log could not be trimmed", extra={"fields": {"error": str(error)}})
        self._metrics.streams.set(len(self.residents))

    def shut_down(self) -> None:
        """Write out everything and release the store."""
        try:
            self.residents.write_all()
        except StoreError as error:
            log.error("streams could not be written out", extra={"fields": {"error": str(error)}})
        self.store.close()

    def _apply(
        self, fresh: Sequence[tuple[int, Resident, int]], records: Sequence[Any], replies: list[Reply | None]
    ) -> RequestError | None:
        """Take in the next records of streams and write them to the log; return why, if all are refused."""
        chosen, packed = [records[place] for place, _, _ in fresh], [b""] * len(fresh)
        try:
            if self._logs:
                pairs = [loggable(record) for record in chosen]
                chosen, packed = [record for record, _ in pairs], [packed_record for _, packed_record in pairs]
            taken = list(self._sessions.take_many([resident.id for _, resident, _ in fresh], chosen))
            notes = dict(self._sessions.notes)
        except Exception:
            return self._apply_singly(fresh, records, replies)
        answers = list[Message]()
        for i, ((_, resident, number), outcome) in enumerate(zip(fresh, taken, strict=True)):
            answer = answered(number, outcome, notes.get(i, ""))
            if resident.exact_after and any(
                token["token"] <= resident.exact_after for token in answer.get("answers", ())
            ):
                answer["inexact"] = True
            answers.append(answer)
        answers_packed = [pack(answer) for answer in answers]
        moved = set[int]()
        if self._logs:
            rows = [
                LogRow(resident.id, number, record, answer)
                for (_, resident, number), record, answer in zip(fresh, packed, answers_packed, strict=True)
            ]
            try:
                with self._metrics.commit_seconds.time():
                    moved = self.store.append(rows)
            except StoreError as error:
                # In memory the streams are ahead of the store: they are loaded again when they are next used.
                failure = self._failed(error)
                for place, resident, _ in fresh:
                    self.residents.drop(resident.name)
                    replies[place] = failure
                return failure
        for (place, resident, number), record, answer, stored in zip(
            fresh, packed, answers, answers_packed, strict=True
        ):
            if resident.id in moved:
                self.residents.drop(resident.name)
                replies[place] = RequestError("moved", f"key {resident.name.key!r} has moved; send it again")
                continue
            replies[place] = answer
            resident.add(number, stored, len(record) + len(stored))
            self._metrics.records[answer_kind(answer)].inc()
            self.residents.note(resident)
        return None

    def _apply_singly(
        self, fresh: Sequence[tuple[int, Resident, int]], records: Sequence[Any], replies: list[Reply | None]
    ) -> RequestError:
        """After an unexpected error: every stream starts again from the store, each record on its own."""
        log.exception("a batch failed", extra={"fields": {"records": len(fresh)}})
        for _, resident, _ in fresh:
            self.residents.drop(resident.name)
        if len(fresh) == 1:
            ((place, resident, _),) = fresh
            failure = replies[place] = self._internal(resident.name)
            return failure
        for place, resident, number in fresh:
            (replies[place],) = self.push([(resident.name.owner, Push(resident.name.key, number, records[place]))])
        return self._internal(fresh[0][1].name)

    def _again(self, resident: Resident, number: int) -> Reply:
        stored = resident.answer(number)
        if stored is not None:
            self._metrics.records["repeated"].inc()
            answer: Message = unpack(stored)
            return answer
        kept, key = self._settings.keep_answers, resident.name.key
        return RequestError(
            "too_old",
            f"number {number} of key {key!r} was taken long ago: the last is {resident.last}, and the answers to the "
            f"last {kept} are kept",
            expected=resident.last + 1,
        )

    def _described(self, stream: StoredStream, new: bool | None = None) -> Message:
        resident = self.residents.get(StreamName(stream.owner, stream.key))
        last = stream.last if resident is None else max(stream.last, resident.last)  # another process may be ahead
        described = {"key": stream.key, "next": last + 1, "kept": self._settings.keep_answers}
        if resident is not None and (inexact := self.residents.inexact(resident)):
            described["inexact"] = inexact
        if new is not None:
            return {**described, "max_frame_bytes": self._settings.max_frame_bytes, "new": new}
        return {**described, "in_memory": resident is not None}

    def _failed(self, error: StoreError) -> RequestError:
        log.error("the store failed", extra={"fields": {"error": str(error)}})
        self._metrics.refused.labels("store_failed").inc()
        return RequestError("store_failed", "the store cannot be written now; nothing was taken in", retry_after=1)

    @staticmethod
    def _internal(name: StreamName) -> RequestError:
        return RequestError("failed", f"the record of key {name.key!r} could not be processed; it was not taken in")


def answered(number: int, outcome: list[Answer] | RecordError, note: str = "") -> Message:
    """Return the answer to a record: to each of its tokens, as `nystream stream --json` prints it, or an error."""
    if isinstance(outcome, RecordError):
        return {"number": number, "error": {"code": "bad_record", "message": str(outcome)}}
    answer: Message = {"number": number, "answers": [token.to_dict(record=number) for token in outcome]}
    return {**answer, "note": note} if note else answer


def answer_kind(answer: Message) -> str:
    """Return what became of a record, for the metrics: answered, dropped or rejected."""
    return "rejected" if "error" in answer else "answered" if answer["answers"] else "dropped"
