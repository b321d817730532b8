"""Memory as the kernels see it: pointers to numbers, rows of them, and the records of `plan`.

`p[i]` is the number i places after the pointer p, and `p + i` a pointer to it. Bounds are not checked.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from numba import from_dtype, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin

from nystream.stream.cpu.plan import BLOCK, MODEL
from nystream.stream.cpu.simd import Plan, compiled


class Rows(NamedTuple):
    """Rows of numbers: a pointer to the first, and the distance from one to the next."""

    first: Any
    stride: int


class Scratch(NamedTuple):
    """Memory for the intermediate results of one attention."""

    floats: Any
    doubles: Any


def _from_address(kind: types.Type) -> Any:
    @intrinsic
    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return at


ints_at, floats_at, doubles_at, halves_at = (
    _from_address(types.CPointer(number)) for number in (types.int64, types.float32, types.float64, types.uint16)
)
model_at = _from_address(Plan("model", from_dtype(MODEL)))
block_at, wide_block_at = (_from_address(Plan("block", from_dtype(BLOCK), lanes)) for lanes in (8, 16))


@intrinsic
def pointer_to(typing: Any, array: Any) -> Any:
    """A pointer to the first number of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def same_at(typing: Any, like: Any, address: Any) -> Any:
    """A pointer of the type of `like`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[1], context.get_value_type(like))

    return like(like, types.int64), generate


@intrinsic
def address_of(typing: Any, pointer: Any) -> Any:
    """The address that a pointer has."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], context.get_value_type(types.int64))

    return types.int64(pointer), generate


@compiled
def row(rows: Rows, i: int) -> Any:
    """A pointer to row i."""
    return rows.first + i * rows.stride


@infer_global(operator.add)
class _PointerPlusInteger(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 2 and isinstance(args[0], types.CPointer) and isinstance(args[1], types.Integer):
            return args[0](args[0], types.intp)
        return None


@lower_builtin(operator.add, types.CPointer, types.Integer)
def _add_to_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.gep(args[0], [args[1]])
