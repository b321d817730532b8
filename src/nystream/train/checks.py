"""What can be refused before anything is trained, with what is needed instead."""

from __future__ import annotations

from typing import Any

from nystream.models import StreamModel
from nystream.train.config import TrainConfig
from nystream.train.data import Data, StreamData, WindowData
from nystream.train.tasks import Task


def model(name: str, given: Any) -> None:
    """A StreamModel whose landmarks, where they are fixed, are known."""
    if not isinstance(given, StreamModel):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be a StreamModel")
    for block in given.encoder.blocks:
        block.attention.require_landmarks()


def data(name: str, given: Any, task: Task, width: int) -> None:
    """Data with targets that the task can use."""
    if not isinstance(given, WindowData | StreamData):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be WindowData or StreamData")
    if isinstance(task, type) or not hasattr(task, "loss"):
        raise TypeError(f"task is {task!r}, but must be a task: Classification(), Detection() or Forecasting()")
    try:
        task.check(given.y, width)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def config(given: TrainConfig, valid: Data | None) -> None:
    """What the config asks for can be had."""
    if not isinstance(given, TrainConfig):
        raise TypeError(f"config is a {type(given).__name__}, but must be a TrainConfig")
    if valid is None:
        if given.patience is not None:
            raise ValueError(f"patience={given.patience} needs validation data: valid=")
        if given.schedule == "plateau":
            raise ValueError("schedule='plateau' needs validation data: valid=")


def describe(task: Task) -> str:
    """A task in words that are the same in every process."""
    fields = getattr(task, "__dataclass_fields__", {})
    values = ", ".join(f"{name}={getattr(task, name)!r}" for name in fields)
    return f"{type(task).__qualname__}({values})"
