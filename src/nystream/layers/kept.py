"""Γ† of fixed landmarks, always that of the landmarks as they are now.

The rule, for every place that uses Γ†:

1. While the landmarks are parameters, nothing is kept: Γ† is computed from them at every use, and is differentiable.
2. While they are buffers, Γ† is kept with a copy of the landmarks it was computed from. Every use compares the copy
   with the landmarks *by value*, and computes Γ† again if they differ.

So it does not matter how the landmarks came to be what they are: through `set_landmarks`, `load_state_dict` or `to`; by
a copy or a pickle of the module; by a write in place, under `no_grad`, in inference mode or through `.data`. Version
counters see only some of these. Γ† and the copies are plain attributes rather than buffers, so code that walks over a
model's buffers, to average them for example, cannot change them either.

A traced graph cannot look at values. `torch.export`, `torch.jit.trace` and `torch.func` transforms compute Γ† in the
graph. A graph of `torch.compile` compares inside the graph: on the CPU it computes Γ† again where the landmarks differ;
on other devices, where a branch would have to wait, its outputs are NaN until the next call outside the graph has
renewed Γ†. A captured CUDA graph reads fixed addresses and must be captured again when landmarks change.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nystream.config import AttentionConfig
from nystream.ops.attention.common import Fixed, gamma_pinv


class Kept(NamedTuple):
    """Γ† and what it was computed from."""

    landmarks: Tensor  # [2, H, m, D] (q̃, k̃)
    q_tilde: Tensor  # [H, m, D], a view of them: made once, because every step on the CPU compares with it
    k_tilde: Tensor  # [H, m, D]
    config: AttentionConfig
    gamma_pinv: Tensor  # [H, m, m]
    finite: bool  # whether the landmarks are; they are NaN until they are set


def keep(q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> Kept:
    """Γ† of the landmarks, with a copy of them."""
    # Whatever mode the caller is in, what is kept outlives it.
    with torch.inference_mode(False), torch.no_grad():
        landmarks = torch.stack([q_tilde.detach(), k_tilde.detach()])
        q_copy, k_copy = landmarks
        return Kept(landmarks, q_copy, k_copy, cfg, gamma_pinv(q_copy, k_copy, cfg), finite(q_copy, k_copy))


def finite(q_tilde: Tensor, k_tilde: Tensor) -> bool:
    return not q_tilde.is_meta and all(bool(x.isfinite().all()) for x in (q_tilde, k_tilde))


def belongs(kept: Kept, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> bool:
    """Whether what is kept was computed from these landmarks."""
    if not _comparable(kept, q_tilde, k_tilde, cfg):
        return False
    if q_tilde.device.type == "cpu":
        return torch.equal(kept.q_tilde, q_tilde) and torch.equal(kept.k_tilde, k_tilde)
    if q_tilde.is_cuda and torch.cuda.is_current_stream_capturing():
        return True  # compared in the warm-up before the capture; a capture cannot wait for the answer
    return torch.equal(kept.landmarks, torch.stack([q_tilde, k_tilde]))  # waits for the device once, not twice


def learned(q_tilde: Tensor, k_tilde: Tensor) -> bool:
    """Whether any landmarks are parameters, or stand in for some."""
    return any(isinstance(x, torch.nn.Parameter) or x.requires_grad for x in (q_tilde, k_tilde))


def unset(kept: Kept | None, q_tilde: Tensor, k_tilde: Tensor) -> bool:
    """Whether it is known that landmarks are not set, or not finite, while a graph is traced."""
    if kept is None or kept.finite or learned(q_tilde, k_tilde):
        return False
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    return not finite(_unwrapped(q_tilde), _unwrapped(k_tilde))  # `functional_call` may have lent others


def in_graph(kept: Kept | None, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> Fixed:
    """The landmarks and their Γ† while a graph is traced."""
    compiled = torch.compiler.is_dynamo_compiling()  # not while torch.export or torch.func trace
    if not compiled or learned(q_tilde, k_tilde) or kept is None or not _comparable(kept, q_tilde, k_tilde, cfg):
        return Fixed(q_tilde, k_tilde, gamma_pinv(q_tilde, k_tilde, cfg))
    same = (kept.landmarks == torch.stack([q_tilde, k_tilde])).all()
    if q_tilde.device.type != "cpu":
        return Fixed(q_tilde, k_tilde, torch.where(same, kept.gamma_pinv, torch.nan))

    def again(q_tilde: Tensor, k_tilde: Tensor, _: Tensor) -> Tensor:
        return gamma_pinv(q_tilde, k_tilde, cfg).contiguous()

    def as_kept(q_tilde: Tensor, k_tilde: Tensor, inverse: Tensor) -> Tensor:
        return inverse.clone(memory_format=torch.contiguous_format)

    return Fixed(q_tilde, k_tilde, torch.cond(same, as_kept, again, (q_tilde, k_tilde, kept.gamma_pinv)))


def _unwrapped(x: Tensor) -> Tensor:
    """What `torch.func` transforms have wrapped: a branch may look at its values."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def _comparable(kept: Kept, q_tilde: Tensor, k_tilde: Tensor, cfg: AttentionConfig) -> bool:
    copy = kept.q_tilde
    return (
        (kept.config is cfg or kept.config == cfg)
        and copy.dtype == q_tilde.dtype == k_tilde.dtype
        and copy.device == q_tilde.device == k_tilde.device
        and copy.shape == q_tilde.shape == k_tilde.shape
    )
