"""The configuration of one attention: a frozen dataclass that is checked when it is made.

The same object is the constructor's argument, the header of a saved state and, later, the command line.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from nystream.config.checks import boolean, fingerprint_of, number, one_of, positive_int

VARIANTS: tuple[str, ...] = (
    "full",
    "co-full-single",
    "co-full-retro",
    "nystrom",
    "nystrom-fixed",
    "co-cont-single",
    "co-cont-retro",
    "co-fixed-single",
    "co-fixed-retro",
)

Pinv = Literal["newton", "exact", "ridge", "none"]
Sums = Literal["auto", "partials", "recompute", "subtract"]

PINVS: tuple[str, ...] = ("newton", "exact", "ridge", "none")

# The forms in which each variant can keep its window; a variant that is not here keeps no sums at all.
SUMS: dict[str, tuple[str, ...]] = {
    "co-full-retro": ("auto", "recompute", "subtract"),
    "co-cont-single": ("auto", "partials", "recompute", "subtract"),
    "co-cont-retro": ("auto", "partials", "recompute", "subtract"),
    "co-fixed-single": ("auto", "partials", "recompute", "subtract"),
    "co-fixed-retro": ("auto", "partials", "recompute", "subtract"),
}
NO_SUMS: tuple[str, ...] = ("auto", "recompute")

MOST_ITERATIONS = 1000  # of Newton–Schulz, which has long converged by then

# Below this window, reading the rings afresh beats keeping partials in eager torch for batches of streams; for a single
# stream it does so up to about 1,000 (benchmarks/step.py measures both).
RECOMPUTE_BELOW = 128


@dataclass(frozen=True)
class AttentionConfig:
    """What one attention is.

    Args:
        variant: one of `nystream.VARIANTS`.
        embed_dim: width E of the tokens; a multiple of `num_heads`.
        num_heads: number of heads H; each is `embed_dim // num_heads` wide.
        window: how many tokens n a token attends to, itself included.
        landmarks: number of landmarks m, 1 <= m <= n. Needed by the Nyström variants, unused by the full ones.
        pinv: how Γ is inverted: "newton" (the paper's iteration), "exact", "ridge" or "none".
        pinv_iters: number of Newton–Schulz iterations; part of the model.
        pinv_ridge: λ of the ridge inverse (ΓᵀΓ + λ²I)⁻¹Γᵀ.
        update_size: how many tokens r arrive together; divides `window`.
        sums: how the sliding window is kept: "auto", "partials", "recompute", or "subtract" (the paper's, drifts).
        bias: whether the four projections have a bias.
        dropout: dropout of the attention weights in training; only the full variants form such weights.

    Example:
        >>> import nystream as ns
        >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=64, num_heads=4, window=100)
        >>> cfg.head_dim
        16
        >>> ns.AttentionConfig("co-cont-single", embed_dim=64, num_heads=4, window=100)
        Traceback (most recent call last):
            ...
        ValueError: landmarks=None, but variant 'co-cont-single' needs 1 <= landmarks <= window
    """

    variant: str = "co-fixed-single"
    embed_dim: int = 192
    num_heads: int = 16
    window: int = 120
    landmarks: int | None = None
    pinv: Pinv = "newton"
    pinv_iters: int = 6
    pinv_ridge: float = 0.1
    update_size: int = 1
    sums: Sums = "auto"
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("variant", self.variant, VARIANTS)
        for name in ("embed_dim", "num_heads", "window", "update_size", "pinv_iters"):
            positive_int(name, getattr(self, name))
        if self.pinv_iters > MOST_ITERATIONS:
            raise ValueError(f"pinv_iters={self.pinv_iters} must be at most {MOST_ITERATIONS}")
        if self.embed_dim % self.num_heads:
            raise ValueError(
                f"embed_dim={self.embed_dim} is not a multiple of num_heads={self.num_heads}; "
                f"every head needs the same width"
            )
        self._check_landmarks()
        if self.window % self.update_size:
            raise ValueError(
                f"window={self.window} is not a multiple of update_size={self.update_size}; "
                f"tokens that arrive together must also leave together"
            )
        one_of("pinv", self.pinv, PINVS)
        number("pinv_ridge", self.pinv_ridge)
        if not 0 < self.pinv_ridge < math.inf:
            raise ValueError(f"pinv_ridge={self.pinv_ridge!r} must be greater than 0 and finite")
        boolean("bias", self.bias)
        forms = SUMS.get(self.variant, NO_SUMS)
        if self.sums not in forms:
            raise ValueError(f"sums={self.sums!r} is not a form of {self.variant!r}, which has {', '.join(forms)}")
        self._check_dropout()
        for name in ("pinv_ridge", "dropout"):
            object.__setattr__(self, name, float(getattr(self, name)))  # 0 and 0.0 are one config, with one fingerprint

    def _check_landmarks(self) -> None:
        if self.landmarks is None:
            if self.low_rank:
                raise ValueError(f"landmarks=None, but variant {self.variant!r} needs 1 <= landmarks <= window")
            return
        positive_int("landmarks", self.landmarks)
        if self.landmarks > self.window:
            raise ValueError(
                f"landmarks={self.landmarks} is more than window={self.window}; every landmark needs a token of its own"
            )

    def _check_dropout(self) -> None:
        number("dropout", self.dropout)
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout!r} must be at least 0 and less than 1")
        if self.dropout and self.low_rank:
            raise ValueError(
                f"dropout={self.dropout} cannot be honoured by {self.variant!r}: the n x n attention weights it would "
                f"drop are never formed; set dropout=0.0 and drop features after the attention instead"
            )

    @property
    def low_rank(self) -> bool:
        """Whether the variant uses landmarks."""
        return "full" not in self.variant

    @property
    def fixed(self) -> bool:
        """Whether the landmarks are fixed before streaming."""
        return "fixed" in self.variant

    @property
    def single(self) -> bool:
        """Whether only the newest rows are returned."""
        return self.variant.endswith("-single")

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads

    @property
    def scale(self) -> float:
        """What every logit is multiplied by."""
        return float(self.head_dim) ** -0.5

    @property
    def m(self) -> int:
        """Number of landmarks, for code that has made sure that there are some."""
        assert self.landmarks is not None
        return self.landmarks

    @property
    def rows(self) -> int:
        """Number of output rows of `forward` and `step`."""
        return self.update_size if self.single else self.window

    @property
    def receptive_field(self) -> int:
        """How many tokens an output can depend on: a token lives on in its landmark after it left the window."""
        lag = -(-self.window // self.m) - 1 if self.variant.startswith("co-cont") else 0
        return self.window + lag

    @property
    def form(self) -> str:
        """The form of the window that `sums` stands for."""
        groups = self.window // self.update_size
        if self.sums == "partials":
            return "partials" if groups > 1 else "recompute"
        if self.sums != "auto":
            return self.sums
        if self.variant == "co-full-retro":
            return "auto"
        return "partials" if self.variant in SUMS and self.window >= RECOMPUTE_BELOW and groups > 1 else "recompute"

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())
