"""Matrix products with weights, by whichever of torch's two libraries is the faster one on this CPU.

Torch takes MKL for float32, and MKL leaves AVX-512 unused on CPUs that are not Intel's: there oneDNN, which torch
carries as well, takes less than half the time for y = x W^T and for the gradient of x (the figures are in
``results/``).  Everywhere else, and for few rows, this is ``torch.nn.functional.linear``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

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


class _OneDNNLinear(torch.autograd.Function):
    """y = x W^T + c;  gx = g W,  gW = g^T x,  gc = sum g."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y: Tensor = _onednn(x.contiguous(), weight, bias, "none", [], "")
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (g,) = grads
        x, weight = ctx.saved_tensors
        rows = g.flatten(0, -2)
        g_x = linear(g, weight.t()) if ctx.needs_input_grad[0] else None
        g_weight = rows.t() @ x.flatten(0, -2) if ctx.needs_input_grad[1] else None
        g_bias = rows.sum(0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return g_x, g_weight, g_bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``torch.nn.functional.linear``, differentiable to any order."""
    if (
        _onednn is None
        or torch.compiler.is_compiling()
        or x.device.type != "cpu"
        or x.dtype != torch.float32
        or weight.dtype != torch.float32
        or x.ndim < 2
        or x.numel() < FEW_ROWS * x.shape[-1]
        or torch.is_autocast_enabled("cpu")
    ):
        return functional.linear(x, weight, bias)
    y: Tensor = _OneDNNLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y
