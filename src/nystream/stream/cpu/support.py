"""Which models the kernels can run. Needs no Numba, so that a machine without it can be told what to install.

The kernels implement the library's own modules only. A modified model would give different numbers, so the pool runs it
with torch instead.
"""

from __future__ import annotations

import torch
from torch import nn

from nystream.config import AttentionConfig
from nystream.layers.attention import MultiheadAttention
from nystream.layers.block import ACTIVATIONS, EncoderBlock
from nystream.layers.encoder import StreamEncoder
from nystream.layers.linear_path import LinearPath
from nystream.layers.positional import CircularPositions
from nystream.layers.scaler import Scaler
from nystream.models import StreamModel
from nystream.stream.cpu import plan as p

Model = StreamModel | StreamEncoder | MultiheadAttention

KINDS = {"fixed": p.FIXED, "continual": p.CONTINUAL, "full": p.FULL}  # by the name in the variant's record
PINVS = {"newton": p.NEWTON, "ridge": p.RIDGE, "none": p.NONE}
MODULES = {
    *(StreamModel, StreamEncoder, EncoderBlock, MultiheadAttention, CircularPositions, Scaler, LinearPath),
    *(nn.Linear, nn.LayerNorm, nn.Dropout, nn.Identity, nn.ModuleList),
}


def unsupported(model: Model) -> str | None:
    """The reason why the kernels cannot run this model, or None if they can."""
    why = different(model)
    if why is not None:
        return why
    for name, x in (*model.named_parameters(), *model.named_buffers()):
        if x.device.type != "cpu":
            return f"its {name} is on {x.device}, but the kernels run on the CPU: call model.cpu()"
        if x.dtype != torch.float32:
            dtype = str(x.dtype).removeprefix("torch.")
            return f"its {name} is {dtype}, but the kernels compute in float32: call model.float()"
    return None


def different(model: Model) -> str | None:
    """What the model has that no kernel implements, on any device, or None."""
    configs = (model.config,) if isinstance(model, MultiheadAttention) else model.config.blocks
    for cfg in configs:
        why = _attention(cfg)
        if why is not None:
            return why
    for name, part in model.named_modules():
        why = _module(part, getattr(model.config, "norm_eps", None))
        if why is not None:
            return f"its {name or 'outermost module'} {why}"
    return None


def _attention(cfg: AttentionConfig) -> str | None:
    if cfg.record.kernel is None:
        if cfg.single:
            return f"it has a block of {cfg.variant!r}, which has no kernel"
        return (
            f"it has a block of {cfg.variant!r}, whose step computes all rows of the window; kernels need a variant "
            f"that returns its newest row and, for several blocks, a model that was trained with stack='deep'"
        )
    if cfg.form == "subtract":
        return "sums='subtract', the paper's update, drifts and has no kernel; use sums='auto'"
    if cfg.record.means and cfg.pinv not in PINVS:
        return f"pinv={cfg.pinv!r} has no kernel for continual landmarks; 'newton', 'ridge' and 'none' do"
    return None


def _module(part: nn.Module, eps: float | None) -> str | None:
    """How a module differs from the library's own, or None."""
    if type(part) not in MODULES:
        return f"is a {type(part).__name__}, which the kernels do not implement"
    if part._forward_hooks or part._forward_pre_hooks or {"forward", "step"} & vars(part).keys():
        return "has a hook or a method of its own, which the kernels would not call"
    if isinstance(part, EncoderBlock) and part.activation not in ACTIVATIONS.values():
        return "has an activation that the kernels do not implement; they have gelu and relu"
    if isinstance(part, nn.LayerNorm) and (part.eps != eps or part.bias is None or not part.elementwise_affine):
        return f"has eps={part.eps}, or lacks a bias or weights, unlike the config (norm_eps={eps})"
    return None
