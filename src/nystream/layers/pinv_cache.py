"""A cache of Γ†, the pseudo-inverse of fixed landmarks, that is never stale.

Γ† follows the landmarks by two rules:

1. While the landmarks are parameters, nothing is cached: Γ† is computed on every use, and is differentiable.
2. While they are buffers, Γ† is cached with a copy of the landmarks it was computed from. Every use compares the copy
   with the current landmarks *by value*, and recomputes Γ† if they differ.

It therefore does not matter how the landmarks were changed: by `set_landmarks`, `load_state_dict` or `to`, by copying
or unpickling the module, or by a write in place, under `no_grad`, in inference mode or through `.data`. Version
counters would miss some of these. The cache is a plain attribute rather than a buffer, so code that modifies all
buffers of a model, for example to average them, cannot change it.

A traced graph cannot branch on values. `torch.export`, `torch.jit.trace` and `torch.func` transforms compute Γ† in the
graph. `torch.compile` compares inside the graph. On the CPU, the graph recomputes Γ† if the landmarks differ. On other
devices a branch would have to synchronize, so the outputs are NaN until a call outside the graph has updated the cache.
The same holds for a captured CUDA graph, which reads fixed addresses and must be captured again after that call.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.attention.common import Fixed, gamma_pinv
from nystream.ops.tracing import capturing, transforming


class PinvCache(NamedTuple):
    """Γ† and what it was computed from."""

    landmarks: Tensor  # [2, H, m, D] (q̃, k̃)
    q_tilde: Tensor  # [H, m, D], a view of landmarks[0], created once because every step on the CPU compares with it
    k_tilde: Tensor  # [H, m, D], a view of landmarks[1]
    config: AttentionConfig
    gamma_pinv: Tensor  # [H, m, m]
    finite: bool  # False while the landmarks are NaN because they have not been set


def compute(q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> PinvCache:
    """Compute Γ† and copy the landmarks."""
    # The cache outlives the caller's inference or grad mode.
    with torch.inference_mode(False), torch.no_grad():
        landmarks = torch.stack([q_tilde.detach(), k_tilde.detach()])
        q_copy, k_copy = landmarks
        return PinvCache(landmarks, q_copy, k_copy, cfg, gamma_pinv(q_copy, k_copy, cfg), finite(q_copy, k_copy))


def finite(q_tilde: Tensor, k_tilde: Tensor) -> bool:
    return not q_tilde.is_meta and math.isfinite(float(largest(q_tilde, k_tilde)))


def largest(q_tilde: Tensor, k_tilde: Tensor) -> Tensor:
    """The largest absolute number, or NaN if any is: a single number, because reading one synchronizes."""
    return torch.maximum(*(torch.linalg.vector_norm(x.detach(), torch.inf) for x in (q_tilde, k_tilde)))


def is_current(cache: PinvCache, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> bool:
    """Whether the cache was computed from these landmarks."""
    if not _comparable(cache, q_tilde, k_tilde, cfg):
        return False
    if q_tilde.device.type == "cpu":
        return torch.equal(cache.q_tilde, q_tilde) and torch.equal(cache.k_tilde, k_tilde)
    return torch.equal(cache.landmarks, torch.stack([q_tilde, k_tilde]))  # synchronizes once, not twice


def learned(q_tilde: Tensor, k_tilde: Tensor) -> bool:
    """Whether any landmarks are parameters or require a gradient."""
    return any(isinstance(x, torch.nn.Parameter) or x.requires_grad for x in (q_tilde, k_tilde))


def known_unset(cache: PinvCache | None, q_tilde: Tensor, k_tilde: Tensor) -> bool:
    """Whether it is certain, while a graph is traced, that the landmarks are unset or not finite."""
    if cache is None or cache.finite or learned(q_tilde, k_tilde):
        return False
    if torch.compiler.is_compiling() or torch._C._is_tracing() or capturing():
        return True
    return not finite(_unwrapped(q_tilde), _unwrapped(k_tilde))  # `functional_call` may have replaced the buffers


def in_graph(cache: PinvCache | None, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> Fixed:
    """Return the landmarks and their Γ† while a graph is traced."""
    compiled = torch.compiler.is_dynamo_compiling()  # False while torch.export or torch.func trace
    captured = not compiled and not transforming() and capturing()
    cached_here = cache is not None and not learned(q_tilde, k_tilde) and _comparable(cache, q_tilde, k_tilde, cfg)
    if cache is None or not cached_here or not (compiled or captured):
        return Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg))
    same = (cache.landmarks == torch.stack([q_tilde, k_tilde])).all()
    if captured or q_tilde.device.type != "cpu":
        return Fixed(q_tilde, k_tilde, torch.where(same, cache.gamma_pinv, torch.nan))

    def recompute(q_tilde: Tensor, k_tilde: Tensor, _: Tensor) -> Tensor:
        return gamma_pinv(q_tilde, k_tilde, cfg).contiguous()

    def cached(q_tilde: Tensor, k_tilde: Tensor, inverse: Tensor) -> Tensor:
        return inverse.clone(memory_format=torch.contiguous_format)

    return Fixed(q_tilde, k_tilde, torch.cond(same, cached, recompute, (q_tilde, k_tilde, cache.gamma_pinv)))


def _unwrapped(x: Tensor) -> Tensor:
    """Remove the wrappers of `torch.func` transforms, so that the values can be read."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def _comparable(cache: PinvCache, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> bool:
    copy = cache.q_tilde
    return (
        (cache.config is cfg or cache.config == cfg)
        and copy.dtype == q_tilde.dtype == k_tilde.dtype
        and copy.device == q_tilde.device == k_tilde.device
        and copy.shape == q_tilde.shape == k_tilde.shape
    )
