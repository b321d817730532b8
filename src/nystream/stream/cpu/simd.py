"""Vectors as values in compiled code.

LLVM's own vectoriser wants long loops of a known stride, and gives up on a head of 12. Here a kernel says what it
means: `load8(a, i)` is eight numbers, `x * a + y` one fused instruction on all of them. Sixteen or eight lanes are
written whatever the machine has; LLVM cuts them to its registers.

The order of every sum is written out and kept: multiply and add may fuse, nothing else is rearranged. So a row gives
the same bits alone and in a batch.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

FUSE = ("contract",)

# Without the global lock, and without Python's checks of a division by zero.
KERNEL = {"nogil": True, "error_model": "numpy"}
# Called by other kernels only: there is no entry for Python, which would have to be compiled, too.
INNER = KERNEL | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

compiled = njit(**INNER)

# Merged into its caller before anything is compiled: every function that calls others has all of their code optimised
# once more, so the fewer of those the better.
merged = njit(**INNER, inline="always")


def cached(function: Any) -> Any:
    """Called by Python, and kept on disk for the next process, where there is a folder to keep it in."""
    try:
        return njit(**KERNEL, cache=True)(function)
    except RuntimeError:  # a read-only installation, and no home: compiled anew by every process
        return njit(**KERNEL)(function)


class Vector(types.Type):
    """So many lanes of float32 or float64."""

    def __init__(self, element: types.Float, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"{element}x{lanes}")

    @property
    def ir(self) -> ir.VectorType:
        return ir.VectorType(ir.FloatType() if self.element == types.float32 else ir.DoubleType(), self.lanes)

    @property
    def suffix(self) -> str:
        """As LLVM's intrinsics name it."""
        return f"v{self.lanes}f{self.element.bitwidth}"


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.ir)


def _place(context: Any, builder: Any, kind: types.Array, array: Any, index: Any, *, to: ir.Type) -> Any:
    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), to.as_pointer())


def _loader(lanes: int) -> Any:
    @intrinsic
    def load(typing: Any, array: Any, index: Any) -> Any:
        vector = Vector(array.dtype, lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            loaded = builder.load(_place(context, builder, signature.args[0], *args, to=vector.ir), typ=vector.ir)
            loaded.align = array.dtype.bitwidth // 8  # rows of any width may follow each other
            return loaded

        return vector(array, types.intp), generate

    return load


def _splatter(lanes: int) -> Any:
    @intrinsic
    def splat(typing: Any, x: Any) -> Any:
        vector = Vector(x, lanes)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            nothing = ir.Constant(vector.ir, ir.Undefined)
            first = builder.insert_element(nothing, args[0], ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), None))

        return vector(x), generate

    return splat


load8, load16 = _loader(8), _loader(16)
splat8, splat16 = _splatter(8), _splatter(16)


@intrinsic
def apart(typing: Any) -> Any:
    """Keeps the function that says so out of its callers: inlined, a kernel would take minutes to compile."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1], to=vector.ir)
        builder.store(args[2], place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def load_count(typing: Any, array: Any, index: Any) -> Any:
    """The int64 that lies in an array of floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.IntType(64)
        loaded = builder.load(_place(context, builder, signature.args[0], *args, to=whole), typ=whole)
        loaded.align = 4
        return loaded

    return types.int64(array, types.intp), generate


@intrinsic
def store_count(typing: Any, array: Any, index: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1], to=ir.IntType(64))
        builder.store(args[2], place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(_place(context, builder, signature.args[0], *args, to=ir.FloatType()), byte)
        builder.call(function, [place, *(ir.Constant(number, n) for n in (0, 2, 1))])  # to read, into the outer caches
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _pointer_maker(element: types.Float) -> Any:
    @intrinsic
    def pointer(typing: Any, address: Any) -> Any:
        kind = types.CPointer(element)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return pointer


floats_at, doubles_at = _pointer_maker(types.float32), _pointer_maker(types.float64)


def _give_vectors(symbol: Any, name: str) -> None:
    """An operator of Python's on vectors: one instruction, where an overload would be a function to inline."""

    @infer_global(symbol)
    class _Typed(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            alike = len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]
            return args[0](*args) if alike else None

    @lower_builtin(symbol, Vector, Vector)
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, name)(*args, flags=FUSE)


for _symbol, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _give_vectors(_symbol, _name)


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """a where it is greater, else b: a NaN in b stays one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), generate


@intrinsic
def below(typing: Any, x: Any, limit: Any, then: Any, other: Any) -> Any:
    """`then` where x < limit, else `other`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return x(x, x, x, x), generate


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """The sum of the lanes, by halves."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (held,), lanes = args, vector.lanes
        while lanes > 1:
            lanes //= 2
            halves = [ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(s, s + lanes))) for s in (0, lanes)]
            held = builder.fadd(*(builder.shuffle_vector(held, held, half) for half in halves))
        return builder.extract_element(held, ir.Constant(ir.IntType(32), 0))

    return vector.element(vector), generate


@intrinsic
def _power_of_two(typing: Any, shifted: Any) -> Any:
    """2ⁿ from n + 1.5 · 2²³, whose last bits are those of n."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.VectorType(ir.IntType(32), shifted.lanes)
        bits = builder.shl(builder.bitcast(args[0], whole), ir.Constant(whole, [23] * shifted.lanes))
        return builder.bitcast(builder.add(bits, ir.Constant(whole, [0x3F800000] * shifted.lanes)), shifted.ir)

    return shifted(shifted), generate


SHIFT = np.float32(1.5 * 2**23)
LOG2_E = np.float32(1 / np.log(2))
LN2_HIGH = np.float32(0.693359375)  # few bits: times a whole number it is exact
LN2_LOW = np.float32(np.log(2) - 0.693359375)
LEAST = np.float32(-87.3)  # below it a float32 has no more room for its exponent
C2, C3, C4, C5, C6, C7 = (np.float32(1.0 / f) for f in (2, 6, 24, 120, 720, 5040))


@compiled
def exp(x: Any) -> Any:
    """eˣ of eight float32 that are not above 0, to 2 units in the last place; 0 below −87.3; NaN stays NaN.

    x = n ln 2 + f with |f| <= ln 2 / 2, and eᶠ by its series: seven terms leave 5e-9.
    """
    shift = splat8(SHIFT)
    held = below(x, splat8(LEAST), splat8(LEAST), x)
    shifted = held * splat8(LOG2_E) + shift
    n = shifted - shift
    f = held - n * splat8(LN2_HIGH) - n * splat8(LN2_LOW)
    series = f * splat8(C7) + splat8(C6)
    series = series * f + splat8(C5)
    series = series * f + splat8(C4)
    series = series * f + splat8(C3)
    series = series * f + splat8(C2)
    one = splat8(np.float32(1.0))
    series = (series * f + one) * f + one
    return below(x, splat8(LEAST), splat8(np.float32(0.0)), series * _power_of_two(shifted))


@compiled
def prefetch(array: Any, at: int, size: int) -> None:
    """Ask for so many float32, a cache line at a time, without waiting for them."""
    for line in range(at, at + size, 16):
        _prefetch(array, line)
