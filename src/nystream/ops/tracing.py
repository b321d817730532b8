"""Whether code may branch on the values of tensors."""

from __future__ import annotations

import torch


def tracing() -> bool:
    """True while a graph is traced or a `torch.func` transform runs, where branching on a value fails.

    Code that branches to save work then takes the path that is correct for all values.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None
