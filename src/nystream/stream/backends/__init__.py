"""Where the states of a pool live and what steps them: one module a backend, imported when it is asked for.

torch   `model.step` on one batched state: every variant, stack, dtype and device; what the others are compared with.
numba   the whole step compiled, on the CPU, for models whose blocks all return their newest row.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from nystream.stream.cpu.support import unsupported

NAMES = ("numba", "torch")

NO_NUMBA = (
    "the numba backend needs numba, which is not installed; `pip install numba`, or take backend='torch', which is "
    "slower"
)


class Backend(Protocol):
    """The states of many streams of one model, in numbered slots. Not thread-safe: the pool holds a lock.

    Tokens come as well-behaved numpy arrays of the pool's dtype: C-contiguous, aligned and writeable. A slot means
    nothing until it is cleared or written.
    """

    name: str
    bytes_per_stream: int  # what one more stream costs in memory
    spoiled: set[int]  # slots that a failed push has left half-written, until they are cleared or written

    def __init__(self, model: Any, capacity: int) -> None:
        """`model` is the pool's own: in eval mode, without gradients. MemoryError where there is no room."""

    def grow(self, capacity: int) -> None:
        """More slots; those that are there stay as they are, even if this fails."""

    def clear(self, slot: int) -> None:
        """As new."""

    def push(self, slot: int, x: np.ndarray, y: np.ndarray) -> bool:
        """x [input_dim] or [r, input_dim], y alike, written to. False, and nothing touched, unless x is finite."""

    def push_many(self, slots: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
        """slots int64 [S], at least one and all distinct; x [S, r, input_dim]; y [S, r, output_dim]. As `push`."""

    def time(self, slot: int) -> int:
        """Tokens so far."""

    def read(self, slot: int) -> Any:
        """The state as `init_state(1)` lays it out, on the CPU, in memory of its own."""

    def write(self, slot: int, state: Any) -> None:
        """From such a state."""


def choose(model: Any, name: str) -> type[Backend]:
    """The backend called `name`, if it can run the model; for "auto" the fastest that can."""
    if name not in ("auto", *NAMES):
        known = ", ".join(repr(one) for one in ("auto", *NAMES))
        raise ValueError(f"backend={name!r} is not there; it must be one of {known}")
    why = unsupported(model)
    if name == "auto":
        name = "numba" if why is None else "torch"
    elif name == "numba" and why is not None:
        raise ValueError(f"backend='numba' cannot run this model: {why}; use backend='torch', which can run any")
    kind: type[Backend] = getattr(_module(name), f"{name.capitalize()}Backend")
    return kind


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError as error:
        if error.name == "numba":
            raise ImportError(NO_NUMBA, name="numba") from error
        raise
