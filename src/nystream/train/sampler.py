"""From data to batches: the examples of an update are a function of the seed, the epoch and the update.

This makes it possible to resume a run exactly, and to train E runs at once.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from nystream.config import ModelConfig
from nystream.train.config import TrainConfig
from nystream.train.data import Data, StreamData, TrainingBatch, WindowData, seeded


class Sampler(Protocol):
    """`len` examples per epoch; `take` returns those with the given numbers."""

    @property
    def streams(self) -> bool:
        """Whether a batch goes through `steps`, with one target per token."""
        ...

    @property
    def ragged(self) -> bool:
        """Whether the rows of a batch may have different lengths."""
        ...

    def __len__(self) -> int: ...

    def take(self, index: Tensor, generator: torch.Generator) -> TrainingBatch: ...


def sampler(data: Data, model: ModelConfig, config: TrainConfig) -> Sampler:
    """The sampler that fits the data and the model."""
    if data.input_dim != model.input_dim:
        raise ValueError(f"the data has {data.input_dim} columns, but the model's input_dim is {model.input_dim}")
    through = "windows" if isinstance(data, WindowData) else config.through
    if through == "auto":
        through = "steps" if model.cascade else "windows"
    if config.context and through == "windows":
        raise ValueError(f"context={config.context} is for pieces of streams: StreamData, with through='steps'")
    if isinstance(data, WindowData):
        return Windows(data, model, config)
    if through == "windows" and model.cascade and len(model.blocks) > 1:
        raise ValueError("through='windows' cannot train stack='deep', which looks back beyond one window: use 'steps'")
    linear = getattr(model, "linear", None)  # models that are not ours have none
    if through == "windows" and linear is not None and linear.tokens > model.window:
        raise ValueError(
            f"through='windows' cannot train a linear path over {linear.tokens} tokens, more than window="
            f"{model.window}: use 'steps'"
        )
    return Pieces(data, model, config) if through == "steps" else NewestRows(data, model, config)


class Windows:
    """Whole windows, some of them cut to their first tokens, as at the start of a stream."""

    streams = False

    def __init__(self, data: WindowData, model: ModelConfig, config: TrainConfig) -> None:
        self.data, self.model, self.short = data, model, config.short
        tokens = data.x.shape[1]
        self.deep = model.stack == "deep"
        if tokens > model.window and not self.deep:
            raise ValueError(
                f"the windows have {tokens} tokens, but the model's window is {model.window}; "
                f"use StreamData for streams that are longer"
            )
        if self.short and self.deep:
            raise ValueError("short= cuts windows, but stack='deep' reads streams: use StreamData with short=")
        self.ragged = config.short > 0

    def __len__(self) -> int:
        return len(self.data)

    def take(self, index: Tensor, generator: torch.Generator) -> TrainingBatch:
        rows = index.to(self.data.x.device)
        x, y = self.data.x[rows], self.data.y[rows]
        lengths = _cut(torch.full((len(index),), x.shape[1]), self.short, self.model.update_size, generator)
        offset = _offsets(len(index), self.model, generator)
        if self.ragged:  # the first tokens of each window, moved to its end
            place = torch.arange(self.model.window) - (self.model.window - lengths[:, None])
            x = x[torch.arange(len(index))[:, None], place.clamp(min=0).to(x.device)]
        return TrainingBatch(x, y, offset.to(x.device), lengths.to(x.device), torch.zeros_like(offset).to(x.device))


class NewestRows:
    """The window that ends at each token of a stream, and the target of that token."""

    streams = False

    def __init__(self, data: StreamData, model: ModelConfig, config: TrainConfig) -> None:
        self.data, self.model, self.short = data, model, config.short
        self.ragged = config.short > 0
        n, r = model.window, model.update_size
        first = r if self.ragged else n  # number, counted from 1, of the first token that is trained on
        counts = (data.length - first).div(r, rounding_mode="floor").clamp(min=-1) + 1  # [streams] groups that end
        if not int(counts.sum()):
            raise ValueError(f"no stream is as long as the model's window of {n}; set short= to train on the start too")
        group = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        self.start, self.end = data.start.repeat_interleave(counts), first + r * group

    def __len__(self) -> int:
        return len(self.end)

    def take(self, index: Tensor, generator: torch.Generator) -> TrainingBatch:
        n, r = self.model.window, self.model.update_size
        start, end = self.start[index], self.end[index]
        lengths = _cut(end.clamp(max=n), self.short, r, generator)
        place = start[:, None] + end[:, None] - n + torch.arange(n)  # [B, n]
        exists = torch.arange(n) >= n - lengths[:, None]
        place = torch.where(exists, place, 0).to(self.data.x.device)
        x = self.data.x[place]
        y = self.data.y[place[:, -r:]]
        offset = _offsets(len(index), self.model, generator)
        y = y[:, 0] if r == 1 else y
        return TrainingBatch(x, y, offset.to(x.device), lengths.to(x.device), torch.zeros_like(offset).to(x.device))


class Pieces:
    """Pieces from anywhere in the streams, with a loss at every token; each starts a new state, unless it has context.

    The context of a piece are the tokens before it: they are read, too, so that the loss is that of a model which has
    been reading the stream for a while.
    """

    streams, ragged = True, True

    def __init__(self, data: StreamData, model: ModelConfig, config: TrainConfig) -> None:
        self.data, self.model = data, model
        r = model.update_size
        self.longest = (config.piece or 4 * max(cfg.window for cfg in model.blocks)) // r * r
        self.warm = warm_up(model, config)
        self.context = -(-config.context // r) * r
        if self.longest <= self.warm:
            raise ValueError(
                f"piece={self.longest} is not longer than the {self.warm} tokens that only fill the window; "
                f"use a longer piece, or set short= to count their loss too"
            )
        if int(data.length.max()) // r * r <= self.warm:
            raise ValueError(f"no stream is longer than {self.warm} tokens; set short= to train on their start too")
        most = int(data.length.max())
        if config.context > most:
            raise ValueError(f"context={config.context} is longer than the longest stream, of {most} tokens")
        usable = data.length // r * r
        self.lost = max(self.warm - self.context, 0)  # tokens of a piece whose loss does not count
        self.places = (usable - self.longest).clamp(min=0) // r + 1  # [streams] possible starts of a piece
        useful = (usable - self.warm).clamp(min=0)  # [streams] tokens whose loss counts
        # A stream that is shorter than a piece still uses a whole one, so short streams are weighted up.
        self.worth = torch.where(useful > 0, useful.clamp(min=self.longest - self.lost), 0).double()
        self.before = self.worth.cumsum(0) - self.worth
        self.examples = -(-int(self.worth.sum()) // (self.longest - self.lost))

    def __len__(self) -> int:
        return self.examples

    def take(self, index: Tensor, generator: torch.Generator) -> TrainingBatch:
        device, r = self.data.x.device, self.model.update_size
        # One beginning in each of `examples` equal parts, so that every epoch covers the streams evenly.
        shift = torch.rand(len(index), generator=generator, dtype=torch.float64)
        point = (index + shift) * float(self.worth.sum()) / self.examples
        # The last stream that begins at or before the point, among those with tokens to learn from.
        stream = (torch.searchsorted(self.before, point, right=True) - 1).clamp(max=int(self.worth.nonzero().max()))
        part = ((point - self.before[stream]) / self.worth[stream]).clamp(max=1.0)
        # Beginnings before the start or after the last position are moved there, so that the ends of a stream are seen
        # as often as its middle.
        over = (self.longest - self.lost) // r
        begin = (part * (self.places[stream] + 2 * over)).long() - over
        begin = torch.minimum(begin.clamp(min=0), self.places[stream] - 1) * r
        context = begin.clamp(max=self.context)
        lengths = context + (self.data.length[stream] // r * r - begin).clamp(max=self.longest)
        place = (begin - context)[:, None] + torch.arange(self.context + self.longest)
        place = torch.minimum(place, self.data.length[stream][:, None] - 1)
        place = (self.data.start[stream][:, None] + place).to(device)
        offset = _offsets(len(index), self.model, generator)
        numbers = (x.to(device) for x in (offset, lengths, context.clamp(min=self.warm)))
        return TrainingBatch(self.data.x[place], self.data.y[place], *numbers)


def warm_up(model: ModelConfig, config: TrainConfig) -> int:
    """Number of tokens at the start of a stream that do not count: those before the window is full, unless `short`."""
    return 0 if config.short else max(cfg.window for cfg in model.blocks) - 1


def order(sampler: Sampler, config: TrainConfig, seed: int, epoch: int) -> list[Tensor]:
    """The examples of every update of an epoch."""
    size, steps = config.batch_size, config.steps_per_epoch
    if steps is None:
        return list(torch.randperm(len(sampler), generator=seeded(seed, 0, epoch)).split(size))
    rounds = -(-steps * size // len(sampler))
    shuffled = [torch.randperm(len(sampler), generator=seeded(seed, 0, epoch, i)) for i in range(rounds)]
    return list(torch.cat(shuffled)[: steps * size].split(size))


def updates(sampler: Sampler, config: TrainConfig) -> int:
    """Number of updates per epoch."""
    return config.steps_per_epoch or -(-len(sampler) // config.batch_size)


def _offsets(count: int, model: ModelConfig, generator: torch.Generator) -> Tensor:
    """Random positions of the first rows, [B]: a model that streams must have seen every rotation of the window."""
    assert model.num_positions is not None
    # Tokens that arrive together keep their order within the group.
    return torch.randint(model.num_positions, (count,), generator=generator) * model.update_size % model.num_positions


def _cut(lengths: Tensor, short: float, r: int, generator: torch.Generator) -> Tensor:
    """The lengths, a fraction `short` of them cut at random to whole groups."""
    chosen = torch.rand(lengths.shape, generator=generator) < short
    groups = torch.rand(lengths.shape, generator=generator, dtype=torch.float64) * (lengths // r)
    return torch.where(chosen, (groups.long() + 1) * r, lengths)
