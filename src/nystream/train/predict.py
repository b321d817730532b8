"""Streaming outputs, for scoring: from the first token of every stream on, not window by window."""

from __future__ import annotations

import torch
from torch import Tensor

import nystream.state as states
from nystream.config import ModelConfig
from nystream.config.checks import whole
from nystream.layers.modes import evaluating
from nystream.models import StreamModel
from nystream.progress import Advance, track
from nystream.train import checks
from nystream.train.data import PIECE, Data, WindowData
from nystream.train.tasks import Task
from nystream.train.trainable import Trainable


def predict(
    model: Trainable, data: Data, batch_size: int = 64, skip: int = 0, progress: bool | None = False
) -> tuple[Tensor, Tensor]:
    """Streaming outputs and their targets, on the CPU: [N, output_dim] and [N, ...].

    For windows, the output after the last token of each; for streams, the output of every token except the first
    `skip` ones, stream after stream. `progress`: True for a progress bar, None for one on a terminal.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=2, attention=attention))
        >>> streams = [torch.randn(20, 3), torch.randn(30, 3)]
        >>> data = ns.train.StreamData(streams, [stream[:, :2] for stream in streams])
        >>> output, target = ns.train.predict(model, data, skip=5)
        >>> output.shape, target.shape
        (torch.Size([40, 2]), torch.Size([40, 2]))
    """
    model = checks.trainable("model", model)
    whole("skip", skip)
    if isinstance(data, WindowData):
        with evaluating(model), track("scoring, windows", len(data), progress) as advance:
            outputs = []
            for x in data.x.split(batch_size):
                outputs.append(_last(model, x).cpu())
                advance(len(x))
            return torch.cat(outputs), data.y.cpu()
    outputs_of: dict[int, Tensor] = {}
    groups = data.length.argsort(descending=True).split(batch_size)  # streams of similar length together
    total = sum(int(_whole(data.length[group], model.config.update_size).max()) for group in groups)
    with evaluating(model), track("scoring, tokens", total, progress) as advance:
        for group in groups:
            x = torch.nn.utils.rnn.pad_sequence([data.stream(i)[0] for i in group.tolist()], batch_first=True)
            lengths = _whole(data.length[group], model.config.update_size)
            for i, length, y in zip(group.tolist(), lengths.tolist(), _all(model, x, lengths, advance), strict=True):
                outputs_of[i] = y[skip:length].cpu()
    targets = [data.stream(i)[1][skip : skip + len(outputs_of[i])].cpu() for i in range(len(data))]
    return torch.cat([outputs_of[i] for i in range(len(data))]), torch.cat(targets)


def evaluate(model: Trainable, data: Data, task: Task, batch_size: int = 64, skip: int = 0) -> dict[str, float]:
    """Streaming scores of a model, without the first `skip` tokens of every stream.

    Unless `short` is set, `fit` does not score the n − 1 tokens before the window is full; `FitResult.skip` is their
    number.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
        >>> model = ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=1, attention=attention))
        >>> x = torch.randn(50, 3)
        >>> data = ns.train.StreamData([x], [x[:, :1]])
        >>> list(ns.train.evaluate(model, data, ns.train.Forecasting(), skip=5))
        ['mse', 'mae', 'loss']
    """
    model = checks.trainable("model", model)
    whole("skip", skip)
    checks.data("data", data, task, model.config, skip)
    return scored(model, task, *predict(model, data, batch_size, skip))


def scored(model: StreamModel, task: Task, output: Tensor, y: Tensor) -> dict[str, float]:
    """The scores of outputs from `predict`."""
    if len(output) == 0:
        raise ValueError("there is nothing to score: no stream is longer than its warm-up; set short= to score it too")
    if task.scaled:
        output, y = in_model_units(model, output), in_model_units(model, y)
    return task.scores(output, y)


def in_model_units(model: StreamModel, y: Tensor) -> Tensor:
    """Numbers in the user's units, converted to those of the loss."""
    scaler = model.output_scaler
    return (y - scaler.mean.to(y.device, y.dtype)) / scaler.scale.to(y.device, y.dtype)


def _placed(model: StreamModel, x: Tensor) -> Tensor:
    """Tokens on the device of the model and in its dtype."""
    return x.to(model.head.weight.device, model.head.weight.dtype)


def _whole(lengths: Tensor, r: int) -> Tensor:
    return lengths // r * r


def _last(model: StreamModel, x: Tensor) -> Tensor:
    """Outputs after the last token of streams x [B, T, input_dim]."""
    r, x = model.config.update_size, _placed(model, x)
    state = model.init_state(x.shape[0])
    if x.shape[1] > r:
        state = model.advance(x[:, :-r], state)
    y, _ = model.step(x[:, -1] if r == 1 else x[:, -r:], state)
    return y if r == 1 else y[:, -1]


def _all(model: StreamModel, x: Tensor, lengths: Tensor, advance: Advance) -> Tensor:
    """Outputs after every token of streams x [B, T, input_dim], the longest first."""
    state, longest = model.init_state(x.shape[0]), int(lengths.max())
    outputs = model.head.weight.new_zeros(x.shape[0], longest, model.config.output_dim)
    at = 0
    while at < longest:
        alive = int((lengths > at).sum())
        piece = slice(at, at + _piece(model.config, int(lengths[alive - 1]) - at, longest - at))
        part = _placed(model, x[:alive, piece])
        left = (lengths[:alive] - at).clamp(max=part.shape[1]).to(part.device)
        outputs[:alive, piece], state = model.steps(part, states.select(state, slice(alive)), lengths=left)
        at = piece.stop
        advance(part.shape[1])
    return outputs


def _piece(config: ModelConfig, shortest: int, longest: int) -> int:
    """The number of tokens to compute at once: up to the end of the shortest stream, so that finished streams cost
    nothing, but at least a window, and at most `PIECE`."""
    r = config.update_size
    largest = max(PIECE // r, 1) * r
    return min(max(shortest, -(-config.window // r) * r), largest, longest)
