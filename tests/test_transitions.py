"""The laws of DESIGN.md, over every structure, in float64 and complex128; each is seen to fail on a planted error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdssm import PD, Dense, Diagonal, PDSSMError, RowPD, SelectedPD, Transition
from tests.factories import CLOSED, STRUCTURES, Batch, Draw, Factory, differentiable, real_loss

Law = Callable[[Factory, Draw, Batch, int, bool], None]

DTYPES = [torch.float64, torch.complex128]
batches = st.lists(st.integers(1, 3), max_size=3).map(tuple)
dims = st.sampled_from([4, 8])
seeds = st.integers(0, 2**20)


def vectors(draw: Draw, batch: Batch, n: int, channels: bool) -> Tensor:
    return draw(*batch, *([2] if channels else []), n)


def times(matrices: Tensor, h: Tensor, channels: bool) -> Tensor:
    return (matrices @ h.mT).mT if channels else (matrices @ h[..., None])[..., 0]


# ------------------------------------------------------------------------------------------------------ the laws


def apply_is_the_matrix(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    a, h = make(draw, batch, n), vectors(draw, batch, n, channels)
    torch.testing.assert_close(a.apply(h), times(a.to_dense(), h, channels), rtol=1e-10, atol=1e-12)


def apply_adjoint_is_the_conjugate_transpose(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    a, g = make(draw, batch, n), vectors(draw, batch, n, channels)
    torch.testing.assert_close(a.apply_adjoint(g), times(a.to_dense().mH, g, channels), rtol=1e-10, atol=1e-12)


def adjointness(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    """<g, A h> = <A^H g, h>."""
    a, g, h = make(draw, batch, n), vectors(draw, batch, n, channels), vectors(draw, batch, n, channels)
    torch.testing.assert_close((g.conj() * a.apply(h)).sum(-1), (a.apply_adjoint(g).conj() * h).sum(-1))


def identity_does_nothing(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    a, h = make(draw, batch, n), vectors(draw, batch, n, channels)
    one = a.identity()
    assert type(one) is type(a)
    assert one.batch_shape == a.batch_shape
    torch.testing.assert_close(one.apply(h), h)
    torch.testing.assert_close(one.to_dense(), torch.eye(n, dtype=a.dtype).expand_as(a.to_dense()))
    if a.closed:
        torch.testing.assert_close(a.compose(one).to_dense(), a.to_dense())
        torch.testing.assert_close(one.compose(a).to_dense(), a.to_dense())


def compose_is_the_product(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    """The product is a member, acts as one map after the other, and is associative."""
    a, b, c = (make(draw, batch, n) for _ in range(3))
    h = vectors(draw, batch, n, channels)
    assert type(a.compose(b)) is type(a)
    torch.testing.assert_close(a.compose(b).to_dense(), a.to_dense() @ b.to_dense())
    torch.testing.assert_close(a.compose(b).apply(h), a.apply(b.apply(h)))
    torch.testing.assert_close(a.compose(b).compose(c).to_dense(), a.compose(b.compose(c)).to_dense())


def to_real_is_the_same_map(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    """Lemma 1: A on C^N is ``to_real()`` on R^2N."""
    a, h = make(draw, batch, n), vectors(draw, batch, n, channels)
    real = a.to_real()
    if not a.dtype.is_complex:
        assert real is a
        return
    assert not real.dtype.is_complex
    assert real.dim == 2 * n
    torch.testing.assert_close(
        real.apply(torch.view_as_real(h).flatten(-2)), torch.view_as_real(a.apply(h)).flatten(-2)
    )


def gradients_are_the_matrix_products(make: Factory, draw: Draw, batch: Batch, n: int, channels: bool) -> None:
    """Of ``apply`` and ``apply_adjoint``, for the argument and every parameter (surrogate ones included)."""
    a = make(draw, batch, n)
    h = vectors(draw, batch, n, channels).requires_grad_()
    leaves = [*differentiable(a), h]
    for act, matrices in ((a.apply, a.to_dense), (a.apply_adjoint, lambda: a.to_dense().mH)):
        got = torch.autograd.grad(real_loss(act(h)), leaves, allow_unused=True)
        expected = torch.autograd.grad(real_loss(times(matrices(), h, channels)), leaves, allow_unused=True)
        for value, oracle in zip(got, expected, strict=True):
            if oracle is None:
                assert value is None or not value.abs().any()
            else:
                torch.testing.assert_close(value, oracle, rtol=1e-10, atol=1e-11)


LAWS: list[Law] = [
    apply_is_the_matrix,
    apply_adjoint_is_the_conjugate_transpose,
    adjointness,
    identity_does_nothing,
    to_real_is_the_same_map,
    gradients_are_the_matrix_products,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", STRUCTURES)
@given(batch=batches, n=dims, channels=st.booleans(), seed=seeds)
def test_law(name: str, law: Law, dtype: torch.dtype, batch: Batch, n: int, channels: bool, seed: int) -> None:
    law(STRUCTURES[name], Draw(seed, dtype), batch, n, channels)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CLOSED)
@given(batch=batches, n=dims, channels=st.booleans(), seed=seeds)
def test_compose(name: str, dtype: torch.dtype, batch: Batch, n: int, channels: bool, seed: int) -> None:
    compose_is_the_product(STRUCTURES[name], Draw(seed, dtype), batch, n, channels)


# ------------------------------------------------------------------------------------------------ planted errors


class ForgottenConjugate(Diagonal.__base__):  # type: ignore[misc, name-defined]
    """A diagonal with one method wrong at a time."""

    event_axes = {"diag": 1}
    closed = True

    def __init__(self, diag: Tensor, wrong: str) -> None:
        object.__setattr__(self, "inner", Diagonal(diag))
        object.__setattr__(self, "diag", diag)
        object.__setattr__(self, "wrong", wrong)

    dim = property(lambda self: self.inner.dim)
    dtype = property(lambda self: self.inner.dtype)

    def _check(self) -> None: ...

    def _apply(self, h: Tensor) -> Tensor:
        shift = 1e-6 if self.wrong == "apply" else 0
        detached = self.diag.detach() if self.wrong == "gradient" else self.diag
        return (detached + shift)[..., None, :] * h

    def _apply_adjoint(self, g: Tensor) -> Tensor:
        return (self.diag if self.wrong == "conjugate" else self.diag.conj())[..., None, :] * g

    def _compose(self, earlier: ForgottenConjugate) -> ForgottenConjugate:
        return ForgottenConjugate(
            self.diag + earlier.diag if self.wrong == "compose" else self.diag * earlier.diag, self.wrong
        )

    def to_dense(self) -> Tensor:
        return torch.diag_embed(self.diag)

    def identity(self) -> ForgottenConjugate:
        return ForgottenConjugate(torch.full_like(self.diag, 1.001 if self.wrong == "identity" else 1.0), self.wrong)

    def to_real(self) -> Transition:
        diag = self.diag.conj() if self.wrong == "real" else self.diag
        return Diagonal(diag).to_real() if self.dtype.is_complex else self


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        (apply_is_the_matrix, "apply"),
        (apply_adjoint_is_the_conjugate_transpose, "conjugate"),
        (adjointness, "conjugate"),
        (identity_does_nothing, "identity"),
        (compose_is_the_product, "compose"),
        (to_real_is_the_same_map, "real"),
        (gradients_are_the_matrix_products, "gradient"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_each_law_fails_on_a_planted_error(law: Law, wrong: str) -> None:
    def make(error: str) -> Factory:
        return lambda draw, batch, n: ForgottenConjugate(draw(*batch, n), error)

    law(make("nothing"), Draw(1, torch.complex128), (2,), 4, False)
    with pytest.raises(AssertionError):
        law(make(wrong), Draw(1, torch.complex128), (2,), 4, False)


# ------------------------------------------------------------------------------------------------- what PD means


def test_the_convention() -> None:
    """Column form sends component j to index[j]; row form reads component index[i] into i."""
    index, diag = torch.tensor([2, 2, 0]), torch.tensor([1.0, 10.0, 100.0])
    x = torch.tensor([1.0, 2.0, 3.0])
    assert PD(index, diag).apply(x).tolist() == [300.0, 0.0, 21.0]
    assert RowPD(index, diag).apply(x).tolist() == [3.0, 30.0, 100.0]
    assert (PD(index, diag).to_dense() != 0).sum(0).tolist() == [1, 1, 1]
    assert (RowPD(index, diag).to_dense() != 0).sum(1).tolist() == [1, 1, 1]


def test_an_automaton_merges_states() -> None:
    """Two states that go to the same one: their weights add up there."""
    merge = PD(torch.tensor([1, 1]), torch.ones(2))
    assert merge.apply(torch.tensor([1.0, 1.0])).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("cls", [PD, RowPD])
@given(batch=batches, n=dims, seed=seeds)
def test_from_dense(cls: type[PD] | type[RowPD], batch: Batch, n: int, seed: int) -> None:
    draw = Draw(seed, torch.complex128)
    original = cls(draw.integers(n, *batch, n), draw(*batch, n))
    assert torch.equal(cls.from_dense(original.to_dense()).to_dense(), original.to_dense())


@given(batch=batches, n=dims, seed=seeds)
def test_adjoint_changes_the_form(batch: Batch, n: int, seed: int) -> None:
    draw = Draw(seed, torch.complex128)
    a = PD(draw.integers(n, *batch, n), draw(*batch, n))
    assert type(a.adjoint()) is RowPD
    assert torch.equal(a.adjoint().to_dense(), a.to_dense().mH)
    assert torch.equal(a.adjoint().adjoint().to_dense(), a.to_dense())


def test_column_and_row_forms_do_not_mix() -> None:
    index, diag = torch.tensor([0, 1]), torch.ones(2)
    with pytest.raises(PDSSMError, match="earlier is a RowPD; expected a PD"):
        PD(index, diag).compose(RowPD(index, diag))  # type: ignore[arg-type]


def test_not_closed_says_so() -> None:
    draw = Draw(0, torch.float64)
    for name, make in STRUCTURES.items():
        if name not in CLOSED:
            a = make(draw, (2,), 4)
            with pytest.raises(PDSSMError, match="not closed under products"):
                a.compose(a)


def test_the_selection_is_made_once() -> None:
    draw = Draw(0, torch.float64)
    a = SelectedPD(draw.reals(5, 3), draw.reals(3, 4, 4), draw(5, 4))
    assert a.index is a.index
    assert torch.equal(a.hard().to_dense(), PD(a.index, a.diag).to_dense())


def test_batches_broadcast_without_copies() -> None:
    a = PD(torch.tensor([1, 0]), torch.ones(3, 2))
    assert a.batch_shape == (3,)
    assert a.index.stride(0) == 0


def test_transitions_are_immutable() -> None:
    a = Dense(torch.eye(2))
    with pytest.raises(AttributeError):
        a.matrices = torch.zeros(2, 2)  # type: ignore[misc]
