"""Dense layers by the kind of their weights: how they are packed, and which kernel computes them.

Kernels select one by the type of an argument, so that the others are not compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from nystream.stream.cpu.dense import dense as dense_float32
from nystream.stream.cpu.dense import pack
from nystream.stream.cpu.int8 import dense_int8, pack_int8
from nystream.stream.cpu.memory import Rows
from nystream.stream.cpu.narrow import dense_bfloat16, pack_bfloat16
from nystream.stream.cpu.simd import INNER

PACKERS = {"float32": pack, "bfloat16": pack_bfloat16, "int8": pack_int8}


class Float32(NamedTuple):
    """Weights in float32; the room is not used."""

    room: Any


class BFloat16(NamedTuple):
    """Weights in bfloat16; the room is not used."""

    room: Any


class Int8(NamedTuple):
    """Weights in int8, with room for the inputs in integers."""

    room: Any


def dense(kind: Any, w: Any, layer: Any, x: Rows, y: Rows, rows: int) -> None:
    """The first `rows` rows of y from those of x; w are the weights of the model, `kind` those of its layers."""
    raise NotImplementedError("for compiled code only")


@overload(dense, jit_options=INNER, strict=False)  # lambdas have no annotations
def _choose(kind: Any, w: Any, layer: Any, x: Any, y: Any, rows: Any) -> Any:
    kinds = {
        Float32: lambda kind, w, layer, x, y, rows: dense_float32(w, layer, x, y, rows),
        BFloat16: lambda kind, w, layer, x, y, rows: dense_bfloat16(w, layer, x, y, rows),
        Int8: lambda kind, w, layer, x, y, rows: dense_int8(w, layer, x, y, rows, kind.room),
    }
    return kinds[kind.instance_class] if isinstance(kind, types.BaseNamedTuple) else None
