"""Checks of arguments before anything is trained; errors say what is needed."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from nystream.config import ModelConfig
from nystream.models import StreamModel
from nystream.train.config import TrainConfig
from nystream.train.data import Data, StreamData, WindowData
from nystream.train.tasks import Task
from nystream.train.trainable import Trainable

PARTS = ("config", "head", "input_scaler", "output_scaler")
METHODS = ("init_state", "step", "steps", "outputs", "advance", "save_pretrained")


def trainable(name: str, given: Trainable) -> StreamModel:
    """Check that a module has the methods of a StreamModel, and return it as what it is used as."""
    if not isinstance(given, nn.Module):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be a StreamModel")
    missing = [part for part in (*PARTS, *METHODS) if not hasattr(given, part)]
    if missing:
        raise TypeError(
            f"{name} is a {type(given).__name__}, but must be a StreamModel or a module with the same methods: "
            f"it has no {', '.join(missing)}"
        )
    return cast(StreamModel, given)


def model(name: str, given: Any) -> None:
    """Check a model: a StreamModel with parameters to train, whose fixed landmarks have been fitted."""
    if not isinstance(given, StreamModel):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be a StreamModel")
    ready(name, given)


def ready(name: str, given: nn.Module) -> None:
    """Check that a model has parameters to train, and that its fixed landmarks have been fitted."""
    for block in given.encoder.blocks if isinstance(given, StreamModel) else ():
        block.attention.require_landmarks()
    if not any(x.requires_grad for x in given.parameters()):
        raise ValueError(f"{name} has no parameters to train: all are frozen")


def data(name: str, given: Any, task: Task, shape: ModelConfig, skip: int) -> None:
    """Check that data fit the model and the task; the first `skip` tokens of a stream are not scored."""
    if not isinstance(given, WindowData | StreamData):
        raise TypeError(f"{name} is a {type(given).__name__}, but must be WindowData or StreamData")
    if isinstance(task, type) or not (hasattr(task, "loss") and hasattr(task, "scores")):
        raise TypeError(f"task is {task!r}, but must be a task: Classification(), Detection() or Forecasting()")
    if given.input_dim != shape.input_dim:
        raise ValueError(f"{name} has {given.input_dim} columns, but the model's input_dim is {shape.input_dim}")
    y, r = given.y, shape.update_size
    if isinstance(given, WindowData):
        if given.x.shape[1] % r:
            raise ValueError(f"{name} has windows of {given.x.shape[1]} tokens, not a multiple of update_size={r}")
    else:
        used = scored_tokens(given, r, skip)
        if not bool(used.any()):
            raise ValueError(f"{name} has no stream longer than the {skip} tokens that fill the window; set short=")
        y = y[used.to(y.device)]
    if hasattr(task, "check"):
        try:
            task.check(y, shape.output_dim)
        except ValueError as error:
            where = f" after the first {skip} tokens of its streams" if len(y) < len(given.y) else ""
            raise ValueError(f"{name}{where}: {error}") from error


def longer_than_warm_up(name: str, given: Data, shape: ModelConfig) -> None:
    """Check that windows teach a deep stack of several blocks more than its warm-up, in which its windows fill."""
    deep, window = shape.stack == "deep" and len(shape.blocks) > 1, max(cfg.window for cfg in shape.blocks)
    if deep and isinstance(given, WindowData) and given.x.shape[1] <= window:
        raise ValueError(
            f"{name} is WindowData of {given.x.shape[1]} tokens, from which several blocks with stack='deep' and "
            f"window={window} learn only how a stream starts: use StreamData with longer streams, or build the model "
            f"with stack='paper', which learns from windows"
        )


def scored_tokens(given: StreamData, r: int, skip: int) -> torch.Tensor:
    """[tokens]: whether `predict` returns an output for a token; r tokens arrive together."""
    place = torch.arange(len(given.y)) - given.start.repeat_interleave(given.length)
    return (place >= skip) & (place < (given.length // r * r).repeat_interleave(given.length))


def config(given: TrainConfig, valid: Any) -> None:
    """Check that the config can be followed with this validation data, or without any."""
    if not isinstance(given, TrainConfig):
        raise TypeError(f"config is a {type(given).__name__}, but must be a TrainConfig")
    if valid is None:
        if given.patience is not None:
            raise ValueError(f"patience={given.patience} needs validation data: valid=")
        if given.schedule == "plateau":
            raise ValueError("schedule='plateau' needs validation data: valid=")


def describe(task: Task) -> str:
    """A description of a task that is the same in every process."""
    fields = getattr(task, "__dataclass_fields__", None) or vars(task)
    values = ", ".join(f"{name}={getattr(task, name)!r}" for name in fields)
    return f"{type(task).__qualname__}({values})"
