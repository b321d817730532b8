"""What a model says of a token, in the user's words: forecasts in their units, classes by their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nystream.config import ModelInfo
from nystream.data.reader import Token

CLASSES = ("classification", "detection")  # tasks whose outputs are logits of classes
MICROSECONDS = np.dtype("datetime64[us]")
LIKELY = 0.5  # probability of a class that holds, where several can
NOT_FINITE = "the model's output is not finite"

Ahead = Callable[[np.datetime64, int], np.datetime64 | None]  # when the row is due that is so many after one of a time


class Answer(NamedTuple):
    """The model's answer to one token."""

    token: int  # its number in the stream, from 1
    kind: str  # "forecast", "probabilities" or "output"
    names: tuple[str, ...]  # of the values; empty where the model has none
    values: NDArray[Any]  # [output_dim]: float64 where a change was added to a last value, else as the model gives it
    units: tuple[str, ...] = ()
    time: np.datetime64 | None = None
    time_ahead: np.datetime64 | None = None  # the time that a forecast is for
    rows_ahead: int | None = None  # how many rows ahead it is for
    zoned: bool = False  # times are those of UTC
    several: bool = False  # several classes can hold at once, or none
    filled: tuple[str, ...] = ()  # columns of the record that were missing and were filled
    gap: bool = False  # there was no record: the token fills a gap in time
    microseconds: float = 0.0  # that the step took; tokens that arrive together share them

    @property
    def finite(self) -> bool:
        """Whether every value is a number: neither NaN nor infinite."""
        return bool(np.isfinite(self.values).all())

    @property
    def note(self) -> str:
        """What is wrong with the answer; empty where nothing is."""
        return "" if self.finite else NOT_FINITE

    @property
    def label(self) -> str | None:
        """The most probable class; None where several can hold at once, or the output is not finite."""
        if self.kind != "probabilities" or self.several or not self.finite:
            return None
        return self.names[int(self.values.argmax())]

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes that hold, where several can; None where the output is not finite."""
        if not self.several or not self.finite:
            return None
        return tuple(name for name, value in zip(self.names, self.values, strict=True) if value >= LIKELY)

    def to_dict(self, **source: Any) -> dict[str, Any]:
        """In what JSON can hold, with what is said of its source. A value that is not finite is None."""
        said: dict[str, Any] = {"token": self.token, **source}
        if self.time is not None:
            said["time"] = clock(self.time, self.zoned)
        if self.time_ahead is not None:
            said["for"] = clock(self.time_ahead, self.zoned)
        elif self.rows_ahead is not None:
            said["ahead"] = self.rows_ahead
        if self.several:
            said["labels"] = None if self.labels is None else list(self.labels)
        elif self.kind == "probabilities":
            said["label"] = self.label
        values = plain(self.values)
        said[self.kind] = dict(zip(self.names, values, strict=True)) if self.names else values
        if self.units:
            units = self.units if len(self.units) > 1 else self.units * len(self.values)
            said["units"] = dict(zip(self.names, units, strict=True)) if self.names else list(units)
        said["filled"], said["gap"] = list(self.filled), self.gap
        if self.note:
            said["note"] = self.note
        return said


class Interpreter:
    """Turns a model's outputs into answers.

    Args:
        info: of the model.
        output_dim: how many outputs there are.
        ahead: of the reader.
        zoned: whether the reader's times are those of UTC.
    """

    def __init__(self, info: ModelInfo, output_dim: int, ahead: Ahead, zoned: bool = False) -> None:
        self.names, self.units, self._ahead, self._zoned = info.labels, info.units, ahead, zoned
        self.kind, self._rows, self._several = "output", None, False
        if info.task in CLASSES:
            self.kind, self._several = "probabilities", info.several
            self.names = info.labels or tuple(map(str, range(output_dim)))
        elif info.task == "forecasting":
            self.kind, self._rows = "forecast", info.horizon

    def answer(self, number: int, token: Token, y: NDArray[Any], microseconds: float) -> Answer:
        """Of token `number`, for the model's output y [output_dim]."""
        values: NDArray[Any] = y
        if self.kind == "probabilities":
            logits = y.astype(np.float64)
            values = (sigmoid(logits) if self._several else softmax(logits)).astype(np.float32)
        elif token.base is not None:
            values = token.base + y
        due = None
        if token.time is not None and self._rows is not None:
            due = self._ahead(token.time, self._rows)
        return Answer(
            number,
            self.kind,
            self.names,
            values,
            self.units,
            token.time,
            due,
            self._rows,
            self._zoned,
            self._several,
            token.filled,
            token.gap,
            microseconds,
        )


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """[C], summing to one; NaN where a logit is NaN or +Inf."""
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """[C], each by itself."""
    with np.errstate(invalid="ignore"):
        return np.exp(-np.logaddexp(0, -logits))


def plain(values: NDArray[Any]) -> list[float | None]:
    """Each as the shortest decimal that is the same number of its dtype; None where JSON cannot hold it."""
    if values.dtype == np.float64:
        return [value if math.isfinite(value) else None for value in values.tolist()]
    return [float(str(value)) if math.isfinite(value) else None for value in values]


def clock(time: np.datetime64, zoned: bool = False) -> str:
    """ISO 8601, to the second where it is a whole one; with a Z where it is that of UTC."""
    said = str(time if time.dtype == MICROSECONDS else time.astype(MICROSECONDS)).removesuffix(".000000")
    return f"{said}Z" if zoned else said
