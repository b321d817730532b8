"""A wrapper that stores the state of a module, with the methods and tensor layout of continual-inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

import nystream.state as states
from nystream import times
from nystream.config import AttentionConfig, ModelConfig
from nystream.config.checks import one_of
from nystream.layers import checks
from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models.stream_model import StreamModel

Warmup = Literal["wait", "now"]
WARMUPS: tuple[str, ...] = ("wait", "now")


class Continual(nn.Module):
    """A module that stores its own state; created by `nystream.continual`.

    As in continual-inference, a step is [B, E] and a sequence [B, E, T]. If r = `update_size` is greater than 1, a step
    is [B, E, r] and a sequence [B, E, T, r]; delay and receptive field count steps, not tokens.

    The state is stored without an autograd graph: gradients go back to the start of a call, and a stream can run
    indefinitely, with or without `torch.no_grad()`.
    """

    stride = (1,)
    _state: Any

    def __init__(self, module: MultiheadAttention | StreamEncoder | StreamModel, warmup: Warmup = "wait") -> None:
        super().__init__()
        if not isinstance(module, MultiheadAttention | StreamEncoder | StreamModel):
            raise TypeError(
                f"module is a {type(module).__name__}, but must be a MultiheadAttention, a StreamEncoder or a "
                f"StreamModel; nystream.from_torch converts torch's encoders"
            )
        one_of("warmup", warmup, WARMUPS)
        self.module = module
        self.warmup = warmup
        self.clean_state()

    @property
    def receptive_field(self) -> int:
        """Number of steps an output can depend on."""
        cfg = self.module.config
        if isinstance(cfg, ModelConfig) and cfg.linear is not None:
            return cfg.receptive_field
        return self._reach([cfg.receptive_field for cfg in self._blocks])

    @property
    def delay(self) -> int:
        """Number of steps without an output at the start of a stream."""
        return self._reach([cfg.window for cfg in self._blocks]) - 1 if self.warmup == "wait" else 0

    @property
    def padding(self) -> tuple[int, ...]:
        """Number of steps by which the first output's receptive field extends beyond the start of the stream."""
        return (self.receptive_field - 1 - self.delay,)

    def forward(self, x: Tensor) -> Tensor:
        """Process whole sequences, each a new stream, as `forward_steps` would. For training.

        Args:
            x: [B, E, T] with T > `delay`.

        Returns:
            [B, E, T − delay], or, for attentions and encoders that return all rows, [B, E, n] for one window.
        """
        tokens = self._sequence(x)
        steps = x.shape[2]
        if steps <= self.delay:
            raise ValueError(
                f"x has {steps} steps, but with warmup={self.warmup!r} it must have at least {self.delay + 1}, "
                f"the number before the first output"
            )
        if not self._single or steps == self.delay + 1:
            if not self._single and steps > self._window:
                raise ValueError(
                    f"x has {steps} steps, but forward() returns all rows of one window, which has {self._window}; "
                    f"use forward_steps() for longer sequences"
                )
            y = self.module(tokens)
            return self._spread(y[:, None] if y.dim() == 2 else y)
        y, _ = self.module.steps(tokens, self.module.init_state(x.shape[0]))
        return self._spread(y)[:, :, self.delay :]

    def forward_step(self, x: Tensor, update_state: bool = True) -> Tensor | None:
        """Process one step x [B, E].

        Returns:
            [B, E], or [B, E, n] for attentions and encoders that return all rows. None during the warm-up.
        """
        tokens = self._group(x)
        state = self._current_state(x)
        pure = torch.is_grad_enabled() or not update_state
        y, new = self.module.step(tokens, state, inplace=not pure)
        warming_up = self._seen < self.delay
        if update_state:
            self._store(new, 1)
        return None if warming_up else _channels_first(y)

    def forward_steps(self, x: Tensor, pad_end: bool = False, update_state: bool = True) -> Tensor | None:
        """Process T steps, with the outputs of `forward_step` in a loop.

        Args:
            x: [B, E, T].
            pad_end: Ignored: it is for modules that look ahead.
            update_state: Whether to store the new state.

        Returns:
            [B, E, outputs], or [B, E, outputs, n] for attentions and encoders that return all rows. None if all steps
            belong to the warm-up.
        """
        tokens, steps = self._sequence(x), x.shape[2]
        state = self._current_state(x)
        skipped = min(max(self.delay - self._seen, 0), steps)
        if self._single:
            y, new = self.module.steps(tokens, state)
            out = self._spread(y)[:, :, skipped:]
        else:
            rows, new = [], state
            for group in tokens.split(self._size, 1):
                y, new = self.module.step(group, new)
                rows.append(_channels_first(y))
            out = torch.stack(rows, 2)[:, :, skipped:]
        if update_state:
            self._store(new, steps)
        return out if skipped < steps else None

    def get_state(self) -> Any:
        """Return a copy of the state, or None before the first step."""
        return None if self._state is None else states.clone(self._state)

    def set_state(self, state: Any) -> None:
        """Set the state to a result of `get_state`, or of the module's `step` or `steps`. None starts new streams."""
        if state is None:
            self.clean_state()
            return
        expected, owner = self.module.init_state(1), type(self.module).__name__
        if type(state) is type(expected):
            theirs, ours = ([name for name, _ in states.named_leaves(value)] for value in (state, expected))
            if theirs != ours:
                raise ValueError(f"state has {len(theirs)} tensors, but a state of this {owner} has {len(ours)} others")
        states.check(state, expected, None, owner)
        times.check(states.named_leaves(state), self.module.config, "state")
        self._state = states.detach(states.clone(state))
        self._seen = int(state.time.min()) // self._size

    def clean_state(self) -> None:
        """Start new streams."""
        self._state = None
        self._seen = 0  # number of steps; reading it from the state would synchronize the device

    def warm_up(self, step_shape: Sequence[int]) -> None:
        """Process zeros [B, E] for `delay` steps, so that the next step has an output."""
        if self.delay:
            weight = next(self.module.parameters())
            shape = (*step_shape[:2], self.delay, *step_shape[2:])
            with torch.no_grad():
                self.forward_steps(torch.zeros(shape, dtype=weight.dtype, device=weight.device))

    def extra_repr(self) -> str:
        return f"warmup={self.warmup!r}, delay={self.delay}"

    @property
    def _blocks(self) -> tuple[AttentionConfig, ...]:
        cfg = self.module.config
        return (cfg,) if isinstance(cfg, AttentionConfig) else cfg.blocks

    @property
    def _size(self) -> int:
        return self._blocks[0].update_size

    @property
    def _window(self) -> int:
        return self._blocks[0].window // self._size

    @property
    def _single(self) -> bool:
        return self.module.config.single

    @property
    def _width(self) -> tuple[int, str]:
        cfg = self.module.config
        return (cfg.input_dim, "input_dim") if isinstance(cfg, ModelConfig) else (cfg.embed_dim, "embed_dim")

    def _reach(self, tokens: list[int]) -> int:
        """Return the number of steps that blocks look back together, given the tokens each looks back."""
        steps = [-(-count // self._size) for count in tokens]
        cfg = self.module.config
        cascade = not isinstance(cfg, AttentionConfig) and cfg.cascade
        return 1 + sum(count - 1 for count in steps) if cascade else steps[0]

    def _group(self, x: Tensor) -> Tensor:
        """Check a step, and convert it to the layout of the module."""
        width, what = self._width
        checks.tensor("x", x)
        shape = ("B", width) if self._size == 1 else ("B", width, self._size)
        if x.shape[1:] != shape[1:] or x.dim() < 2:
            raise ValueError(f"x is {list(x.shape)}, but forward_step needs [{', '.join(map(str, shape))}] ({what})")
        return _channels_first(x)

    def _sequence(self, x: Tensor) -> Tensor:
        """Check a sequence, and convert it to the layout of the module, [B, T r, E]."""
        width, what = self._width
        checks.tensor("x", x)
        shape = ("B", width, "T") if self._size == 1 else ("B", width, "T", self._size)
        if x.dim() != len(shape) or x.shape[1] != width or x.shape[3:] != shape[3:]:
            raise ValueError(f"x is {list(x.shape)}, but must be [{', '.join(map(str, shape))}] ({what}, then time)")
        return x.flatten(2).transpose(1, 2)

    def _spread(self, y: Tensor) -> Tensor:
        """Convert outputs [B, T r, E], or all rows of a window, to channels first."""
        y = y.transpose(1, 2)
        return y.unflatten(2, (-1, self._size)) if self._single and self._size > 1 else y

    def _current_state(self, x: Tensor) -> Any:
        if self._state is None:
            return self.module.init_state(x.shape[0])
        rows = self._state.time.shape[0]
        if x.shape[0] != rows:
            raise ValueError(
                f"x has {x.shape[0]} rows, but the current state has {rows} streams; call clean_state() to start others"
            )
        # Tensors created in inference mode cannot be written to or differentiated outside of it.
        frozen = self._state.time.is_inference() and not torch.is_inference_mode_enabled()
        return states.clone(self._state) if frozen else self._state

    def _store(self, state: Any, steps: int) -> None:
        self._state = states.detach(state)
        self._seen += steps

    def _forward_step(self, x: Tensor, prev_state: Any = None) -> tuple[Tensor | None, Any]:
        """Like `forward_step`, with the state as a value. The containers of continual-inference call it."""
        state = self.module.init_state(x.shape[0]) if prev_state is None else prev_state
        y, new = self.module.step(self._group(x), state)
        warming_up = int(new.time.min()) // self._size <= self.delay
        return (None if warming_up else _channels_first(y)), new

    def _apply(self, fn: Any, recurse: bool = True) -> Continual:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._state is not None:
            self._state = states.to(self._state, next(self.module.parameters()).device)
        return self


def _channels_first(x: Tensor) -> Tensor:
    """Swap the last dimensions of [B, rows, E] or [B, E, rows]; return a token [B, E] unchanged."""
    return x.transpose(1, 2) if x.dim() == 3 else x
