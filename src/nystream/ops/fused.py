"""When `steps` is computed by the fused kernels of `ops.triton`.

`co-fixed-single`, `co-full-single` and the warm-up of `co-cont-single` have kernels. They are used for pieces of at
least 16 tokens on NVIDIA GPUs of compute capability 8.0 or higher, if Triton 3.6 or newer (PyTorch 2.10 or newer for
CUDA comes with it), a C compiler and the header files of Python are installed, in float32 and bfloat16, for heads up to
128 wide and up to 32 fixed landmarks. Everything else runs in torch: other variants and devices, float64, shorter
pieces, and graphs that are traced, transformed or captured. Both ways give the same outputs and state up to rounding.
`kernels` turns them off.

The kernels keep no array that is larger than their inputs: the backward pass computes weights again instead. They have
neither second derivatives nor batched gradients (`is_grads_batched`, `vmap`).

Example:
    >>> from nystream.ops import fused
    >>> with fused.kernels("never"):  # around the training
    ...     pass
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.autograd import forward_ad

from nystream.config import AttentionConfig
from nystream.extras import warn_if_slower, without_compiler, without_triton
from nystream.ops.extended import Extended
from nystream.ops.later import Later
from nystream.ops.timeline import Timeline
from nystream.ops.tracing import tracing

Mode = Literal["auto", "always", "never"]

SHORTEST = 16  # tokens of a piece; benchmarks/gpu_steps.py has timed no shorter ones
WIDEST = 128  # numbers of a head
MOST = 32  # landmarks
LARGEST = 2**31  # numbers of the logits of a head, whose places are int32
CAPABILITY = (8, 0)  # the first with TensorFloat-32

# Of the whole process, because backward passes run in threads of their own.
_mode: Mode = "auto"
_entered: dict[object, Mode] = {}  # oldest first; threads may leave in another order
_changing = Lock()


@contextmanager
def kernels(mode: Mode) -> Iterator[None]:
    """Choose how `steps` is computed inside the `with` block.

    Args:
        mode: "auto", the default, uses the fused kernels for pieces of at least 16 tokens wherever they can be used,
            "never" uses torch, and "always" uses them for pieces of any length, and raises an error where they cannot
            be used. While a graph is traced or captured, torch's operators are used in every mode.

    The mode applies to all threads of the process. With `torch.utils.checkpoint`, the forward pass is computed again
    during the backward pass, in the mode that is set then: use `kernels` inside the function that is computed again, or
    around the backward pass, too.
    """
    global _mode
    if mode not in get_args(Mode):
        raise ValueError(f"mode={mode!r} must be one of {', '.join(map(repr, get_args(Mode)))}")
    this = object()
    with _changing:
        _entered[this] = _mode = mode
    try:
        yield
    finally:
        with _changing:
            del _entered[this]
            _mode = ["auto", *_entered.values()][-1]


def wanted(value: Tensor, length: int, cfg: AttentionConfig) -> bool:
    """Whether a piece of `length` tokens with these values is computed by the kernels."""
    if tracing():  # first, because a graph cannot contain the question for the mode
        return False
    if _mode == "never" or (_mode == "auto" and (not value.is_cuda or length < SHORTEST)):
        return False
    obstacle = _obstacle(value, length, cfg)
    if _mode == "always" and obstacle:
        raise ValueError(f"kernels('always'): {obstacle}; use kernels('auto')")
    return obstacle is None


def full(
    q: Tensor, key: Extended, value: Extended, cfg: AttentionConfig, when: Timeline, decay: Tensor | None
) -> tuple[Tensor, Later]:
    """Softmax attention of every token over its own window: q [B, H, T, D] -> [B, H, T, D].

    Also whether any key or value is not finite, in which case the outputs mean nothing.
    """
    band, attention = _module("band"), _module("full")
    bad = Later(value.piece.new_zeros(1, dtype=torch.int32))
    out: Tensor = attention.attend(
        *(q.transpose(1, 2), key.ring, key.piece, value.ring, value.piece),
        *(_rates(decay, value), cfg.scale, value.time, band.band(when, cfg.window), bad),
    )
    return out.transpose(1, 2), bad


def landmarks(
    cfg: AttentionConfig, when: Timeline, decay: Tensor | None, weight: Tensor, logit: Extended, value: Extended
) -> tuple[Tensor, Later]:
    """Σᵢ wᵢ (Δ_φ V)ᵢ of every token's own window, as `parallel.windowed`.

    Also whether any token is not finite, in which case the outputs mean nothing.
    """
    band, attention = _module("band"), _module("landmarks")
    bad = Later(value.piece.new_zeros(1, dtype=torch.int32))
    out: Tensor = attention.attend(
        *(weight, logit.ring, logit.piece, value.ring, value.piece),
        *(_rates(decay, value), value.time, band.band(when, cfg.window), bad),
    )
    return out, bad


def logits(q_tilde: Tensor, k: Tensor) -> Tensor:
    """q̃ kᵀ of landmarks [H, m, D] and k [B, H, T, D]: [B, T, H, m]."""
    out: Tensor = _module("products").logits(q_tilde, k.transpose(1, 2))
    return out.permute(2, 3, 0, 1)


def weights(q: Tensor, k_tilde: Tensor, inverse: Tensor | None) -> Tensor:
    """softmax(q k̃ᵀ) Γ† of q [B, H, T, D], landmarks [H, m, D] and Γ† [H, m, m], or None for I: [B, T, H, m]."""
    out: Tensor = _module("products").weights(q.transpose(1, 2), k_tilde, inverse)
    return out.permute(2, 3, 0, 1)


@cache
def _module(name: str) -> ModuleType:
    """A module of `ops.triton`, imported when it is used first, and found without cost from then on."""
    return import_module(f"nystream.ops.triton.{name}")


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _rates(decay: Tensor | None, value: Extended) -> Tensor | None:
    return None if decay is None else decay.expand(value.piece.shape[0], -1)  # [B, H]


def _obstacle(value: Tensor, length: int, cfg: AttentionConfig) -> str | None:
    """Why the kernels cannot compute this, if so."""
    if value.dtype not in (torch.float32, torch.bfloat16):
        return f"the values are {value.dtype}, but must be torch.float32 or torch.bfloat16"
    if cfg.head_dim > WIDEST:
        return f"heads are {cfg.head_dim} wide, but the kernels take at most {WIDEST}"
    if cfg.fixed:  # continual landmarks only need the kernels of full attention, to warm up
        if cfg.m > MOST:
            return f"there are {cfg.m} landmarks, but the kernels take at most {MOST}"
        if cfg.m * value.shape[0] * (cfg.window + length) >= LARGEST:
            return f"{value.shape[0]} pieces of {length} tokens are too many for {cfg.m} landmarks: use smaller batches"
    if forward_ad._current_level >= 0:
        return "the kernels do not support forward-mode differentiation"
    if value.is_cuda:
        if torch.version.hip is not None:
            return "the device is an AMD GPU, but must be an NVIDIA GPU"
        capability = _capability(value.device)
        if capability < CAPABILITY:
            have, need = (".".join(map(str, version)) for version in (capability, CAPABILITY))
            return f"{value.device} has compute capability {have}, but the kernels need at least {need}"
    lacking = without_triton() or (without_compiler() if value.is_cuda else None)
    if lacking is not None:
        if _mode == "auto":
            warn_if_slower("steps() uses no fused kernels on this GPU", lacking)
        return lacking
    if value.is_cuda:
        return None
    interpreted: bool = import_module("triton").knobs.runtime.interpret
    return None if interpreted else f"the tensors are on {value.device}, but must be on a CUDA device"
