"""Bad input: a clear exception that names the argument, what came and what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pdssm import (
    PD,
    PDSSM,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DiagonalPlusLowRank,
    Householder,
    PDSSMError,
    SelectedPD,
    WalshHadamard,
    scan,
    scan_readout,
)
from pdssm.errors import BackendError, DeviceError, DtypeError, RangeError, ShapeError


def t(*shape: int) -> Tensor:
    return torch.zeros(shape)


def i(*values: int) -> Tensor:
    return torch.tensor(values)


def diagonal(batch: int = 1, time: int = 5, n: int = 4) -> Diagonal:
    return Diagonal(t(batch, time, n))


def selected(**changes: Any) -> SelectedPD:
    return SelectedPD(**{"scores": t(1, 5, 3), "dictionary": t(3, 4, 4), "diag": t(1, 5, 4), **changes})


def with_nan(shape: tuple[int, ...], value: float = math.nan) -> Tensor:
    tensor = torch.zeros(shape)
    tensor.view(-1)[1] = value
    return tensor


CASES: dict[str, tuple[Callable[[], Any], type[PDSSMError], str]] = {
    # transitions
    "index of the wrong type": (lambda: PD(t(4), t(4)), DtypeError, r"index is torch.float32; expected torch.int64"),
    "index and diag differ": (lambda: PD(i(0, 1), t(3)), ShapeError, r"index has 2 entries a matrix and diag 3"),
    "index too large": (lambda: PD(i(0, 7), t(2)), RangeError, r"index holds 7; expected values in 0..1"),
    "index negative": (lambda: PD(i(0, -1), t(2)), RangeError, r"index holds -1"),
    "integer diag": (lambda: Diagonal(i(1, 2)), DtypeError, r"diag is torch.int64; expected a floating-point"),
    "N of zero": (lambda: Diagonal(t(3, 0)), RangeError, r"diag has shape \(3, 0\)"),
    "no axis": (lambda: Diagonal(torch.tensor(1.0)), ShapeError, r"diag has shape \(\); expected at least 1 axes"),
    "batches that differ": (lambda: PD(i(0, 1).expand(3, 2), t(2, 2)), ShapeError, r"do not broadcast: index \(3,\), diag \(2,\)"),
    "not square": (lambda: Dense(t(3, 4)), ShapeError, r"matrices has shape \(3, 4\); expected its last two axes"),
    "block not square": (lambda: BlockDiagonal(t(2, 3, 4)), ShapeError, r"blocks has shape"),
    "not a power of two": (lambda: WalshHadamard(t(6)), ShapeError, r"scale has 6 entries a matrix; expected a power of two"),
    "beta of another count": (lambda: Householder(t(2, 4), t(3)), ShapeError, r"beta has 3 entries a matrix; expected 2"),
    "beta complex": (lambda: Householder(t(2, 4), t(2).cfloat()), DtypeError, r"beta is torch.complex64; expected torch.float32"),
    "decay of another size": (lambda: Householder(t(2, 4), t(2), t(3)), ShapeError, r"decay has 3 .* expected 1 or 4"),
    "ranks differ": (lambda: DiagonalPlusLowRank(t(4), t(4, 2), t(4, 3)), ShapeError, r"expected both to end in \(4, r\)"),
    "low rank of another type": (lambda: DiagonalPlusLowRank(t(4), t(4, 2).double(), t(4, 2)), DtypeError, r"left is torch.float64"),
    "block of another type": (lambda: DiagonalDense(t(4), t(2, 2).double()), DtypeError, r"block is torch.float64"),
    "two non-zeros in a column": (lambda: PD.from_dense(torch.ones(2, 2)), RangeError, r"matrices has a column with 2 non-zeros"),
    "from_dense of a vector": (lambda: PD.from_dense(t(4)), ShapeError, r"expected \(\*batch, N, N\)"),
    "devices differ": (lambda: PD(i(0, 1), t(2).to("meta")), DeviceError, r"diag is on meta; expected cpu"),
    # what they act on
    "h of another size": (lambda: diagonal().apply(t(1, 5, 3)), ShapeError, r"h has shape \(1, 5, 3\); expected \(1, 5, 4\)"),
    "h of another type": (lambda: diagonal().apply(t(1, 5, 4).double()), DtypeError, r"h is torch.float64; expected torch.float32"),
    "h of another batch": (lambda: diagonal().apply(t(2, 3, 4)), ShapeError, r"h has batch axes \(2, 3\)"),
    "g of another size": (lambda: diagonal().apply_adjoint(t(4)), ShapeError, r"g has shape \(4,\)"),
    "h on another device": (lambda: diagonal().apply(t(1, 5, 4).to("meta")), DeviceError, r"h is on meta; expected cpu"),
    "compose of other sizes": (lambda: diagonal().compose(diagonal(n=3)), ShapeError, r"earlier is .* of dimension 3"),
    # selections
    "K of zero": (lambda: selected(scores=t(1, 5, 0), dictionary=t(0, 4, 4)), RangeError, r"expected no axis of size 0|K and N of at least 1"),
    "dictionary of N = 0": (lambda: selected(dictionary=t(3, 0, 0)), RangeError, r"dictionary has shape \(3, 0, 0\)"),
    "dictionary of two axes": (lambda: selected(dictionary=t(4, 4)), ShapeError, r"dictionary has shape \(4, 4\); expected \(K, N, N\)"),
    "dictionary not square": (lambda: selected(dictionary=t(3, 4, 5)), ShapeError, r"dictionary has shape \(3, 4, 5\)"),
    "scores of another K": (lambda: selected(scores=t(1, 5, 2)), ShapeError, r"scores has 2 weights a matrix; expected 3"),
    "diag of another N": (lambda: selected(diag=t(1, 5, 5)), ShapeError, r"diag has 5 entries a matrix; expected 4"),
    "scores in half precision": (lambda: selected(scores=t(1, 5, 3).half()), DtypeError, r"scores is torch.float16"),
    "two precisions": (lambda: selected(diag=t(1, 5, 4).double()), DtypeError, r"expected one precision"),
    "temperature of zero": (lambda: selected(temperature=0.0), RangeError, r"temperature is 0.0; expected a positive number"),
    "NaN scores": (lambda: selected(scores=with_nan((1, 5, 3))).index, RangeError, r"scores \(5, 3\) holds 1 NaN or infinite"),
    "infinite scores": (lambda: scan(selected(scores=with_nan((1, 5, 3), math.inf)), t(1, 5, 4)), RangeError, r"scores .* infinite"),
    "NaN dictionary": (lambda: selected(dictionary=with_nan((3, 4, 4))).index, RangeError, r"dictionary .* NaN"),
    # scan
    "no time axis": (lambda: scan(Diagonal(t(5, 4)), t(5, 4)), ShapeError, r"transition has batch axes \(5,\); expected \(batch, time, \*heads\)"),
    "inputs of another size": (lambda: scan(diagonal(), t(1, 5, 3)), ShapeError, r"inputs has shape \(1, 5, 3\); expected \(1, 5, 4\)"),
    "inputs of another length": (lambda: scan(diagonal(), t(1, 6, 4)), ShapeError, r"inputs has batch axes \(1, 6\), which do not broadcast"),
    "inputs of another type": (lambda: scan(diagonal(), t(1, 5, 4).cfloat()), DtypeError, r"inputs is torch.complex64; expected torch.float32"),
    "half precision": (lambda: scan(Diagonal(t(1, 5, 4).half()), t(1, 5, 4).half()), DtypeError, r"transition is torch.float16"),
    "no steps": (lambda: scan(diagonal(time=0), t(1, 0, 4)), RangeError, r"inputs has 1 sequences of 0 steps"),
    "no sequences": (lambda: scan(diagonal(batch=0), t(0, 5, 4)), RangeError, r"inputs has 0 sequences of 5 steps"),
    "initial state of another shape": (lambda: scan(diagonal(), t(1, 5, 4), t(2, 4)), ShapeError, r"initial_state has shape \(2, 4\); expected \(1, 4\)"),
    "initial state of another type": (lambda: scan(diagonal(), t(1, 5, 4), t(1, 4).double()), DtypeError, r"initial_state is torch.float64"),
    "initial state elsewhere": (lambda: scan(diagonal(), t(1, 5, 4), t(1, 4).to("meta")), DeviceError, r"initial_state is on meta"),
    "rows too large": (lambda: scan(Diagonal(t(3, 4)), t(3, 4), rows=i(0, 3)[None]), RangeError, r"rows holds 3; expected values in 0..2"),
    "rows negative": (lambda: scan(Diagonal(t(3, 4)), t(3, 4), rows=i(0, -2)[None]), RangeError, r"rows holds -2"),
    "rows of one axis": (lambda: scan(Diagonal(t(3, 4)), t(3, 4), rows=i(0, 1)), ShapeError, r"rows has shape \(2,\); expected \(batch, time\)"),
    "rows of floats": (lambda: scan(Diagonal(t(3, 4)), t(3, 4), rows=t(1, 2)), DtypeError, r"rows is torch.float32"),
    "rows empty": (lambda: scan(Diagonal(t(3, 4)), t(3, 4), rows=torch.zeros(1, 0).long()), RangeError, r"rows has 1 sequences of 0 steps"),
    "cu_seqlens short": (lambda: scan(diagonal(), t(1, 5, 4), cu_seqlens=i(0)), ShapeError, r"cu_seqlens has shape \(1,\)"),
    "cu_seqlens of two axes": (lambda: scan(diagonal(), t(1, 5, 4), cu_seqlens=i(0, 5)[None]), ShapeError, r"cu_seqlens has shape"),
    "cu_seqlens of floats": (lambda: scan(diagonal(), t(1, 5, 4), cu_seqlens=t(2)), DtypeError, r"cu_seqlens is torch.float32"),
    "cu_seqlens ends early": (lambda: scan(diagonal(), t(1, 5, 4), cu_seqlens=i(0, 4)), RangeError, r"runs from 0 to 4; expected it to run from 0 to 5"),
    "cu_seqlens falls": (lambda: scan(diagonal(), t(1, 5, 4), cu_seqlens=i(0, 4, 2, 5)), RangeError, r"cu_seqlens falls from 4 to 2 at entry 2"),
    "cu_seqlens with a batch": (lambda: scan(diagonal(batch=2), t(2, 5, 4), cu_seqlens=i(0, 5)), ShapeError, r"the batch has size 2; expected 1"),
    "unknown backend": (lambda: scan(diagonal(), t(1, 5, 4), backend="asociative"), BackendError, r"did you mean 'associative'\?"),
    "no kernel": (lambda: scan(WalshHadamard(t(1, 5, 4)), t(1, 5, 4), backend="cpu"), BackendError, r"no kernel for WalshHadamard"),
    "no composition": (lambda: scan(WalshHadamard(t(1, 5, 4)), t(1, 5, 4), backend="associative"), BackendError, r"not closed under products"),
    "cpu kernel elsewhere": (lambda: scan(Diagonal(t(1, 5, 4).to("meta")), t(1, 5, 4).to("meta"), backend="cpu"), BackendError, r"tensors are on meta"),
    # scan_readout
    "keys of another shape": (lambda: scan_readout(diagonal(), t(1, 5, 2), t(1, 5, 3), t(1, 5, 4)), ShapeError, r"keys has shape \(1, 5, 3\)"),
    "values of another shape": (lambda: scan_readout(diagonal(), t(1, 6, 2), t(1, 5, 4), t(1, 5, 4)), ShapeError, r"values has shape \(1, 6, 2\)"),
    "chunk of zero": (lambda: scan_readout(diagonal(), t(1, 5, 2), t(1, 5, 4), t(1, 5, 4), chunk=0), RangeError, r"chunk is 0"),
    # layers
    "layer of size zero": (lambda: PDSSM(0, 4), RangeError, r"dim is 0; expected at least 1"),
    "no dictionary": (lambda: PDSSM(4, 4, 0), RangeError, r"dictionary_size is 0"),
    "unknown start": (lambda: PDSSM(4, 4, start="Paper"), RangeError, r"start is 'Paper'; expected 'long' or 'paper'"),  # type: ignore[arg-type]
    "x of another width": (lambda: PDSSM(4, 4)(t(1, 5, 3)), ShapeError, r"x has shape \(1, 5, 3\); expected \(batch, time, 4\)"),
    "x without batch": (lambda: PDSSM(4, 4)(t(5, 4)), ShapeError, r"x has shape \(5, 4\)"),
    "a table of three axes": (lambda: PDSSM(4, 4)(t(1, 5, 4), rows=i(0)[None]), ShapeError, r"expected \(rows, 4\)"),
    "NaN input": (lambda: PDSSM(4, 4)(with_nan((1, 5, 4))), RangeError, r"scores .* NaN"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case: str) -> None:
    call, kind, message = CASES[case]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, PDSSMError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("backend", ["reference", "associative", "cpu"])
def test_values_are_checked_by_every_backend(backend: str) -> None:
    for changes in ({"cu_seqlens": i(0, 4, 2, 5)}, {"cu_seqlens": i(0, 3)}):
        with pytest.raises(RangeError, match="cu_seqlens"):
            scan(diagonal(), t(1, 5, 4), backend=backend, **changes)
    with pytest.raises(RangeError, match="rows holds 9"):
        scan(Diagonal(t(3, 4)), t(3, 4), rows=i(0, 9)[None], backend=backend)


def test_an_index_changed_behind_our_back_is_found() -> None:
    """The kernel writes at index: it checks what it is given, whatever was checked before."""
    index = torch.zeros(1, 5, 4, dtype=torch.int64)
    a = PD(index, t(1, 5, 4))
    index[0, 3, 2] = 1 << 20
    with pytest.raises(RangeError, match="index holds 1048576"):
        scan(a, t(1, 5, 4))
