"""Explicit vectors in compiled code.

LLVM's auto-vectorizer needs long loops with a known stride and gives up on heads of width 12. So vectors are explicit
here: `load8(p)` is eight numbers, and `x * a + y` one fused instruction on all of them. Vectors have eight or sixteen
lanes on every machine; LLVM splits them to fit its registers.

Sums are evaluated in the order in which they are written: a multiply and an add may be fused, but nothing else is
rearranged, so a row gives the same bits alone and in a batch.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

from nystream.stream.cpu.draft import DraftCompiler

FUSE = ("contract",)

# Without the global interpreter lock, and without Python's check for division by zero.
KERNEL = {"nogil": True, "error_model": "numpy"}
# Called by other kernels only, and compiled as a part of them. Numba's rewrites are for arrays.
INNER = KERNEL | {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "pipeline_class": DraftCompiler,
}

compiled = njit(**INNER)
# Part of its caller, and so optimized for each set of constants that it is called with.
inlined = njit(**INNER, forceinline=True)


def cached(function: Any) -> Any:
    """Compile a function that Python calls, and cache it on disk if there is a writable folder."""
    try:
        return njit(**KERNEL, cache=True)(function)
    except RuntimeError:  # a read-only installation and no home folder: every process compiles it
        return njit(**KERNEL)(function)


class Vector(types.Type):
    """The type of a vector of float32 or float64."""

    def __init__(self, element: types.Float, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"{element}x{lanes}")

    @property
    def ir(self) -> ir.VectorType:
        return ir.VectorType(ir.FloatType() if self.element == types.float32 else ir.DoubleType(), self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.ir)


class Plan(types.Record):
    """The type of a plan: a record with a short name, and with the number of lanes of the vectors of its kernels."""

    def __init__(self, name: str, record: types.Record, lanes: int = 8) -> None:
        fields = [(field, place._asdict()) for field, place in record.fields.items()]
        super().__init__(fields, record.size, record.aligned)
        self.name, self.lanes = f"{name}{lanes}", lanes  # the long name of a record would be part of all symbols

    def can_convert_to(self, typingctx: Any, other: types.Type) -> None:
        """Do not take one plan for another, as Numba would with records of the same fields."""


register_model(Plan)(models.RecordModel)


def wide_registers() -> bool:
    """Whether registers of the machine for which code is compiled have sixteen lanes."""
    return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[-1].split(",")


def _load(pointer: types.CPointer, lanes: int) -> tuple[Vector, Any]:
    half = pointer.dtype == types.uint16  # bfloat16, the upper half of a float32
    vector = Vector(types.float32 if half else pointer.dtype, lanes)
    stored = ir.VectorType(ir.IntType(16), lanes) if half else vector.ir

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.bitcast(args[-1], stored.as_pointer()), typ=stored)
        loaded.align = pointer.dtype.bitwidth // 8  # rows may have any width, so vectors begin anywhere
        if not half:
            return loaded
        words = ir.VectorType(ir.IntType(32), lanes)
        shifted = builder.shl(builder.zext(loaded, words), ir.Constant(words, [16] * lanes))
        return builder.bitcast(shifted, vector.ir)

    return vector, generate


def _splat(x: types.Type, lanes: int) -> tuple[Vector, Any]:
    vector = Vector(x, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(vector.ir, ir.Undefined)
        first = builder.insert_element(nothing, args[-1], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), None))

    return vector, generate


def _loader(lanes: int) -> Any:
    @intrinsic
    def load(typing: Any, pointer: Any) -> Any:
        vector, generate = _load(pointer, lanes)
        return vector(pointer), generate

    return load


def _splatter(lanes: int) -> Any:
    @intrinsic
    def splat(typing: Any, x: Any) -> Any:
        vector, generate = _splat(x, lanes)
        return vector(x), generate

    return splat


load8, load16 = _loader(8), _loader(16)
splat8, splat16 = _splatter(8), _splatter(16)


@intrinsic
def lanes(typing: Any, block: Any) -> Any:
    """The number of lanes of the vectors of a block."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), block.lanes)

    return types.int64(block), generate


@intrinsic
def load(typing: Any, block: Any, pointer: Any) -> Any:
    """The vector at a pointer, as wide as those of the block."""
    vector, generate = _load(pointer, block.lanes)
    return vector(block, pointer), generate


@intrinsic
def splat(typing: Any, block: Any, x: Any) -> Any:
    """x in every lane of a vector, as wide as those of the block."""
    vector, generate = _splat(x, block.lanes)
    return vector(block, x), generate


@intrinsic
def alike(typing: Any, vector: Any, x: Any) -> Any:
    """x in every lane of a vector as wide as another one."""
    filled, generate = _splat(x, vector.lanes)
    return filled(vector, x), generate


