"""A uniform sample of the tokens that one attention sees, in memory that does not grow with the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import Tensor, nn

from nystream.config import ModelConfig
from nystream.layers import checks
from nystream.layers.encoder import StreamEncoder
from nystream.layers.modes import evaluating
from nystream.models.stream_model import StreamModel
from nystream.ops.precision import accumulator
from nystream.progress import track

MAX_NUMBERS = 1 << 22  # in the output of a layer that is computed at once, whatever the size of a batch


class Reservoir:
    """A uniform random sample of `size` rows of a stream of rows (Vitter's Algorithm R).

    Row number i (from 1) takes place i while i <= size; after that it replaces a random row with probability size / i.
    Each row draws one random number, so the sample does not depend on how the stream is cut into pieces.
    """

    def __init__(self, size: int, width: int, dtype: torch.dtype, seed: SeedSequence | int) -> None:
        self.size = size
        self.seen = 0
        self._dtype = dtype
        self._random = np.random.default_rng(seed)
        # Pages that are never written take no memory: few rows cost little, whatever the size.
        self._rows: NDArray[Any] = np.empty((size, width), np.float64 if dtype == torch.float64 else np.float32)

    def add(self, rows: Tensor) -> None:
        """Add the next rows [rows, width], on any device; only those that enter the sample are copied."""
        count = len(rows)
        places = np.arange(self.seen, self.seen + count)
        late = max(0, min(count, count - (self.size - self.seen)))  # rows that arrive when the sample is full
        if late:
            numbers = places[count - late :] + 1
            places[count - late :] = (self._random.random(late) * numbers).astype(np.int64)
        self.seen += count
        taken = np.flatnonzero(places < self.size)
        # If several rows take one place, the last one stays; assigning to repeated indices would not guarantee that.
        place, last = np.unique(places[taken][::-1], return_index=True)
        taken = taken[::-1][last]
        if len(taken):
            chosen = rows[torch.from_numpy(taken).to(rows.device)]
            self._rows[place] = chosen.to("cpu", self._dtype).numpy()

    @property
    def rows(self) -> NDArray[Any]:
        """The sample [min(seen, size), width]; not a copy."""
        return self._rows[: min(self.seen, self.size)]


def collect(
    model: StreamModel | StreamEncoder,
    batches: Iterable[Any],
    layer: int,
    size: int,
    offset: int | None,
    seed: SeedSequence,
    progress: bool | None,
) -> Reservoir:
    """A sample of the inputs of the attention of block `layer`, from one pass over `batches`."""
    encoder = model.encoder if isinstance(model, StreamModel) else model
    weight = encoder.blocks[0].linear1.weight
    for_sample, for_offsets = seed.spawn(2)
    reservoir = Reservoir(size, encoder.config.embed_dim, accumulator(weight.dtype), for_sample)
    draw = np.random.default_rng(for_offsets)
    width = model.config.input_dim if isinstance(model, StreamModel) else encoder.config.embed_dim
    with track(f"reading batches, block {layer}", _length(batches), progress) as advance:
        for number, batch in enumerate(batches):
            name = f"x of batches[{number}]"
            x = _floats(name, batch, weight.dtype)
            checks.sequence(name, x, width, "input_dim" if isinstance(model, StreamModel) else "embed_dim")
            _check_finite(name, x)
            starts = _starts(model, x.shape[0], offset, draw)
            for piece, start in _pieces(x, starts, model, layer):
                rows = _seen_by(model, piece.to(weight.device, weight.dtype), layer, start, name)
                if not _all_finite(rows):
                    raise ValueError(
                        f"{name} is finite, but the inputs of the attention of block {layer} are not: a weight or a "
                        f"scaler of the model is not finite, or the numbers are too large for {weight.dtype}"
                    )
                reservoir.add(rows)
            advance(note=f"{reservoir.seen:,} tokens")
    return reservoir


def _seen_by(model: StreamModel | StreamEncoder, x: Tensor, layer: int, start: Tensor, name: str) -> Tensor:
    # Around the model alone, not the loop over the batches, which may run the user's code.
    with evaluating(model):
        try:
            if isinstance(model, StreamModel):
                return model.tokens(x, layer, start.to(x.device))
            return model.tokens(x, layer)
        except Exception as error:
            error.add_note(f"while collecting the tokens of block {layer} from {name}")
            raise


def _pieces(
    x: Tensor, starts: Tensor, model: StreamModel | StreamEncoder, layer: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of x [B, T, width] that fit into memory, whole sequences if possible, with their positions on the circle.

    A paper stack sees separate windows, so a long sequence can be cut between them. In a deep stack, the input of block
    1 depends on many earlier tokens, so sequences are not cut; nor if a linear path that looks back is embedded.
    """
    cfg = model.config
    width, looks_back = cfg.embed_dim + (cfg.ff_dim or 0 if layer else 0), layer > 0
    if isinstance(cfg, ModelConfig) and cfg.linear is not None and cfg.linear.embedded:
        width, looks_back = width + cfg.linear.features(cfg.input_dim), looks_back or cfg.linear.tokens > 1
    sequences, length = max(1, MAX_NUMBERS // (x.shape[1] * width)), x.shape[1]
    if not (looks_back and cfg.cascade):
        length = max(1, MAX_NUMBERS // (cfg.window * width)) * cfg.window
    for rows, start in zip(x.split(sequences), starts.split(sequences), strict=True):
        for at in range(0, x.shape[1], length):
            yield rows[:, at : at + length], start + at


def _starts(model: nn.Module, batch: int, offset: int | None, draw: np.random.Generator) -> Tensor:
    """Positions of the first tokens, [B]: the given one, or random ones at which a window can begin."""
    if offset is not None or not isinstance(model, StreamModel):
        return torch.full((batch,), offset or 0)
    positions = model.config.num_positions
    assert positions is not None
    # Tokens that arrive together keep their order within the group.
    turns = (draw.random(batch) * positions).astype(np.int64) * model.config.update_size
    return torch.from_numpy(turns % positions)


def _floats(name: str, batch: Any, dtype: torch.dtype) -> Tensor:
    """x of a batch, which is x or (x, y, ...)."""
    x = batch[0] if isinstance(batch, list | tuple) and batch else batch
    if isinstance(x, Tensor):
        if not x.is_floating_point():
            raise TypeError(f"{name} is {x.dtype}, but must be floating point; convert it as for training: x.float()")
        return x.detach()
    if isinstance(x, np.ndarray):
        if not np.issubdtype(x.dtype, np.floating):
            raise TypeError(f"{name} is {x.dtype}, but must be floating point; convert it as for training")
        # A copy, because torch accepts neither foreign byte orders nor read-only arrays.
        return torch.from_numpy(x.astype(np.float64 if dtype == torch.float64 else np.float32))
    raise TypeError(
        f"{name} is a {type(x).__name__}, but must be a torch.Tensor or a numpy array; "
        f"a batch is x, or a list or tuple that begins with it"
    )


def _check_finite(name: str, x: Tensor) -> None:
    if _all_finite(x):
        return
    bad = ~x.isfinite().all(-1)  # [B, T]
    row, token = bad.nonzero()[0].tolist()
    raise ValueError(
        f"{name} has {int(bad.sum()):,} of {bad.numel():,} tokens with values that are not finite (NaN or Inf), "
        f"the first at [{row}, {token}]; fill or drop them"
    )


def _all_finite(x: Tensor) -> bool:
    # A sum takes a tenth of the time, and is not finite if a value is not; it may overflow, so then check each value.
    return bool(x.sum().isfinite()) or bool(x.isfinite().all())


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a DataLoader over an iterable data set
        return None
