"""The fixed landmarks of an attention: how they are set, trained and read, with their Γ†."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from nystream.config import AttentionConfig
from nystream.layers import checks, pinv_cache
from nystream.ops.attention.common import Fixed, gamma_pinv
from nystream.ops.later import Later
from nystream.ops.tracing import tracing


def derive_again(module: FixedLandmarks, _: Any) -> None:
    """Update the cache of Γ† after a state dict has been loaded."""
    module._update_pinv_cache()


class FixedLandmarks(nn.Module):
    """The part of `MultiheadAttention` that holds fixed landmarks, if its variant has them."""

    config: AttentionConfig
    q_tilde: Tensor
    k_tilde: Tensor
    _pinv_cache: pinv_cache.PinvCache | None = None
    _pinv_is_constant = False

    def _register_landmarks(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Register landmarks that are not set yet."""
        config = self.config
        empty = torch.full((config.num_heads, config.m, config.head_dim), torch.nan, device=device, dtype=dtype)
        self.register_buffer("q_tilde", empty)
        self.register_buffer("k_tilde", empty.clone())
        # Eager code checks the cache on every use; updating it after known changes serves traced graphs.
        self._update_pinv_cache()
        self.register_load_state_dict_post_hook(derive_again)  # type: ignore[no-untyped-call]

    def set_landmarks(self, q_tilde: Tensor, k_tilde: Tensor) -> None:
        """Set the fixed landmarks and compute Γ† from them.

        Args:
            q_tilde, k_tilde: [H, m, D] each, as projected by `q_proj` and `k_proj`, not scaled. With `pinv="none"`
                they must be pairs: the same m tokens projected by both.
        """
        cfg = self.config
        self._require_fixed()
        if is_parametrized(self):
            raise ValueError("the landmarks are parametrized, so they cannot be set; remove the parametrization first")
        shape = (cfg.num_heads, cfg.m, cfg.head_dim)
        for name, landmarks in (("q_tilde", q_tilde), ("k_tilde", k_tilde)):
            checks.tensor(name, landmarks)
            if tuple(landmarks.shape) != shape:
                raise ValueError(
                    f"{name} is {list(landmarks.shape)}, but must be {list(shape)} (heads, landmarks, width)"
                )
            if not bool(landmarks.isfinite().all()):
                raise ValueError(f"{name} has values that are not finite")
        with torch.no_grad():
            self.q_tilde.copy_(q_tilde)
            self.k_tilde.copy_(k_tilde)
        self._update_pinv_cache()

    def learn_landmarks(self, learn: bool = True) -> None:
        """Turn the fixed landmarks into parameters, to train them with the other weights, or back into buffers."""
        self._require_fixed()
        for name in ("q_tilde", "k_tilde"):
            landmarks = getattr(self, name).detach().clone()
            delattr(self, name)
            if learn:
                self.register_parameter(name, nn.Parameter(landmarks))
            else:
                self.register_buffer(name, landmarks)
        self._update_pinv_cache()

    def hold_landmarks(self) -> None:
        """Never change the landmarks again: graphs that are traced from now on have Γ† as a constant."""
        if isinstance(self.q_tilde, nn.Parameter) or isinstance(self.k_tilde, nn.Parameter):
            self.learn_landmarks(False)
        self.require_landmarks()  # which also updates the cache
        self._pinv_is_constant = True

    def _fixed(self) -> Fixed | None:
        """Return the fixed landmarks and their Γ†, by the rules of `nystream.layers.pinv_cache`."""
        cfg = self.config
        if not cfg.fixed:
            return None
        q_tilde, k_tilde = self.q_tilde, self.k_tilde
        if tracing():
            if pinv_cache.known_unset(self._pinv_cache, q_tilde, k_tilde):
                self._raise_unset()
            if self._pinv_is_constant and self._pinv_cache is not None:
                return Fixed(q_tilde, k_tilde, self._pinv_cache.gamma_pinv)
            return pinv_cache.in_graph(self._pinv_cache, q_tilde, k_tilde, cfg)
        if pinv_cache.learned(q_tilde, k_tilde):
            if not pinv_cache.finite(q_tilde, k_tilde):
                self._raise_unset()
            return Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg))
        if self._pinv_cache is None or not pinv_cache.is_current(self._pinv_cache, q_tilde, k_tilde, cfg):
            self._update_pinv_cache()
        assert self._pinv_cache is not None
        if not self._pinv_cache.finite:
            self._raise_unset()
        return Fixed(q_tilde, k_tilde, self._pinv_cache.gamma_pinv)

    def _fixed_later(self) -> tuple[Fixed | None, Later | None]:
        """Like `_fixed`, without waiting for a GPU: the second result says later whether landmarks are not finite.

        `_raise_unset` must be called if they are not.
        """
        if tracing() or not self.config.fixed:
            return self._fixed(), None
        q_tilde, k_tilde = self.q_tilde, self.k_tilde
        if not q_tilde.is_cuda or not pinv_cache.learned(q_tilde, k_tilde):
            return self._fixed(), None
        bad = Later(~(pinv_cache.largest(q_tilde, k_tilde) < torch.inf)).note()
        return Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, self.config)), bad

    def _update_pinv_cache(self) -> None:
        landmarks = self.q_tilde, self.k_tilde
        self._pinv_cache = None if pinv_cache.learned(*landmarks) else pinv_cache.compute(*landmarks, self.config)

    def _require_fixed(self) -> None:
        if not self.config.fixed:
            raise ValueError(f"variant {self.config.variant!r} has no fixed landmarks; use a variant that has")

    def _raise_unset(self) -> NoReturn:
        raise RuntimeError(
            f"variant {self.config.variant!r} has no landmarks yet, or landmarks that are not finite; "
            f"call set_landmarks(q_tilde, k_tilde) or load a trained state_dict first, outside of torch.compile"
        )

    @property
    def gamma_pinv(self) -> Tensor:
        """Γ† [H, m, m] of the current fixed landmarks."""
        fixed = self._fixed()
        if fixed is None:
            raise AttributeError(f"variant {self.config.variant!r} has no fixed landmarks, and therefore no gamma_pinv")
        return fixed.gamma_pinv

    def require_landmarks(self) -> None:
        """Raise RuntimeError if the variant needs fixed landmarks and they have not been set."""
        self._fixed()

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.config.fixed:
            self._update_pinv_cache()
        return self
