"""A Transformer that reads streams: from tokens as they come to outputs in the user's units."""

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
from nystream.layers.positional import CircularPositions
from nystream.layers.scaler import Scaler
from nystream.models.pretrained import Pretrained
from nystream.ops.ragged import keep_first, keep_last
from nystream.ops.timeline import timeline


class StreamModel(
    nn.Module,
    Pretrained,
    library_name="nystream",
    tags=["streaming", "continual-inference", "nystrom"],
):
    """Input projection, circular positions, encoder blocks, norm and head, with `forward`, `step` and `steps`.

    `input_scaler` and `output_scaler` turn the user's units into the model's and back; both are the identity until
    they are set. `info` says what the numbers mean. All of it is saved with the model.

    Example:
        >>> import torch, nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-cont-single", embed_dim=8, num_heads=2, window=6, landmarks=3
        ... )
        >>> config = ns.ModelConfig(input_dim=5, output_dim=3, attention=attention, layers=2)
        >>> model = ns.StreamModel(config).eval()
        >>> x = torch.randn(1, 12, 5)
        >>> y, state = model.steps(x, model.init_state(1))
        >>> y.shape
        torch.Size([1, 12, 3])
        >>> torch.allclose(y[:, -1], model(x[:, 6:], offset=0), atol=1e-5)
        True
    """

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

    @property
    def info(self) -> ModelInfo:
        """What the numbers mean: labels, units, horizon."""
        return self._info

    @info.setter
    def info(self, info: ModelInfo) -> None:
        if not isinstance(info, ModelInfo):
            raise TypeError(f"info is a {type(info).__name__}, but must be a ModelInfo")
        info.check(self.config.input_dim, self.config.output_dim)
        self._info = info

    @property
    def receptive_field(self) -> int:
        """How many tokens an output can depend on."""
        return self.config.receptive_field

    def forward(self, x: Tensor, offset: int | Tensor = 0, *, lengths: Tensor | None = None) -> Tensor:
        """The outputs for the newest tokens of one window.

        Args:
            x: [B, T, input_dim], oldest first, T at most n: fewer give what a stream gives after that many tokens.
                For deep stacks any T: the last of `steps`.
            offset: position of the first place of `x`, a number or [B]. The window that ends at token t of a stream
                has offset (t − n) mod P.
            lengths: [B], how many tokens of each row exist, at the end of its n places; the others are void.

        Returns:
            [B, output_dim], or [B, r, output_dim] where r = `update_size` tokens arrive together.
        """
        self._check_tokens(x)
        start = self._start(offset, x)
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], self.config.window, self.config.blocks[0])
            x = keep_last(x, lengths)
        y = self._head(self.encoder(self._embed(x, start), lengths)[:, -self.config.update_size :])
        if lengths is not None:
            y = keep_last(y, lengths)
        return y[:, 0] if self.config.update_size == 1 else y

    def init_state(self, batch_size: int = 1) -> Any:
        """The state of `batch_size` streams that have seen nothing: a NamedTuple of tensors, batch first."""
        return self.encoder.init_state(batch_size)

    def step(self, x: Tensor, state: Any, *, inplace: bool = False) -> tuple[Tensor, Any]:
        """Take in one token, or the r tokens that arrive together.

        Args:
            x: [B, input_dim], or [B, r, input_dim].
            state: from `init_state`, `step` or `steps`. It stays as it was, unless `inplace`.
            inplace: write into `state` and record no graph; use the returned one.

        Returns:
            [B, output_dim] or [B, r, output_dim], shaped as `x`; the new state.
        """
        checks.group(x, self.config.blocks[0], self.config.input_dim, "input_dim")
        checks.dtype(x, self.input_proj.weight)
        self.encoder.check_state(state, x.shape[0])
        flat = x.dim() == 2
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            embedded = self._embed(x[:, None] if flat else x, state.time)
            y, new = self.encoder.step(embedded, state, inplace=inplace)
            y = self._head(y[:, -self.config.update_size :])
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
        """Take in a long piece of a stream at once: the numbers of `step` in a loop, in parallel, differentiable.

        Args:
            x: [B, T, input_dim], T a multiple of `update_size`.
            state: from `init_state`, `step` or `steps`; it stays as it was.
            lengths: [B], how many of the T tokens each row has, from the left; outputs after them are zero.
            reset: bool [B, T], True at tokens that open a new stream.
            offset: position of the first token of a stream, a number or [B]: 0 but for training on pieces of streams.

        Returns:
            [B, T, output_dim]; the new state.
        """
        self._check_tokens(x)
        self.encoder.check_state(state, x.shape[0])
        embedded = self._placed(x, state, lengths, reset, self._start(offset, x))
        y, new = self.encoder.newest(embedded, state, lengths=lengths, reset=reset)
        y = self._head(y)
        return (y if lengths is None else keep_first(y, lengths)), new

    def advance(self, x: Tensor, state: Any, *, lengths: Tensor | None = None, reset: Tensor | None = None) -> Any:
        """The state after a piece, as `steps` gives it, without the outputs: for window stacks far cheaper."""
        self._check_tokens(x)
        self.encoder.check_state(state, x.shape[0])
        embedded = self._placed(x, state, lengths, reset)
        return self.encoder.advance(embedded, state, lengths=lengths, reset=reset)

    def reset(self, state: Any, rows: Any) -> Any:
        """The state with some rows (index, slice, list or mask) as new."""
        return states.reset(state, rows, self.init_state(1))

    def tokens(self, x: Tensor, layer: int, offset: int | Tensor = 0) -> Tensor:
        """What the attention of block `layer` sees of the streams x [B, T, input_dim]: [tokens, E]."""
        self._check_tokens(x)
        return self.encoder.tokens(self._embed(x, self._start(offset, x)), layer)

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
        """A copy with the same weights and another attention, in all blocks or in one.

        Args:
            variant: another variant. Fixed landmarks must then be fitted, unless this model has some to copy.
            window: another n, where nothing that was learned depends on it: not for continual landmarks.
            landmarks: another m. Fixed landmarks must then be fitted again.
            pinv, pinv_ridge: another inverse of Γ.
            layer: the block to change; all of them unless told.
        """
        given = self.config.attention
        configs = list(given if isinstance(given, tuple) else [given] * len(self.config.blocks))
        if layer is not None:
            checks.layer(layer, len(configs))
        for place, cfg in enumerate(configs):
            if layer is None or place == layer:
                configs[place] = _changed(cfg, variant, window, landmarks=landmarks, pinv=pinv, pinv_ridge=pinv_ridge)
        config = dataclasses.replace(self.config, attention=tuple(configs))
        weight = self.input_proj.weight
        model = StreamModel(config, self.info, device=weight.device, dtype=weight.dtype)
        held, wanted = self.state_dict(), model.state_dict()
        kept = {name: x for name, x in held.items() if name in wanted and wanted[name].shape == x.shape}
        model.load_state_dict(kept, strict=False)
        trained = {name: x.requires_grad for name, x in self.named_parameters()}
        for name, x in model.named_parameters():
            x.requires_grad_(trained.get(name, True))
        return model.train(self.training)

    def _start(self, offset: int | Tensor, x: Tensor) -> int | Tensor:
        if isinstance(offset, bool) or not isinstance(offset, int | Tensor):
            raise TypeError(f"offset is a {type(offset).__name__}, but must be an integer or a tensor [B] of them")
        around = self.positions.num_positions  # taken first, so that no offset is too large to be added to
        if isinstance(offset, int):
            return offset % around
        if offset.dtype not in (torch.int64, torch.int32) or offset.shape not in ((), x.shape[:1]):
            raise ValueError(f"offset is {offset.dtype} {list(offset.shape)}, but must be integers [{x.shape[0]}]")
        return (offset % around).expand(x.shape[0])

    def _check_tokens(self, x: Tensor) -> None:
        checks.sequence("x", x, self.config.input_dim, "input_dim")
        checks.groups("x", x, self.config.update_size)
        checks.dtype(x, self.input_proj.weight)

    def _placed(
        self, x: Tensor, state: Any, lengths: Tensor | None, reset: Tensor | None, start: int | Tensor = 0
    ) -> Tensor:
        """A piece of a stream, each token at its position."""
        if lengths is not None:
            checks.row_counts("lengths", lengths, x.shape[0], x.shape[1], self.config.blocks[0])
        if reset is not None:
            checks.resets(reset, x, self.config.blocks[0])
        x = x if lengths is None else keep_first(x, lengths)
        when = timeline(state.time, x.shape[1], self.config.update_size, lengths, reset)
        return self._embed(x, when.time - 1 + (start[:, None] if isinstance(start, Tensor) else start))

    def _embed(self, x: Tensor, start: int | Tensor) -> Tensor:
        """[B, T, input_dim] -> [B, T, E], the first token at position `start`."""
        embedded = self.input_proj(self.input_scaler(x)).to(self.input_proj.weight.dtype)
        return self.dropout(self.positions(embedded, start))

    def _head(self, y: Tensor) -> Tensor:
        return self.output_scaler.restore(self.head(y))


def _changed(cfg: AttentionConfig, variant: str | None, window: int | None, **others: Any) -> AttentionConfig:
    new = with_variant(cfg, variant) if variant is not None else cfg
    if window is not None and window != cfg.window:
        if new.record.means:
            raise ValueError(
                f"window={window}: the landmarks of {new.variant!r} are means over parts of its window of {cfg.window},"
                f" so it must stay; fixed landmarks allow another"
            )
        new = dataclasses.replace(new, window=window)
    return dataclasses.replace(new, **{name: value for name, value in others.items() if value is not None})