@intrinsic
def apart(typing: Any) -> Any:
    """Prevent LLVM from inlining the function that calls this. Large functions compile faster so, and run as fast."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def store(typing: Any, pointer: Any, vector: Any) -> Any:
    """Store a vector; a pointer to uint16 gets bfloat16, rounded to nearest even."""
    lanes, half = vector.lanes, pointer.dtype == types.uint16

    def rounded(builder: Any, x: Any) -> Any:
        words = ir.VectorType(ir.IntType(32), lanes)

        def all_lanes(value: int) -> Any:
            return ir.Constant(words, [value] * lanes)

        bits = builder.bitcast(x, words)
        odd = builder.and_(builder.lshr(bits, all_lanes(16)), all_lanes(1))
        nearest = builder.add(builder.add(bits, all_lanes(0x7FFF)), odd)
        # Rounding could turn a NaN into an infinity.
        whole = builder.select(builder.fcmp_unordered("uno", x, x), all_lanes(0x7FC00000), nearest)
        return builder.trunc(builder.lshr(whole, all_lanes(16)), ir.VectorType(ir.IntType(16), lanes))

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = rounded(builder, args[1]) if half else args[1]
        place = builder.bitcast(args[0], stored.type.as_pointer())
        builder.store(stored, place).align = pointer.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(pointer, vector), generate


@intrinsic
def _prefetch(typing: Any, pointer: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read_into_outer_caches = [ir.Constant(number, n) for n in (0, 2, 1)]
        builder.call(function, [builder.bitcast(args[0], byte), *to_read_into_outer_caches])
        return context.get_dummy_value()

    return types.void(pointer), generate


def _give_vectors(symbol: Any, name: str) -> None:
    """Define an operator on vectors as one instruction; an overload would be a function that has to be inlined."""

    @infer_global(symbol)
    class _Typed(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            same_type = len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]
            return args[0](*args) if same_type else None

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
    """a where a > b, else b, so a NaN in b is kept."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), generate


@intrinsic
def smaller(typing: Any, a: Any, b: Any) -> Any:
    """b where b < a, else a, so a NaN in a is kept."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[1], args[0]), args[1], args[0])

    return a(a, b), generate


@intrinsic
def below(typing: Any, x: Any, limit: Any, then: Any, other: Any) -> Any:
    """`then` where x < limit, else `other`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return x(x, x, x, x), generate


@intrinsic
def within(typing: Any, x: Any, low: Any, high: Any) -> Any:
    """Whether low < x < high in every lane; False if a lane is NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, every = _splat(x.element, x.lanes)
        bounds = [every(context, builder, signature, [bound]) for bound in args[1:]]
        above, below = builder.fcmp_ordered(">", args[0], bounds[0]), builder.fcmp_ordered("<", args[0], bounds[1])
        mask = builder.bitcast(builder.and_(above, below), ir.IntType(x.lanes))
        return builder.icmp_unsigned("==", mask, ir.Constant(ir.IntType(x.lanes), -1))

    return types.boolean(x, low, high), generate


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """The sum of the lanes, adding halves."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (sums,), lanes = args, vector.lanes
        while lanes > 1:
            lanes //= 2
            halves = [ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(s, s + lanes))) for s in (0, lanes)]
            sums = builder.fadd(*(builder.shuffle_vector(sums, sums, half) for half in halves))
        return builder.extract_element(sums, ir.Constant(ir.IntType(32), 0))

    return vector.element(vector), generate


@intrinsic
def _power_of_two(typing: Any, shifted: Any) -> Any:
    """2ⁿ from n + 1.5 · 2²³, whose lowest bits are those of n."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.VectorType(ir.IntType(32), shifted.lanes)
        bits = builder.shl(builder.bitcast(args[0], whole), ir.Constant(whole, [23] * shifted.lanes))
        return builder.bitcast(builder.add(bits, ir.Constant(whole, [0x3F800000] * shifted.lanes)), shifted.ir)

    return shifted(shifted), generate


SHIFT = np.float32(1.5 * 2**23)
LOG2_E = np.float32(1 / np.log(2))
LN2_HIGH = np.float32(0.693359375)  # few bits, so its product with an integer is exact
LN2_LOW = np.float32(np.log(2) - 0.693359375)
EXP_MIN = np.float32(-87.3)  # below this, exp is not a normal float32
EXP_MAX = np.float32(88.0)  # exp of this is finite
# Of (eᶠ − 1 − f) / f² for |f| <= ln 2 / 2, interpolated at Chebyshev points.
C2, C3, C4, C5, C6 = (np.float32(c) for c in (0.5, 0.16666577, 0.0416665547, 0.00836317307, 0.00139261761))


@compiled
def exp(x: Any) -> Any:
    """eˣ of float32 x <= 88, to within 2 units in the last place; 1.2e-38 below −87.3; NaN stays NaN.

    x = n ln 2 + f with |f| <= ln 2 / 2, and eᶠ is a polynomial with an error of 1e-08.
    """
    shift = alike(x, SHIFT)
    clamped = larger(alike(x, EXP_MIN), x)
    shifted = clamped * alike(x, LOG2_E) + shift
    n = shifted - shift
    f = clamped - n * alike(x, LN2_HIGH) - n * alike(x, LN2_LOW)
    series = f * alike(x, C6) + alike(x, C5)
    series = series * f + alike(x, C4)
    series = series * f + alike(x, C3)
    series = series * f + alike(x, C2)
    one = alike(x, np.float32(1.0))
    series = (series * f + one) * f + one
    return series * _power_of_two(shifted)


@compiled
def prefetch(pointer: Any, size: int) -> None:
    """Request `size` float32, one cache line at a time, without waiting for them."""
    for line in range(0, size, 16):
        _prefetch(pointer + line)
