"""The configuration of a stack of encoder blocks, and of a whole model."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from nystream import variants
from nystream.config.attention import AttentionConfig
from nystream.config.checks import boolean, fields_of, fingerprint_of, number, one_of, size

Stack = Literal["paper", "deep"]
Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu"]
Positions = Literal["learned", "sinusoidal", "none"]

LARGEST_TABLE = 2**26  # numbers of sinusoidal positions, which are computed, not saved

STACKS: tuple[str, ...] = ("paper", "deep")

MOST_LAYERS = 10_000  # blocks are Python objects: a slip of the keyboard should not make them until memory runs out


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """What a stack of encoder blocks is.

    Args:
        attention: one config for all blocks, or one for each. The variant picks the family, `stack` the roles.
        layers: number of blocks, at most 10,000; as many as there are configs unless told.
        ff_dim: inner width of the feed-forward; four times the embedding unless told.
        stack: "paper" (first block retroactive, middle ones plain, last one newest row only; the output is the window
            model's) or "deep" (newest row in every block, each over a window of its own; cost linear in depth).
        norm: "pre" or "post": where a block normalises.
        activation: of the feed-forward, "gelu" or "relu".
        dropout: after attention and feed-forward and inside the latter, in training; in a model, of its embedded
            tokens too.
        final_norm: whether the last block's output is normalised.
        norm_eps: ε of every LayerNorm.
    """

    attention: AttentionConfig | tuple[AttentionConfig, ...]
    layers: int | None = None
    ff_dim: int | None = None
    stack: Stack = "paper"
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
        for name in ("dropout", "norm_eps"):
            number(name, getattr(self, name))
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout!r} must be at least 0 and less than 1")
        if not 0.0 < self.norm_eps < math.inf:
            raise ValueError(f"norm_eps={self.norm_eps!r} must be greater than 0 and finite")
        boolean("final_norm", self.final_norm)
        self._check_stack()

    def _check_attention(self) -> None:
        given = self.attention
        if isinstance(given, list):
            given = tuple(given)
            object.__setattr__(self, "attention", given)
        configs = given if isinstance(given, tuple) else (given,)
        for cfg in configs:
            if not isinstance(cfg, AttentionConfig):
                raise TypeError(
                    f"attention is a {type(cfg).__name__}, but must be an AttentionConfig, or one per block"
                )
        if self.layers is None:
            object.__setattr__(self, "layers", len(configs))
        size("layers", self.layers, MOST_LAYERS)
        if isinstance(given, tuple) and len(given) != self.layers:
            raise ValueError(f"attention has {len(given)} configs for layers={self.layers}; give one, or one per block")
        if isinstance(given, tuple) and all(cfg == given[0] for cfg in given):
            object.__setattr__(self, "attention", given[0])  # one model, one config, one fingerprint
        for name in ("embed_dim", "update_size"):
            values = sorted({getattr(cfg, name) for cfg in configs})
            if len(values) > 1:
                raise ValueError(f"attention has blocks of {name} {', '.join(map(str, values))}; it must be the same")

    def _check_stack(self) -> None:
        configs = self.attention if isinstance(self.attention, tuple) else (self.attention,)
        windows = sorted({cfg.window for cfg in configs})
        if self.stack == "paper" and len(windows) > 1:
            raise ValueError(
                f"attention has windows of {', '.join(map(str, windows))}, but the blocks of stack='paper' "
                f"share one; stack='deep' takes a window for each"
            )
        if self.stack == "deep":
            for cfg in configs:
                if not cfg.single:
                    raise ValueError(
                        f"variant {cfg.variant!r} cannot be part of stack='deep', where every block returns "
                        f"its newest row; use a variant that returns it alone, such as those that end in -single, or "
                        f"stack='paper'"
                    )
        else:
            self.blocks  # noqa: B018  which refuses a variant that has no roles

    @cached_property
    def blocks(self) -> tuple[AttentionConfig, ...]:
        """What each block attends with: the family's variant for its place in the stack."""
        assert self.layers is not None
        given = self.attention if isinstance(self.attention, tuple) else (self.attention,) * self.layers
        last = self.layers - 1
        return tuple(
            cfg if self.stack == "deep" else in_role(cfg, 2 if place == last else min(place, 1), last == 0)
            for place, cfg in enumerate(given)
        )

    @property
    def embed_dim(self) -> int:
        return (self.attention[0] if isinstance(self.attention, tuple) else self.attention).embed_dim

    @property
    def window(self) -> int:
        """n of the first block: the number of tokens of a window."""
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
        """Whether every block streams on its own, fed with the newest rows of the one before it."""
        return all(cfg.single for cfg in self.blocks)

    @property
    def receptive_field(self) -> int:
        """How many tokens an output can depend on, at most: the landmarks of several blocks may lag by less."""
        if self.cascade:
            r = self.update_size
            return r + sum(r * -(-cfg.receptive_field // r) - r for cfg in self.blocks)  # whole groups
        return self.blocks[0].receptive_field

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Any:
        """The config that `to_dict` wrote, perhaps through JSON; what is not known is refused."""
        given = fields_of(cls, fields, "config")
        attention = given.get("attention")
        if isinstance(attention, list | tuple) and len(attention) > MOST_LAYERS:
            raise ValueError(f"config.attention has {len(attention)} blocks, but at most {MOST_LAYERS} are possible")
        if isinstance(attention, list | tuple):
            given["attention"] = tuple(_attention(one, f"config.attention[{i}]") for i, one in enumerate(attention))
        else:
            given["attention"] = _attention(attention, "config.attention")
        try:
            return cls(**given)
        except TypeError as error:
            raise ValueError(f"config cannot be used: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())


@dataclass(frozen=True, kw_only=True)
class ModelConfig(EncoderConfig):
    """What a model is: an encoder between an input projection with circular positions, and a head.

    Args:
        input_dim: width of a token as it comes.
        output_dim: width of an output: classes, or quantities to forecast.
        positions: "learned", "sinusoidal" or "none".
        num_positions: how many positions P are recycled; the window n unless told.

    Example:
        >>> import nystream as ns
        >>> attention = ns.AttentionConfig(
        ...     "co-fixed-single", embed_dim=64, num_heads=4, window=100, landmarks=8
        ... )
        >>> config = ns.ModelConfig(input_dim=10, output_dim=3, attention=attention, layers=3)
        >>> [block.variant for block in config.blocks]  # stack="paper"
        ['co-fixed-retro', 'nystrom-fixed', 'co-fixed-single']
    """

    input_dim: int
    output_dim: int
    positions: Positions = "learned"
    num_positions: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("positions", self.positions, ("learned", "sinusoidal", "none"))
        if self.num_positions is None:
            object.__setattr__(self, "num_positions", self.window)
        for name in ("input_dim", "output_dim", "num_positions"):
            size(name, getattr(self, name))
        assert self.num_positions is not None
        if self.positions == "sinusoidal" and self.num_positions * self.embed_dim > LARGEST_TABLE:
            raise ValueError(
                f"num_positions={self.num_positions} is too many for positions='sinusoidal' with "
                f"embed_dim={self.embed_dim}: their table may have at most {LARGEST_TABLE} numbers"
            )

    @property
    def encoder(self) -> EncoderConfig:
        """The config of the encoder alone."""
        return EncoderConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(EncoderConfig)})

    @property
    def single(self) -> bool:
        """A model's outputs are those of the newest rows, whatever its blocks return."""
        return True


def in_role(cfg: AttentionConfig, role: int, alone: bool) -> AttentionConfig:
    """The first (0), middle (1) or last (2) block of the family of `cfg`."""
    roles = cfg.record.roles
    if role == 2 and (cfg.single or (alone and roles is None)):
        return cfg
    if roles is None:
        raise ValueError(
            f"variant {cfg.variant!r} cannot be part of stack='paper' of several blocks: it declares no roles (which "
            f"variants the first, middle and last block are); "
            + ("use stack='deep', or " if cfg.single else "")
            + "register it with roles="
        )
    return with_variant(cfg, roles[role])


def with_variant(cfg: AttentionConfig, variant: str) -> AttentionConfig:
    """The same attention as another variant; a form of sums that it does not have becomes "auto"."""
    if variant == cfg.variant:
        return cfg
    sums = cfg.sums if cfg.sums in variants.get(variant).forms else "auto"
    return dataclasses.replace(cfg, variant=variant, sums=sums)


def _attention(fields: Any, where: str) -> AttentionConfig:
    return AttentionConfig(**fields_of(AttentionConfig, fields, where))
