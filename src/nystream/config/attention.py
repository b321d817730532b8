"""The configuration of one attention module."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from nystream import variants
from nystream.config.checks import boolean, fingerprint_of, one_of, positive_int, positive_number, probability, size

Pinv = Literal["newton", "exact", "ridge", "none"]
Sums = Literal["auto", "partials", "recompute", "subtract"]

PINVS: tuple[str, ...] = ("newton", "exact", "ridge", "none")

# The range in which (ΓᵀΓ + λ²I)⁻¹Γᵀ is accurate: its relative error is about 1e-8 / λ in a float32 model.
MIN_RIDGE, MAX_RIDGE = 1e-5, 1e5
MAX_PINV_ITERS = 1000  # Newton–Schulz has long converged by then


@dataclass(frozen=True)
class AttentionConfig:
    """The configuration of one attention module. No size may exceed 2³¹ − 1.

    Args:
        variant: One of `nystream.VARIANTS`, or a variant registered with `nystream.register_variant`. A family,
            "co-fixed", "co-cont" or "co-full", stands for its -single variant.
        embed_dim: Width E of the tokens, a multiple of `num_heads`.
        num_heads: Number of heads H, each of width `embed_dim // num_heads`.
        window: Number of tokens n that a token attends to, including itself.
        landmarks: Number of landmarks m, 1 <= m <= n. Required by the Nyström variants, ignored by the full ones.
        pinv: The pseudo-inverse of Γ: "newton" (the paper's Newton–Schulz iteration), "exact", "ridge" or "none"
            (the identity).
        pinv_iters: Number of Newton–Schulz iterations, at most 1000. It is part of the model: another number gives
            other outputs. Up to about 16 iterations are accurate in float32, and 30 in float64 (see Numerics).
        pinv_ridge: λ of the ridge inverse (ΓᵀΓ + λ²I)⁻¹Γᵀ, from 1e-5 to 1e5.
        update_size: Number of tokens r that arrive together. It must divide `window`.
        sums: How the sums over the sliding window are computed: "partials", "recompute", "subtract" (the paper's
            method, which accumulates rounding errors), or "auto" to choose between the first two.
        bias: Whether the four projections have a bias.
        dropout: Dropout of the attention weights in training. Only the full variants compute such weights.
        decay: Whether recent tokens weigh more: each head lowers the logit of a token by a learned rate for every token
            that came after it. For the newest-row variants.

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
    decay: bool = False

    def __post_init__(self) -> None:
        forms = self.record.forms  # first, because it raises if the variant is unknown
        object.__setattr__(self, "variant", self.record.name)
        for name in ("embed_dim", "num_heads", "window", "update_size"):
            size(name, getattr(self, name))
        size("pinv_iters", self.pinv_iters, MAX_PINV_ITERS)
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
        positive_number("pinv_ridge", self.pinv_ridge)
        if self.pinv == "ridge" and not MIN_RIDGE <= self.pinv_ridge <= MAX_RIDGE:
            raise ValueError(
                f"pinv_ridge={self.pinv_ridge!r} must be from {MIN_RIDGE:g} to {MAX_RIDGE:g}: a smaller λ² is rounded "
                f"away beside ΓᵀΓ in float64, and a larger one outweighs Γ; pinv='exact' needs no λ"
            )
        boolean("bias", self.bias)
        if self.sums not in forms:
            raise ValueError(
                f"sums={self.sums!r} is not supported by variant {self.variant!r}; it must be one of {', '.join(forms)}"
            )
        probability("dropout", self.dropout)
        if self.dropout and "dropout" not in self.record.options:
            raise ValueError(
                f"dropout={self.dropout} is not supported by variant {self.variant!r}, which never computes the n x n "
                f"attention weights; set dropout=0.0 and apply dropout after the attention instead"
            )
        boolean("decay", self.decay)
        if self.decay and "decay" not in self.record.options:
            supported = ", ".join(name for name in variants.names() if "decay" in variants.get(name).options)
            raise ValueError(
                f"decay=True is not supported by variant {self.variant!r}; the variants that support it are {supported}"
            )
        if self.decay and self.sums == "subtract":
            raise ValueError("decay=True is not supported by sums='subtract'; use sums='auto'")
        for name in ("pinv_ridge", "dropout"):  # so that 0 and 0.0 give the same fingerprint
            object.__setattr__(self, name, float(getattr(self, name)))

    def _check_landmarks(self) -> None:
        if self.landmarks is None:
            if self.low_rank:
                raise ValueError(f"landmarks=None, but variant {self.variant!r} needs 1 <= landmarks <= window")
            return
        positive_int("landmarks", self.landmarks)
        if self.landmarks > self.window:
            raise ValueError(
                f"landmarks={self.landmarks} is more than window={self.window}; every landmark needs at least one token"
            )

    @cached_property
    def record(self) -> variants.Variant:
        """The record of the variant."""
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
        """The factor of every logit, 1 / √head_dim."""
        return float(self.head_dim) ** -0.5

    @property
    def m(self) -> int:
        """Number of landmarks, for code that runs only if the variant has them."""
        assert self.landmarks is not None
        return self.landmarks

    @property
    def rows(self) -> int:
        """Number of output rows of `forward` and `step`."""
        return self.update_size if self.single else self.window

    @property
    def receptive_field(self) -> int:
        """Number of tokens an output can depend on; more than the window if the landmarks are continual."""
        return self.record.reach(self.window, self.landmarks)

    @property
    def replay_length(self) -> int:
        """Number of tokens, in whole groups, after which a stream that starts with nothing is like any other."""
        return -(-self.receptive_field // self.update_size) * self.update_size

    @property
    def form(self) -> str:
        """The implementation of the sliding window that `sums` selects."""
        return self.record.form(self.sums, self.window, self.update_size)

    def to_dict(self) -> dict[str, Any]:
        """The fields; without `decay` if it is off, as in configs and fingerprints of version 0.1."""
        fields = dataclasses.asdict(self)
        if not self.decay:
            del fields["decay"]
        return fields

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every field."""
        return fingerprint_of(self.to_dict())
