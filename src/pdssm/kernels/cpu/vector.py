"""Sixteen lanes at a time: a SIMD vector type for Numba.

LLVM's loop vectoriser is a heuristic, and its choices change both the speed and the rounding of a
kernel.  The two hot kernels are therefore written in vectors: each function here becomes one LLVM
vector instruction, whatever the machine's real width is, so the order of every rounding is in the
source.  A result then depends neither on the compiler's mood nor on where in a batch a row stands.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils, extending, types
from numba.core.datamodel import models, registry

LANES = 16

intrinsic: Any = extending.intrinsic  # what it returns is called from compiled code only


class Vector(types.Type):
    """``LANES`` numbers of one element type, held in registers."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"vector({element} x {LANES})")


@registry.register_default(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Vector) -> None:
        element = manager.lookup(fe_type.element).get_value_type()
        super().__init__(manager, fe_type, ir.VectorType(element, LANES))  # type: ignore[no-untyped-call]


def _call(builder: Any, name: str, *operands: Any) -> Any:
    """Call LLVM's intrinsic ``llvm.<name>`` on operands of one type."""
    kind = operands[0].type
    suffix = {"float": "f32", "double": "f64"}[str(kind.element if hasattr(kind, "element") else kind)]
    prefix = f"v{LANES}" if isinstance(kind, ir.VectorType) else ""
    signature = ir.FunctionType(kind, [kind] * len(operands))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{prefix}{suffix}")
    return builder.call(function, operands)


def _splat(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _element_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array_type, index_type = signature.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    indices = cgutils.unpack_tuple(builder, args[1], len(index_type))
    indices = [context.cast(builder, index, kind, types.intp) for index, kind in zip(indices, index_type, strict=True)]
    pointer = cgutils.get_item_pointer(context, builder, array_type, array, indices)
    element = context.get_data_type(array_type.dtype)
    return builder.bitcast(pointer, ir.VectorType(element, LANES).as_pointer()), context.get_abi_sizeof(element)


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """``LANES`` neighbours of ``array``'s last axis, from ``index`` (a tuple) on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, size = _element_pointer(context, builder, signature, args)
        return builder.load(pointer, align=size)

    return Vector(array.dtype)(array, index), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, size = _element_pointer(context, builder, signature, args)
        builder.store(args[2], pointer, align=size)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def broadcast(typing_context: Any, array: Any, index: Any) -> Any:
    """``array[index]`` in every lane (``splat(array[index])`` without Python's negative indices)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, size = _element_pointer(context, builder, signature, args)
        scalar = builder.load(builder.bitcast(pointer, pointer.type.pointee.element.as_pointer()), align=size)
        return _splat(builder, scalar)

    return Vector(array.dtype)(array, index), generate


@intrinsic
def splat(typing_context: Any, scalar: Any) -> Any:
    """The same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0])

    return Vector(scalar)(scalar), generate


def _binary(operation: str, doc: str) -> Any:
    def function(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, operation)(*args)

        return a(a, b), generate

    function.__doc__ = doc
    return intrinsic(function)


add = _binary("fadd", "a + b")
sub = _binary("fsub", "a - b")
mul = _binary("fmul", "a * b")
div = _binary("fdiv", "a / b")


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once; vectors or scalars."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, "fma", *args)

    return a(a, b, c), generate


@intrinsic
def where_greater(typing_context: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """``yes`` in the lanes where a > b, else ``no``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return yes(a, b, yes, no), generate


@intrinsic
def sum_lanes(typing_context: Any, a: Any) -> Any:
    """The lanes' sum, halving the vector each time: a fixed order."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, lanes = args[0], LANES
        while lanes > 1:
            lanes //= 2
            halves = [
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(at, at + lanes)))
                )
                for at in (0, lanes)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return a.element(a), generate


@intrinsic
def elements_of_rows(typing_context: Any, rows: Any, stride: Any) -> Any:
    """``rows * stride + lane``: where each lane's element lies when lane l is in row rows[l]; int32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(LANES)))
        return builder.add(builder.mul(args[0], _splat(builder, args[1])), lanes)

    return rows(rows, stride), generate


@intrinsic
def only_lane(typing_context: Any, a: Any, lane: Any) -> Any:
    """``a`` in lane ``lane``, zero in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(LANES)))
        here = builder.icmp_signed("==", lanes, _splat(builder, builder.trunc(args[1], ir.IntType(32))))
        return builder.select(here, args[0], ir.Constant(args[0].type, [0.0] * LANES))

    return a(a, lane), generate


# Of each element type: its integer twin, mantissa bits, exponent bias and smallest normal exponent.
_LAYOUT = {
    types.float32: (ir.IntType(32), 23, 127, -126.0),
    types.float64: (ir.IntType(64), 52, 1023, -1022.0),
}
# 2^r on [-1/2, 1/2]: minimax in relative error (7.5e-8) for float32, Taylor's series for float64.
_POWERS = {
    types.float32: [1.00000007, 0.69314697, 0.2402212, 0.05550713, 0.00967554, 0.00132765],
    types.float64: [math.log(2) ** n / math.factorial(n) for n in range(14)],
}


@intrinsic
def exp2_negative(typing_context: Any, x: Any) -> Any:
    """2^x for x <= 0 (a rounding above is fine); below the smallest normal number, that number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[0].type
        integer, mantissa, _, smallest = _LAYOUT[x.element]

        def constant(value: float) -> Any:
            return ir.Constant(kind, [value] * LANES)

        bits = ir.VectorType(integer, LANES)
        # Written so that a NaN stays one: max() would drop it.
        small = builder.fcmp_ordered("<", args[0], constant(smallest))
        value = builder.select(small, constant(smallest), args[0])
        # Adding 1.5 * 2^mantissa rounds to an integer and leaves it in the low bits.
        magic = constant(1.5 * 2.0**mantissa)
        shifted = builder.fadd(value, magic)
        r = builder.fsub(value, builder.fsub(shifted, magic))
        powers = _POWERS[x.element]
        result = constant(powers[-1])
        for power in reversed(powers[:-1]):
            result = _call(builder, "fma", result, r, constant(power))
        exponent = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, [mantissa] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(result, bits), exponent), kind)

    return x(x), generate


