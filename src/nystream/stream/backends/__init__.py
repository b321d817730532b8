"""Backends of a pool, which keep the states of its streams and step them. One module each, imported when needed.

torch   `model.step` on one batched state: every variant, stack, dtype and device. Other backends are tested against it.
numba   a compiled step of the whole model on the CPU, for models whose blocks all return their newest rows.
triton  the same models on a GPU: kernels, and torch for matrix products, in one graph per step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from nystream.extras import warn_if_slower
from nystream.stream.cpu import support as cpu
from nystream.stream.gpu import support as gpu

NAMES = ("numba", "torch", "triton")
WEIGHTS = ("float32", "bfloat16", "int8")
RING_DTYPES = ("float32", "bfloat16")

NO_NUMBA = (
    "the numba backend needs numba, which is not installed; run `pip install numba`, or use backend='torch', which is "
    "slower"
)


class Backend(Protocol):
    """The states of many streams of one model, in numbered slots. Not thread-safe: the pool has a lock.

    Tokens are numpy arrays of the pool's dtype: C-contiguous, aligned and writeable. A slot is undefined until it is
    cleared or written.
    """

    name: str
    pads: bool  # whether `push_many` skips rows of slot −1
    bytes_per_stream: int  # memory of one more stream
    spoiled: set[int]  # slots left half-written by a failed push, until they are cleared or written

    def __init__(self, model: Any, capacity: int) -> None:
        """`model` is the pool's own copy, in eval mode and without gradients. Raises MemoryError if it does not fit."""

    def grow(self, capacity: int) -> None:
        """Add slots; existing ones do not change, even if this fails."""

    def clear(self, slot: int) -> None:
        """Reset a slot to the start of a stream."""

    def push(self, slot: int, x: np.ndarray, y: np.ndarray) -> bool:
        """Step x [input_dim] or [r, input_dim], and write to y. Return False, with no change, if x is not finite."""

    def push_many(self, slots: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
        """`push` for slots int64 [S], at least one and all distinct; x [S, r, input_dim]; y [S, r, output_dim]."""

    def time(self, slot: int) -> int:
        """Number of tokens read so far."""

    def read(self, slot: int) -> Any:
        """A copy of the state in the layout of `init_state(1)`, on the CPU."""

    def write(self, slot: int, state: Any) -> None:
        """Set the state from one that `read` returned."""


def choose(
    model: Any, name: str, weights: str = "float32", ring_dtype: str = "float32"
) -> Callable[[Any, int], Backend]:
    """The backend called `name`, or with "auto" the fastest that can run the model on its device in this way."""
    for argument, value, known in (
        ("weights", weights, WEIGHTS),
        ("ring_dtype", ring_dtype, RING_DTYPES),
        ("backend", name, ("auto", *NAMES)),
    ):
        if not isinstance(value, str) or value not in known:
            options = ", ".join(map(repr, known))
            raise ValueError(f"{argument}={value!r:.80} does not exist; it must be one of {options}")
    on_gpu = name == "triton" or (name == "auto" and gpu.on_gpu(model))
    compiled, why = ("triton", gpu.unsupported(model)) if on_gpu else ("numba", cpu.unsupported(model))
    if on_gpu and weights != "float32":
        raise ValueError(
            f"weights={weights!r} needs backend='numba', on the CPU; on a GPU the weights have the dtype of the model: "
            f"use weights='float32', and model.bfloat16() for a smaller and faster one"
        )
    light = {key: value for key, value in (("weights", weights), ("ring_dtype", ring_dtype)) if value != "float32"}
    if light and (name == "torch" or why is not None):
        asked = " and ".join(f"{key}={value!r}" for key, value in light.items())
        reason = "backend='torch' was asked for" if name == "torch" else f"its kernels cannot run this model: {why}"
        usual = [f"{key}='float32'" for key in light] + (["backend='torch'"] if name == compiled else [])
        remedy = (
            f"backend={compiled!r}" if why is None else f"{' and '.join(usual)}, which keeps the dtype of the model"
        )
        need = "needs" if len(light) == 1 else "need"
        raise ValueError(f"{asked} {need} a compiled backend, but {reason}; use {remedy}")
    if name == "auto":
        uncompiled = on_gpu and why is None and not gpu.compiled()
        if uncompiled and not light:  # if an option needs Triton, the error below says that it is missing
            warn_if_slower("pools of models on a GPU use backend='torch'", gpu.lacking())
        if why is not None:
            reason = f"Kernels cannot run its model: {why}. To use torch without this warning, pass `backend='torch'`"
            warn_if_slower("a pool uses backend='torch'", reason, curable=True)
        name = "torch" if why is not None or (uncompiled and not light) else compiled
    elif name == compiled and why is not None:
        raise ValueError(f"backend={name!r} cannot run this model: {why}; use backend='torch', which runs every model")
    lacking = gpu.lacking() if name == "triton" else None
    if lacking is not None:
        remedy = f"or use backend='torch'{' and ring_dtype=' + repr('float32') if light else ''}, which is slower"
        raise ImportError(f"the triton backend cannot be used. {lacking}, {remedy}", name="triton")
    kind: Callable[..., Backend] = getattr(_module(name), f"{name.capitalize()}Backend")
    if name == "triton":
        return partial(kind, ring_dtype=ring_dtype)
    return partial(kind, weights=weights, ring_dtype=ring_dtype) if name == "numba" else kind


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError as error:
        if error.name == "numba":
            raise ImportError(NO_NUMBA, name="numba") from error
        raise
