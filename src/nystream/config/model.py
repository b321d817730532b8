"""The configurations of a stack of encoder blocks and of a whole model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from nystream import variants
from nystream.config.attention import AttentionConfig
from nystream.config.checks import boolean, fields_of, fingerprint_of, one_of, positive_number, probability, size
from nystream.config.linear import LinearConfig

Stack = Literal["auto", "paper", "deep"]
Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu"]
Positions = Literal["learned", "sinusoidal", "none"]

STACKS: tuple[str, ...] = ("auto", "paper", "deep")
MAX_POSITION_VALUES = 2**26  # entries of a sinusoidal table
MAX_LAYERS = 10_000  # blocks are Python objects: a typo must not create them until memory runs out


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The configuration of a stack of encoder blocks.

    Args:
        attention: One `AttentionConfig` for all blocks, or a tuple with one per block. The variant selects the family;
            in a paper stack, the place of a block then selects the member of the family.
        layers: Number of blocks, at most 10,000. Default: the number of configs in `attention`.
        ff_dim: Inner width of the feed-forward network. Default: `4 * embed_dim`.
        stack: "deep": every block returns the newest row and has its own window over the outputs of the block before;
            the cost per step is linear in depth. "paper", the paper's model: the first block returns all rows of the
            window, the middle blocks are plain, the last returns the newest row. The output equals that of the same
            blocks applied to the window. "auto": "deep" for several blocks of variants that return their newest row,
            otherwise "paper". The config stores the result; `dataclasses.replace` keeps it, unless it is given "auto".
        norm: "pre" or "post", the place of the LayerNorms in a block.
        activation: Activation of the feed-forward network, "gelu" or "relu".
        dropout: Dropout after the attention, after the feed-forward network and inside it; in a model, also of the
            embedded tokens.
        final_norm: Whether a LayerNorm follows the last block.
        norm_eps: ε of every LayerNorm.
    """

    attention: AttentionConfig | tuple[AttentionConfig, ...]
    layers: int | None = None
    ff_dim: int | None = None
    stack: Stack = "auto"
    norm: Norm = "pre"
    activation: Activation = "gelu"
    dropout: float = 0.0
    final_norm: bool = True
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        self._check_attention()
        if self.ff_dim is None:
            object.__setattr__(self, "ff_dim", 4 * self.embed_dim)
        size("ff_dim", self.ff_dim)
        one_of("stack", self.stack, STACKS)
        one_of("norm", self.norm, ("pre", "post"))
        one_of("activation", self.activation, ("gelu", "relu"))
        probability("dropout", self.dropout)
        positive_number("norm_eps", self.norm_eps)
        for name in ("dropout", "norm_eps"):
            object.__setattr__(self, name, float(getattr(self, name)))
        boolean("final_norm", self.final_norm)
        self._check_stack()

    def _check_attention(self) -> None:
        attention = self.attention
        several = isinstance(attention, list | tuple)
        configs = tuple(attention) if isinstance(attention, list | tuple) else (attention,)
        for cfg in configs:
            if not isinstance(cfg, AttentionConfig):
                raise TypeError(
                    f"attention is a {type(cfg).__name__}, but must be an AttentionConfig, or one per block"
                )
        if self.layers is None:
            object.__setattr__(self, "layers", len(configs))
        size("layers", self.layers, MAX_LAYERS)
        if several and len(configs) != self.layers:
            raise ValueError(
                f"attention has {len(configs)} configs for layers={self.layers}; pass one, or one per block"
            )
        # Equal configs are stored as one, so that equal models have equal fingerprints.
        alike = all(cfg == configs[0] for cfg in configs)
        object.__setattr__(self, "attention", configs[0] if alike else configs)
        for name in ("embed_dim", "update_size"):
            values = sorted({getattr(cfg, name) for cfg in configs})
            if len(values) > 1:
                raise ValueError(
                    f"attention has blocks with {name} {', '.join(map(str, values))}; it must be the same in all blocks"
                )

    def _check_stack(self) -> None:
        configs = self.attention if isinstance(self.attention, tuple) else (self.attention,)
        if self.stack == "auto":
            deep = self.layers != 1 and all(cfg.single for cfg in configs)
            object.__setattr__(self, "stack", "deep" if deep else "paper")
        windows = sorted({cfg.window for cfg in configs})
        if self.stack == "paper" and len(windows) > 1:
            raise ValueError(
                f"attention has windows of {', '.join(map(str, windows))}, but the blocks of stack='paper' "
                f"share one window; with stack='deep' each block can have its own"
            )
        if self.stack == "deep":
            for cfg in configs:
                if not cfg.single:
                    raise ValueError(
                        f"variant {cfg.variant!r} cannot be used in stack='deep', where blocks return only their "
                        f"newest row; use a variant that does, such as those that end in -single, or stack='paper'"
                    )
        else:
            if self.layers != 1 and any(cfg.decay for cfg in configs):
                raise ValueError("decay=True is not supported by stack='paper' with several blocks; use stack='deep'")
            self.blocks  # noqa: B018  raises for a variant without roles

    @cached_property
    def blocks(self) -> tuple[AttentionConfig, ...]:
        """The attention config of each block: the member of the family for its place in the stack."""
        assert self.layers is not None
        configs = self.attention if isinstance(self.attention, tuple) else (self.attention,) * self.layers
        last = self.layers - 1
        return tuple(
            cfg if self.stack == "deep" else in_role(cfg, 2 if place == last else min(place, 1), last == 0)
            for place, cfg in enumerate(configs)
        )

    @property
    def embed_dim(self) -> int:
        return (self.attention[0] if isinstance(self.attention, tuple) else self.attention).embed_dim

    @property
    def window(self) -> int:
        """The window n of the first block."""
        return self.blocks[0].window

    @property
    def update_size(self) -> int:
        return self.blocks[0].update_size

    @property
    def single(self) -> bool:
        """Whether only the newest rows are returned."""
        return self.blocks[-1].single

    @property
    def cascade(self) -> bool:
        """Whether every block reads the newest rows of the block before it, as a stream of its own."""
        return all(cfg.single for cfg in self.blocks)

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on. An upper bound for several blocks with continual landmarks."""
        if self.cascade:
            r = self.update_size
            return r + sum(r * -(-cfg.receptive_field // r) - r for cfg in self.blocks)  # whole groups of r
        return self.blocks[0].receptive_field

    @property
    def replay_length(self) -> int:
        """Number of tokens, in whole groups, after which a stream that starts with nothing is like any other."""
        return -(-self.receptive_field // self.update_size) * self.update_size

    def to_dict(self) -> dict[str, Any]:
        configs = self.attention
        attention = tuple(cfg.to_dict() for cfg in configs) if isinstance(configs, tuple) else configs.to_dict()
        return dataclasses.asdict(self) | {"attention": attention}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Any:
        """Create the config from the result of `to_dict`, possibly read from JSON. Unknown fields are errors."""
        known = fields_of(cls, fields, "config")
        attention = known.get("attention")
        if isinstance(attention, list | tuple):
            if len(attention) > MAX_LAYERS:
                raise ValueError(f"config.attention has {len(attention)} blocks, but at most {MAX_LAYERS} are possible")
            known["attention"] = tuple(_attention(cfg, f"config.attention[{i}]") for i, cfg in enumerate(attention))
        else:
            known["attention"] = _attention(attention, "config.attention")
        try:
            return cls(**known)
        except TypeError as error:
            raise ValueError(f"config is not valid: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())


@dataclass(frozen=True, kw_only=True)
class ModelConfig(EncoderConfig):
    """The configuration of a model: input projection, circular positions, encoder and head.

    The arguments of `EncoderConfig`, and:

    Args:
        input_dim: Width of an input token.
        output_dim: Width of an output: the number of classes or of forecast quantities.
        positions: Positional encoding: "learned", "sinusoidal" or "none".
        num_positions: Number of positions P, used in rotation. Default: the window n.
        linear: A linear path from the last tokens to the output, added to that of the head. Unless `stack` is "deep",
            it must read no more tokens than the window has and, if it is `embedded`, the newest one only: `forward`
            sees no tokens before the window. Not for `update_size` > 1.

    Example:
        >>> import nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-fixed-single", embed_dim=64, num_heads=4, window=100, landmarks=8
        ... )
        >>> config = ns.ModelConfig(input_dim=10, output_dim=3, attention=attention, layers=3)
        >>> config.stack, config.blocks[0].variant
        ('deep', 'co-fixed-single')
        >>> paper = ns.ModelConfig(
        ...     input_dim=10, output_dim=3, attention=attention, layers=3, stack="paper"
        ... )
        >>> [block.variant for block in paper.blocks]
        ['co-fixed-retro', 'nystrom-fixed', 'co-fixed-single']
    """

    input_dim: int
    output_dim: int
    positions: Positions = "learned"
    num_positions: int | None = None
    linear: LinearConfig | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("positions", self.positions, ("learned", "sinusoidal", "none"))
        if self.num_positions is None:
            object.__setattr__(self, "num_positions", self.window)
        for name in ("input_dim", "output_dim", "num_positions"):
            size(name, getattr(self, name))
        assert self.num_positions is not None
        if self.positions == "sinusoidal" and self.num_positions * self.embed_dim > MAX_POSITION_VALUES:
            raise ValueError(
                f"num_positions={self.num_positions} is too many for positions='sinusoidal' with "
                f"embed_dim={self.embed_dim}: num_positions * embed_dim can be at most {MAX_POSITION_VALUES}"
            )
        if self.linear is not None:
            object.__setattr__(self, "linear", self._checked_linear(self.linear))

    def _checked_linear(self, linear: LinearConfig) -> LinearConfig:
        if not isinstance(linear, LinearConfig):
            raise TypeError(f"linear is a {type(linear).__name__}, but must be a LinearConfig or None")
        if self.update_size > 1:
            raise ValueError(
                f"linear= is not supported with update_size={self.update_size}: a linear path reads one token at a time"
            )
        if linear.width(self.input_dim) > self.input_dim:
            raise ValueError(f"linear.inputs={linear.inputs} is more than input_dim={self.input_dim}")
        size("the number of features of linear", linear.features(self.input_dim))
        if self.stack != "deep" and linear.tokens > self.window:
            raise ValueError(
                f"linear reads {linear.tokens} tokens, more than window={self.window}: forward() could not see them "
                f"all; with stack='deep', it reads streams of any length"
            )
        if self.stack != "deep" and linear.embedded and linear.tokens > 1:
            raise ValueError(
                f"linear.embedded=True with {linear.tokens} tokens needs stack='deep': otherwise forward() would lack "
                f"tokens before the window, which the first tokens of the window need"
            )
        # What reads all numbers is stored alike, so that equal models have equal fingerprints.
        reads_all = linear.tokens == 1 or linear.inputs == self.input_dim
        return dataclasses.replace(linear, inputs=None) if reads_all else linear

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on. An upper bound for several blocks with continual landmarks."""
        reach = super().receptive_field
        if self.linear is None:
            return reach
        return reach + self.linear.tokens - 1 if self.linear.embedded else max(reach, self.linear.tokens)

    def to_dict(self) -> dict[str, Any]:
        """The fields; without `linear` if there is none, as in configs and fingerprints of version 0.1."""
        fields = super().to_dict()
        del fields["linear"]
        return fields if self.linear is None else fields | {"linear": self.linear.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Any:
        """Create the config from the result of `to_dict`, possibly read from JSON. Unknown fields are errors."""
        if isinstance(fields, dict) and fields.get("linear") is not None:
            fields = {**fields, "linear": LinearConfig.from_dict(fields["linear"])}
        return super().from_dict(fields)

    @property
    def encoder(self) -> EncoderConfig:
        """The config of the encoder alone."""
        return EncoderConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(EncoderConfig)})

    @property
    def single(self) -> bool:
        """True: a model returns the outputs of its newest rows, even if its blocks return all rows."""
        return True


def in_role(cfg: AttentionConfig, role: int, alone: bool) -> AttentionConfig:
    """Return the config of the first (0), middle (1) or last (2) block of a paper stack of the family of `cfg`."""
    roles = cfg.record.roles
    if role == 2 and (cfg.single or (alone and roles is None)):
        return cfg
    if roles is None:
        raise ValueError(
            f"variant {cfg.variant!r} cannot be used in a stack='paper' of several blocks: its record has no roles "
            f"(the variants of the first, middle and last block); "
            + ("use stack='deep', or " if cfg.single else "")
            + "register it with roles="
        )
    return with_variant(cfg, roles[role])


def with_variant(cfg: AttentionConfig, variant: str) -> AttentionConfig:
    """Return the config with another variant; a value of `sums` that this does not support becomes "auto"."""
    if variant == cfg.variant:
        return cfg
    sums = cfg.sums if cfg.sums in variants.get(variant).forms else "auto"
    return dataclasses.replace(cfg, variant=variant, sums=sums)


def _attention(fields: Any, where: str) -> AttentionConfig:
    return AttentionConfig(**fields_of(AttentionConfig, fields, where))
