"""The linear path of a model: from the last tokens of a stream directly to the output."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nystream.config import LinearConfig
from nystream.config.linear import Run
from nystream.ops import ring
from nystream.ops.precision import accumulate, full_precision
from nystream.ops.timeline import Timeline
from nystream.ops.trailing import trailing_sums


class ModelState(NamedTuple):
    """The state of the encoder, and the last inputs, which the linear path reads."""

    encoder: Any
    recent: Tensor  # [B, tokens − 1, c], a ring of scaled inputs

    @property
    def time(self) -> Tensor:
        """[B] tokens so far."""
        time: Tensor = self.encoder.time
        return time


class LinearPath(nn.Module):
    """A linear function of the newest token and of the means over segments of the tokens before it.

    A mean is over those tokens of its segment that the stream has, and 0 if it has none. `weight`, [output_dim,
    features], has the columns of the newest token first, then those of the segments, newest first; it is 0 until it is
    fitted or trained. There is no bias, because the head of the model has one.

    Features and sums are float32 at least, and have no trace of tokens that are not in their segment: nothing is
    subtracted.
    """

    def __init__(
        self,
        config: LinearConfig,
        input_dim: int,
        output_dim: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.tokens, self.runs, self.width = config.tokens, config.runs, config.width(input_dim)
        self.weight = nn.Parameter(torch.zeros(output_dim, config.features(input_dim), device=device, dtype=dtype))

    def forward(self, features: Tensor) -> Tensor:
        """Map features [..., features] to outputs [..., output_dim], both float32 at least."""
        with full_precision(features):
            return nn.functional.linear(features, accumulate(self.weight))

    def newest(self, x: Tensor, before: Tensor, time: Tensor) -> Tensor:
        """Return the features of one token.

        Args:
            x: [B, input_dim], scaled.
            before: [B, tokens − 1, c], the tokens before it, newest first. What a stream does not have is ignored.
            time: [B], the number of the token in its stream, from 1.

        Returns:
            [B, features], float32 at least.
        """
        before, parts = accumulate(before), [accumulate(x)]
        has_token = time[:, None] > torch.arange(1, self.tokens, device=x.device)
        before = torch.where(has_token[..., None], before, 0.0)
        for run in self.runs:
            tokens = before[:, run.age - 1 :][:, : run.length * run.repeats]
            if run.length > 1:
                tokens = tokens.unflatten(1, (run.repeats, run.length)).sum(2) / _counts(run, time)[..., None]
            parts.append(tokens.flatten(1))
        return torch.cat(parts, 1)

    def piece(self, x: Tensor, before: Tensor, time: Tensor) -> Tensor:
        """Return the features of every token of a piece, computed in parallel.

        Args:
            x: [B, T, input_dim], scaled.
            before: [B, tokens − 1, c], the tokens before the piece, oldest first.
            time: [B, T], the number of each token in its stream, from 1; 0 or less where there is none.

        Returns:
            [B, T, features], float32 at least.
        """
        (length, past), parts = (x.shape[1], before.shape[1]), [accumulate(x)]
        tokens = accumulate(torch.cat([before, x[..., : self.width]], 1))  # [B, past + T, c]
        ages = torch.arange(past, 0, -1, device=x.device)
        times = torch.cat([time[:, :1] - ages, time], 1)
        sums: dict[int, Tensor] = {}
        for run in self.runs:
            if run.length not in sums:
                sums[run.length] = trailing_sums(tokens, times, run.length)
            span = run.length * (run.repeats - 1)
            some = sums[run.length][:, past - run.age - span : past - run.age + length]
            each = some.unfold(1, span + 1, 1)[..., :: run.length].flip(-1).mT  # [B, T, segments, c], newest first
            if run.length > 1:
                each = each / _counts(run, time)[..., None]
            each = torch.where((time[..., None] > _starts(run, x))[..., None], each, 0.0)
            parts.append(each.flatten(2))
        return torch.cat(parts, 2)

    @property
    def looks_back(self) -> bool:
        """Whether tokens before the newest are read, which the state must then have."""
        return self.tokens > 1

    def init_ring(self, batch_size: int) -> Tensor:
        """The ring of new streams, [B, tokens − 1, c], in the dtype of the weights."""
        return self.weight.new_zeros(batch_size, self.tokens - 1, self.width, requires_grad=False)

    def features(self, x: Tensor, state: Any, when: Timeline) -> Tensor:
        """Return the features of a piece x [B, T, input_dim], scaled, that follows `state`."""
        before = ring.unroll(state.recent, state.time) if self.looks_back else self.init_ring(x.shape[0])
        return self.piece(x, before, when.time)

    def step(self, x: Tensor, state: Any) -> Tensor:
        """Return the output [B, 1, output_dim] of one token x [B, 1, input_dim], scaled, that follows `state`."""
        before = ring.newest_first(state.recent, state.time) if self.looks_back else self.init_ring(x.shape[0])
        return self(self.newest(x[:, 0], before, state.time + 1))[:, None]

    def window(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the outputs of a window x [B, T, input_dim], scaled, that has the last `lengths` tokens of each row.

        [B, T, output_dim] if they are embedded, else [B, 1, output_dim], that of the newest token.
        """
        batch, length = x.shape[:2]
        time = torch.arange(1, length + 1, device=x.device).expand(batch, -1)
        if lengths is not None:
            time = time - (length - lengths[:, None])
        before = self.init_ring(batch)
        if not self.config.embedded:
            before = torch.cat([before, x[:, :-1, : self.width]], 1)[:, length - 1 :]
            x, time = x[:, -1:], time[:, -1:]
        return self(self.piece(x, before, time))

    def pushed(self, x: Tensor, state: Any, encoder: Any, inplace: bool) -> Any:
        """Return the state after one token x [B, 1, input_dim], scaled; `encoder` is that of the encoder."""
        if not self.looks_back:
            return encoder
        recent = state.recent if inplace else state.recent.clone()
        ring.write(recent, encoder.time - 1, x[..., : self.width])
        return ModelState(encoder, recent)

    def advanced(self, x: Tensor, state: Any, encoder: Any, when: Timeline) -> Any:
        """Return the state after a piece x [B, T, input_dim], scaled; `encoder` is that of the encoder."""
        if not self.looks_back:
            return encoder
        tokens = torch.cat([ring.unroll(state.recent, state.time), x[..., : self.width]], 1)
        return ModelState(encoder, ring.roll_on(state.recent, tokens, when.lengths, when.after))

    def check_state(self, state: object, batch_size: int) -> None:
        """Raise if the state belongs to a model with another path, or to another batch size."""
        if not isinstance(state, ModelState):
            raise TypeError(
                f"state is a {type(state).__name__}, but a model with a linear path over {self.tokens} tokens "
                f"needs a ModelState; create one with init_state()"
            )
        shape, recent = (batch_size, self.tokens - 1, self.width), state.recent
        if tuple(recent.shape) != shape or recent.dtype != self.weight.dtype:
            raise ValueError(
                f"state.recent is {recent.dtype} {list(recent.shape)}, but must be {self.weight.dtype} {list(shape)}; "
                f"the state belongs to another config, dtype or batch size"
            )

    def extra_repr(self) -> str:
        outputs, features = self.weight.shape
        return f"{features} features of {self.tokens} tokens, {outputs} outputs"


def _starts(run: Run, x: Tensor) -> Tensor:
    """[segments]: the age of the newest token of each segment of a run."""
    return run.age + run.length * torch.arange(run.repeats, device=x.device)


def _counts(run: Run, time: Tensor) -> Tensor:
    """[..., segments]: tokens that streams at `time` [...] have in each segment of a run; 1 if none."""
    return (time[..., None] - _starts(run, time)).clamp(1, run.length)
