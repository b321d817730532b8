"""The configuration of a training run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from nystream.config.checks import boolean, fields_of, number, one_of, positive_int, probability, whole

Schedule = Literal["cosine", "plateau", "constant"]
Through = Literal["auto", "windows", "steps"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained.

    Args:
        epochs: Number of passes over the training data.
        batch_size: Number of windows, or pieces of streams, per update.
        steps_per_epoch: Number of updates per epoch, each with a full batch. By default, one pass over the data.
        lr: The largest learning rate of AdamW.
        weight_decay: Weight decay of matrices; biases, norms, positions and landmarks have none.
        schedule: "cosine" (decays to `min_lr`), "plateau" (multiplies the rate by `plateau_factor` after
            `plateau_patience` epochs without a better validation score) or "constant".
        warmup: Fraction of all updates during which the learning rate rises from 0.
        min_lr: The final learning rate of "cosine", as a fraction of `lr`.
        landmark_lr: Learning rate of learned landmarks, as a multiple of `lr`. Landmarks are as large as queries and
            keys, so steps as small as those of weights would hardly move them.
        clip: The largest norm of the gradient; None for no limit.
        patience: Number of epochs without a better validation score after which training stops; None for no early
            stopping.
        through: What per-token tasks are trained on: "windows" (the newest row of each), "steps" (pieces of streams,
            with a loss at every token) or "auto" (steps if every block streams by itself, else windows).
        piece: Length of a piece of a stream, in tokens. By default, four windows.
        context: Number of tokens before a piece that are read without a loss, so that the piece is seen with the state
            that a stream would have there; there are fewer at the start of a stream, and at most as many as the longest
            stream has. With 0, every piece starts a new state. For pieces only, not for windows.
        short: Fraction of windows that are cut to a random shorter length, as at the start of a stream. For pieces,
            any value above 0 counts the loss of their first n − 1 tokens too. Set it if the task scores the start of
            a stream.
        average: If above 0, such as 0.98, the exponential average of the weights over updates is what is validated,
            kept as the best and left in the model; training continues from the weights themselves. The newest weights
            count 1 − `average`, and more at the start of training.
        seed: Seed of the order of the data, the offsets, the cuts and dropout.
        bf16: Whether to autocast to bfloat16. By default, on a GPU only.
        checkpoint_every: Number of updates between checkpoints. By default, one checkpoint per epoch, or fewer if
            writing one takes more than a second.
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
    context: int = 0
    short: float = 0.0
    average: float = 0.0
    seed: int = 0
    bf16: bool | None = None
    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "plateau_patience"):
            positive_int(name, getattr(self, name))
        for name in ("steps_per_epoch", "patience", "piece", "checkpoint_every"):
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
        whole("context", self.context)
        one_of("schedule", self.schedule, ("cosine", "plateau", "constant"))
        one_of("through", self.through, ("auto", "windows", "steps"))
        for name, low, high in (
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
            if not low <= value <= high or math.isinf(value):
                allowed = f"between {low:g} and {high:g}" if high < math.inf else f"finite and at least {low:g}"
                raise ValueError(f"{name}={value!r} must be {allowed}")
        if self.clip is not None:
            number("clip", self.clip)
            if not 0 < self.clip < math.inf:
                raise ValueError(f"clip={self.clip!r} must be greater than 0, or None for no limit")
        probability("average", self.average)
        whole("seed", self.seed)
        if self.bf16 is not None:
            boolean("bf16", self.bf16)

    def to_dict(self) -> dict[str, Any]:
        """The fields, without `context` and `average` if they are 0: older runs lack them, and can be resumed."""
        fields = dataclasses.asdict(self)
        for name in ("context", "average"):
            if not fields[name]:
                del fields[name]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainConfig:
        return cls(**fields_of(cls, fields, "train config"))
