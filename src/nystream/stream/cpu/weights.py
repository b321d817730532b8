"""Dense layers by the kind of their weights: how they are packed, and which kernel computes them.

Kernels select one by the type of an argument, so that the others are not compiled.

With int8, some layers are in bfloat16: the input projection, as an outlier of a token would make the other inputs
coarse; queries and keys, or the logits into which they are folded, as errors grow in the exponential and in Γ†; and
the head, whose errors nothing averages. They are a small part of the weights, and about half of the error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from nystream.stream.cpu.dense import PANEL, pack, panels
from nystream.stream.cpu.dense import dense as dense_float32
from nystream.stream.cpu.int8 import dense_int8, pack_int8
from nystream.stream.cpu.memory import Rows
from nystream.stream.cpu.narrow import dense_bfloat16, pack_bfloat16
from nystream.stream.cpu.simd import INNER

Array = np.ndarray[Any, Any]


def pack_layer(kind: str, weight: Array, bias: Array, fine: int) -> tuple[Array, int]:
    """Pack a weight [N, K] whose first `fine` outputs must not be int8; return the number of their panels, too."""
    if kind == "float32":
        return pack(weight, bias), 0
    if kind == "bfloat16":
        return pack_bfloat16(weight, bias), 0
    count = panels(fine)
    cut = count * PANEL  # a panel is of one kind
    parts = [pack_bfloat16(weight[:cut], bias[:cut])] if count else []
    if cut < len(weight):
        parts.append(pack_int8(weight[cut:], bias[cut:]))
    return np.concatenate([part.ravel() for part in parts]), count


class Float32(NamedTuple):
    """Weights in float32."""

    integers: Rows  # not used


class BFloat16(NamedTuple):
    """Weights in bfloat16."""

    integers: Rows  # not used


class Int8(NamedTuple):
    """Weights in int8, but some in bfloat16."""

    integers: Rows  # room for the inputs of a layer


def dense(kind: Any, w: Any, layer: Any, x: Rows, y: Rows, rows: int) -> None:
    """The first `rows` rows of y from those of x; w are the weights of the model, `kind` those of its layers."""
    raise NotImplementedError("for compiled code only")


@overload(dense, jit_options=INNER, strict=False)  # lambdas have no annotations
def _choose(kind: Any, w: Any, layer: Any, x: Any, y: Any, rows: Any) -> Any:
    kinds = {
        Float32: lambda kind, w, layer, x, y, rows: dense_float32(w, layer, x, y, rows),
        BFloat16: lambda kind, w, layer, x, y, rows: dense_bfloat16(w, layer, x, y, rows),
        Int8: lambda kind, w, layer, x, y, rows: dense_int8(w, layer, x, y, rows, kind.integers),
    }
    return kinds[kind.instance_class] if isinstance(kind, types.BaseNamedTuple) else None
