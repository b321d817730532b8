"""Whether code may branch on the values of tensors."""

from __future__ import annotations

import torch


def tracing() -> bool:
    """True while a graph is traced or captured, or a `torch.func` transform runs, where branching on a value fails.

    Code that branches to save work then takes the path that is correct for all values.
    """
    return torch.compiler.is_compiling() or torch._C._is_tracing() or transforming() or capturing()


def capturing() -> bool:
    """True while a CUDA graph is captured, which cannot wait for the device, and reads fixed addresses."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def transforming() -> bool:
    """True while a `torch.func` transform, such as vmap, runs."""
    if torch.compiler.is_compiling():  # which cannot trace the question
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None
