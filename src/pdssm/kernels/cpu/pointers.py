"""Where an array's entries lie, as a bare address, for loops over very short rows.

A slice of an array is counted by Numba, with an atomic operation at its birth and one at its death; a step of a small
matrix state takes twenty rows, and counting them took longer than the arithmetic.  An address is not counted: its array
must outlive it.  It is indexed like a row, ``row[j]``, without a look at any bounds.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pdssm.kernels.cpu.vector import LANES, Vector, intrinsic


@intrinsic
def at(typing_context: Any, array: Any, index: Any) -> Any:
    """The address of ``array[index]``, for a contiguous array and a tuple with an entry for every axis."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type = signature.args
        value = context.make_array(array_type)(context, builder, args[0])
        indices = cgutils.unpack_tuple(builder, args[1], len(index_type))
        indices = [context.cast(builder, i, kind, types.intp) for i, kind in zip(indices, index_type, strict=True)]
        return cgutils.get_item_pointer(context, builder, array_type, value, indices)

    return types.CPointer(array.dtype)(array, index), generate


def _lanes(builder: Any, row: Any, number: Any) -> Any:
    """The address of vector ``number`` behind ``row``."""
    start = builder.gep(row, [builder.mul(number, ir.Constant(number.type, LANES))])
    return builder.bitcast(start, ir.VectorType(row.type.pointee, LANES).as_pointer())


@intrinsic
def get(typing_context: Any, row: Any, number: Any) -> Any:
    """Vector ``number`` of those that lie behind each other from ``row`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_lanes(builder, *args), align=context.get_abi_sizeof(args[0].type.pointee))

    return Vector(row.dtype)(row, types.intp), generate


@intrinsic
def put(typing_context: Any, row: Any, number: Any, vector: Any) -> Any:
    """The other way round."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _lanes(builder, *args[:2]), align=context.get_abi_sizeof(args[0].type.pointee))
        return context.get_dummy_value()

    return types.void(row, types.intp, vector), generate


@intrinsic
def zeros(typing_context: Any, row: Any) -> Any:
    """A vector of zeros of the row's element type."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.VectorType(args[0].type.pointee, LANES), [0.0] * LANES)

    return Vector(row.dtype)(row), generate


@intrinsic
def sums(typing_context: Any, row: Any) -> Any:
    """Of LANES vectors that lie behind each other: the sum of each over its lanes, as one vector.

    Half as many vectors each time, of twice as many sums: 15 additions, where each vector alone would take four.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = _lanes(builder, args[0], ir.Constant(ir.IntType(64), 0))
        at = [builder.gep(start, [ir.Constant(ir.IntType(64), i)]) for i in range(LANES)]
        vectors = [builder.load(pointer, align=context.get_abi_sizeof(args[0].type.pointee)) for pointer in at]
        width = LANES  # lanes of one vector that belong to one sum
        while width > 1:
            half = width // 2
            halves = []
            for offset in (0, half):
                lanes = [
                    vector + block + offset + i
                    for block in range(0, LANES, width)
                    for vector in (0, LANES)
                    for i in range(half)
                ]
                halves.append(ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))
            pairs = zip(vectors[: len(vectors) // 2], vectors[len(vectors) // 2 :], strict=True)
            vectors = [builder.fadd(*(builder.shuffle_vector(a, b, mask) for mask in halves)) for a, b in pairs]
            width = half
        return vectors[0]

    return Vector(row.dtype)(row), generate
