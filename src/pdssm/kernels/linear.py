"""The two operations of the layers' networks on a CPU, y = x W^T + c and GELU: where their results lie, and by what.

Large results go into recycled memory (``buffers``), as the kernels' do: the page faults of fresh memory cost up to
half of a long sequence's step.  And torch takes MKL for float32 products, which leaves AVX-512 unused on CPUs that
are not Intel's: there oneDNN, which torch carries as well, takes less than half the time for y = x W^T, for the
gradient of x and, less, for that of W.  Small results, other devices and other element types are plain torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdssm.kernels import buffers

# Below so many rows a call of oneDNN costs more than it saves.
FEW_ROWS = 64


def _find_onednn() -> Any:
    """OneDNN's linear where it wins, or None."""
    try:
        other_vendor = "GenuineIntel" not in Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    if not (other_vendor and wide and torch.backends.mkldnn.is_available()):
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_onednn = _find_onednn()


def _plain_float32(*tensors: Tensor) -> bool:
    """What the functions below are for, and not inside of a compiled graph or an autocast."""
    return (
        all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


# ------------------------------------------------------------------------------------------------------- linear


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if _onednn is not None:
        # It allocates its result itself, fresh memory beyond some size, so large ones are made tile by tile.
        return buffers.by_tiles(lambda rows: (_onednn(rows, weight, bias, "none", [], ""),), x)[0]
    y = buffers.empty((*x.shape[:-1], weight.shape[0]), x)
    rows, flat = x.reshape(-1, x.shape[-1]), y.view(-1, weight.shape[0])
    if bias is None:
        torch.mm(rows, weight.t(), out=flat)
    else:
        torch.addmm(bias, rows, weight.t(), out=flat)
    return y


def _outer_sum(g: Tensor, x: Tensor) -> Tensor:
    """g^T x for g ``(rows, O)`` and x ``(rows, D)``."""
    if _onednn is None or torch.is_grad_enabled() or not _plain_float32(g, x):
        return g.t() @ x
    # It is fastest with the smaller factor on the left (measured: 10 to 30 % less time than MKL's product).
    if g.shape[1] <= x.shape[1]:
        product: Tensor = _onednn(g.t(), x.t(), None, "none", [], "")
        return product
    return _outer_sum(x, g).t()


class _Linear(torch.autograd.Function):
    """y = x W^T + c;  gx = g W,  gW = g^T x,  gc = sum g."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.contiguous()  # oneDNN is 30 times slower on the real parts of complex numbers as they lie
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        g = grads[0].contiguous()
        x, weight = ctx.saved_tensors
        rows = g.flatten(0, -2)
        g_x = linear(g, weight.t()) if ctx.needs_input_grad[0] else None
        g_weight = _outer_sum(rows, x.flatten(0, -2)) if ctx.needs_input_grad[1] else None
        g_bias = rows.sum(0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return g_x, g_weight, g_bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``torch.nn.functional.linear``, differentiable to any order."""
    rows = x.numel() // max(1, x.shape[-1])
    pays = rows >= FEW_ROWS if _onednn is not None else buffers.is_large(rows * weight.shape[0], x.dtype)
    if not pays or x.ndim < 2 or not _plain_float32(x, weight):
        return functional.linear(x, weight, bias)
    y: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class Linear(nn.Linear):
    """``nn.Linear`` through ``linear``."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


# --------------------------------------------------------------------------------------------------------- GELU


class _GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        y: Tensor = torch.ops.aten.gelu.out(x, out=buffers.empty(tuple(x.shape), x))
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (g,), (x,) = grads, ctx.saved_tensors
        g_x: Tensor
        if torch.is_grad_enabled():  # a second derivative is wanted, and an output that is given has none
            g_x = torch.ops.aten.gelu_backward(g, x)
        else:
            g_x = torch.ops.aten.gelu_backward.grad_input(g, x, grad_input=buffers.empty(tuple(x.shape), x))
        return g_x


class GELU(nn.Module):
    """``nn.GELU``, differentiable to any order."""

    def forward(self, x: Tensor) -> Tensor:
        """Of every entry."""
        if not buffers.is_large(x.numel(), x.dtype) or not _plain_float32(x):
            return functional.gelu(x)
        y: Tensor = _GELU.apply(x)  # type: ignore[no-untyped-call]
        return y
