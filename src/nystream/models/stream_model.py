"""A Transformer for streams, from raw tokens to outputs in the user's units."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

import nystream.state as states
from nystream.config import AttentionConfig, ModelConfig, ModelInfo
from nystream.config.attention import Pinv
from nystream.config.model import with_variant
from nystream.layers import checks
from nystream.layers.encoder import StreamEncoder
from nystream.layers.linear_path import LinearPath, ModelState
from nystream.layers.positional import CircularPositions
from nystream.layers.scaler import Scaler
from nystream.models.pretrained import Pretrained
from nystream.ops.precision import accumulate
from nystream.ops.ragged import keep_first, keep_last
from nystream.ops.timeline import Timeline, timeline


class StreamModel(
    nn.Module,
    Pretrained,
    library_name="nystream",
    tags=["streaming", "continual-inference", "nystrom"],
):
    """A Transformer for streams: input projection, circular positions, encoder blocks, norm and head.

    With `ModelConfig.linear`, the output is `output_scaler.restore(head(Transformer(x)) + linear(last tokens))`.

    `input_scaler` standardizes the inputs and `output_scaler` converts outputs back to the user's units; both are the
    identity until they are fitted. `info` has the names and units of inputs and outputs. All are saved with the model.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> config = ns.ModelConfig(input_dim=5, output_dim=3, attention=attention)
        >>> model = ns.StreamModel(config).eval()
        >>> x = torch.randn(1, 12, 5)
        >>> y, state = model.steps(x, model.init_state(1))
        >>> y.shape
        torch.Size([1, 12, 3])
        >>> torch.allclose(y[:, -1], model(x[:, 6:], offset=0), atol=1e-5)
        True
    """

    linear: LinearPath
    linear_embed: nn.Linear

    def __init__(
        self,
        config: ModelConfig,
        info: ModelInfo | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, ModelConfig):
            raise TypeError(f"config is a {type(config).__name__}, but must be a ModelConfig")
        self.config = config
        self.info = ModelInfo() if info is None else info
        width, positions = config.embed_dim, config.num_positions
        assert positions is not None
        self.input_scaler = Scaler(config.input_dim, device=device, dtype=dtype)
        self.input_proj = nn.Linear(config.input_dim, width, device=device, dtype=dtype)
        self.positions = CircularPositions(positions, width, config.positions, device=device, dtype=dtype)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = StreamEncoder(config.encoder, device=device, dtype=dtype)
        self.head = nn.Linear(width, config.output_dim, device=device, dtype=dtype)
        self.output_scaler = Scaler(config.output_dim, device=device, dtype=dtype)
        if config.linear is not None:
            self.linear = LinearPath(config.linear, config.input_dim, config.output_dim, device=device, dtype=dtype)
            if config.linear.embedded:
                self.linear_embed = nn.Linear(config.output_dim, width, bias=False, device=device, dtype=dtype)

    @property
    def info(self) -> ModelInfo:
        """Names and units of the inputs and outputs."""
        return self._info

    @info.setter
    def info(self, info: ModelInfo) -> None:
        if not isinstance(info, ModelInfo):
            raise TypeError(f"info is a {type(info).__name__}, but must be a ModelInfo")
        info.check(self.config.input_dim, self.config.output_dim)
        self._info = info

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on."""
        return self.config.receptive_field

    def forward(self, x: Tensor, offset: int | Tensor = 0, *, lengths: Tensor | None = None) -> Tensor:
        """Compute the output for the newest token, or the r newest, of a window.

        Args:
            x: [B, T, input_dim] with T at most n, oldest token first. Fewer than n tokens are the start of a stream.
                Deep stacks take any T, and return the last output of `steps`. A linear path reads these tokens alone:
                for a deep stack, pass as many as `receptive_field` to get the outputs of a longer stream.
            offset: Position of the first token, an integer or [B]. The window that ends at token t of a stream has
                offset (t − n) mod P.
            lengths: [B], the number of tokens in each row. They are the last ones of its n positions; the content of
                the positions before them is ignored.

        Returns:
            [B, output_dim], or [B, r, output_dim] if `update_size` r is greater than 1.
        """
        self._check_tokens(x)
        start = self._start(offset, x)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], self.config.window, self.config.blocks[0])
            x = keep_last(x, lengths)
        path = None if self.config.linear is None else self.linear.window(self._scaled(x), lengths)
        y = self.encoder(self._embed(x, start, path), lengths)[:, -self.config.update_size :]
        y = self._head(y, path)
        if lengths is not None:
            y = keep_last(y, lengths)
        return y[:, 0] if self.config.update_size == 1 else y

    @property
    def replay_length(self) -> int:
        """Number of tokens from which the state of a stream can be rebuilt: see `init_state`."""
        return self.config.replay_length

    def init_state(self, batch_size: int = 1, *, time: int = 0) -> Any:
        """Return the state of `batch_size` new streams, a NamedTuple of tensors with the batch first.

        Args:
            batch_size: The number of streams.
            time: The number of tokens that the streams have read so far, none of which is in the state. Positions and
                renewals of landmarks depend on it. Outputs are meaningless until `replay_length` tokens have been read;
                from then on, they are those of streams that have read all tokens, up to rounding. So a stream that has
                read t tokens can be rebuilt from the last `replay_length` of them, starting at t − `replay_length`.
                Not with `sums="subtract"`, whose errors never end.
        """
        encoder = self.encoder.init_state(batch_size, time=time)
        return ModelState(encoder, self.linear.init_ring(batch_size)) if self._looks_back else encoder

    def step(self, x: Tensor, state: Any, *, inplace: bool = False) -> tuple[Tensor, Any]:
        """Process one token of a stream, or r tokens that arrive together.

        Args:
            x: [B, input_dim] or [B, r, input_dim].
            state: The result of `init_state`, `step` or `steps`. It is not modified unless `inplace` is set.
            inplace: Overwrite `state` and record no autograd graph. Continue with the returned state.

        Returns:
            The output, [B, output_dim] or [B, r, output_dim] like `x`, and the new state.
        """
        checks.group(x, self.config.blocks[0], self.config.input_dim, "input_dim")
        checks.dtype(x, self.input_proj.weight)
        self.check_state(state, x.shape[0])
        flat = x.dim() == 2
        x = x[:, None] if flat else x
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            tokens = None if self.config.linear is None else self._scaled(x)
            path = None if tokens is None else self.linear.step(tokens, state)
            y, new = self.encoder.step(self._embed(x, state.time, path), self._of_encoder(state), inplace=inplace)
            y = self._head(y[:, -self.config.update_size :], path)
            if tokens is not None:
                new = self.linear.pushed(tokens, state, new, inplace)
        return (y[:, 0] if flat else y), new

    def steps(
        self,
        x: Tensor,
        state: Any,
        *,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
        offset: int | Tensor = 0,
    ) -> tuple[Tensor, Any]:
        """Process T tokens of a stream in parallel, with the outputs of `step` in a loop. Differentiable.

        Args:
            x: [B, T, input_dim], T a multiple of `update_size`.
            state: The result of `init_state`, `step` or `steps`. It is not modified.
            lengths: [B], the number of tokens in each row, at its start. Outputs beyond them are zero.
            reset: bool [B, T], True where a token starts a new stream.
            offset: Position of the first token of a stream, an integer or [B]. Leave it at 0, except to train on parts
                of streams.

        Returns:
            The outputs [B, T, output_dim] and the new state.
        """
        embedded, path, when = self._embed_stream(x, state, lengths, reset, offset)
        y, new = self.encoder.newest(embedded, self._of_encoder(state), lengths=lengths, reset=reset)
        if self.config.linear is not None:
            new = self.linear.advanced(self._scaled(x), state, new, when)
        y = self._head(y, path)
        return (y if lengths is None else keep_first(y, lengths)), new

    def outputs(
        self,
        x: Tensor,
        state: Any,
        *,
        lengths: Tensor | None = None,
        reset: Tensor | None = None,
        offset: int | Tensor = 0,
    ) -> Tensor:
        """Return the outputs of `steps` without the new state, which saves time and memory in training."""
        embedded, path, _ = self._embed_stream(x, state, lengths, reset, offset)
        y = self._head(self.encoder.outputs(embedded, self._of_encoder(state), lengths=lengths, reset=reset), path)
        return y if lengths is None else keep_first(y, lengths)

    def advance(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Any:
        """Return the new state of `steps` without computing outputs, which is much cheaper for paper stacks."""
        embedded, _, when = self._embed_stream(x, state, lengths, reset, needed=self._embeds_path)
        new = self.encoder.advance(embedded, self._of_encoder(state), lengths=lengths, reset=reset)
        return new if self.config.linear is None else self.linear.advanced(self._scaled(x), state, new, when)

    def linear_features(self, x: Tensor, state: Any = None) -> Tensor:
        """Return what the linear path reads at every token, to fit its weights.

        Args:
            x: [B, T, input_dim], in the user's units.
            state: The state before these tokens. Default: new streams.

        Returns:
            [B, T, features], float32 at least: the columns of `linear.weight`, from scaled inputs.
        """
        if self.config.linear is None:
            raise ValueError("linear_features needs a model with a linear path: ModelConfig(linear=LinearConfig(...))")
        self._check_tokens(x)
        state = self.init_state(x.shape[0]) if state is None else state
        self.check_state(state, x.shape[0])
        return self.linear.features(self._scaled(x), state, timeline(state.time, x.shape[1], 1, None, None))

    def reset(self, state: Any, rows: Any) -> Any:
        """Return the state with the given rows (index, slice, list or mask) reset to new streams."""
        return states.reset(state, rows, self.init_state(1))

    def tokens(self, x: Tensor, layer: int, offset: int | Tensor = 0) -> Tensor:
        """Return the inputs of the attention of block `layer` for the streams x [B, T, input_dim], as [tokens, E]."""
        return self.encoder.tokens(self.embed(x, offset), layer)

    def embed(self, x: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Return the inputs of the encoder for new streams x [B, T, input_dim], as [B, T, E].

        `offset` is the position of the first token, an integer or [B].
        """
        self._check_tokens(x)
        path = self.linear.window(self._scaled(x), None) if self._embeds_path else None
        return self._embed(x, self._start(offset, x), path)

    def check_state(self, state: Any, batch_size: int) -> None:
        """Raise if the state belongs to another model. The attentions check their own parts."""
        if self._looks_back:
            self.linear.check_state(state, batch_size)
        self.encoder.check_state(self._of_encoder(state), batch_size)

    def convert(
        self,
        *,
        variant: str | None = None,
        window: int | None = None,
        landmarks: int | None = None,
        pinv: Pinv | None = None,
        pinv_ridge: float | None = None,
        layer: int | None = None,
    ) -> StreamModel:
        """Return a copy of the model with the same weights and another attention, in all blocks or in one.

        Args:
            variant: The new variant. Its fixed landmarks must be fitted, unless this model has landmarks to copy.
            window: The new window n. Not possible for landmarks that are segment means.
            landmarks: The new number of landmarks m. Fixed landmarks must then be fitted again.
            pinv, pinv_ridge: The new pseudo-inverse of Γ.
            layer: Index of the block to change. Default: all blocks.
        """
        attention = self.config.attention
        configs = list(attention if isinstance(attention, tuple) else [attention] * len(self.config.blocks))
        if layer is not None:
            checks.layer(layer, len(configs))
        for place, cfg in enumerate(configs):
            if layer is None or place == layer:
                configs[place] = _changed(cfg, variant, window, landmarks=landmarks, pinv=pinv, pinv_ridge=pinv_ridge)
        config = dataclasses.replace(self.config, attention=tuple(configs))
        weight = self.input_proj.weight
        model = StreamModel(config, self.info, device=weight.device, dtype=weight.dtype)
        target = model.state_dict()
        weights = {name: x for name, x in self.state_dict().items() if name in target and target[name].shape == x.shape}
        model.load_state_dict(weights, strict=False)
        trained = {name: x.requires_grad for name, x in self.named_parameters()}
        for name, x in model.named_parameters():
            x.requires_grad_(trained.get(name, True))
        return model.train(self.training)

    def _start(self, offset: int | Tensor, x: Tensor) -> int | Tensor:
        """Check `offset`, and reduce it modulo P, so that adding to it cannot overflow."""
        if isinstance(offset, bool) or not isinstance(offset, int | Tensor):
            raise TypeError(f"offset is a {type(offset).__name__}, but must be an integer or a tensor [B] of integers")
        if isinstance(offset, int):
            return offset % self.positions.num_positions
        if offset.dtype not in (torch.int64, torch.int32) or offset.shape not in ((), x.shape[:1]):
            raise ValueError(f"offset is {offset.dtype} {list(offset.shape)}, but must be integers [{x.shape[0]}]")
        return (offset % self.positions.num_positions).expand(x.shape[0])

    def _check_tokens(self, x: Tensor) -> None:
        checks.sequence("x", x, self.config.input_dim, "input_dim")
        checks.groups("x", x, self.config.update_size)
        checks.dtype(x, self.input_proj.weight)

    def _embed_stream(
        self,
        x: Tensor,
        state: Any,
        lengths: Tensor | None,
        reset: Tensor | None,
        offset: int | Tensor = 0,
        needed: bool = True,
    ) -> tuple[Tensor, Tensor | None, Timeline]:
        """Check the arguments of `steps`, and embed the tokens at the positions that follow the state.

        Also return the outputs of the linear path, if there is one and they are needed, and the times of the tokens.
        """
        self._check_tokens(x)
        self.check_state(state, x.shape[0])
        start = self._start(offset, x)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], self.config.blocks[0])
        if reset is not None:
            checks.resets(reset, x, self.config.blocks[0])
        x = x if lengths is None else keep_first(x, lengths)
        when = timeline(state.time, x.shape[1], self.config.update_size, lengths, reset)
        path = None
        if needed and self.config.linear is not None:
            path = self.linear(self.linear.features(self._scaled(x), state, when))
        positions = when.time - 1 + (start[:, None] if isinstance(start, Tensor) else start)
        return self._embed(x, positions, path), path, when

    def _embed(self, x: Tensor, start: int | Tensor, path: Tensor | None) -> Tensor:
        """Embed tokens [B, T, input_dim] as [B, T, E], the first at position `start`."""
        dtype = self.input_proj.weight.dtype
        embedded = self.input_proj(self.input_scaler(x)).to(dtype)
        if path is not None and self._embeds_path:
            embedded = embedded + self.linear_embed(path.to(dtype)).to(dtype)
        return self.dropout(self.positions(embedded, start))

    def _head(self, y: Tensor, path: Tensor | None) -> Tensor:
        if path is None:
            return self.output_scaler.restore(self.head(y))
        # Rounded once, at the end: the path may carry most of the output.
        return self.output_scaler.restore(accumulate(self.head(y)) + path[:, -y.shape[1] :]).to(self.head.weight.dtype)

    def _scaled(self, x: Tensor) -> Tensor:
        """The inputs of the linear path, in the dtype of its ring: a token must be the same number in both."""
        return self.input_scaler(x).to(self.input_proj.weight.dtype)

    @property
    def _looks_back(self) -> bool:
        return self.config.linear is not None and self.linear.looks_back

    @property
    def _embeds_path(self) -> bool:
        return self.config.linear is not None and self.config.linear.embedded

    def _of_encoder(self, state: Any) -> Any:
        return state.encoder if self._looks_back else state


def _changed(cfg: AttentionConfig, variant: str | None, window: int | None, **others: Any) -> AttentionConfig:
    new = with_variant(cfg, variant) if variant is not None else cfg
    if window is not None and window != cfg.window:
        if new.record.means:
            raise ValueError(
                f"window={window} cannot replace window={cfg.window}: the landmarks of {new.variant!r} are means over "
                f"segments of the window; only fixed landmarks, or none, allow another"
            )
        new = dataclasses.replace(new, window=window)
    return dataclasses.replace(new, **{name: value for name, value in others.items() if value is not None})
