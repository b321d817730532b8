"""Whether the values of tensors may be looked at."""

from __future__ import annotations

import torch


def tracing() -> bool:
    """True while a graph is traced or `torch.func` transforms run: a branch on a value would fail there.

    What branches to save work takes the road that is right for any value instead.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None
