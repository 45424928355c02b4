"""What every test runs under."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

from pdssm.kernels import buffers

settings.register_profile("default", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


def poisoned_empty(shape: tuple[int, ...], like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """``buffers.empty`` full of NaN (integers: of a number far out of range)."""
    dtype = dtype or like.dtype
    fill = float("nan") if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max
    return torch.full(shape, fill, dtype=dtype, device=like.device)


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninitialised buffers are full of NaN: what a kernel forgets to write is seen."""
    import pdssm.kernels.cpu.chunked
    import pdssm.kernels.cpu.convolution
    import pdssm.kernels.cpu.loops
    import pdssm.kernels.cpu.reading
    import pdssm.kernels.cpu.selecting

    cpu = pdssm.kernels.cpu
    for module in (cpu, cpu.convolution, cpu.loops, cpu.reading, cpu.selecting, cpu.chunked, buffers):
        monkeypatch.setattr(module, "empty", poisoned_empty)
