"""Which models the kernels can run; known without Numba, so that a machine without it can be told what it misses."""

from __future__ import annotations

import torch

from nystream.layers.attention import MultiheadAttention
from nystream.layers.encoder import StreamEncoder
from nystream.models import StreamModel
from nystream.stream.cpu import plan as p

Model = StreamModel | StreamEncoder | MultiheadAttention

KINDS = {"co-fixed-single": p.FIXED, "co-cont-single": p.CONTINUAL, "co-full-single": p.FULL}
PINVS = {"newton": p.NEWTON, "ridge": p.RIDGE, "none": p.NONE}


def unsupported(model: Model) -> str | None:
    """Why the kernels cannot run this model, or None."""
    configs = (model.config,) if isinstance(model, MultiheadAttention) else model.config.blocks
    for cfg in configs:
        if cfg.variant not in KINDS:
            return f"it has a block of {cfg.variant!r}, whose step works on all rows of the window"
        if cfg.form == "subtract":
            return "sums='subtract' is the paper's drifting update, which is there for comparison only"
        if cfg.variant == "co-cont-single" and cfg.pinv not in PINVS:
            return f"pinv={cfg.pinv!r} of landmarks that are renewed has no kernel; 'newton' and 'ridge' have"
    weight = next(model.parameters())
    if weight.dtype != torch.float32:
        return f"its weights are {str(weight.dtype).removeprefix('torch.')}, and the kernels work in float32"
    if weight.device.type != "cpu":
        return f"it is on {weight.device}, and the kernels run on the CPU"
    return None
