"""Records for a demonstration, which any model can read: the sample of the package where it fits, others made up.

They are a function of their number, so that a stream of them can be resumed anywhere.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from nystream.data.frames import FramesReader, hop_of
from nystream.data.reader import Reader, RecordError, reader_from_dict
from nystream.data.sample import csv_lines
from nystream.data.sounds import SoundReader
from nystream.data.table_reader import TableReader
from nystream.data.timestamps.parse import EPOCHS, ISO
from nystream.data.timestamps.zone import to_local
from nystream.live import Sessions
from nystream.live.readers import gaps_when_skipping, live_reader
from nystream.live.sources.lines import SAMPLE_SHARE
from nystream.serve.protocol import RequestError

LENGTH = 100_000  # records that are made up
TRIED = 8  # records that are read before the first one is given
BEGIN, END = datetime(2024, 1, 1), datetime(2100, 1, 1)
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
GOLDEN = 0.6180339887498949  # multiples of it are spread evenly modulo one
DAY = 86400.0
TONES = (220.0, 440.0, 880.0, 1760.0)  # of the sounds, in hertz
TONE_SECONDS = 2.0


class DemoRecords:
    """Records that the reader of a model accepts, by number.

    Args:
        sessions: Those of the service.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._model = sessions.model
        info = sessions.model.info
        self._reader: Reader | None = None if info.reader is None else reader_from_dict(info.reader)

    def records(self, after: int, limit: int) -> dict[str, Any]:
        """Return up to `limit` records after the first `after`, and where they are from; RequestError if none fit."""
        source, length, record = self._source
        numbers = range(after, min(after + limit, length))
        return {"source": source, "length": length, "records": [record(number) for number in numbers]}

    @cached_property
    def _source(self) -> tuple[str, int, Callable[[int], Any]]:
        """Where records are from, how many there are, and the function of their number."""
        reader, problem = self._reader, ""
        candidates: list[tuple[str, int, Callable[[int], Any]]] = []
        if isinstance(reader, TableReader):
            if rows := _sample_rows(reader):
                candidates.append(("sample", len(rows), rows.__getitem__))
            candidates.append(("generated", _rows_until_the_end(reader), self._row))
        elif isinstance(reader, SoundReader):
            candidates.append(("generated", LENGTH, lambda number: _sound(reader, number)))
        else:
            candidates.append(("generated", LENGTH, self._vector))
        for candidate in candidates:
            try:
                self._try(candidate[2], min(candidate[1], TRIED))
                return candidate
            except (RecordError, ValueError, OverflowError) as error:
                problem = str(error)
        raise RequestError("not_found", f"there are no records for a demonstration of this model: {problem}")

    def _try(self, record: Callable[[int], Any], count: int) -> None:
        live = live_reader(self._model, gaps=gaps_when_skipping(self._model.info, None))
        for number in range(count):
            live.read(record(number))

    def _row(self, number: int) -> dict[str, Any]:
        """A row of a table: waves around the usual value of each column, one row a step."""
        reader = self._reader
        assert isinstance(reader, TableReader)
        fields = _time_fields(reader, number)
        scales, place = self._model.input_scaler.scale.tolist(), 0
        period = _period(reader.step)
        for column, usual in zip(reader.live_form.columns, reader.usual, strict=True):
            if column.categories:
                fields[column.name] = column.categories[(number // 6 + place) % len(column.categories)]
            elif column.name in reader.static:
                fields[column.name] = usual
            else:
                # The scale of a column that each series scales by itself is not in its units.
                scale = scales[place] if reader.series is None else 0.2 * abs(usual) or 1.0
                fields[column.name] = _rounded(usual + scale * _wave(number, place, period))
            place += column.width
        return fields

    def _vector(self, number: int) -> list[float]:
        """Plain numbers: waves as wide as the inputs of training, around one that all of them share.

        Classes are often far apart in many numbers at once, and last for many windows: waves of their own alone would
        stay in one class.
        """
        mean, scale = (part.tolist() for part in (self._model.input_scaler.mean, self._model.input_scaler.scale))
        reader, together = self._reader, self._model.config.update_size
        width = reader.width if isinstance(reader, FramesReader) else len(mean)
        tokens = range(number * together, (number + 1) * together) if reader is None else range(number, number + 1)
        numbers, period = list[float](), _period(None)
        for token in tokens:
            shared = 1.2 * math.sin(2 * math.pi * token / (4 * self._model.config.window * hop_of(reader)))
            for place in range(width):  # with several frames per token, the means of the features come first
                wave = shared + 0.5 * _wave(token, place, period)
                numbers.append(_rounded(mean[place] + scale[place] * wave))
        return numbers


def _sample_rows(reader: TableReader) -> list[dict[str, Any]]:
    """The hours of the sample on which the packaged model was not trained, if they have the columns of a table."""
    lines = csv_lines(SAMPLE_SHARE)
    header = next(lines).split(",")
    if not {*reader.time_columns, *(column.name for column in reader.live_form.columns)} <= set(header):
        return []
    rows = []
    for row in csv.reader(lines):
        rows.append({"time": row[0]} | {name: int(field) for name, field in zip(header[1:], row[1:], strict=True)})
    return rows


def _rows_until_the_end(reader: TableReader) -> int:
    if reader.step is None:
        return LENGTH
    return min(LENGTH, int((END - BEGIN).total_seconds() / reader.step))


def _time_fields(reader: TableReader, number: int) -> dict[str, Any]:
    """The time of a row, as the columns of the training data had it."""
    if reader.time is None:
        return {}
    begin = BEGIN.replace(day=max(1, reader.day)) if reader.months else BEGIN
    moment = reader.spacing.after((begin - EPOCH) // MICROSECOND, number)
    if reader.form in EPOCHS:
        return {reader.time: round(moment / EPOCHS[reader.form])}
    is_local = bool(reader.timezone) and not reader.zoned
    time = EPOCH + MICROSECOND * (to_local(moment, reader.timezone) if is_local else moment)
    if reader.zoned:
        time = time.replace(tzinfo=UTC)
    text = time.isoformat(sep=" ") if reader.form == ISO else time.strftime(reader.form)
    if reader.clock is None:
        return {reader.time: text}
    day, _, clock = text.partition(" ")
    return {reader.time: day, reader.clock: clock}


def _period(step: float | None) -> float:
    """The rows of a wave: those of a day, if that is neither too short nor too long to look at."""
    rows = 0.0 if step is None else DAY / step
    return rows if 8 <= rows <= 400 else 48.0


def _wave(number: int, place: int, period: float) -> float:
    """A slow and a fast wave and some noise, other ones for each place, mostly between -1 and 1."""
    turn = 2 * math.pi
    phase = turn * place * GOLDEN
    noise = math.modf(math.sin(12.9898 * number + 78.233 * place) * 43758.5453)[0]
    fast, slow = math.sin(turn * number / period + phase), math.sin(turn * number / (7 * period) + 2 * phase)
    return 0.7 * fast + 0.3 * slow + 0.15 * noise


def _sound(reader: SoundReader, number: int) -> list[float]:
    """The samples of one token: tones one after the other, in noise."""
    time = (np.arange(reader.hop) + number * reader.hop) / reader.rate
    tone = TONES[int(time[0] / TONE_SECONDS) % len(TONES)]
    noise = np.random.default_rng(number).normal(0, 0.02, reader.hop)
    samples: list[float] = (0.3 * np.sin(2 * np.pi * tone * time) + noise).round(4).tolist()
    return samples


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
