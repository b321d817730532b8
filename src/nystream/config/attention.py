"""The configuration of one attention: a frozen dataclass that is checked when it is made.

The same object is the constructor's argument, the header of a saved state and, later, the command line.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from nystream import variants
from nystream.config.checks import boolean, fingerprint_of, number, one_of, positive_int, size

Pinv = Literal["newton", "exact", "ridge", "none"]
Sums = Literal["auto", "partials", "recompute", "subtract"]

PINVS: tuple[str, ...] = ("newton", "exact", "ridge", "none")

# Where (ΓᵀΓ + λ²I)⁻¹Γᵀ is accurate: the relative error is about 1e-8 / λ in a float32 model.
SMALLEST_RIDGE, LARGEST_RIDGE = 1e-5, 1e5
MOST_ITERATIONS = 1000  # of Newton–Schulz, which has long converged by then


@dataclass(frozen=True)
class AttentionConfig:
    """What one attention is. No size may exceed 2³¹ − 1.

    Args:
        variant: one of `nystream.VARIANTS`, or one that was registered with `nystream.register_variant`.
        embed_dim: width E of the tokens; a multiple of `num_heads`.
        num_heads: number of heads H; each is `embed_dim // num_heads` wide.
        window: how many tokens n a token attends to, itself included.
        landmarks: number of landmarks m, 1 <= m <= n. Needed by the Nyström variants, unused by the full ones.
        pinv: how Γ is inverted: "newton" (the paper's iteration), "exact", "ridge" or "none".
        pinv_iters: number of Newton–Schulz iterations, at most 1000; part of the model. Up to about 16 are accurate in
            float32, and 30 in float64, whatever the stream (see the page on numerics).
        pinv_ridge: λ of the ridge inverse (ΓᵀΓ + λ²I)⁻¹Γᵀ, from 1e-5 to 1e5.
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
        forms = self.record.forms  # an unknown variant is refused first
        for name in ("embed_dim", "num_heads", "window", "update_size"):
            size(name, getattr(self, name))
        size("pinv_iters", self.pinv_iters, MOST_ITERATIONS)
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
        if self.pinv == "ridge" and not SMALLEST_RIDGE <= self.pinv_ridge <= LARGEST_RIDGE:
            raise ValueError(
                f"pinv_ridge={self.pinv_ridge!r} must be from {SMALLEST_RIDGE:g} to {LARGEST_RIDGE:g}: a smaller λ² is "
                f"lost beside ΓᵀΓ in float64, a larger one leaves nothing of Γ; pinv='exact' has no λ"
            )
        boolean("bias", self.bias)
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
        if self.dropout and "dropout" not in self.record.options:
            raise ValueError(
                f"dropout={self.dropout} cannot be honoured by {self.variant!r}: the n x n attention weights it would "
                f"drop are never formed; set dropout=0.0 and drop features after the attention instead"
            )

    @cached_property
    def record(self) -> variants.Variant:
        """What the variant declares about itself."""
        return variants.get(self.variant)

    @property
    def low_rank(self) -> bool:
        """Whether the variant uses landmarks."""
        return self.record.low_rank

    @property
    def fixed(self) -> bool:
        """Whether the landmarks are fixed before streaming."""
        return self.record.fixed

    @property
    def single(self) -> bool:
        """Whether only the newest rows are returned."""
        return self.record.single

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
        return self.record.reach(self.window, self.landmarks)

    @property
    def form(self) -> str:
        """The form of the window that `sums` stands for."""
        return self.record.form(self.sums, self.window, self.update_size)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())
