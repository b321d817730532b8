"""A stack of encoder blocks with the three methods of its attentions: `forward`, `step` and `steps`.

A *cascade* ("deep" stacks, and one block that returns its newest row) hands each block the newest rows of the one
before it: every block streams over a window of its own, and a step costs O(d m) a block, whatever n.

A *window* stack ("paper", and plain variants) gives what the same blocks give over the window: only the first block
can stream, because all the rows that it returns change at every step; the blocks after it work on n fresh rows.
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
    """The states of the attentions."""

    blocks: tuple[Any, ...]

    @property
    def time(self) -> Tensor:
        """[B] tokens so far."""
        return self.blocks[0].time


class WindowState(NamedTuple):
    """The state of the first attention, and the rows that its residual needs."""

    ring_input: Tensor  # [B, n, E]
    first: Any

    @property
    def time(self) -> Tensor:
        """[B] tokens so far."""
        return self.first.time


class StreamEncoder(nn.Module):
    """Encoder blocks over windows and over streams.

    Returns the newest rows where the last block does ([B, r, E]; a step's output is shaped as its input), and all n
    rows of the window, oldest first, for the plain variants.

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
        """How many tokens an output can depend on."""
        return self.config.receptive_field

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Over one window x [B, T, E] with T at most n, oldest first; [B, rows, E].

        `lengths` [B]: how many tokens of each row exist, at the end of its n places. A deep stack looks further back
        than one window: its `forward` takes any T and is the last of `steps`.
        """
        checks.piece(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        if self.config.stack == "deep" and (len(self.blocks) > 1 or x.shape[1] > self.config.window):
            if lengths is not None:
                raise ValueError("lengths= is for one window, but stack='deep' reads streams: use steps(lengths=)")
            y, _ = self._cascade(x, self.init_state(x.shape[0]), None, None)
            return self.norm(y[:, -self.config.update_size :])
        checks.window(x, self.config.blocks[0], lengths)
        missing = self.config.window - x.shape[1]
        if lengths is not None:
            x = keep_last(x, lengths)
        elif missing and not self.config.cascade:
            x = nn.functional.pad(x, (0, 0, missing, 0))
            lengths = torch.full((x.shape[0],), self.config.window - missing, device=x.device)
        return self._finish(self._through(x, lengths), lengths)

    def init_state(self, batch_size: int = 1) -> Any:
        """The state of `batch_size` streams that have seen nothing: a NamedTuple of tensors, batch first."""
        cfg = self.config
        if cfg.cascade:
            return CascadeState(tuple(block.attention.init_state(batch_size) for block in self.blocks))
        weight = self.blocks[0].linear1.weight
        first = self.blocks[0].attention.init_state(batch_size)
        held = torch.zeros(batch_size, cfg.window, cfg.embed_dim, dtype=weight.dtype, device=weight.device)
        return WindowState(held, first)

    def step(self, x: Tensor, state: Any, *, inplace: bool = False) -> tuple[Tensor, Any]:
        """Take in one token [B, E], or the r tokens [B, r, E] that arrive together.

        Args:
            x: the token or tokens.
            state: from `init_state`, `step` or `steps`. It stays as it was, unless `inplace`.
            inplace: write into `state` and record no graph; use the returned one.

        Returns:
            The newest rows, shaped as `x`, or [B, n, E] for the plain variants; the new state.
        """
        checks.group(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        self.check_state(state, x.shape[0])
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            if self.config.cascade:
                pairs, new = list(zip(self.blocks, state.blocks, strict=True)), []
                for block, held in pairs[1:] if inplace else ():  # else they would refuse after the first has moved on
                    block.attention.check_stream(x, held)
                    block.attention.require_landmarks()
                for block, held in pairs:
                    rows, after = block.attention.step(block.attended(x), held, inplace=inplace)
                    x = block.finish(x, rows)
                    new.append(after)
                return self.norm(x), CascadeState(tuple(new))
            return self._window_step(x, state, inplace)

    def steps(
        self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Take in a long piece of a stream x [B, T, E] at once: the numbers of `step` in a loop.

        Args:
            x: [B, T, E], T a multiple of `update_size`.
            state: from `init_state`, `step` or `steps`; it stays as it was.
            lengths: [B], how many of the T tokens each row has, from the left; outputs after them are zero.
            reset: bool [B, T], True at tokens that open a new stream.

        Returns:
            [B, T, E] for the newest rows, the n rows after the last token for the plain variants; the new state.
        """
        if self.config.single:
            return self.newest(x, state, lengths=lengths, reset=reset)
        x = self._piece(x, state, lengths, reset)
        block, when = self.blocks[0], self._when(x, state, lengths, reset)
        rows, first = block.attention.steps(block.attended(x), state.first, lengths=lengths, reset=reset)
        held = self._rolled(x, state, when)
        return self._after_first(held, rows, when.after), WindowState(held, first)

    def newest(
        self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """As `steps`, and the newest row of every token [B, T, E] for the plain variants too."""
        x = self._piece(x, state, lengths, reset)
        run: Any = self._cascade if self.config.cascade else self._windows
        y, new = run(x, state, lengths, reset)
        y = self.norm(y)
        return (y if lengths is None else keep_first(y, lengths)), new

    def advance(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Any:
        """The state after a piece, without the outputs: for window stacks far cheaper than `steps`."""
        if self.config.cascade:
            return self.newest(x, state, lengths=lengths, reset=reset)[1]
        x = self._piece(x, state, lengths, reset)
        block, when = self.blocks[0], self._when(x, state, lengths, reset)
        _, first = block.attention.steps(block.attended(x), state.first, lengths=lengths, reset=reset)
        return WindowState(self._rolled(x, state, when), first)

    def reset(self, state: Any, rows: Any) -> Any:
        """The state with some rows (index, slice, list or mask) as new."""
        return states.reset(state, rows, self.init_state(1))

    def tokens(self, x: Tensor, layer: int) -> Tensor:
        """What the attention of block `layer` sees of the streams x [B, T, E]: [tokens, E].

        For window stacks the stream is cut into windows, the last of which may be shorter.
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
        """Refuse a state of another stack; the attentions check their own."""
        want = CascadeState if self.config.cascade else WindowState
        if not isinstance(state, want):
            raise TypeError(
                f"state is a {type(state).__name__}, but this stack of {self.config.blocks[0].variant!r} "
                f"needs a {want.__name__}; make one with init_state()"
            )
        if isinstance(state, CascadeState):
            if len(state.blocks) != len(self.blocks):
                raise ValueError(f"state has {len(state.blocks)} blocks, but this stack has {len(self.blocks)}")
            rows = state.time.shape[0]
            if rows != batch_size:
                raise ValueError(f"state.time has {rows} rows, but x has {batch_size}; they must be the same")
            return
        weight, held = self.blocks[0].linear1.weight, state.ring_input
        shape = (batch_size, self.config.window, self.config.embed_dim)
        if tuple(held.shape) != shape or held.dtype != weight.dtype:
            raise ValueError(
                f"state.ring_input is {held.dtype} {list(held.shape)}, but must be {weight.dtype} {list(shape)}; "
                f"the state belongs to another config, dtype or batch"
            )

    def _piece(self, x: Tensor, state: Any, lengths: Tensor | None, reset: Tensor | None) -> Tensor:
        """The piece of a stream, checked, with zeros where a row has no token."""
        checks.piece(x, self.config.blocks[0])
        checks.dtype(x, self.blocks[0].linear1.weight)
        self.check_state(state, x.shape[0])
        if reset is not None:
            checks.resets(reset, x, self.config.blocks[0])
        if lengths is None:
            return x
        checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], self.config.blocks[0])
        return keep_first(x, lengths)

    def _through(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """All blocks over windows."""
        for block in self.blocks:
            x = block(x, lengths)
        return x

    def _finish(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """The last norm; places without a token are zero, whatever the norm made of them."""
        y = self.norm(x)
        return y if lengths is None else keep_last(y, lengths)

    def _cascade(
        self, x: Tensor, state: CascadeState, lengths: Tensor | None, reset: Tensor | None, layers: int | None = None
    ) -> tuple[Tensor, CascadeState]:
        new = []
        for block, held in list(zip(self.blocks, state.blocks, strict=True))[:layers]:
            rows, after = block.attention.steps(block.attended(x), held, lengths=lengths, reset=reset)
            x = block.finish(x, rows)
            new.append(after)
        return x, CascadeState(tuple(new))

    def _window_step(self, x: Tensor, state: WindowState, inplace: bool) -> tuple[Tensor, WindowState]:
        block, flat = self.blocks[0], x.dim() == 2
        rows, first = block.attention.step(block.attended(x), state.first, inplace=inplace)
        held = state.ring_input if inplace else state.ring_input.clone()
        ring.write(held, first.time - self.config.update_size, x[:, None] if flat else x)
        y = self._after_first(held, rows, first.time)
        return (y[:, 0] if flat and self.config.single else y), WindowState(held, first)

    def _after_first(self, held: Tensor, rows: Tensor, time: Tensor) -> Tensor:
        """From the rows of the first attention to the output."""
        n = self.config.window
        lengths = time.clamp(max=n)
        x = self.blocks[0].finish(ring.unroll(held, time), rows)
        for block in self.blocks[1:]:
            x = block(x, lengths)
        return self._finish(x, lengths)

    def _windows(
        self, x: Tensor, state: WindowState, lengths: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, WindowState]:
        """The newest row of every token: each window through the blocks, as many at a time as memory allows."""
        cfg = self.config
        wide = max(cfg.embed_dim + (cfg.ff_dim or 0), cfg.blocks[0].num_heads * cfg.window)
        some = max(1, parallel.AT_ONCE // (x.shape[0] * cfg.window * wide)) * cfg.update_size
        outs = []
        for at in range(0, x.shape[1], some):
            piece = slice(at, at + some)
            left = None if lengths is None else (lengths - at).clamp(min=0, max=x[:, piece].shape[1])
            y, state = self._some_windows(x[:, piece], state, left, None if reset is None else reset[:, piece])
            outs.append(y)
        return torch.cat(outs, 1), state

    def _some_windows(
        self, x: Tensor, state: WindowState, lengths: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, WindowState]:
        cfg, block = self.config, self.blocks[0]
        n, r, batch = cfg.window, cfg.update_size, x.shape[0]
        when = self._when(x, state, lengths, reset)
        seen = block.attended(x)
        _, first = block.attention.steps(seen, state.first, lengths=lengths, reset=reset)
        ext = torch.cat([ring.unroll(state.ring_input, state.time), x], 1)  # [B, n + T, E]
        rows = block.attention.windows(block.attended(ext), state.first, when)  # [B G, n, E]
        held: Tensor | None = when.end[:, ::r].clamp(max=n).flatten()  # [B G]
        inputs = ext[:, r:].unfold(1, n, r).transpose(2, 3).flatten(0, 1)  # [B G, n, E]
        if not tracing() and bool((when.end >= n).all()):
            held = None
        y = block.finish(inputs, rows)
        for later in self.blocks[1:]:
            y = later(y, held)
        y = y[:, -r:].unflatten(0, (batch, -1)).flatten(1, 2)  # [B, T, E]
        return y, WindowState(self._rolled(x, state, when), first)

    def _when(self, x: Tensor, state: Any, lengths: Tensor | None, reset: Tensor | None) -> Timeline:
        return timeline(state.time, x.shape[1], self.config.update_size, lengths, reset)

    def _rolled(self, x: Tensor, state: WindowState, when: Timeline) -> Tensor:
        """The ring of inputs after a piece."""
        ext = torch.cat([ring.unroll(state.ring_input, state.time), x.to(state.ring_input.dtype)], 1)
        return ring.roll_on(state.ring_input, ext, when.lengths, when.after)
