"""The central abstraction: an immutable batch of linear maps on R^N or C^N.

A structure is one file with one final class: its tensors, how they act (``_apply``, ``_apply_adjoint``), what
they are (``to_dense``), and, where the family is closed under products, how two of them compose.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from pdssm.errors import ClosureError, DeviceError, DtypeError, RangeError, ShapeError


class KernelForm(NamedTuple):
    """How a family looks to the compiled kernels: ``kernels/cpu/families`` has the kinds."""

    kind: str
    maps: Tensor | None
    """PD's index."""
    params: list[Tensor]


@dataclass(frozen=True, eq=False)
class Transition(ABC):
    """A batch of N x N matrices A of one structure.

    ``batch_shape`` are its leading axes, any number of them; under ``pdssm.scan`` they are
    ``(batch, time, *heads)``.  A vector argument has the batch's axes and then N, or ``(V, N)`` for V
    channels that share the matrix.
    """

    closed: ClassVar[bool] = False
    """Whether a product of two members is a member."""
    event_axes: ClassVar[Mapping[str, int]]
    """Of each batched tensor, how many trailing axes belong to one matrix."""

    def __post_init__(self) -> None:
        fields = self._batched()
        for name, axes in self.event_axes.items():
            tensor = fields.get(name)
            if tensor is None:
                continue
            if tensor.ndim < axes:
                raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected at least {axes} axes")
            if 0 in tensor.shape[tensor.ndim - axes :]:
                raise RangeError(f"{name} has shape {tuple(tensor.shape)}; expected no axis of size 0 in one matrix")
        self._check()
        self._check_devices()
        self._broadcast()

    def _batched(self) -> dict[str, Tensor]:
        values = {name: getattr(self, name) for name in self.event_axes}
        return {name: value for name, value in values.items() if value is not None}

    def _check_devices(self) -> None:
        device = None
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                device = device or value.device
                if value.device != device:
                    raise DeviceError(
                        f"{field.name} is on {value.device}; expected {device}, where the first tensor is"
                    )

    def _broadcast(self) -> None:
        """Expand all tensors to one batch shape (views, no copies)."""
        fields = self._batched()
        shapes = {name: tensor.shape[: tensor.ndim - self.event_axes[name]] for name, tensor in fields.items()}
        first = next(iter(shapes.values()))
        if all(shape == first for shape in shapes.values()):  # compared, not hashed: a size may be symbolic
            return
        try:
            batch = torch.broadcast_shapes(*shapes.values())
        except RuntimeError:
            listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
            raise ShapeError(f"the batch axes do not broadcast: {listed}") from None
        for name, tensor in fields.items():
            event = tensor.shape[tensor.ndim - self.event_axes[name] :]
            object.__setattr__(self, name, tensor.expand((*batch, *event)))

    @abstractmethod
    def _check(self) -> None:
        """Raise where the tensors' own axes and element types do not fit together."""

    # ------------------------------------------------------------------------------------------ what it is

    @property
    @abstractmethod
    def dim(self) -> int:
        """N."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The element type of the matrices, and so of the states."""

    @property
    def device(self) -> torch.device:
        return next(iter(self._batched().values())).device

    @property
    def batch_shape(self) -> torch.Size:
        name, tensor = next(iter(self._batched().items()))
        return tensor.shape[: tensor.ndim - self.event_axes[name]]

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same structure with ``function`` applied to each batched tensor; it may change leading axes only."""
        return self._replace({name: function(tensor) for name, tensor in self._batched().items()})

    def _replace(self, changes: Mapping[str, Any]) -> Self:
        return dataclasses.replace(self, **changes)

    def __getitem__(self, key: Any) -> Self:
        """Index the batch axes."""
        return self.map(lambda tensor: tensor[key])

    def reshape(self, *batch: int) -> Self:
        """Other batch axes over the same matrices."""
        old = len(self.batch_shape)
        return self.map(lambda tensor: tensor.reshape((*batch, *tensor.shape[old:])))

    def unbind(self, axis: int) -> list[Self]:
        """The slices along one batch axis."""
        pieces = {name: tensor.unbind(axis) for name, tensor in self._batched().items()}
        count = self.batch_shape[axis]
        return [self._replace({name: parts[i] for name, parts in pieces.items()}) for i in range(count)]

    def plain(self) -> Transition:
        """The same maps through plain torch operations only, for the oracle."""
        return self

    # ------------------------------------------------------------------------------------ the four methods

    def apply(self, h: Tensor) -> Tensor:
        """A h, for h ``(*batch, N)`` or ``(*batch, V, N)``."""
        return self._through_channels("h", h, self._apply)

    def apply_adjoint(self, g: Tensor) -> Tensor:
        """A^H g, for g as in ``apply``."""
        return self._through_channels("g", g, self._apply_adjoint)

    def compose(self, earlier: Self) -> Self:
        """``self @ earlier``: first ``earlier`` acts, then ``self``."""
        if not self.closed:
            raise ClosureError(f"{type(self).__name__} is not closed under products: compose to_dense() forms instead")
        if type(earlier) is not type(self):
            raise ClosureError(
                f"earlier is a {type(earlier).__name__}; expected a {type(self).__name__}: families do not mix"
            )
        if earlier.dim != self.dim or earlier.dtype != self.dtype:
            raise ShapeError(
                f"earlier is {earlier.dtype} of dimension {earlier.dim}; expected {self.dtype} of dimension {self.dim}"
            )
        return self._compose(earlier)

    @abstractmethod
    def to_dense(self) -> Tensor:
        """The matrices themselves, ``(*batch, N, N)``."""

    @abstractmethod
    def _apply(self, h: Tensor) -> Tensor:
        """A h for h ``(*batch, V, N)``."""

    @abstractmethod
    def _apply_adjoint(self, g: Tensor) -> Tensor:
        """A^H g for g ``(*batch, V, N)``."""

    def _compose(self, earlier: Self) -> Self:
        raise NotImplementedError

    @abstractmethod
    def identity(self) -> Self:
        """The identity in the same structure, batch, dimension and element type."""

    # ------------------------------------------------------------------------------------------ conversions

    def to_real(self) -> Transition:
        """The same maps on R^2N, acting on ``view_as_real(x).flatten(-2)`` (the paper's Lemma 1); real ones stay.

        The real and imaginary parts of a component lie side by side, so that the view costs nothing.
        """
        from pdssm.transitions.dense import Dense

        return Dense(real_form(self.to_dense())) if self.dtype.is_complex else self

    def kernel_form(self) -> KernelForm | None:
        """The tensors as a compiled kernel reads them; None where the family has none."""
        return None

    def _through_channels(self, name: str, h: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        extra = h.ndim - len(self.batch_shape)
        if extra not in (1, 2) or h.shape[-1] != self.dim:
            batch = tuple(self.batch_shape)
            raise ShapeError(
                f"{name} has shape {tuple(h.shape)}; expected {(*batch, self.dim)} or {(*batch, 'V', self.dim)}"
            )
        check_same(name, h, self.dtype, self.device, f"the {type(self).__name__}'s")
        for size, own in zip(h.shape, self.batch_shape, strict=False):
            if size != own and 1 not in (size, own):
                raise ShapeError(
                    f"{name} has batch axes {tuple(h.shape[:-extra])}, which do not broadcast with "
                    f"{tuple(self.batch_shape)}"
                )
        return act(h) if extra == 2 else act(h.unsqueeze(-2)).squeeze(-2)


def check_same(name: str, tensor: Tensor, dtype: torch.dtype, device: torch.device, whose: str) -> None:
    """``tensor`` has this element type and lies on this device."""
    if tensor.dtype != dtype:
        raise DtypeError(f"{name} is {tensor.dtype}; expected {dtype}, {whose} element type (convert one of them)")
    if tensor.device != device:
        raise DeviceError(f"{name} is on {tensor.device}; expected {device}, {whose} device")


def check_number(name: str, tensor: Tensor) -> None:
    """Floating point or complex."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise DtypeError(f"{name} is {tensor.dtype}; expected a floating-point or complex tensor")


def check_square(name: str, tensor: Tensor) -> None:
    """The last two axes are equal."""
    if tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected its last two axes to be equal")


def real_form(matrices: Tensor) -> Tensor:
    """Complex ``(..., M, N)`` to real ``(..., 2M, 2N)``: each entry a + ib becomes [[a, -b], [b, a]]."""
    re, im = matrices.real, matrices.imag
    entries = torch.stack((torch.stack((re, -im), -1), torch.stack((im, re), -1)), -3)
    return entries.reshape(*matrices.shape[:-2], 2 * matrices.shape[-2], 2 * matrices.shape[-1])
