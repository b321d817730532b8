"""Multi-head attention with three methods that agree: `forward`, `step` and `steps`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

import nystream.state as states
from nystream.config import AttentionConfig
from nystream.config.checks import MAX_SIZE
from nystream.layers import checks, kept
from nystream.layers.kept import Kept
from nystream.ops.attention import nystrom, nystrom_fixed
from nystream.ops.attention.common import Fixed, gamma_pinv
from nystream.ops.ragged import keep_first, keep_last
from nystream.ops.timeline import Timeline, timeline
from nystream.ops.tracing import tracing


class Factors(NamedTuple):
    """The three factors of low-rank attention over one window: output = B Γ† Δ V."""

    beta: Tensor  # [B, H, n, m]
    gamma_pinv: Tensor  # [B, H, m, m]
    delta: Tensor  # [B, H, m, n]


def _derive_again(module: MultiheadAttention, _: Any) -> None:  # by this name in pickles of version 0.1 too
    module._keep()


def _full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Autocast may choose the dtype of the projections; sums and inverses stay what they are."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


class MultiheadAttention(nn.Module):
    """One attention, of any variant, over windows and over streams.

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

    q_tilde: Tensor
    k_tilde: Tensor
    _kept: Kept | None = None

    def __init__(
        self,
        config: AttentionConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, AttentionConfig):
            raise TypeError(f"config is a {type(config).__name__}, but must be an AttentionConfig")
        self.config = config
        self._ops  # noqa: B018  imported now, not while a step is traced
        width = config.embed_dim
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(width, width, bias=config.bias, device=device, dtype=dtype) for _ in range(4)
        )
        if config.fixed:
            empty = torch.full((config.num_heads, config.m, config.head_dim), torch.nan, device=device, dtype=dtype)
            self.register_buffer("q_tilde", empty)
            self.register_buffer("k_tilde", empty.clone())
            # Renewed where it is known that landmarks change, so that a traced graph finds it; used only if it belongs.
            self._keep()
            self.register_load_state_dict_post_hook(_derive_again)  # type: ignore[no-untyped-call]

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
            x: [B, n, E], oldest first. Fewer tokens than n give what a stream gives after that many tokens.
            key, value: for cross-attention, as long as `x`; `value` defaults to `key`.
            lengths: [B], how many tokens of each row exist, at the end of its n places; the others are void.
            attn_mask: bool, True where a query may see a key, broadcastable to [B, H, n, n]; `full` only.

        Returns:
            [B, n, E], zeros in front where there is no token yet; [B, r, E], the newest rows, for single output.
        """
        cfg = self.config
        checks.window(x, cfg, lengths)
        if attn_mask is not None:
            checks.mask(attn_mask, x, lengths, cfg)
        inputs = self._inputs(x, key, value)
        if lengths is not None:  # void places may hold anything, NaN too
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
        with _full_precision(x):
            out = self._ops.forward(q, k, v, cfg, self._fixed(), lengths, **extra)
        y = self._output(out, lengths)
        return y if lengths is None else torch.where((lengths > 0)[:, None, None], y, 0.0)

    def init_state(self, batch_size: int = 1) -> Any:
        """The state of `batch_size` streams that have seen nothing: a NamedTuple of tensors, batch first."""
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or not 1 <= batch_size <= MAX_SIZE:
            raise ValueError(f"batch_size={batch_size!r} must be an integer from 1 to {MAX_SIZE}")
        weight = self.q_proj.weight
        self._like()  # made here, so that a traced step finds it
        with _full_precision(weight):
            return self._ops.init_state(self.config, batch_size, weight.dtype, weight.device)

    def step(
        self, x: Tensor, state: Any, key: Tensor | None = None, value: Tensor | None = None, *, inplace: bool = False
    ) -> tuple[Tensor, Any]:
        """Take in one token, or the r tokens that arrive together, and attend.

        Args:
            x: [B, E], or [B, r, E].
            state: from `init_state`, `step` or `steps`. It stays as it was, unless `inplace`.
            key, value: for cross-attention, shaped as `x`; `value` defaults to `key`.
            inplace: write into `state` instead of a copy of it; use the returned one. No copy of the rings is made, and
                no graph is recorded, so that a stream can run indefinitely.

        Returns:
            The output, shaped as `x` for single output and [B, n, E], oldest first, for the others; the new state.
        """
        cfg = self.config
        checks.group(x, cfg)
        self.check_stream(x, state)
        flat = x.dim() == 2
        inputs = [y.unsqueeze(1) if flat else y for y in self._inputs(x, key, value)]
        if inplace:
            with torch.no_grad():
                y, new = self._step(inputs, state)
                new = states.map_state(lambda held, leaf: held if held is leaf else held.copy_(leaf), state, new)
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
        """Take in a long piece of a stream at once: the numbers of `step` in a loop, in parallel, differentiable.

        Args:
            x: [B, T, E], T a multiple of `update_size`.
            state: from `init_state`, `step` or `steps`; it stays as it was.
            key, value: for cross-attention, shaped as `x`; `value` defaults to `key`.
            lengths: [B], how many of the T tokens each row has, from the left; outputs after them are zero.
            reset: bool [B, T], True at tokens that open a new stream.

        Returns:
            [B, T, E] for single output, the n rows after the last token for the others; the new state.
        """
        cfg = self.config
        checks.piece(x, cfg)
        self.check_stream(x, state)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], cfg)
        if reset is not None:
            checks.resets(reset, x, cfg)
        inputs = self._inputs(x, key, value)
        if lengths is not None:  # what is not there may hold anything, NaN too
            inputs = [keep_first(y, lengths) for y in inputs]
        q, k, v = self._project(inputs)
        when = timeline(state.time, x.shape[1], cfg.update_size, lengths, reset)
        with _full_precision(x):
            out, new = self._ops.steps(q, k, v, state, cfg, self._fixed(), when)
        y = self._output(out, None if cfg.single else new.time.clamp(max=cfg.window))
        return (keep_first(y, lengths) if cfg.single and lengths is not None else y), new

    def windows(self, x: Tensor, state: Any, when: Timeline) -> Tensor:
        """All n rows after every group of a piece, for variants that return them: [B G, n, E].

        `x` [B, n + T, E] is the piece with the n tokens before it in front; `state` is that before the piece.
        """
        cfg = self.config
        n, r = cfg.window, cfg.update_size
        q, k, v = (y[:, :, r:].unfold(2, n, r).mT for y in self._project([x, x, x]))  # [B, H, G, n, D]
        lengths: Tensor | None = when.end[:, ::r].clamp(max=n)  # [B, G]
        assert lengths is not None
        if not tracing() and bool((lengths == n).all()):
            lengths = None
        else:  # void places may hold anything, NaN too
            held = (torch.arange(n, device=x.device) >= n - lengths[..., None])[:, None, ..., None]
            q, k, v = (torch.where(held, y, 0.0) for y in (q, k, v))
            lengths = lengths.flatten()
        with _full_precision(x):
            if windows := getattr(self._ops, "windows", None):  # where the landmarks of a window are not its own
                out = windows(q, k, v, state, cfg, when, lengths)
            else:
                q, k, v = (y.transpose(1, 2).flatten(0, 1) for y in (q, k, v))
                out = self._ops.forward(q, k, v, cfg, self._fixed(), lengths)
        return self._output(out, lengths)

    def reset(self, state: Any, rows: Any) -> Any:
        """The state with some rows (index, slice, list or mask) as new."""
        return states.reset(state, rows, self.init_state(1))

    def set_landmarks(self, q_tilde: Tensor, k_tilde: Tensor) -> None:
        """Fix the landmarks, [H, m, D] each, in projected space and unscaled, and compute Γ† once.

        With `pinv="none"` the two must be pairs: centres of X projected by both `q_proj` and `k_proj`.
        """
        cfg = self.config
        if not cfg.fixed:
            raise ValueError(f"variant {cfg.variant!r} has no fixed landmarks to set; the fixed variants have")
        if is_parametrized(self):
            raise ValueError("the landmarks are parametrized, so they cannot be set; remove the parametrization first")
        shape = (cfg.num_heads, cfg.m, cfg.head_dim)
        for name, landmarks in (("q_tilde", q_tilde), ("k_tilde", k_tilde)):
            checks.tensor(name, landmarks)
            if tuple(landmarks.shape) != shape:
                raise ValueError(
                    f"{name} is {list(landmarks.shape)}, but must be {list(shape)} (heads, landmarks, width)"
                )
            if not bool(landmarks.isfinite().all()):
                raise ValueError(f"{name} has values that are not finite")
        with torch.no_grad():
            self.q_tilde.copy_(q_tilde)
            self.k_tilde.copy_(k_tilde)
        self._keep()

    def learn_landmarks(self, learn: bool = True) -> None:
        """Make the fixed landmarks parameters, to be trained with the rest, or buffers again, as they are now."""
        if not self.config.fixed:
            raise ValueError(
                f"variant {self.config.variant!r} has no fixed landmarks to learn; the fixed variants have"
            )
        for name in ("q_tilde", "k_tilde"):
            held = getattr(self, name).detach().clone()
            delattr(self, name)
            if learn:
                self.register_parameter(name, nn.Parameter(held))
            else:
                self.register_buffer(name, held)
        self._keep()

    def factors(self, x: Tensor, key: Tensor | None = None) -> Factors:
        """B, Γ† and Δ of one full window x [B, n, E], for inspection."""
        cfg = self.config
        if not cfg.low_rank:
            raise ValueError(f"variant {cfg.variant!r} is not low-rank: it has no factors B, Γ†, Δ")
        checks.window(x, cfg, None)
        if x.shape[1] != cfg.window:
            raise ValueError(f"x has {x.shape[1]} tokens, but the factors are those of a full window of {cfg.window}")
        q, k, _ = self._project(self._inputs(x, key, None))
        with _full_precision(x):
            return Factors(*(nystrom_fixed if cfg.fixed else nystrom).factors(q, k, cfg, self._fixed()))

    @property
    def _ops(self) -> Any:
        return self.config.record.functions

    @property
    def receptive_field(self) -> int:
        """How many tokens an output can depend on."""
        return self.config.receptive_field

    def extra_repr(self) -> str:
        cfg = self.config
        landmarks = f", landmarks={cfg.m}, pinv={cfg.pinv!r}" if cfg.low_rank else ""
        return f"{cfg.variant!r}, embed_dim={cfg.embed_dim}, num_heads={cfg.num_heads}, window={cfg.window}{landmarks}"

    def _inputs(self, x: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
        """What the queries, the keys and the values are projected from."""
        checks.dtype(x, self.q_proj.weight)
        if key is None:
            if value is not None:
                raise ValueError("value= came without key=; cross-attention needs key=, and value= defaults to it")
            return [x, x, x]
        checks.companion("key", key, x)
        if value is not None:
            checks.companion("value", value, x)
        return [x, key, key if value is None else value]

    def _project(self, inputs: list[Tensor]) -> list[Tensor]:
        """q, k and v [B, H, T, D]."""
        heads, dtype = (self.config.num_heads, self.config.head_dim), self.q_proj.weight.dtype
        layers = (self.q_proj, self.k_proj, self.v_proj)
        projected = (layer(y).to(dtype) for layer, y in zip(layers, inputs, strict=True))
        return [y.unflatten(-1, heads).transpose(1, 2) for y in projected]

    def _step(self, inputs: list[Tensor], state: Any) -> tuple[Tensor, Any]:
        """`step`, into the state that is given."""
        cfg = self.config
        q, k, v = self._project(inputs)
        with _full_precision(q):
            out, new = self._ops.step(q, k, v, state, cfg, self._fixed())
        return self._output(out, None if cfg.single else new.time.clamp(max=cfg.window)), new

    def _output(self, out: Tensor, lengths: Tensor | None) -> Tensor:
        """[B, H, rows, D] -> [B, rows, E]; places without a token stay zero, bias or not."""
        y = self.out_proj(out.transpose(1, 2).flatten(2))
        if lengths is None or self.config.single:
            return y
        held = torch.arange(y.shape[1], device=y.device) >= y.shape[1] - lengths[:, None]
        return torch.where(held[..., None], y, torch.zeros((), dtype=y.dtype, device=y.device))

    def _fixed(self) -> Fixed | None:
        """The fixed landmarks and their Γ†, by the rule of `nystream.layers.kept`."""
        cfg = self.config
        if not cfg.fixed:
            return None
        q_tilde, k_tilde = self.q_tilde, self.k_tilde
        if tracing():
            if kept.unset(self._kept, q_tilde, k_tilde):
                self._refuse_landmarks()
            return kept.in_graph(self._kept, q_tilde, k_tilde, cfg)
        if kept.learned(q_tilde, k_tilde):
            if not kept.finite(q_tilde, k_tilde):
                self._refuse_landmarks()
            return Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg))
        if self._kept is None or not kept.belongs(self._kept, q_tilde, k_tilde, cfg):
            self._keep()
        assert self._kept is not None
        if not self._kept.finite:
            self._refuse_landmarks()
        return Fixed(q_tilde, k_tilde, self._kept.gamma_pinv)

    def _keep(self) -> None:
        """Compute Γ† of landmarks that are buffers, and keep it with a copy of them."""
        q_tilde, k_tilde = self.q_tilde, self.k_tilde
        self._kept = None if kept.learned(q_tilde, k_tilde) else kept.keep(q_tilde, k_tilde, self.config)

    def _refuse_landmarks(self) -> NoReturn:
        raise RuntimeError(
            f"variant {self.config.variant!r} has no landmarks yet, or landmarks that are not finite; "
            f"call set_landmarks(q_tilde, k_tilde) or load a trained state_dict first, outside of torch.compile"
        )

    @property
    def gamma_pinv(self) -> Tensor:
        """Γ† [H, m, m] of the fixed landmarks as they are now."""
        fixed = self._fixed()
        if fixed is None:
            raise AttributeError(f"variant {self.config.variant!r} has no fixed landmarks, so no Γ† of its own")
        return fixed.gamma_pinv

    def require_landmarks(self) -> None:
        """Raise an error where landmarks are fixed, but not known."""
        self._fixed()

    def _apply(self, fn: Any, recurse: bool = True) -> MultiheadAttention:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.config.fixed:
            self._keep()
        return self

    def check_stream(self, x: Tensor, state: Any) -> None:
        """Refuse a state of another attention or batch, and what a stream cannot honour."""
        cfg = self.config
        if cfg.dropout and self.training:
            raise RuntimeError(
                f"dropout={cfg.dropout} of the attention weights cannot be honoured in a stream; "
                f"call eval(), or set dropout=0.0 and train through steps()"
            )
        states.check(state, self._like(), x.shape[0], f"variant {cfg.variant!r}")

    def _like(self) -> Any:
        """A state without storage, to compare others with."""
        weight = self.q_proj.weight
        key = (self.config, weight.dtype)
        if getattr(self, "_like_key", None) != key:
            self._like_key = key
            self._like_state = self._ops.init_state(self.config, 1, weight.dtype, torch.device("meta"))
        return self._like_state
