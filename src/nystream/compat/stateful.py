"""A stream module that keeps its own state, with the methods and the layout of continual-inference."""

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
    """`module` with its state inside; make one with `nystream.continual`.

    A step is [B, E], a sequence [B, E, T], as continual-inference has them. Where r = `update_size` tokens arrive
    together, they are its space: a step is [B, E, r], a sequence [B, E, T, r], and steps are counted, not tokens.

    The streams of a batch begin with the first step. States are kept without a graph: gradients reach back to the
    beginning of a call, and a stream can run indefinitely with or without `torch.no_grad()`.
    """

    stride = (1,)
    _state: Any

    def __init__(self, module: MultiheadAttention | StreamEncoder | StreamModel, warmup: Warmup = "wait") -> None:
        super().__init__()
        if not isinstance(module, MultiheadAttention | StreamEncoder | StreamModel):
            raise TypeError(
                f"module is a {type(module).__name__}, but must be a MultiheadAttention, a StreamEncoder or a "
                f"StreamModel; nystream.from_torch makes a StreamEncoder of torch's"
            )
        one_of("warmup", warmup, WARMUPS)
        self.module = module
        self.warmup = warmup
        self.clean_state()

    @property
    def receptive_field(self) -> int:
        """How many steps an output can depend on."""
        return self._reach([cfg.receptive_field for cfg in self._blocks])

    @property
    def delay(self) -> int:
        """How many steps are taken in before the first output: until the windows are full, or none."""
        return self._reach([cfg.window for cfg in self._blocks]) - 1 if self.warmup == "wait" else 0

    @property
    def padding(self) -> tuple[int, ...]:
        """How many steps before a stream's beginning an output can look back on; there is nothing there."""
        return (self.receptive_field - 1 - self.delay,)

    def forward(self, x: Tensor) -> Tensor:
        """Whole sequences, each a stream of its own: what `forward_steps` gives at the beginning of a stream.

        Args:
            x: [B, E, T] with T > `delay`. Its graph reaches back to the first token: for training.

        Returns:
            [B, E, T − delay]; for attentions and encoders that return all rows, which take one window, [B, E, n].
        """
        tokens = self._sequence(x)
        steps = x.shape[2]
        if steps <= self.delay:
            raise ValueError(
                f"x has {steps} steps, but the first output comes after {self.delay + 1} (warmup={self.warmup!r}); "
                f"give more of them"
            )
        if not self._single or steps == self.delay + 1:
            if not self._single and steps > self._window:
                raise ValueError(
                    f"x has {steps} steps, but a window has {self._window}, all rows of which are returned; "
                    f"use forward_steps() for more"
                )
            y = self.module(tokens)  # one window
            return self._spread(y[:, None] if y.dim() == 2 else y)
        y, _ = self.module.steps(tokens, self.module.init_state(x.shape[0]))
        return self._spread(y)[:, :, self.delay :]

    def forward_step(self, x: Tensor, update_state: bool = True) -> Tensor | None:
        """One step x [B, E] on.

        Returns:
            [B, E]; [B, E, n] for attentions and encoders that return all rows; None where the output is held back.
        """
        tokens = self._group(x)
        state = self._begin(x, update_state)
        pure = torch.is_grad_enabled() or not update_state
        y, new = self.module.step(tokens, state, inplace=not pure)
        held = self._seen < self.delay
        if update_state:
            self._keep(new, 1)
        return None if held else _channels_first(y)

    def forward_steps(self, x: Tensor, pad_end: bool = False, update_state: bool = True) -> Tensor | None:
        """A piece of the streams x [B, E, T] on: the numbers of `forward_step` in a loop.

        Args:
            x: [B, E, T].
            pad_end: for modules that look ahead; these do not.
            update_state: whether the streams go on after the piece.

        Returns:
            [B, E, outputs]; [B, E, outputs, n] for attentions and encoders that return all rows; None without any.
        """
        tokens, steps = self._sequence(x), x.shape[2]
        state = self._begin(x, update_state)
        held = min(max(self.delay - self._seen, 0), steps)
        if self._single:
            y, new = self.module.steps(tokens, state)
            out = self._spread(y)[:, :, held:]
        else:
            rows, new = [], state
            for group in tokens.split(self._size, 1):
                y, new = self.module.step(group, new)
                rows.append(_channels_first(y))
            out = torch.stack(rows, 2)[:, :, held:]
        if update_state:
            self._keep(new, steps)
        return out if held < steps else None

    def get_state(self) -> Any:
        """A copy of the state, None before the first step."""
        return None if self._state is None else states.clone(self._state)

    def set_state(self, state: Any) -> None:
        """Go on from what `get_state`, or the module's own `step` or `steps`, returned; None is a new beginning."""
        if state is None:
            self.clean_state()
            return
        like, owner = self.module.init_state(1), type(self.module).__name__
        if type(state) is type(like):
            theirs, ours = ([name for name, _ in states.named_leaves(one)] for one in (state, like))
            if theirs != ours:
                raise ValueError(f"state has {len(theirs)} tensors, but that of this {owner} has {len(ours)} others")
        states.check(state, like, None, owner)
        times.check(states.named_leaves(state), self.module.config, "state")
        self._state = states.detach(states.clone(state))
        self._seen = int(state.time.min()) // self._size

    def clean_state(self) -> None:
        """Forget the streams."""
        self._state = None
        self._seen = 0  # steps; the tensor `time` of the state would make a device wait

    def warm_up(self, step_shape: Sequence[int]) -> None:
        """Take in zeros [B, E] for `delay` steps, so that the next one has an output."""
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
        """Steps that all blocks together look back on, each `tokens`: one after the other only in a cascade."""
        steps = [-(-count // self._size) for count in tokens]
        cfg = self.module.config
        cascade = not isinstance(cfg, AttentionConfig) and cfg.cascade
        return 1 + sum(count - 1 for count in steps) if cascade else steps[0]

    def _group(self, x: Tensor) -> Tensor:
        """A step as the module wants it."""
        width, what = self._width
        checks.tensor("x", x)
        shape = ("B", width) if self._size == 1 else ("B", width, self._size)
        if x.shape[1:] != shape[1:] or x.dim() < 2:
            raise ValueError(f"x is {list(x.shape)}, but forward_step needs [{', '.join(map(str, shape))}] ({what})")
        return _channels_first(x)

    def _sequence(self, x: Tensor) -> Tensor:
        """A sequence [B, T r, E] as the module wants it."""
        width, what = self._width
        checks.tensor("x", x)
        shape = ("B", width, "T") if self._size == 1 else ("B", width, "T", self._size)
        if x.dim() != len(shape) or x.shape[1] != width or x.shape[3:] != shape[3:]:
            raise ValueError(f"x is {list(x.shape)}, but must be [{', '.join(map(str, shape))}] ({what}, then time)")
        return x.flatten(2).transpose(1, 2)

    def _spread(self, y: Tensor) -> Tensor:
        """[B, T r, E] as a sequence, or all rows of a window."""
        y = y.transpose(1, 2)
        return y.unflatten(2, (-1, self._size)) if self._single and self._size > 1 else y

    def _begin(self, x: Tensor, update_state: bool) -> Any:
        """The state to go on from."""
        if self._state is None:
            return self.module.init_state(x.shape[0])
        rows = self._state.time.shape[0]
        if x.shape[0] != rows:
            raise ValueError(
                f"x has {x.shape[0]} rows, but the streams that are under way are {rows}; "
                f"call clean_state() to begin others"
            )
        # What was made in inference mode cannot be written to, nor differentiated through, outside of it.
        frozen = self._state.time.is_inference() and not torch.is_inference_mode_enabled()
        return states.clone(self._state) if frozen else self._state

    def _keep(self, state: Any, steps: int) -> None:
        self._state = states.detach(state)
        self._seen += steps

    def _forward_step(self, x: Tensor, prev_state: Any = None) -> tuple[Tensor | None, Any]:
        """As `forward_step`, with the state as a value: what the containers of continual-inference call."""
        state = self.module.init_state(x.shape[0]) if prev_state is None else prev_state
        y, new = self.module.step(self._group(x), state)
        held = int(new.time.min()) // self._size <= self.delay
        return (None if held else _channels_first(y)), new

    def _apply(self, fn: Any, recurse: bool = True) -> Continual:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._state is not None:
            self._state = states.to(self._state, next(self.module.parameters()).device)
        return self


def _channels_first(x: Tensor) -> Tensor:
    """[B, rows, E] -> [B, E, rows] and back; a token [B, E] stays."""
    return x.transpose(1, 2) if x.dim() == 3 else x
