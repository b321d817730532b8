"""The model's outputs in the user's terms: forecasts in their units, classes by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config import ModelInfo
from nystream.data.forecast_options import level_name
from nystream.data.forecast_values import forecasts, layout_of, without_axes
from nystream.data.reader import Token
from nystream.data.stream_states import TokenBatch
from nystream.data.timestamps.zone import local_text

CLASS_TASKS = ("classification", "detection")  # whose outputs are logits of classes
MICROSECONDS = np.dtype("datetime64[us]")
THRESHOLD = 0.5  # probability from which a class is predicted, if there can be several
CACHED_TIMES = 256  # of one call
NOT_FINITE = "the model's output is not finite"

Ahead = Callable[[np.datetime64, int], np.datetime64 | None]  # `LiveReader.ahead`


class Answer(NamedTuple):
    """The model's answer to one token."""

    token: int  # number of the token in the stream, from 1
    kind: str  # "forecast", "probabilities" or "output"
    names: tuple[str, ...]  # of the values; empty if the model has none
    values: NDArray[Any]  # [names, horizons, quantiles] without axes of one; float64 if they are levels of changes
    units: tuple[str, ...] = ()
    time: np.datetime64 | None = None
    time_ahead: np.datetime64 | tuple[np.datetime64, ...] | None = (
        None  # the time that is forecast; several if there are
    )
    rows_ahead: int | tuple[int, ...] | None = None  # the number of rows ahead that is forecast; likewise
    zoned: bool = False  # times are in UTC
    several: bool = False  # several classes can be present at once, or none
    filled: tuple[str, ...] = ()  # columns of the record that were missing and were filled in
    gap: bool = False  # there was no record: the token fills a gap in time
    microseconds: float = 0.0  # duration of the step, shared by tokens that arrive together and by streams
    timezone: str = ""  # in which times, which are then in UTC, are printed
    quantiles: tuple[float, ...] = ()  # levels; none if a forecast is one number

    @property
    def finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        return bool(np.isfinite(self.values).all())

    @property
    def note(self) -> str:
        """What is wrong with the answer; empty if nothing is."""
        return "" if self.finite else NOT_FINITE

    @property
    def times_ahead(self) -> tuple[np.datetime64, ...]:
        """The times that are forecast, in order of the horizons; none if they are not known."""
        time = self.time_ahead
        return time if isinstance(time, tuple) else () if time is None else (time,)

    @property
    def label(self) -> str | None:
        """The most probable class; None if several can be present at once, or the output is not finite."""
        if self.kind != "probabilities" or self.several or not self.finite:
            return None
        return self.names[int(self.values.argmax())]

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The predicted classes, if there can be several; None if the output is not finite."""
        if not self.several or not self.finite:
            return None
        return tuple(name for name, value in zip(self.names, self.values, strict=True) if value >= THRESHOLD)

    def to_dict(self, **source: Any) -> dict[str, Any]:
        """Return the answer as JSON-compatible values; values that are not finite are None.

        Keyword arguments are added after the number of the token, to say which record it is for.
        """
        fields: dict[str, Any] = {"token": self.token, **source}
        if self.time is not None:
            fields["time"] = iso_time(self.time, self.zoned, self.timezone)
        if self.time_ahead is not None:
            several = isinstance(self.time_ahead, tuple)
            times = [iso_time(time, self.zoned, self.timezone) for time in self.times_ahead]
            fields["for"] = times if several else times[0]
        elif self.rows_ahead is not None:
            fields["ahead"] = list(self.rows_ahead) if isinstance(self.rows_ahead, tuple) else self.rows_ahead
        if self.several:
            fields["labels"] = None if self.labels is None else list(self.labels)
        elif self.kind == "probabilities":
            fields["label"] = self.label
        values = json_values(self.values, self.quantiles)
        fields[self.kind] = dict(zip(self.names, values, strict=True)) if self.names else values
        if self.units:
            units = self.units if len(self.units) > 1 else self.units * len(self.values)
            fields["units"] = dict(zip(self.names, units, strict=True)) if self.names else list(units)
        fields["filled"], fields["gap"] = list(self.filled), self.gap
        if self.note:
            fields["note"] = self.note
        return fields


class Interpreter:
    """Turns a model's outputs into answers.

    Args:
        info: The model's info.
        output_dim: Number of outputs.
        ahead: The method of the reader.
        zoned: Whether the reader's times are in UTC.
        timezone: The time zone in which they are printed; "" for none.
    """

    def __init__(self, info: ModelInfo, output_dim: int, ahead: Ahead, zoned: bool = False, timezone: str = "") -> None:
        self._timezone = timezone
        self.names, self.units, self._ahead, self._zoned = info.labels, info.units, ahead, zoned
        self._layout = layout_of(info, output_dim)
        self.kind, self._several = "output", False
        self._rows: int | tuple[int, ...] | None = None
        if info.task in CLASS_TASKS:
            self.kind, self._several = "probabilities", info.several
            self.names = info.labels or tuple(map(str, range(output_dim)))
        elif info.task == "forecasting":
            self.kind, self._rows = "forecast", info.horizons or info.horizon

    def answer(self, number: int, token: Token, y: NDArray[Any], microseconds: float) -> Answer:
        """Return the answer to token `number`, given the model's output y [output_dim]."""
        return Answer(
            number,
            self.kind,
            self.names,
            self._values(y, token.base, token.scale),
            self.units,
            token.time,
            self._due(token.time),
            self._rows,
            self._zoned,
            self._several,
            token.filled,
            token.gap,
            microseconds,
            self._timezone,
            self._layout.quantiles,
        )

    def answers(
        self, first: NDArray[np.int64], batch: TokenBatch, y: NDArray[Any], microseconds: float
    ) -> Callable[[int], list[Answer]]:
        """Return a function that makes the answers to the record of one of S streams, given its number in the batch.

        Args:
            first: [S], the number of the first token of each record.
            batch: The tokens.
            y: [S, r, output_dim], the model's outputs.
            microseconds: The duration of the step of one stream.
        """
        values = self._values(y, *(None if part is None else part[:, None] for part in (batch.base, batch.scale)))
        due = lru_cache(CACHED_TIMES)(self._due)  # many streams have the same time
        kind, names, units, same = self.kind, self.names, self.units, (self._rows, self._zoned, self._several)
        numbers = first.tolist()

        def make(stream: int) -> list[Answer]:
            number, time = numbers[stream], None if batch.time is None else batch.time[stream]
            return [
                Answer(
                    number + i,
                    kind,
                    names,
                    values[stream, i],
                    units,
                    time,
                    due(time),
                    *same,
                    microseconds=microseconds,
                    timezone=self._timezone,
                    quantiles=self._layout.quantiles,
                )
                for i in range(values.shape[1])
            ]

        return make

    def _values(
        self, y: NDArray[Any], base: NDArray[np.float64] | None, scale: NDArray[np.float64] | None
    ) -> NDArray[Any]:
        """The values of answers, given outputs [..., output_dim]."""
        if self.kind == "probabilities":
            logits = y.astype(np.float64)
            return (sigmoid(logits) if self._several else softmax(logits)).astype(np.float32)
        if base is None:
            if self.kind == "output" or self._layout.plain:
                return y
            base = np.zeros(self._layout.targets)
        return without_axes(forecasts(y, self._layout, base, scale), self._layout)

    def _due(self, time: np.datetime64 | None) -> np.datetime64 | tuple[np.datetime64, ...] | None:
        """The time that is forecast, or the times."""
        if time is None or self._rows is None:
            return None
        if not isinstance(self._rows, tuple):
            return self._ahead(time, self._rows)
        times = [self._ahead(time, rows) for rows in self._rows]
        known = tuple(time for time in times if time is not None)
        return known if len(known) == len(times) else None


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities [..., C] that sum to one; NaN if a logit is NaN or +Inf."""
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return independent probabilities [..., C]."""
    with np.errstate(invalid="ignore"):
        return np.exp(-np.logaddexp(0, -logits))


