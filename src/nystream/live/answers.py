"""What a model says of a token, in the user's words: forecasts in their units, classes by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nystream.config import ModelInfo
from nystream.data.reader import Token

CLASSES = ("classification", "detection")  # tasks whose outputs are logits of classes


@dataclass(frozen=True)
class Answer:
    """The model's answer to one token."""

    token: int  # its number in the stream, from 1
    kind: str  # "forecast", "probabilities" or "output"
    names: tuple[str, ...]  # of the values; empty where the model has none
    values: NDArray[np.float32]  # [output_dim]
    units: tuple[str, ...] = ()
    time: np.datetime64 | None = None
    time_ahead: np.datetime64 | None = None  # the time that a forecast is for
    filled: tuple[str, ...] = ()  # columns of the record that were missing and were filled
    gap: bool = False  # there was no record: the token fills a gap in time
    microseconds: float = 0.0  # that the step took; tokens that arrive together share them

    @property
    def label(self) -> str | None:
        """The most probable class."""
        return self.names[int(self.values.argmax())] if self.kind == "probabilities" else None

    def to_dict(self) -> dict[str, Any]:
        """In what JSON can hold. A value that is not finite is None."""
        said: dict[str, Any] = {"token": self.token}
        if self.time is not None:
            said["time"] = clock(self.time)
        if self.time_ahead is not None:
            said["for"] = clock(self.time_ahead)
        if self.label is not None:
            said["label"] = self.label
        values = [shortest(value) for value in self.values]
        said[self.kind] = dict(zip(self.names, values, strict=True)) if self.names else values
        return said | {"filled": list(self.filled), "gap": self.gap}


class Interpreter:
    """Turns a model's outputs into answers."""

    def __init__(self, info: ModelInfo, output_dim: int) -> None:
        self.names, self.units, self._ahead = info.labels, info.units, None
        self.kind = "output"
        if info.task in CLASSES:
            self.kind = "probabilities"
            self.names = info.labels or tuple(map(str, range(output_dim)))
        elif info.task == "forecasting":
            self.kind = "forecast"
            if info.horizon is not None and info.seconds is not None:
                self._ahead = np.timedelta64(round(info.horizon * info.seconds * 1e6), "us")

    def answer(self, number: int, token: Token, y: NDArray[Any], microseconds: float) -> Answer:
        """Of token `number`, for the model's output y [output_dim]."""
        values = y.astype(np.float64)
        if self.kind == "probabilities":
            values = softmax(values)
        elif token.base is not None:
            values = token.base + values
        ahead = None
        if token.time is not None and self._ahead is not None:
            ahead = token.time.astype("datetime64[us]") + self._ahead
        with np.errstate(over="ignore"):
            said = values.astype(np.float32)
        return Answer(
            token=number,
            kind=self.kind,
            names=self.names,
            values=said,
            units=self.units,
            time=token.time,
            time_ahead=ahead,
            filled=token.filled,
            gap=token.gap,
            microseconds=microseconds,
        )


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """[C], summing to one."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def shortest(value: np.float32) -> float | None:
    """The shortest decimal that is the same float32; None where it is not finite, which JSON cannot hold."""
    return float(str(value)) if np.isfinite(value) else None


def clock(time: np.datetime64) -> str:
    """ISO 8601, to the second where it is a whole one."""
    seconds = time.astype("datetime64[s]")
    return str(seconds if seconds == time else time.astype("datetime64[us]"))
