"""Metadata of a model: what its inputs and outputs mean. It is saved with the model and does not affect its outputs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nystream.config import json_text
from nystream.config.checks import (
    boolean,
    fields_of,
    number,
    positive_int,
    positive_number,
    quantile_levels,
    rising_ints,
)


@dataclass(frozen=True)
class ModelInfo:
    """Names and units of a model's inputs and outputs.

    Args:
        task: "classification", "detection", "forecasting", or any other description.
        inputs: Names of the input columns, `input_dim` of them.
        labels: Names of the outputs, `output_dim` of them: classes, or the quantities that are forecast. With several
            horizons or quantiles, a quantity has one output for each, in this order: quantity, horizon, quantile.
        units: Units of the labels: one for each, or one for all.
        horizon: How many tokens ahead a forecast looks; if there are several horizons, the largest.
        seconds: Time between two tokens.
        reader: The settings of the reader that turns records into tokens, as saved by `nystream.data`. A dictionary
            that can be written as JSON.
        several: Whether several classes can apply at once. If so, outputs are independent (sigmoid); if not, they are
            shares of one (softmax).
        background: The class of tokens with nothing to detect, if there is one. Scores ignore it.
        file_seconds: The longest part of an audio file that is used.
        horizons: How many tokens ahead a forecast looks, if it is for several times at once, in rising order.
        quantiles: The levels of the quantiles that are forecast, between 0 and 1, in rising order; none for one number.
        minimum: The least value that a forecast can have; None if there is none.

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
    horizons: tuple[int, ...] = ()
    quantiles: tuple[float, ...] = ()
    minimum: float | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "labels", "units"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = (value,)
            if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
                raise TypeError(f"{name}={value!r} must be a list or tuple of str")
            object.__setattr__(self, name, tuple(value))
            _check_text(name, value)
        if self.task is not None and not isinstance(self.task, str):
            raise TypeError(f"task={self.task!r} must be a str, got {type(self.task).__name__}")
        _check_text("task", [self.task or ""])
        if self.horizon is not None:
            positive_int("horizon", self.horizon)
        if self.horizons not in ((), []):
            object.__setattr__(self, "horizons", rising_ints("horizons", self.horizons))
            if self.horizon != self.horizons[-1]:
                raise ValueError(f"horizon={self.horizon!r} must be the largest of horizons={self.horizons!r}")
        object.__setattr__(self, "horizons", tuple(self.horizons))
        object.__setattr__(self, "quantiles", quantile_levels("quantiles", self.quantiles))
        if self.minimum is not None:
            number("minimum", self.minimum)
            if not math.isfinite(self.minimum):
                raise ValueError(f"minimum={self.minimum!r} must be finite, or None")
        for name in ("seconds", "file_seconds"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        if self.background is not None and not isinstance(self.background, str):
            raise TypeError(f"background={self.background!r} must be a str, got {type(self.background).__name__}")
        boolean("several", self.several)
        if self.reader is not None:
            try:
                text = json.dumps(self.reader, allow_nan=False, ensure_ascii=False)
                text.encode()
                reader = json_text.parse(text, json_text.MAX_DEPTH // 2)  # nested in a file with levels of its own
                object.__setattr__(self, "reader", reader)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"reader cannot be written as JSON: {error}") from error
            if not isinstance(self.reader, dict):
                raise TypeError(f"reader is a {type(self.reader).__name__}, but must be a dictionary")

    def check(self, input_dim: int, output_dim: int) -> None:
        """Raise if the numbers of names do not match a model with these widths."""
        each = max(1, len(self.horizons)) * max(1, len(self.quantiles))  # outputs of one label
        if output_dim % each:
            raise ValueError(
                f"info has {each} horizons and quantiles of each label, but the model's output_dim is {output_dim}"
            )
        for name, width in (("inputs", input_dim), ("labels", output_dim // each), ("units", output_dim // each)):
            count = len(getattr(self, name))
            if count not in ((0, 1, width) if name == "units" else (0, width)):
                side = "input_dim" if name == "inputs" else "output_dim"
                times = f", {each} for each name" if name != "inputs" and each > 1 else ""
                size = input_dim if name == "inputs" else output_dim
                raise ValueError(f"info.{name} has {count} names, but the model's {side} is {size}{times}")
        if self.background is not None and self.background not in self.labels:
            raise ValueError(f"info.background={self.background!r} is not one of the labels: {', '.join(self.labels)}")

    def to_dict(self) -> dict[str, Any]:
        """The fields; those that few models have only if they are set, so that files stay as they were."""
        rare = {"horizons": (), "quantiles": (), "minimum": None}
        return {
            name: value for name, value in dataclasses.asdict(self).items() if name not in rare or value != rare[name]
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ModelInfo:
        return cls(**fields_of(cls, fields, "info"))


def _check_text(name: str, words: Iterable[str]) -> None:
    """Raise if a string cannot be encoded, and so cannot be written to a file or a terminal."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} has {word!r:.80}, which is not Unicode text: {error.reason}") from error
