"""The configuration of a recurrent model, with the fields that the training loop reads from every config."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from nystream.config.checks import fields_of, fingerprint_of, one_of, probability, size

KINDS: tuple[str, ...] = ("gru", "lstm")
GATES = {"gru": 3, "lstm": 4}


class Warmup(NamedTuple):
    """The part of a block's config that training reads: how many tokens fill its window."""

    window: int


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """The configuration of a GRU or LSTM.

    Args:
        kind: "gru" or "lstm".
        input_dim: Width of an input token.
        output_dim: Width of an output.
        embed_dim: Width of the embedded tokens and of every layer.
        layers: Number of recurrent layers.
        dropout: Dropout of the embedded tokens, between the layers and before the head.
        window: Number of tokens after which a stream is scored and trained on: that of the Transformer which the model
            is compared with. The model itself has no window.

    Example:
        >>> from nystream.lab.rivals import RecurrentConfig
        >>> config = RecurrentConfig(kind="gru", input_dim=5, output_dim=3, embed_dim=8)
        >>> RecurrentConfig.from_dict(config.to_dict()) == config
        True
    """

    kind: Literal["gru", "lstm"]
    input_dim: int
    output_dim: int
    embed_dim: int
    layers: int = 1
    dropout: float = 0.0
    window: int = 1

    # A recurrent model reads a stream of any length token by token and has no positions; these facts tell the loop so.
    update_size: ClassVar[int] = 1
    num_positions: ClassVar[int] = 1
    stack: ClassVar[str] = "deep"
    cascade: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        for name in ("input_dim", "output_dim", "embed_dim", "layers", "window"):
            size(name, getattr(self, name))
        probability("dropout", self.dropout)

    @property
    def blocks(self) -> tuple[Warmup, ...]:
        return (Warmup(self.window),)

    @property
    def gates(self) -> int:
        """Number of gates of a layer, each with a matrix for its input and one for its state."""
        return GATES[self.kind]

    @property
    def operations(self) -> int:
        """Multiply-adds of one step: input projection, the gates of all layers, head."""
        recurrent = self.layers * self.gates * 2 * self.embed_dim
        return self.embed_dim * (self.input_dim + recurrent + self.output_dim)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> RecurrentConfig:
        return cls(**fields_of(cls, fields, "recurrent config"))

    @property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())