def json_numbers(values: NDArray[Any]) -> list[float | None]:
    """Return the shortest decimals that are the same numbers in their dtype; None for numbers that are not finite."""
    if values.dtype == np.float64:
        return [value if math.isfinite(value) else None for value in values.tolist()]
    return [float(str(value)) if math.isfinite(value) else None for value in values]


def json_values(values: NDArray[Any], quantiles: Sequence[float] = ()) -> list[Any]:
    """Return nested lists of `json_numbers`; with quantiles, the last axis as objects by their levels."""
    if values.ndim > 1 + bool(quantiles):
        return [json_values(part, quantiles) for part in values]
    if not quantiles:
        return list(json_numbers(values))
    levels = [level_name(level) for level in quantiles]
    return [dict(zip(levels, json_numbers(part), strict=True)) for part in values]


def iso_time(time: np.datetime64, zoned: bool = False, timezone: str = "") -> str:
    """Return a time as ISO 8601, without fractions if they are zero, with a Z if it is in UTC.

    With a time zone, the time is converted from UTC to local time, with its offset.
    """
    if timezone:
        return local_text(int(time.astype(MICROSECONDS).astype(np.int64)), timezone)
    text = str(time if time.dtype == MICROSECONDS else time.astype(MICROSECONDS)).removesuffix(".000000")
    return f"{text}Z" if zoned else text
