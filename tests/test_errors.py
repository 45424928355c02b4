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
    SDSSM,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    DiagonalPlusLowRank,
    Householder,
    ModelConfig,
    PDSSMError,
    SelectedPD,
    SequenceModel,
    WalshHadamard,
    scan,
    scan_readout,
)
from pdssm.errors import BackendError, ChoiceError, DeviceError, DtypeError, FileError, RangeError, ShapeError
from pdssm.layers import ConvState, GivenPDSSM


def t(*shape: int) -> Tensor:
    return torch.zeros(shape)


def i(*values: int) -> Tensor:
    return torch.tensor(values)


def diagonal(batch: int = 1, time: int = 5, n: int = 4) -> Diagonal:
    return Diagonal(t(batch, time, n))


def selected(**changes: Any) -> SelectedPD:
    return SelectedPD(**{"scores": t(1, 5, 3), "dictionary": t(3, 4, 4), "diag": t(1, 5, 4), **changes})


def model(**changes: Any) -> SequenceModel:
    return SequenceModel(ModelConfig(**{"input_size": 5, "output_size": 3, "dim": 4, **changes}))


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
    "no kernel": (lambda: scan(WalshHadamard(t(1, 5, 4)), t(1, 5, 4), backend="chunked"), BackendError, r"no kernel for WalshHadamard"),
    "no composition": (lambda: scan(WalshHadamard(t(1, 5, 4)), t(1, 5, 4), backend="associative"), BackendError, r"not closed under products"),
    "cpu kernel elsewhere": (lambda: scan(Diagonal(t(1, 5, 4).to("meta")), t(1, 5, 4).to("meta"), backend="cpu"), BackendError, r"tensors are on meta"),
    # scan_readout
    "keys of another shape": (lambda: scan_readout(diagonal(), t(1, 5, 2), t(1, 5, 3), t(1, 5, 4)), ShapeError, r"keys has shape \(1, 5, 3\)"),
    "values of another shape": (lambda: scan_readout(diagonal(), t(1, 6, 2), t(1, 5, 4), t(1, 5, 4)), ShapeError, r"values has shape \(1, 6, 2\)"),
    "chunk of zero": (lambda: scan_readout(diagonal(), t(1, 5, 2), t(1, 5, 4), t(1, 5, 4), chunk=0), RangeError, r"chunk is 0"),
    # layers: how they are made
    "layer of size zero": (lambda: PDSSM(0, 4), RangeError, r"dim is 0; expected a whole number of at least 1"),
    "layer of half a size": (lambda: PDSSM(4.5), RangeError, r"dim is 4.5; expected a whole number"),  # type: ignore[arg-type]
    "state of size zero": (lambda: PDSSM(4, 0), RangeError, r"state_dim is 0"),
    "no dictionary": (lambda: PDSSM(4, 4, 0), RangeError, r"dictionary_size is 0"),
    "no hidden units": (lambda: PDSSM(4, hidden_dim=0), RangeError, r"hidden_dim is 0"),
    "unknown start": (lambda: PDSSM(4, init="papr"), ChoiceError, r"init is 'papr'; expected one of 'long', 'paper' \(did you mean 'paper'\?\)"),  # type: ignore[arg-type]
    "unknown orientation": (lambda: PDSSM(4, orientation="rows"), ChoiceError, r"orientation is 'rows'; .*did you mean 'row'"),  # type: ignore[arg-type]
    "unknown magnitude": (lambda: PDSSM(4, magnitude="near"), ChoiceError, r"magnitude is 'near'; expected one of"),  # type: ignore[arg-type]
    "unknown phase": (lambda: PDSSM(4, phase="none"), ChoiceError, r"phase is 'none'; expected one of"),  # type: ignore[arg-type]
    "unknown readout": (lambda: PDSSM(4, readout="linea"), ChoiceError, r"did you mean 'linear'"),  # type: ignore[arg-type]
    "unknown initial state": (lambda: PDSSM(4, initial_state="one"), ChoiceError, r"initial_state is 'one'; expected one of"),  # type: ignore[arg-type]
    "unknown option": (lambda: PDSSM(4, readuot="mlp"), ChoiceError, r"option of PDSSM is 'readuot'; .*did you mean 'readout'"),  # type: ignore[call-arg]
    "layer's temperature of zero": (lambda: PDSSM(4, temperature=0.0), RangeError, r"temperature is 0.0; expected a positive number"),
    "infinite temperature": (lambda: PDSSM(4, temperature=math.inf), RangeError, r"temperature is inf"),
    "temperature of text": (lambda: PDSSM(4, temperature="1"), RangeError, r"temperature is '1'"),  # type: ignore[arg-type]
    "norm of order zero": (lambda: SDSSM(4, p=0), RangeError, r"p is 0; expected a positive number"),
    "norm of no order": (lambda: SDSSM(4, p=math.nan), RangeError, r"p is nan"),
    "negative convolution": (lambda: PDSSM(4, conv=-2), RangeError, r"conv is -2; expected a whole number of at least 0"),
    "convolution of one": (lambda: PDSSM(4, conv=1), RangeError, r"conv is 1; expected a whole number of at least 2"),
    "dropout of everything": (lambda: PDSSM(4, dropout=1.0), RangeError, r"dropout is 1.0; expected a number in \[0, 1\)"),
    "given index of another size": (lambda: GivenPDSSM(4, 4, i(0, 1, 2)), ShapeError, r"index has shape \(3,\); expected \(4,\) or"),
    "given index too large": (lambda: GivenPDSSM(4, 2, i(0, 2)), RangeError, r"index holds 2; expected values in 0..1"),
    "given index of floats": (lambda: GivenPDSSM(4, 4, t(4)), DtypeError, r"index is torch.float32"),
    # layers: what they are given
    "x of another width": (lambda: PDSSM(4)(t(1, 5, 3)), ShapeError, r"x has shape \(1, 5, 3\); expected \(batch, time, 4\)"),
    "x without batch": (lambda: PDSSM(4)(t(5, 4)), ShapeError, r"x has shape \(5, 4\)"),
    "x of integers": (lambda: PDSSM(4)(t(1, 5, 4).long()), DtypeError, r"x is torch.int64; expected a floating-point tensor"),
    "x of another precision": (lambda: PDSSM(4)(t(1, 5, 4).double()), DtypeError, r"x is torch.float64; expected torch.float32, the layer's parameters'"),
    "x in half precision": (lambda: PDSSM(4)(t(1, 5, 4).bfloat16()), DtypeError, r"x is torch.bfloat16; expected torch.float32"),
    "x of no steps": (lambda: PDSSM(4)(t(2, 0, 4)), RangeError, r"x has 2 sequences of 0 steps"),
    "x of no sequences": (lambda: PDSSM(4)(t(0, 5, 4)), RangeError, r"x has 0 sequences of 5 steps"),
    "NaN input": (lambda: PDSSM(4)(with_nan((1, 5, 4))), RangeError, r"scores .* NaN"),
    "a table of three axes": (lambda: PDSSM(4)(t(1, 5, 4), rows=i(0)[None]), ShapeError, r"expected \(rows, 4\)"),
    "layer's rows of floats": (lambda: PDSSM(4)(t(5, 4), rows=t(1, 3)), DtypeError, r"rows is torch.float32"),
    "layer's rows of one axis": (lambda: PDSSM(4)(t(5, 4), rows=i(0, 1)), ShapeError, r"rows has shape \(2,\); expected \(batch, time\)"),
    "layer's rows too large": (lambda: PDSSM(4)(t(5, 4), rows=i(0, 5)[None]), RangeError, r"rows holds 5; expected values in 0..4 \(5 rows of x\)"),
    "rows negative with a convolution": (lambda: PDSSM(4, conv=2)(t(5, 4), rows=i(0, -1)[None]), RangeError, r"rows holds -1"),
    "mask of another shape": (lambda: PDSSM(4)(t(2, 5, 4), mask=torch.ones(2, 4).bool()), ShapeError, r"mask has shape \(2, 4\); expected \(2, 5\)"),
    "mask of floats": (lambda: PDSSM(4)(t(2, 5, 4), mask=t(2, 5)), DtypeError, r"mask is torch.float32; expected torch.bool"),
    "mask of nothing": (lambda: PDSSM(4)(t(2, 5, 4), mask=t(2, 5).bool()), RangeError, r"mask leaves no step"),
    "layer's cu_seqlens with a batch": (lambda: PDSSM(4)(t(2, 5, 4), cu_seqlens=i(0, 5)), ShapeError, r"x has batch size 2; expected 1 with cu_seqlens"),
    "layer's cu_seqlens of floats": (lambda: PDSSM(4, conv=2)(t(1, 5, 4), cu_seqlens=t(2)), DtypeError, r"cu_seqlens is torch.float32"),
    "layer's cu_seqlens ends late": (lambda: PDSSM(4, conv=2)(t(1, 5, 4), cu_seqlens=i(0, 6)), RangeError, r"cu_seqlens runs from 0 to 6; expected it to run from 0 to 5"),
    "layer's cu_seqlens falls": (lambda: PDSSM(4, conv=2)(t(1, 5, 4), cu_seqlens=i(0, 4, 2, 5)), RangeError, r"cu_seqlens falls from 4 to 2"),
    "layer's cu_seqlens short": (lambda: PDSSM(4)(t(1, 5, 4), cu_seqlens=i(0)), ShapeError, r"cu_seqlens has shape \(1,\)"),
    "positions too large": (lambda: PDSSM(4)(t(2, 5, 4), positions=i(10)), RangeError, r"positions holds 10; expected values in 0..9 \(10 steps\)"),
    "positions negative": (lambda: PDSSM(4)(t(2, 5, 4), positions=i(-1)), RangeError, r"positions holds -1"),
    "positions of floats": (lambda: PDSSM(4)(t(2, 5, 4), positions=t(2)), ShapeError, r"positions is torch.float32 of shape \(2,\); expected integers"),
    "layer's state of another size": (lambda: PDSSM(4, 6)(t(2, 5, 4), t(2, 4).cfloat()), ShapeError, r"initial_state has shape \(2, 4\); expected \(2, 6\)"),
    "layer's state of another batch": (lambda: PDSSM(4)(t(2, 5, 4), t(1, 4).cfloat()), ShapeError, r"initial_state has shape \(1, 4\); expected \(2, 4\)"),
    "layer's state of reals": (lambda: PDSSM(4)(t(2, 5, 4), t(2, 4)), DtypeError, r"initial_state is torch.float32; expected a complex tensor"),
    "layer's state of another precision": (lambda: PDSSM(4)(t(2, 5, 4), t(2, 4).cdouble()), DtypeError, r"initial_state is torch.complex128"),
    "state of complex numbers": (lambda: SDSSM(4)(t(2, 5, 4), t(2, 4).cfloat()), DtypeError, r"expected a real tensor"),
    "state without a window": (lambda: PDSSM(4, conv=3)(t(2, 5, 4), t(2, 4).cfloat()), ShapeError, r"initial_state is a Tensor; expected ConvState"),
    "state with a window": (lambda: PDSSM(4)(t(2, 5, 4), (t(2, 4), t(2, 2, 4))), ShapeError, r"initial_state is a tuple; expected a tensor"),
    "window of another width": (lambda: PDSSM(4, conv=3)(t(2, 5, 4), ConvState(t(2, 4).cfloat(), t(2, 3, 4))), ShapeError, r"initial_state.window has shape \(2, 3, 4\); expected \(2, 2, 4\)"),
    "no sequences to start": (lambda: PDSSM(4).initial_state(0), RangeError, r"sequences is 0"),
    "step of three axes": (lambda: PDSSM(4).step(t(1, 5, 4), t(1, 4)), ShapeError, r"x has shape \(1, 5, 4\); expected \(sequences, 4\)"),
    "step with another batch": (lambda: PDSSM(4).step(t(2, 4), t(1, 4).cfloat()), ShapeError, r"state has shape \(1, 4\); expected \(2, 4\)"),
    "step with another precision": (lambda: PDSSM(4).step(t(2, 4), t(2, 4).cdouble()), DtypeError, r"state is torch.complex128; expected torch.complex64"),
    "step of another precision": (lambda: PDSSM(4).step(t(2, 4).double(), t(2, 4).cfloat()), DtypeError, r"x is torch.float64; expected torch.float32"),
    "step without a state": (lambda: PDSSM(4).step(t(2, 4), None), ShapeError, r"state is a NoneType; expected a tensor"),
    # models
    "no vocabulary": (lambda: ModelConfig(0, 3), RangeError, r"input_size is 0"),
    "no layers": (lambda: ModelConfig(5, 3, layers=0), RangeError, r"layers is 0"),
    "unknown mixer": (lambda: ModelConfig(5, 3, mixer="ssm"), ChoiceError, r"mixer is 'ssm'; expected one of"),
    "unknown mixer option": (lambda: ModelConfig(5, 3, mixer_options={"k": 4}), ChoiceError, r"option of mixer 'pdssm' is 'k'"),
    "an option no file can hold": (lambda: ModelConfig(5, 3, mixer_options={"temperature": t(1)}), DtypeError, r"option 'temperature' of mixer 'pdssm' is a Tensor"),
    "an option out of range": (lambda: SequenceModel(ModelConfig(5, 3, mixer_options={"state_dim": 0})), RangeError, r"state_dim is 0"),
    "unknown norm": (lambda: ModelConfig(5, 3, norm="layer"), ChoiceError, r"norm is 'layer'"),  # type: ignore[arg-type]
    "unknown head": (lambda: ModelConfig(5, 3, head="lst"), ChoiceError, r"did you mean 'last'"),  # type: ignore[arg-type]
    "unknown inputs": (lambda: ModelConfig(5, 3, inputs="token"), ChoiceError, r"did you mean 'tokens'"),  # type: ignore[arg-type]
    "model's dropout of everything": (lambda: ModelConfig(5, 3, dropout=1.0), RangeError, r"dropout is 1.0"),
    "residual of text": (lambda: ModelConfig(5, 3, residual="no"), DtypeError, r"residual is 'no'"),  # type: ignore[arg-type]
    "negative ffn": (lambda: ModelConfig(5, 3, ffn=-1), RangeError, r"ffn is -1"),
    "not JSON": (lambda: ModelConfig.from_json("{"), FileError, r"the config is not JSON"),
    "JSON of a list": (lambda: ModelConfig.from_json("[]"), FileError, r"the config is a JSON list; expected an object"),
    "token out of the vocabulary": (lambda: model()(i(0, 5)[None]), RangeError, r"x holds 5; expected values in 0..4 \(5 tokens in the vocabulary\)"),
    "negative token": (lambda: model()(i(0, -1)[None]), RangeError, r"x holds -1"),
    "tokens of floats": (lambda: model()(t(1, 4)), DtypeError, r"x is torch.float32; expected torch.int64 or torch.int32, token ids"),
    "tokens of one axis": (lambda: model()(i(0, 1)), ShapeError, r"x has shape \(2,\); expected \(batch, time\), token ids"),
    "samples of another width": (lambda: model(inputs="samples")(t(1, 4, 3)), ShapeError, r"x has shape \(1, 4, 3\); expected \(batch, time, 5\), samples"),
    "samples of integers": (lambda: model(inputs="samples")(t(1, 4, 5).long()), DtypeError, r"x is torch.int64; expected a floating-point tensor"),
    "samples with a NaN": (lambda: model(inputs="samples")(with_nan((1, 4, 5))), RangeError, r"x \(1, 4, 5\) holds 1 NaN"),
    "model's mask of another shape": (lambda: model()(i(0, 1)[None], mask=torch.ones(1, 3).bool()), ShapeError, r"mask has shape \(1, 3\)"),
    "model's positions too large": (lambda: model()(i(0, 1)[None], positions=i(2)), RangeError, r"positions holds 2"),
    "positions without every": (lambda: model(head="last")(i(0, 1)[None], positions=i(1)), ShapeError, r"positions was given; expected none with head 'last'"),
    "last of nothing": (lambda: model(head="last")(i(0, 1)[None], cu_seqlens=i(0, 2, 2)), RangeError, r"empty sequence; head 'last' expects none"),
    "mean of nothing": (lambda: model(head="mean")(i(0, 1)[None], cu_seqlens=i(0, 0, 2)), RangeError, r"empty sequence; head 'mean'"),
    "state of fewer blocks": (lambda: model(layers=2)(i(0, 1)[None], model().initial_state(1)), ShapeError, r"state has 1 entries; expected a tuple of 2, one entry a block"),
    "model's state of no tuple": (lambda: model()(i(0, 1)[None], t(1, 4)), ShapeError, r"state is a Tensor; expected a tuple of 1"),
    "model's step of two axes": (lambda: model().step(i(0, 1)[None], model().initial_state(1)), ShapeError, r"x has shape"),
    "model's step of a number": (lambda: model().step(torch.tensor(1), model().initial_state(1)), ShapeError, r"x has shape \(\)"),
    "model's step without state": (lambda: model().step(i(0), ()), ShapeError, r"state has 0 entries"),
    "step of a mean": (lambda: model(head="mean").step(i(0), ()), ShapeError, r"step has no outputs with head 'mean'"),
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
