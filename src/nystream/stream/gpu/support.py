"""Which models the GPU kernels can run, and where. Needs no Triton, so that a machine without it can be told so."""

from __future__ import annotations

import os
from typing import Any

import torch

from nystream.stream.cpu.support import different

DTYPES = (torch.float32, torch.bfloat16)
INTERPRETER = "TRITON_INTERPRET"  # set to 1 before Python starts, Triton runs kernels on the CPU, slowly, for tests


def unsupported(model: Any) -> str | None:
    """The reason why the kernels cannot run this model, or None if they can."""
    why = different(model)
    if why is not None:
        return why
    weights = dict((*model.named_parameters(), *model.named_buffers()))
    devices = {x.device for x in weights.values()}
    if len(devices) > 1:
        return f"its weights are on several devices: {', '.join(sorted(map(str, devices)))}"
    for name, x in weights.items():
        if x.device.type != "cuda" and not (x.device.type == "cpu" and interpreted()):
            remedy = "call model.cuda()" if torch.cuda.is_available() else "torch finds none on this machine"
            return f"its {name} is on {x.device}, but the kernels run on a GPU: {remedy}"
        if x.dtype not in DTYPES:
            return f"its {name} is {str(x.dtype).removeprefix('torch.')}, but the kernels take float32 and bfloat16"
    if len({x.dtype for x in weights.values()}) > 1:
        return "its weights have several dtypes"
    return None


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get(INTERPRETER) == "1"
