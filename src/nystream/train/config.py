"""How a model is trained."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from nystream.config.checks import boolean, fields_of, number, one_of, positive_int

Schedule = Literal["cosine", "plateau", "constant"]
Through = Literal["auto", "windows", "steps"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The training of one model.

    Args:
        epochs: passes over the training data.
        batch_size: windows, or pieces of streams, an update.
        steps_per_epoch: updates an epoch, all of full batches; as many as the data give unless told.
        lr: largest learning rate of AdamW.
        weight_decay: of matrices; biases, norms, positions and landmarks have none.
        schedule: "cosine" (down to `min_lr` at the end), "plateau" (times `plateau_factor` after `plateau_patience`
            epochs without a better validation score) or "constant".
        warmup: share of all updates in which the learning rate rises from 0.
        min_lr: where "cosine" ends, as a share of `lr`.
        landmark_lr: of landmarks that are learned, as a multiple of `lr`: they are of the size of queries and keys, so
            that steps as small as those of weights would hardly move them.
        clip: largest norm of the gradient; None for no limit.
        patience: epochs without a better validation score after which training stops; None to go on to the end.
        through: what per-token tasks are trained on: "windows" (the newest row of each), "steps" (pieces of streams, a
            loss at every token) or "auto": steps where every block streams by itself, else windows.
        piece: tokens of a piece of a stream; four windows unless told.
        short: share of windows that are cut to a random shorter length in training, as at the start of a stream; for
            pieces, any share above 0 counts the loss of their first n − 1 tokens too. Set it where a task scores the
            start of a stream.
        seed: of the order of the data, the offsets, the cuts and dropout.
        bf16: autocast to bfloat16; on where there is a GPU unless told.
        checkpoint_every: updates between two checkpoints; one at the end of every epoch unless told.
    """

    epochs: int = 30
    batch_size: int = 32
    steps_per_epoch: int | None = None
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: Schedule = "cosine"
    warmup: float = 0.05
    min_lr: float = 0.01
    landmark_lr: float = 10.0
    plateau_factor: float = 0.5
    plateau_patience: int = 3
    clip: float | None = 1.0
    patience: int | None = None
    through: Through = "auto"
    piece: int | None = None
    short: float = 0.0
    seed: int = 0
    bf16: bool | None = None
    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "plateau_patience"):
            positive_int(name, getattr(self, name))
        for name in ("steps_per_epoch", "patience", "piece", "checkpoint_every"):
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
        one_of("schedule", self.schedule, ("cosine", "plateau", "constant"))
        one_of("through", self.through, ("auto", "windows", "steps"))
        for name, least, most in (
            ("lr", 0.0, float("inf")),
            ("weight_decay", 0.0, float("inf")),
            ("warmup", 0.0, 1.0),
            ("min_lr", 0.0, 1.0),
            ("landmark_lr", 0.0, float("inf")),
            ("plateau_factor", 0.0, 1.0),
            ("short", 0.0, 1.0),
        ):
            value = getattr(self, name)
            number(name, value)
            if not least <= value <= most or math.isinf(value):
                allowed = f"between {least:g} and {most:g}" if most < math.inf else f"finite and at least {least:g}"
                raise ValueError(f"{name}={value!r} must be {allowed}")
        if self.clip is not None:
            number("clip", self.clip)
            if not 0 < self.clip < math.inf:
                raise ValueError(f"clip={self.clip!r} must be greater than 0, or None for no limit")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed={self.seed!r} must be an integer of at least 0")
        if self.bf16 is not None:
            boolean("bf16", self.bf16)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainConfig:
        return cls(**fields_of(cls, fields, "train config"))
