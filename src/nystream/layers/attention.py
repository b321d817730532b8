"""Multi-head attention for windows (`forward`), single tokens (`step`) and pieces of a stream (`steps`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import nystream.state as states
from nystream import times
from nystream.config import AttentionConfig
from nystream.config.checks import MAX_SIZE
from nystream.layers import checks
from nystream.layers.fixed_landmarks import FixedLandmarks
from nystream.layers.fixed_landmarks import derive_again as _derive_again  # noqa: F401  pickles of version 0.1 name it
from nystream.ops import window
from nystream.ops.attention import nystrom, nystrom_fixed
from nystream.ops.attention.common import Factors
from nystream.ops.decay import initial
from nystream.ops.folding import fold_outputs
from nystream.ops.precision import accumulate, full_precision
from nystream.ops.ragged import keep_first, keep_last
from nystream.ops.timeline import Timeline, timeline
from nystream.ops.tracing import tracing


class MultiheadAttention(FixedLandmarks):
    """Multi-head attention of any variant, over windows and over streams.

    `forward` processes whole windows, `step` one token of a stream, `steps` a piece of a stream in parallel. All three
    give the same outputs; with continual landmarks, `forward` does so just after a renewal, if m divides n.

    Example:
        >>> import torch, nystream as ns
        >>> cfg = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> attn = ns.MultiheadAttention(cfg)
        >>> x = torch.randn(1, 6, 8)
        >>> state = attn.init_state(1)
        >>> for t in range(6):
        ...     y, state = attn.step(x[:, t], state)
        >>> torch.allclose(y, attn(x)[:, -1], atol=1e-5)
        True
    """

    def __init__(
        self, config: AttentionConfig, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        if not isinstance(config, AttentionConfig):
            raise TypeError(f"config is a {type(config).__name__}, but must be an AttentionConfig")
        self.config = config
        self._ops  # noqa: B018  imports the variant now rather than while a step is traced
        width = config.embed_dim
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(width, width, bias=config.bias, device=device, dtype=dtype) for _ in range(4)
        )
        if config.decay:
            self.decay_logit = nn.Parameter(initial(config.num_heads, config.window).to(device, dtype))
        if config.fixed:
            self._register_landmarks(device, dtype)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        """Attend over one window.

        Args:
            x: [B, n, E], oldest token first. Fewer than n tokens are the start of a stream.
            key, value: [B, n, E] for cross-attention. `value` defaults to `key`.
            lengths: [B], the number of tokens in each row. They are the last ones of its n positions; the content of
                the positions before them is ignored.
            attn_mask: bool, broadcastable to [B, H, n, n], True where a query may attend to a key. `full` only.

        Returns:
            [B, r, E], the newest rows, for single-output variants. For the others [B, n, E], where the rows of
            positions without a token are zero and come first.
        """
        cfg = self.config
        checks.window(x, cfg, lengths)
        if attn_mask is not None:
            checks.mask(attn_mask, x, lengths, cfg)
        inputs = self._inputs(x, key, value)
        if lengths is not None:  # positions without a token may contain anything, even NaN
            inputs = [keep_last(y, lengths) for y in inputs]
        q, k, v = self._project(inputs)
        missing = cfg.window - x.shape[1]
        if missing:
            q, k, v = (nn.functional.pad(y, (0, 0, missing, 0)) for y in (q, k, v))
            lengths = torch.full((x.shape[0],), x.shape[1], dtype=torch.long, device=x.device)
        extra: dict[str, Any] = {}
        if attn_mask is not None:
            extra["mask"] = attn_mask
        if cfg.dropout and self.training:
            extra["dropout"] = cfg.dropout
        with full_precision(x):
            out = self._ops.forward(q, k, v, cfg, self._fixed(), lengths, **extra, **self._decay())
        y = self._output(out, lengths)
        return y if lengths is None else torch.where((lengths > 0)[:, None, None], y, 0.0)

    def init_state(self, batch_size: int = 1, *, time: int = 0) -> Any:
        """Return the state of `batch_size` new streams, a NamedTuple of tensors with the batch first.

        Args:
            batch_size: The number of streams.
            time: The number of tokens that the streams have read so far, but not kept: see `StreamModel.init_state`.
        """
        times.check_start(time, self.config.update_size)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or not 1 <= batch_size <= MAX_SIZE:
            raise ValueError(f"batch_size={batch_size!r} must be an integer from 1 to {MAX_SIZE}")
        weight = self.q_proj.weight
        self._expected_state()  # created here rather than while a step is traced
        with full_precision(weight):
            state = self._ops.init_state(self.config, batch_size, weight.dtype, weight.device)
        return state._replace(time=torch.full_like(state.time, time)) if time else state

    def step(
        self, x: Tensor, state: Any, key: Tensor | None = None, value: Tensor | None = None, *, inplace: bool = False
    ) -> tuple[Tensor, Any]:
        """Process one token of a stream, or r tokens that arrive together.

        Args:
            x: [B, E] or [B, r, E].
            state: The result of `init_state`, `step` or `steps`. It is not modified unless `inplace` is set.
            key, value: For cross-attention, with the shape of `x`. `value` defaults to `key`.
            inplace: Overwrite `state` instead of copying it, and record no autograd graph. The cost is then independent
                of n where the variant allows it. Continue with the returned state.

        Returns:
            The output and the new state. The output has the shape of `x` for single-output variants; for the others it
            is [B, n, E], oldest row first.
        """
        cfg = self.config
        checks.group(x, cfg)
        self.check_stream(x, state)
        flat = x.dim() == 2
        inputs = [y.unsqueeze(1) if flat else y for y in self._inputs(x, key, value)]
        if inplace:
            with torch.no_grad():
                y, new = self._step(inputs, state)
                new = states.map_state(lambda old, leaf: old if old is leaf else old.copy_(leaf), state, new)
        else:
            y, new = self._step(inputs, states.clone(state))
        return (y[:, 0] if flat and cfg.single else y), new

    def steps(
        self,
        x: Tensor,
        state: Any,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Process T tokens of a stream in parallel, with the outputs of `step` in a loop. Differentiable.

        Args:
            x: [B, T, E], T a multiple of `update_size`.
            state: The result of `init_state`, `step` or `steps`. It is not modified.
            key, value: For cross-attention, with the shape of `x`. `value` defaults to `key`.
            lengths: [B], the number of tokens in each row, at its start. Outputs beyond them are zero.
            reset: bool [B, T], True where a token starts a new stream.

        Returns:
            The output and the new state. The output is [B, T, E] for single-output variants; for the others it is the
            n rows after the last token, [B, n, E].
        """
        cfg = self.config
        q, k, v, when = self._piece(x, state, key, value, lengths, reset)
        with full_precision(x):
            fixed, unset = self._fixed_later()
            out, new = self._ops.steps(q, k, v, state, cfg, fixed, when, **self._decay())
        if unset:
            self._raise_unset()
        y = self._output(out, None if cfg.single else new.time.clamp(max=cfg.window))
        return (keep_first(y, lengths) if cfg.single and lengths is not None else y), new

    def outputs(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Tensor:
        """Return the output of `steps` without the new state, which saves time and memory in training."""
        if not hasattr(self._ops, "outputs"):
            return self.steps(x, state, lengths=lengths, reset=reset)[0]
        q, k, v, when = self._piece(x, state, None, None, lengths, reset)
        with full_precision(x):
            fixed, unset = self._fixed_later()
            out = fold_outputs(self._ops.outputs, q, k, v, state, self.config, fixed, when, self.decay)
        if unset:
            self._raise_unset()
        y = self._output(out, None)
        return y if lengths is None else keep_first(y, lengths)

    def _piece(
        self,
        x: Tensor,
        state: Any,
        key: Tensor | None,
        value: Tensor | None,
        lengths: Tensor | None,
        reset: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Timeline]:
        """Check the arguments of `steps`, and return q, k, v [B, H, T, D] and the times of the tokens."""
        cfg = self.config
        checks.piece(x, cfg)
        self.check_stream(x, state)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], cfg)
        if reset is not None:
            checks.resets(reset, x, cfg)
        inputs = self._inputs(x, key, value)
        if lengths is not None:  # positions without a token may contain anything, even NaN
            inputs = [keep_first(y, lengths) for y in inputs]
        q, k, v = self._project(inputs)
        return q, k, v, timeline(state.time, x.shape[1], cfg.update_size, lengths, reset)

    def windows(self, x: Tensor, state: Any, when: Timeline) -> Tensor:
        """Return all n rows after each of the G = T / r steps of a piece, [B G, n, E], if the variant has them.

        `x` [B, n + T, E] is the piece with the n tokens before it in front, `state` the state before the piece.
        """
        cfg = self.config
        n, r = cfg.window, cfg.update_size
        q, k, v = (y[:, :, r:].unfold(2, n, r).mT for y in self._project([x, x, x]))  # [B, H, G, n, D]
        counts = when.end[:, ::r].clamp(max=n)  # [B, G]
        lengths = None if not tracing() and bool((counts == n).all()) else counts.flatten()
        if lengths is not None:  # positions without a token may contain anything, even NaN
            exists = (torch.arange(n, device=x.device) >= n - counts[..., None])[:, None, ..., None]
            q, k, v = (torch.where(exists, y, 0.0) for y in (q, k, v))
        with full_precision(x):
            if windows := getattr(self._ops, "windows", None):  # if landmarks depend on tokens before the window
                out = windows(q, k, v, state, cfg, when, lengths)
            else:
                q, k, v = (y.transpose(1, 2).flatten(0, 1) for y in (q, k, v))
                out = self._ops.forward(q, k, v, cfg, self._fixed(), lengths)
        return self._output(out, lengths)

    def reset(self, state: Any, rows: Any) -> Any:
        """Return the state with the given rows (index, slice, list or mask) reset to new streams."""
        return states.reset(state, rows, self.init_state(1))

    def with_sums(self, state: Any) -> Any:
        """Return the state with the partial sums of its window computed from its rings, if it has any."""
        if not set(states.SUMS) <= set(state._fields):
            return state
        with torch.no_grad(), full_precision(state.ring_logit):
            parts = window.rebuild(self.config, state.ring_logit, state.ring_value, state.time, self.decay)
        return state._replace(**dict(zip(states.SUMS, parts, strict=True)))

    def factors(self, x: Tensor, key: Tensor | None = None) -> Factors:
        """Return the factors B, Γ† and Δ of a full window x [B, n, E], for inspection."""
        cfg = self.config
        if not cfg.low_rank:
            raise ValueError(f"variant {cfg.variant!r} is not low-rank, so it has no factors B, Γ†, Δ")
        checks.window(x, cfg, None)
        if x.shape[1] != cfg.window:
            raise ValueError(f"x has {x.shape[1]} tokens, but factors() needs a full window of {cfg.window}")
        q, k, _ = self._project(self._inputs(x, key, None))
        with full_precision(x):
            return (nystrom_fixed if cfg.fixed else nystrom).factors(q, k, cfg, self._fixed(), **self._decay())

    @property
    def _ops(self) -> Any:
        return self.config.record.functions

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on."""
        return self.config.receptive_field

    def extra_repr(self) -> str:
        cfg = self.config
        landmarks = f", landmarks={cfg.m}, pinv={cfg.pinv!r}" if cfg.low_rank else ""
        return f"{cfg.variant!r}, embed_dim={cfg.embed_dim}, num_heads={cfg.num_heads}, window={cfg.window}{landmarks}"

    def _inputs(self, x: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
        """Return the inputs of the three projections."""
        checks.dtype(x, self.q_proj.weight)
        if key is None:
            if value is not None:
                raise ValueError("value= was given without key=; cross-attention needs key=, and value= defaults to it")
            return [x, x, x]
        checks.companion("key", key, x)
        if value is not None:
            checks.companion("value", value, x)
        return [x, key, key if value is None else value]

    def _project(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return q, k and v, each [B, H, T, D]."""
        heads, dtype = (self.config.num_heads, self.config.head_dim), self.q_proj.weight.dtype
        layers = (self.q_proj, self.k_proj, self.v_proj)
        projected = (layer(y).to(dtype) for layer, y in zip(layers, inputs, strict=True))
        return [y.unflatten(-1, heads).transpose(1, 2) for y in projected]

    def _step(self, inputs: list[Tensor], state: Any) -> tuple[Tensor, Any]:
        """Step, overwriting `state`."""
        cfg = self.config
        q, k, v = self._project(inputs)
        with full_precision(q):
            out, new = self._ops.step(q, k, v, state, cfg, self._fixed(), **self._decay())
        return self._output(out, None if cfg.single else new.time.clamp(max=cfg.window)), new

    def _output(self, out: Tensor, lengths: Tensor | None) -> Tensor:
        """Project rows [B, H, rows, D] to [B, rows, E], and zero those of positions without a token."""
        y = self.out_proj(out.transpose(1, 2).flatten(2))
        if lengths is None or self.config.single:
            return y
        exists = torch.arange(y.shape[1], device=y.device) >= y.shape[1] - lengths[:, None]
        return torch.where(exists[..., None], y, torch.zeros((), dtype=y.dtype, device=y.device))

    @property
    def decay(self) -> Tensor | None:
        """The rates λ [H] at which logits fall with age, between 0 and 1 per token; None if `decay=False`."""
        return accumulate(self.decay_logit).sigmoid() if self.config.decay else None

    def _decay(self) -> dict[str, Tensor]:
        rates = self.decay
        return {} if rates is None else {"decay": rates}

    def check_stream(self, x: Tensor, state: Any) -> None:
        """Raise if the state belongs to another attention or batch size, or if dropout is active."""
        cfg = self.config
        if cfg.dropout and self.training:
            raise RuntimeError(
                f"dropout={cfg.dropout} of the attention weights is not supported by step() and steps(); "
                f"call eval(), or set dropout=0.0 and train through steps()"
            )
        states.check(state, self._expected_state(), x.shape[0], f"variant {cfg.variant!r}")

    def _expected_state(self) -> Any:
        """Return a state on the meta device, with the types and shapes that a state must have."""
        weight = self.q_proj.weight
        key = (self.config, weight.dtype)
        if getattr(self, "_expected_key", None) != key:
            self._expected_key = key
            self._expected = self._ops.init_state(self.config, 1, weight.dtype, torch.device("meta"))
        return self._expected
