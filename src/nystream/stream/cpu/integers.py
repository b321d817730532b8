"""Vectors of sixteen 32-bit words in compiled code, for weights that are stored in less than 32 bits.

A word holds an integer, four bytes, or two halves. All results are exact integers or exact conversions, so they are
the same on every machine, with or without an instruction for the product of bytes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from nystream.stream.cpu.simd import Vector

LANES = 16
WORDS = ir.VectorType(ir.IntType(32), LANES)
HALVES = ir.VectorType(ir.IntType(16), 2 * LANES)
FLOATS = Vector(types.float32, LANES)


class Words(types.Type):
    """The type of sixteen words."""

    def __init__(self) -> None:
        super().__init__(name=f"words{LANES}")


words = Words()


@register_model(Words)
class _WordsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Words) -> None:
        super().__init__(manager, kind, WORDS)


def _all(kind: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


@intrinsic
def load_words(typing: Any, pointer: Any) -> Any:
    """Sixteen words from a pointer to numbers of any kind."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.bitcast(args[0], WORDS.as_pointer()), typ=WORDS)
        loaded.align = 4
        return loaded

    return words(pointer), generate


@intrinsic
def splat_word(typing: Any, pointer: Any) -> Any:
    """The word at a pointer, in every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, nothing = ir.IntType(32), ir.Constant(WORDS, ir.Undefined)
        loaded = builder.load(builder.bitcast(args[0], word.as_pointer()), typ=word)
        loaded.align = 4
        first = builder.insert_element(nothing, loaded, ir.Constant(word, 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(WORDS, None))

    return words(pointer), generate


@intrinsic
def load_first(typing: Any, pointer: Any, count: Any) -> Any:
    """The first `count` of sixteen float32, then zeros; what comes after them is not read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        limit = builder.insert_element(ir.Constant(WORDS, ir.Undefined), args[1], ir.Constant(word, 0))
        limit = builder.shuffle_vector(limit, limit, ir.Constant(WORDS, None))
        mask = builder.icmp_signed("<", ir.Constant(WORDS, list(range(LANES))), limit)
        place = builder.bitcast(args[0], FLOATS.ir.as_pointer())
        kind = ir.FunctionType(FLOATS.ir, [place.type, word, mask.type, FLOATS.ir])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{LANES}f32.p0")
        return builder.call(function, [place, ir.Constant(word, 4), mask, ir.Constant(FLOATS.ir, None)])

    return FLOATS(pointer, types.int32), generate


@intrinsic
def negative_product(typing: Any, a: Any, b: Any) -> Any:
    """−a · b of integers, modulo 2³²."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sub(_all(WORDS, 0), builder.mul(*args))

    return words(words, words), generate


def _products_of_bytes(builder: Any, sums: Any, x: Any, w: Any) -> Any:
    """`add_products` of any machine: as halves, of which a machine adds the products of two neighbors at a time."""
    pairs = ir.VectorType(ir.IntType(32), 2 * LANES)
    x, w = builder.bitcast(x, HALVES), builder.bitcast(w, HALVES)
    eight = _all(HALVES, 8)
    even = builder.and_(x, _all(HALVES, 255)), builder.ashr(builder.shl(w, eight), eight)
    odd = builder.lshr(x, eight), builder.ashr(w, eight)
    for unsigned, signed in (even, odd):
        products = builder.mul(builder.zext(unsigned, pairs), builder.sext(signed, pairs))
        for start in (0, 1):
            every_second = ir.Constant(WORDS, list(range(start, 2 * LANES, 2)))
            sums = builder.add(sums, builder.shuffle_vector(products, products, every_second))
    return sums


def _adder(anywhere: bool) -> Any:
    @intrinsic
    def add_products(typing: Any, sums: Any, x: Any, w: Any) -> Any:
        """sums + Σ xᵢ wᵢ over the four bytes of each word, modulo 2³²; bytes of x are unsigned, those of w signed."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            features = context.codegen().magic_tuple()[-1].split(",")  # what the code is compiled for
            if anywhere or "+avx512vnni" not in features:
                return _products_of_bytes(builder, *args)
            kind, name = ir.FunctionType(WORDS, [WORDS] * 3), "llvm.x86.avx512.vpdpbusd.512"
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

        return words(words, words, words), generate

    return add_products


add_products, add_products_anywhere = _adder(anywhere=False), _adder(anywhere=True)


@intrinsic
def to_floats(typing: Any, integers: Any) -> Any:
    """Integers as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sitofp(args[0], FLOATS.ir)

    return FLOATS(words), generate


@intrinsic
def to_words(typing: Any, floats: Any) -> Any:
    """Float32 that are integers, as integers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fptosi(args[0], WORDS)

    return words(FLOATS), generate


@intrinsic
def low_halves(typing: Any, halves: Any) -> Any:
    """The bfloat16 in the lower half of each word, as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.shl(args[0], _all(WORDS, 16)), FLOATS.ir)

    return FLOATS(words), generate


@intrinsic
def high_halves(typing: Any, halves: Any) -> Any:
    """The bfloat16 in the upper half of each word, as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.and_(args[0], _all(WORDS, 0xFFFF0000)), FLOATS.ir)

    return FLOATS(words), generate


@intrinsic
def store_bytes(typing: Any, pointer: Any, x: Any, factor: Any, shift: Any) -> Any:
    """Store the lowest byte of each x · factor + shift.

    Unlike in other kernels, the two operations are not fused, as that would round differently where a machine cannot.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, *numbers = args
        shifted = builder.fadd(builder.fmul(numbers[0], numbers[1]), numbers[2])
        octets = ir.VectorType(ir.IntType(8), LANES)
        lowest = builder.trunc(builder.bitcast(shifted, WORDS), octets)
        builder.store(lowest, builder.bitcast(place, octets.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(pointer, FLOATS, FLOATS, FLOATS), generate


@intrinsic
def largest(typing: Any, vector: Any) -> Any:
    """The largest lane of a vector without NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (lanes,), width = args, vector.lanes
        while width > 1:
            width //= 2
            halves = [ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(s, s + width))) for s in (0, width)]
            a, b = (builder.shuffle_vector(lanes, lanes, half) for half in halves)
            lanes = builder.select(builder.fcmp_ordered(">", a, b), a, b)
        return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))

    return vector.element(vector), generate