@intrinsic
def gather(typing_context: Any, array: Any, index: Any, at: Any) -> Any:
    """Lane l gets the element at[l] elements behind ``array[index]``; ``at`` is a vector of int32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, size = _element_pointer(context, builder, signature, args)
        base = builder.bitcast(pointer, pointer.type.pointee.element.as_pointer())
        result = ir.Constant(ir.VectorType(base.type.pointee, LANES), ir.Undefined)
        for lane in range(LANES):
            number = ir.Constant(ir.IntType(32), lane)
            offset = builder.zext(builder.extract_element(args[2], number), ir.IntType(64))
            result = builder.insert_element(result, builder.load(builder.gep(base, [offset]), align=size), number)
        return result

    return Vector(array.dtype)(array, index, at), generate


def _log(builder: Any, value: Any, bits: Any, integer: Any, mantissa: int, bias: int, terms: int) -> Any:
    """ln(x) for normal x > 0: exponent and mantissa apart, then 2 artanh((m - 1) / (m + 1)) as a series."""
    kind = value.type

    def constant(number: float) -> Any:
        return ir.Constant(kind, [number] * LANES)

    def whole(number: int) -> Any:
        return ir.Constant(ir.VectorType(integer, LANES), [number] * LANES)

    # Subtracting sqrt(1/2)'s bits first puts the mantissa into [sqrt(1/2), sqrt(2)), so that ln(1) is exactly 0.
    half_root = whole(0x3F3504F3 if mantissa == 23 else 0x3FE6A09E667F3BCD)
    shifted = builder.sub(builder.bitcast(value, bits), half_root)
    exponent = builder.ashr(shifted, whole(mantissa))
    m = builder.bitcast(builder.sub(builder.bitcast(value, bits), builder.shl(exponent, whole(mantissa))), kind)
    s = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
    square = builder.fmul(s, s)
    series = constant(2.0 / (2 * terms - 1))
    for term in range(terms - 2, -1, -1):
        series = _call(builder, "fma", series, square, constant(2.0 / (2 * term + 1)))
    return _call(builder, "fma", builder.sitofp(exponent, kind), constant(0.6931471805599453), builder.fmul(s, series))


@intrinsic
def gumbel(typing_context: Any, like: Any, key: Any, row: Any, column: Any) -> Any:
    """Standard Gumbel noise for ``LANES`` columns from ``column`` on: a hash of (key, row, column), no state.

    The hash is 32-bit, the uniform (hash's upper 23 bits + 1/2) / 2^23; ``kernels.reference.gumbel`` is its twin.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        integer, mantissa, bias, _ = _LAYOUT[like.element]
        kind, words = args[0].type, ir.VectorType(word, LANES)

        def whole(value: int) -> Any:
            return ir.Constant(words, [value] * LANES)

        key_, row_, column_ = (builder.trunc(a, word) if a.type.width > 32 else a for a in args[1:])
        start = builder.add(key_, builder.mul(row_, ir.Constant(word, 0x85EBCA6B)))
        lanes = builder.add(_splat(builder, column_), ir.Constant(words, list(range(LANES))))
        h = builder.add(_splat(builder, start), builder.mul(lanes, whole(0xC2B2AE35)))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            h = builder.mul(builder.xor(h, builder.lshr(h, whole(shift))), whole(factor))
        h = builder.xor(h, builder.lshr(h, whole(16)))
        uniform = builder.uitofp(builder.lshr(h, whole(9)), kind)
        uniform = builder.fadd(uniform, ir.Constant(kind, [0.5] * LANES))
        uniform = builder.fmul(uniform, ir.Constant(kind, [2.0**-23] * LANES))
        layout = (ir.VectorType(integer, LANES), integer, mantissa, bias, 5 if mantissa == 23 else 11)
        once = builder.fneg(_log(builder, uniform, *layout))
        return builder.fneg(_log(builder, once, *layout))

    return like(like, key, row, column), generate
