"""Which models the GPU kernels can run, and where. Needs no Triton, so that a machine without it can be told so."""

from __future__ import annotations

import os
from typing import Any

import torch

from nystream.extras import without_triton
from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu.support import different

DTYPES = (torch.float32, torch.bfloat16)
CAPABILITY = (8, 0)  # the first for which Triton compiles bfloat16
MOST_LANDMARKS = 128  # whose products with one another have room in shared memory
INTERPRETER = "TRITON_INTERPRET"  # set to 1 before Python starts, Triton runs kernels on the CPU, slowly, for tests


def unsupported(model: Any) -> str | None:
    """The reason why the kernels cannot run this model, or None if they can."""
    why = different(model)
    if why is not None:
        return why
    configs = (model.config,) if isinstance(model, MultiheadAttention) else model.config.blocks
    for cfg in configs:
        if cfg.low_rank and cfg.m > MOST_LANDMARKS:
            return f"it has {cfg.m} landmarks, but the kernels take at most {MOST_LANDMARKS}"
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
    (device,) = devices
    return _device(device) if device.type == "cuda" else None


def on_gpu(model: Any) -> bool:
    """Whether a weight of the model is on a GPU."""
    return any(x.device.type == "cuda" for x in model.parameters())


def compiled() -> bool:
    """Whether Triton is installed, new enough, and compiles kernels."""
    return without_triton() is None and not interpreted()


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get(INTERPRETER) == "1"


def _device(device: torch.device) -> str | None:
    """The reason why the kernels cannot run on this GPU, or None if they can."""
    if torch.version.hip is not None:
        return f"{device} is an AMD GPU, but the kernels run on NVIDIA GPUs"
    capability = torch.cuda.get_device_capability(device)
    if capability < CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, CAPABILITY))
        return f"{device} has compute capability {have}, but the kernels need at least {need}"
    return None
