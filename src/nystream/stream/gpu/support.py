"""Which models the GPU kernels can run, and where. Needs no Triton, so that a machine without it can be told so."""

from __future__ import annotations

import os
from typing import Any

import torch

from nystream.config import AttentionConfig
from nystream.extras import without_compiler, without_triton
from nystream.layers.attention import MultiheadAttention
from nystream.stream.cpu.support import different
from nystream.stream.gpu.blocks import power_of_two

DTYPES = (torch.float32, torch.bfloat16)
CAPABILITY = (8, 0)  # the first for which Triton compiles bfloat16
MOST_LANDMARKS = 128  # whose products with one another have room in registers and shared memory
# Bytes of shared memory for a number of Γ†: to compute it, with tensor cores for float64 or without, and to multiply.
INVERSE_BYTES = {"newton": (16, 32), "ridge": (12, 18), "none": (0, 0)}
PRODUCT_BYTES = 12
WITH_FLOAT64 = ((8, 0), (9, 0), (10, 0))
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
    if interpreted() and any(device.type == "cuda" for device in devices):
        return f"it is on a GPU, but {INTERPRETER} is 1, so kernels run on the CPU; unset it before Python starts"
    for name, x in weights.items():
        if x.device.type != "cuda" and not (x.device.type == "cpu" and interpreted()):
            remedy = "call model.cuda()" if torch.cuda.is_available() else "torch finds none on this machine"
            return f"its {name} is on {x.device}, but the kernels run on a GPU: {remedy}"
        if x.dtype not in DTYPES:
            dtype = str(x.dtype).removeprefix("torch.")
            return f"its {name} is {dtype}, but the kernels take float32 and bfloat16: call model.float()"
    if len({x.dtype for x in weights.values()}) > 1:
        return "its weights have several dtypes"
    (device,) = devices
    return (_device(device) or _inverses(device, configs)) if device.type == "cuda" else None


def on_gpu(model: Any) -> bool:
    """Whether a weight of the model is on a GPU."""
    return any(x.device.type == "cuda" for x in model.parameters())


def compiled() -> bool:
    """Whether Triton is installed, new enough, and compiles kernels."""
    return not interpreted() and lacking() is None


def lacking() -> str | None:
    """The reason why kernels cannot be compiled or interpreted here, or None if they can."""
    return without_triton() or (None if interpreted() else without_compiler())


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get(INTERPRETER, "").lower() in ("1", "on", "true", "y", "yes")  # as Triton reads it


def _device(device: torch.device) -> str | None:
    """The reason why the kernels cannot run on this GPU, or None if they can."""
    if torch.version.hip is not None:
        return f"{device} is an AMD GPU, but the kernels run on NVIDIA GPUs"
    capability = torch.cuda.get_device_capability(device)
    if capability < CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, CAPABILITY))
        return f"{device} has compute capability {have}, but the kernels need at least {need}"
    return None


def _inverses(device: torch.device, configs: tuple[AttentionConfig, ...]) -> str | None:
    """The reason why the kernels cannot compute Γ† on this GPU, or multiply by it, or None if they can."""
    room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", None)
    if room is None:
        return None  # torch before 2.7, whose Triton is too old, as `lacking` says
    slow = torch.cuda.get_device_capability(device) not in WITH_FLOAT64
    for cfg in configs:
        if cfg.low_rank:
            each = INVERSE_BYTES[cfg.pinv][slow] if cfg.record.means else PRODUCT_BYTES
            if each * power_of_two(cfg.m) ** 2 > room:
                return f"{device} has too little shared memory for pinv={cfg.pinv!r} of {cfg.m} landmarks"
    return None
