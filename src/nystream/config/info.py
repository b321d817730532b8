"""What the numbers of a model mean: it is saved with the model and changes nothing in what it computes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nystream.config import json_text
from nystream.config.checks import boolean, fields_of, number, positive_int


@dataclass(frozen=True)
class ModelInfo:
    """What goes in, what comes out, and in which units.

    Args:
        task: "classification", "detection" or "forecasting", or words of your own.
        inputs: names of the input columns, one for each of `input_dim`.
        labels: names of the outputs, one for each of `output_dim`: classes, or the quantities that are forecast.
        units: units of the outputs, one for each, or one for all of them.
        horizon: how many tokens ahead a forecast looks.
        seconds: time between two tokens.
        reader: how records of the user's become tokens, as `nystream.data` wrote it; in what JSON can hold.
        several: whether several classes can hold at once: each output is then judged by itself (sigmoid), not as a
            share of one (softmax).
        background: the class of tokens in which nothing is to be detected, if there is one: scores leave it out.
        file_seconds: how much of an audio file is used, at most.

    Example:
        >>> import nystream as ns
        >>> info = ns.ModelInfo("forecasting", labels=("total",), units=("MW",), horizon=24)
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> config = ns.ModelConfig(input_dim=5, output_dim=1, attention=attention)
        >>> ns.StreamModel(config, info).info.units
        ('MW',)
    """

    task: str | None = None
    inputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    horizon: int | None = None
    seconds: float | None = None
    reader: dict[str, Any] | None = None
    several: bool = False
    background: str | None = None
    file_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "labels", "units"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = (value,)
            if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
                raise TypeError(f"{name}={value!r} must be names, each a str")
            object.__setattr__(self, name, tuple(value))
            _check_text(name, value)
        if self.task is not None and not isinstance(self.task, str):
            raise TypeError(f"task={self.task!r} must be a str, got {type(self.task).__name__}")
        _check_text("task", [self.task or ""])
        if self.horizon is not None:
            positive_int("horizon", self.horizon)
        for name in ("seconds", "file_seconds"):
            value = getattr(self, name)
            if value is not None:
                number(name, value)
                if not 0 < value < math.inf:
                    raise ValueError(f"{name}={value!r} must be greater than 0 and finite")
        if self.background is not None and not isinstance(self.background, str):
            raise TypeError(f"background={self.background!r} must be a str, got {type(self.background).__name__}")
        boolean("several", self.several)
        if self.reader is not None:
            try:
                text = json.dumps(self.reader, allow_nan=False, ensure_ascii=False)
                text.encode()
                reader = json_text.parse(text, json_text.DEEPEST // 2)  # it is part of a file
                object.__setattr__(self, "reader", reader)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"reader must be what JSON can hold: {error}") from error
            if not isinstance(self.reader, dict):
                raise TypeError(f"reader is a {type(self.reader).__name__}, but must be a dictionary")

    def check(self, input_dim: int, output_dim: int) -> None:
        """Refuse names that do not go with a model of these widths."""
        for name, width in (("inputs", input_dim), ("labels", output_dim), ("units", output_dim)):
            given = len(getattr(self, name))
            if given not in ((0, 1, width) if name == "units" else (0, width)):
                side = "input_dim" if name == "inputs" else "output_dim"
                raise ValueError(f"info.{name} has {given} names, but the model's {side} is {width}")
        if self.background is not None and self.background not in self.labels:
            raise ValueError(f"info.background={self.background!r} is not one of the labels: {', '.join(self.labels)}")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ModelInfo:
        return cls(**fields_of(cls, fields, "info"))


def _check_text(name: str, words: Iterable[str]) -> None:
    """Refuse what cannot be written to a file or a terminal."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} has {word!r:.80}, which is not Unicode text: {error.reason}") from error
