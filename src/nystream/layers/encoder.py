"""A stack of encoder blocks with `forward`, `step` and `steps`.

There are two kinds of stacks:

- In a *cascade* ("deep" stacks, and a single block that returns its newest row), each block reads the newest rows of
  the block before it as a stream, over its own window. With fixed landmarks the cost of a step hardly depends on n.
- A *window stack* ("paper" stacks and plain variants) computes what the same blocks compute over the window. Only its
  first block can be continual: all rows it returns change at every step, so the later blocks recompute n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import nystream.state as states
from nystream.config import EncoderConfig
from nystream.layers import checks
from nystream.layers.block import EncoderBlock
from nystream.ops import parallel, ring
from nystream.ops.ragged import keep_first, keep_last
from nystream.ops.timeline import Timeline, timeline
from nystream.ops.tracing import tracing


class CascadeState(NamedTuple):
    """The states of all attentions."""

    blocks: tuple[Any, ...]

    @property
    def time(self) -> Tensor:
        """[B] tokens so far."""
        return self.blocks[0].time


class WindowState(NamedTuple):
    """The state of the first attention, and the inputs of the first block, which its residual connection needs."""

    ring_input: Tensor  # [B, n, E]
    first: Any

    @property
    def time(self) -> Tensor:
        """[B] tokens so far."""
        return self.first.time


class StreamEncoder(nn.Module):
    """A stack of encoder blocks, over windows and over streams.

    The output is that of the last block: the newest rows [B, r, E], or, for plain variants, all n rows of the window
    [B, n, E], oldest first.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> encoder = ns.StreamEncoder(ns.EncoderConfig(attention=cfg, layers=2, stack="deep"))
        >>> y, state = encoder.steps(torch.randn(1, 20, 8), encoder.init_state(1))
        >>> y.shape, encoder.receptive_field
        (torch.Size([1, 20, 8]), 13)
    """

    blocks: Sequence[EncoderBlock]  # a ModuleList

    def __init__(
        self,
        config: EncoderConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, EncoderConfig):
            raise TypeError(f"config is a {type(config).__name__}, but must be an EncoderConfig")
        self.config = config
        blocks = (EncoderBlock(cfg, config, device=device, dtype=dtype) for cfg in config.blocks)
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm: nn.Module = (
            nn.LayerNorm(config.embed_dim, eps=config.norm_eps, device=device, dtype=dtype)
            if config.final_norm
            else nn.Identity()
        )

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on."""
        return self.config.receptive_field

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Process one window.

        Args:
            x: [B, T, E] with T at most n, oldest token first. A deep stack looks back further than one window: it takes
                any T, and returns the last output of `steps`.
            lengths: [B], the number of tokens in each row. They are the last ones of its n positions.

        Returns:
            [B, r, E], the newest rows, or [B, n, E] for plain variants.
        """
        checks.piece(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        if self.config.stack == "deep" and (len(self.blocks) > 1 or x.shape[1] > self.config.window):
            if lengths is not None:
                raise ValueError("lengths= is not supported by forward() of stack='deep'; use steps(lengths=)")
            return self.outputs(x, self.init_state(x.shape[0]))[:, -self.config.update_size :]
        checks.window(x, self.config.blocks[0], lengths)
        missing = self.config.window - x.shape[1]
        if lengths is not None:
            x = keep_last(x, lengths)
        elif missing and not self.config.cascade:
            x = nn.functional.pad(x, (0, 0, missing, 0))
            lengths = torch.full((x.shape[0],), self.config.window - missing, device=x.device)
        for block in self.blocks:
            x = block(x, lengths)
        return self._finish(x, lengths)

    def init_state(self, batch_size: int = 1, *, time: int = 0) -> Any:
        """Return the state of `batch_size` new streams, a NamedTuple of tensors with the batch first.

        `time` is that of `StreamModel.init_state`.
        """
        cfg = self.config
        if cfg.cascade:
            return CascadeState(tuple(block.attention.init_state(batch_size, time=time) for block in self.blocks))
        weight = self.blocks[0].linear1.weight
        first = self.blocks[0].attention.init_state(batch_size, time=time)
        inputs = torch.zeros(batch_size, cfg.window, cfg.embed_dim, dtype=weight.dtype, device=weight.device)
        return WindowState(inputs, first)

    def step(self, x: Tensor, state: Any, *, inplace: bool = False) -> tuple[Tensor, Any]:
        """Process one token x [B, E] of a stream, or r tokens [B, r, E] that arrive together.

        Arguments and results are those of `MultiheadAttention.step`.
        """
        checks.group(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        self.check_state(state, x.shape[0])
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            if self.config.cascade:
                pairs, new = list(zip(self.blocks, state.blocks, strict=True)), []
                for block, old in pairs[1:] if inplace else ():  # before the first block's state is overwritten
                    block.attention.check_stream(x, old)
                    block.attention.require_landmarks()
                for block, old in pairs:
                    rows, after = block.attention.step(block.attended(x), old, inplace=inplace)
                    x = block.finish(x, rows)
                    new.append(after)
                return self.norm(x), CascadeState(tuple(new))
            return self._window_step(x, state, inplace)

    def steps(
        self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Process T tokens x [B, T, E] of a stream in parallel, with the outputs of `step` in a loop.

        Arguments and results are those of `MultiheadAttention.steps`.
        """
        if self.config.single:
            return self.newest(x, state, lengths=lengths, reset=reset)
        rows, new, when = self._first_block(x, state, lengths, reset)
        return self._after_first(new.ring_input, rows, when.after), new

    def newest(
        self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Like `steps`, but return the newest row of every token, [B, T, E], for plain variants too."""
        x = self._checked(x, state, lengths, reset)
        run: Any = self._cascade if self.config.cascade else self._windows
        y, new = run(x, state, lengths, reset)
        y = self.norm(y)
        return (y if lengths is None else keep_first(y, lengths)), new

    def outputs(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Tensor:
        """Like `newest`, but without the new state, which saves time and memory in training."""
        if not self.config.cascade:
            return self.newest(x, state, lengths=lengths, reset=reset)[0]
        x = self._checked(x, state, lengths, reset)
        for block, old in zip(self.blocks, state.blocks, strict=True):
            x = block.finish(x, block.attention.outputs(block.attended(x), old, lengths=lengths, reset=reset))
        y = self.norm(x)
        return y if lengths is None else keep_first(y, lengths)

    def advance(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Any:
        """Return the new state of `steps` without computing outputs, which is much cheaper for window stacks."""
        if self.config.cascade:
            return self.newest(x, state, lengths=lengths, reset=reset)[1]
        return self._first_block(x, state, lengths, reset)[1]

    def reset(self, state: Any, rows: Any) -> Any:
        """Return the state with the given rows (index, slice, list or mask) reset to new streams."""
        return states.reset(state, rows, self.init_state(1))

    def tokens(self, x: Tensor, layer: int) -> Tensor:
        """Return the inputs of the attention of block `layer` for the streams x [B, T, E], as [tokens, E].

        In a window stack the streams are split into windows, the last of which may be shorter.
        """
        checks.layer(layer, len(self.blocks))
        if layer == 0:
            return self.blocks[0].attended(x).flatten(0, 1)
        if self.config.cascade:
            state = self.init_state(x.shape[0])
            return self.blocks[layer].attended(self._cascade(x, state, None, None, layer)[0]).flatten(0, 1)
        n, seen = self.config.window, []
        for window in x.split(n, 1):
            length = window.shape[1]
            rows = nn.functional.pad(window, (0, 0, n - length, 0))
            lengths = None if length == n else torch.full((x.shape[0],), length, device=x.device)
            for block in self.blocks[:layer]:
                rows = block(rows, lengths)
            seen.append(self.blocks[layer].attended(rows[:, n - length :]))
        return torch.cat(seen, 1).flatten(0, 1)

    def check_state(self, state: Any, batch_size: int) -> None:
        """Raise if the state belongs to another stack. The attentions check their own parts."""
        expected = CascadeState if self.config.cascade else WindowState
        if not isinstance(state, expected):
            raise TypeError(
                f"state is a {type(state).__name__}, but this stack of {self.config.blocks[0].variant!r} "
                f"needs a {expected.__name__}; create one with init_state()"
            )
        if isinstance(state, CascadeState):
            if len(state.blocks) != len(self.blocks):
                raise ValueError(f"state has {len(state.blocks)} blocks, but this stack has {len(self.blocks)}")
            rows = state.time.shape[0]
            if rows != batch_size:
                raise ValueError(f"state.time has {rows} rows, but x has {batch_size}; they must be the same")
            return
        weight, inputs = self.blocks[0].linear1.weight, state.ring_input
        shape = (batch_size, self.config.window, self.config.embed_dim)
        if tuple(inputs.shape) != shape or inputs.dtype != weight.dtype:
            raise ValueError(
                f"state.ring_input is {inputs.dtype} {list(inputs.shape)}, but must be {weight.dtype} {list(shape)}; "
                f"the state belongs to another config, dtype or batch size"
            )

    def _checked(self, x: Tensor, state: Any, lengths: Tensor | None, reset: Tensor | None) -> Tensor:
        """Check the arguments of `steps`, and return x with zeros where a row has no token."""
        checks.piece(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        self.check_state(state, x.shape[0])
        if reset is not None:
            checks.resets(reset, x, self.config.blocks[0])
        if lengths is None:
            return x
        checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], self.config.blocks[0])
        return keep_first(x, lengths)

    def _finish(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Apply the final norm, and zero the rows of positions without a token."""
        y = self.norm(x)
        return y if lengths is None else keep_last(y, lengths)

    def _cascade(
        self, x: Tensor, state: CascadeState, lengths: Tensor | None, reset: Tensor | None, layers: int | None = None
    ) -> tuple[Tensor, CascadeState]:
        new = []
        for block, old in list(zip(self.blocks, state.blocks, strict=True))[:layers]:
            rows, after = block.attention.steps(block.attended(x), old, lengths=lengths, reset=reset)
            x = block.finish(x, rows)
            new.append(after)
        return x, CascadeState(tuple(new))

    def _window_step(self, x: Tensor, state: WindowState, inplace: bool) -> tuple[Tensor, WindowState]:
        block, flat = self.blocks[0], x.dim() == 2
        rows, first = block.attention.step(block.attended(x), state.first, inplace=inplace)
        inputs = state.ring_input if inplace else state.ring_input.clone()
        ring.write(inputs, first.time - self.config.update_size, x[:, None] if flat else x)
        y = self._after_first(inputs, rows, first.time)
        return (y[:, 0] if flat and self.config.single else y), WindowState(inputs, first)

    def _first_block(
        self, x: Tensor, state: WindowState, lengths: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, WindowState, Timeline]:
        """Run `steps` of the first attention: its rows, and the new state."""
        x = self._checked(x, state, lengths, reset)
        block, when = self.blocks[0], self._timeline(x, state, lengths, reset)
        rows, first = block.attention.steps(block.attended(x), state.first, lengths=lengths, reset=reset)
        return rows, WindowState(self._advanced_ring(x, state, when), first), when

    def _after_first(self, ring_input: Tensor, rows: Tensor, time: Tensor) -> Tensor:
        """Compute the output from the rows of the first attention."""
        lengths = time.clamp(max=self.config.window)
        x = self.blocks[0].finish(ring.unroll(ring_input, time), rows)
        for block in self.blocks[1:]:
            x = block(x, lengths)
        return self._finish(x, lengths)

    def _windows(
        self, x: Tensor, state: WindowState, lengths: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, WindowState]:
        """Compute the newest row of every token, from as many windows at a time as memory allows."""
        cfg = self.config
        row_size = max(cfg.embed_dim + (cfg.ff_dim or 0), cfg.blocks[0].num_heads * cfg.window)
        chunk = max(1, parallel.AT_ONCE // (x.shape[0] * cfg.window * row_size)) * cfg.update_size
        outs = []
        for start in range(0, x.shape[1], chunk):
            part = slice(start, start + chunk)
            left = None if lengths is None else (lengths - start).clamp(min=0, max=x[:, part].shape[1])
            y, state = self._some_windows(x[:, part], state, left, None if reset is None else reset[:, part])
            outs.append(y)
        return torch.cat(outs, 1), state

    def _some_windows(
        self, x: Tensor, state: WindowState, lengths: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, WindowState]:
        cfg, block = self.config, self.blocks[0]
        n, r, batch = cfg.window, cfg.update_size, x.shape[0]
        when = self._timeline(x, state, lengths, reset)
        _, first = block.attention.steps(block.attended(x), state.first, lengths=lengths, reset=reset)
        ext = torch.cat([ring.unroll(state.ring_input, state.time), x], 1)  # [B, n + T, E]
        rows = block.attention.windows(block.attended(ext), state.first, when)  # [B G, n, E]
        window_lengths: Tensor | None = when.end[:, ::r].clamp(max=n).flatten()  # [B G]
        inputs = ext[:, r:].unfold(1, n, r).transpose(2, 3).flatten(0, 1)  # [B G, n, E]
        if not tracing() and bool((when.end >= n).all()):
            window_lengths = None
        y = block.finish(inputs, rows)
        for later in self.blocks[1:]:
            y = later(y, window_lengths)
        y = y[:, -r:].unflatten(0, (batch, -1)).flatten(1, 2)  # [B, T, E]
        return y, WindowState(self._advanced_ring(x, state, when), first)

    def _timeline(self, x: Tensor, state: Any, lengths: Tensor | None, reset: Tensor | None) -> Timeline:
        return timeline(state.time, x.shape[1], self.config.update_size, lengths, reset)

    def _advanced_ring(self, x: Tensor, state: WindowState, when: Timeline) -> Tensor:
        """Return the ring of inputs after the tokens x."""
        ext = torch.cat([ring.unroll(state.ring_input, state.time), x.to(state.ring_input.dtype)], 1)
        return ring.roll_on(state.ring_input, ext, when.lengths, when.after)
