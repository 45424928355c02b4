"""The compiled kernels as citizens of a process: threads, forks, memory, arithmetic, the cache."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numba import njit
from torch import Tensor

from pdssm import PDSSM, SelectedPD, scan
from pdssm.kernels import buffers, reference
from pdssm.kernels.cpu import compiling, families, pool, recurrence, vector
from pdssm.kernels.linear import GELU, linear
from tests.factories import COMPILED, STRUCTURES, Draw, differentiable, real_loss


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def gradients(seed: int = 0, rows: bool = False, batch: int = 6) -> list[Tensor]:
    """States and all gradients of a problem that is large enough for several threads."""
    draw = Draw(seed, torch.complex64)
    shape = (5,) if rows else (batch, 40)
    leaves = [draw.reals(*shape, 4), draw.reals(4, 48, 48), draw(*shape, 48), draw(*shape, 48)]
    scores, dictionary, diag, inputs = (leaf.requires_grad_() for leaf in leaves)
    steps = draw.integers(5, batch, 40) if rows else None
    states, final = scan(SelectedPD(scores, dictionary, diag), inputs, rows=steps)
    return [states.detach(), *torch.autograd.grad(real_loss(states, final), leaves)]


def identical(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# -------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("team", ["openmp", "pool"])
def test_the_same_bits_on_any_number_of_threads(
    rows: bool, team: str, threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if team == "pool":
        monkeypatch.setattr(pool, "_team", pool._pool_team)
    torch.set_num_threads(1)
    expected = gradients(rows=rows)
    for count in (1, 2, 3, 2):
        torch.set_num_threads(count)
        assert identical(gradients(rows=rows), expected)


@pytest.mark.parametrize("name", COMPILED)
def test_every_family_on_threads(name: str, threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORTH_A_THREAD", 1)
    results = []
    for count in (1, 2):
        torch.set_num_threads(count)
        draw = Draw(0, torch.complex64)
        a = STRUCTURES[name](draw, (5, 20), 16)
        leaves = [*differentiable(a), draw(5, 20, 16).requires_grad_()]
        states, final = scan(a, leaves[-1])
        results.append([states.detach(), *torch.autograd.grad(real_loss(states, final), leaves)])
    assert identical(*results)


def test_the_number_of_threads_is_torchs(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    team = pool._team
    monkeypatch.setattr(pool, "_team", lambda body, count: (asked.append(count), team(body, count)))
    torch.set_num_threads(2)
    gradients()
    assert set(asked) == {2}
    torch.set_num_threads(1)
    asked.clear()
    gradients()
    assert not asked


def test_openmp_is_found() -> None:
    """On Linux torch brings an OpenMP runtime: the kernels share its workers."""
    assert pool._start_region is not None


@pytest.mark.parametrize("team", [pool._openmp_team, pool._pool_team])
def test_a_failure_in_a_worker_is_not_lost(team: pool.Team, monkeypatch: pytest.MonkeyPatch, threads: None) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(pool, "_team", team)

    def kernel(lo: int, hi: int) -> None:
        if lo <= 5 < hi:
            raise RuntimeError("task five")

    with pytest.raises(RuntimeError, match="task five"):
        pool.run(kernel, 16, 10**9)


def test_several_python_threads_at_once() -> None:
    expected = {seed: gradients(seed) for seed in range(4)}
    with ThreadPoolExecutor(4) as executor:
        for seed, got in zip(list(range(4)) * 4, executor.map(gradients, list(range(4)) * 4), strict=True):
            assert identical(got, expected[seed])


# ------------------------------------------------------------------------------------------------------ processes


def _in_child(queue: multiprocessing.Queue, forked: bool) -> None:  # type: ignore[type-arg]
    if forked:
        # Torch's own loops wait for ever in a child of a process that used its OpenMP workers, so a DataLoader
        # gives its workers one thread; ours is asked for two all the same.
        torch.set_num_threads(1)
        pool.torch = types.SimpleNamespace(get_num_threads=lambda: 2)  # type: ignore[attr-defined, assignment]
        assert pool._team is pool._pool_team
    queue.put([tensor.detach().numpy() for tensor in gradients()])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes(method: str) -> None:
    """Forked after the parent has used its threads (a DataLoader's workers), and spawned (DDP)."""
    expected = gradients()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue, method == "fork"))
    child.start()
    got = queue.get(timeout=120)
    child.join(30)
    assert child.exitcode == 0
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(got, expected, strict=True))


class _Dataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Runs the scan where the data is loaded."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, item: int) -> Tensor:
        return gradients(item)[0]


def test_data_loader_workers() -> None:
    loader = torch.utils.data.DataLoader(_Dataset(), batch_size=None, num_workers=2)
    for item, states in enumerate(loader):
        assert torch.equal(states, gradients(item)[0])


def test_import_is_light() -> None:
    """``import pdssm`` loads no Numba, and adds little to torch's own import."""
    code = (
        "import torch, time, sys; s = time.perf_counter(); import pdssm; "
        "print(time.perf_counter() - s, 'numba' in sys.modules)"
    )
    spent, numba = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert numba == "False"
    assert float(spent) < 1.0


def test_importing_and_compiling_leave_no_trace() -> None:
    """LLVM options and the environment are as the user set them."""
    before = dict(os.environ)
    gradients()
    assert dict(os.environ) == before


def test_a_changed_family_is_compiled_again(tmp_path: Path) -> None:
    """Numba itself would keep a loop whose own file is as it was."""
    source = tmp_path / "family.py"
    source.write_text("a = 1")
    before = compiling.stamp([source])
    assert compiling.stamp([source]) == before
    source.write_text("a = 2")
    assert compiling.stamp([source]) != before
    assert {path.name for path in families.SOURCES} >= {"blocks.py", "householder.py", "one_hot.py"}
    for loop in (recurrence.forward, recurrence.backward):
        assert loop._cache._cache_file._source_stamp[1] == compiling.stamp(families.SOURCES)


# --------------------------------------------------------------------------------------------------------- memory


def test_no_leak_over_a_thousand_calls() -> None:
    torch.manual_seed(0)
    layer, x = PDSSM(16, 16, 3), torch.randn(2, 20, 16)

    def calls(count: int) -> None:
        for _ in range(count):
            layer.zero_grad()
            layer(x).sum().backward()
        gc.collect()

    calls(200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024  # KiB; a leak of 8 KiB a call is seen


def real_empty() -> object:
    """``buffers.empty`` as it is without the tests' poison."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("fresh_buffers", buffers.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_buffers_are_recycled_only_when_free() -> None:
    module = real_empty()
    like = torch.zeros(1)
    first = module.empty((1 << 20,), like)  # type: ignore[attr-defined]
    address = first.data_ptr()
    assert address % 64 == 0
    view = first.view(1024, 1024)[3:]
    other = module.empty((1 << 20,), like)  # type: ignore[attr-defined]
    assert other.data_ptr() != address
    del first
    assert module.empty((1 << 20,), like).data_ptr() != address  # type: ignore[attr-defined]
    del view
    assert module.empty((1 << 20,), like).data_ptr() == address  # type: ignore[attr-defined]


def test_buffers_keep_a_bounded_amount() -> None:
    module = real_empty()
    module._KEPT = 256 << 20  # type: ignore[attr-defined]
    for size in range(1, 100):
        module.empty((size << 18,), torch.zeros(1))  # type: ignore[attr-defined]
    assert sum(array.nbytes for array in module._arrays) <= module._KEPT  # type: ignore[attr-defined]
    large = module.empty((80 << 20,), torch.zeros(1))  # type: ignore[attr-defined]
    assert large.numel() == 80 << 20
    assert all(array.nbytes < large.nbytes for array in module._arrays)  # type: ignore[attr-defined]


def test_results_survive_the_next_call() -> None:
    """Recycled memory never lies under a tensor that is still alive."""
    held = [gradients(seed, batch=60) for seed in range(3)]
    copies = [[tensor.clone() for tensor in tensors] for tensors in held]
    for seed in range(3, 6):
        gradients(seed, batch=60)
    assert all(identical(a, b) for a, b in zip(held, copies, strict=True))


def test_recycled_memory_across_threads() -> None:
    module = real_empty()
    failures: list[str] = []

    def work(value: int) -> None:
        for _ in range(200):
            tensor = module.empty((1 << 18,), torch.zeros(1))  # type: ignore[attr-defined]
            tensor.fill_(value)
            if not bool((tensor == value).all()):
                failures.append("two owners")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


# ----------------------------------------------------------------------------------------------------- arithmetic


@njit
def _exp2(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(0, x.shape[0], vector.LANES):
        vector.store(out, (i,), vector.exp2_negative(vector.load(x, (i,))))


@pytest.mark.parametrize(("dtype", "tolerance", "lowest"), [(np.float32, 4e-7, -126), (np.float64, 4e-16, -1022)])
def test_exponential(dtype: type, tolerance: float, lowest: int) -> None:
    x = np.linspace(lowest, 0, 1 << 16).astype(dtype)
    out = np.empty_like(x)
    _exp2(x, out)
    assert np.abs(out / np.exp2(x.astype(np.longdouble)) - 1).max() < tolerance
    edge = np.array([np.nan, -np.inf, 1e-7, lowest * 2.0] + [0] * 12, dtype)
    out = np.empty_like(edge)
    _exp2(edge, out)
    assert np.isnan(out[0])
    assert out[1] == out[3]
    assert float(out[1]) == pytest.approx(2.0**lowest, rel=tolerance, abs=0)
    assert out[2] == pytest.approx(1)


@njit
def _noise(key: np.uint32, out: np.ndarray) -> None:
    for a in range(out.shape[0]):
        for b in range(0, out.shape[1], vector.LANES):
            vector.store(out, (a, b), vector.gumbel(vector.splat(out.dtype.type(0)), key, a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_noise_is_the_references(dtype: type) -> None:
    key = int(reference.noise_keys(99, 3)[2])
    out = np.empty((48, 48), dtype)
    _noise(key, out)
    expected = reference.gumbel(torch.tensor([key]), 48, torch.float64)[0].numpy()
    assert np.abs(out - expected).max() < (2e-6 if dtype is np.float32 else 1e-14)


@pytest.mark.parametrize("rows", [1, 63, 64, 500, 5000])  # the last one's result lies in recycled memory
@pytest.mark.parametrize("bias", [False, True])
def test_linear_is_torchs(rows: int, bias: bool) -> None:
    draw = Draw(0, torch.float32)
    tensors = [draw(2, rows, 24), draw(40, 24), *([draw(40)] if bias else [])]
    leaves = [tensor.requires_grad_() for tensor in tensors]
    got, expected = linear(*leaves), torch.nn.functional.linear(*leaves)
    torch.testing.assert_close(got, expected)
    weights = torch.cos(torch.arange(got.numel())).view_as(got)
    ours = torch.autograd.grad((got**2 * weights).sum(), leaves, create_graph=True)
    theirs = torch.autograd.grad((expected**2 * weights).sum(), leaves, create_graph=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    second = [torch.autograd.grad(sum(g.sum() for g in grads), leaves[1])[0] for grads in (ours, theirs)]
    torch.testing.assert_close(*second, rtol=1e-4, atol=1e-3 * max(1, rows / 500))


@pytest.mark.parametrize("rows", [1, 1 << 19])
def test_gelu_is_torchs(rows: int) -> None:
    x = torch.randn(rows, 1, generator=torch.Generator().manual_seed(0)).requires_grad_()
    got, expected = GELU()(x), torch.nn.functional.gelu(x)
    assert torch.equal(got, expected)
    ours, theirs = (torch.autograd.grad((y**2).sum(), x, create_graph=True)[0] for y in (got, expected))
    assert torch.equal(ours, theirs)
    assert torch.equal(*(torch.autograd.grad((g**2).sum(), x)[0] for g in (ours, theirs)))
    plain = torch.autograd.grad(GELU()(x).sum(), x)[0]
    assert torch.equal(plain, torch.autograd.grad(torch.nn.functional.gelu(x).sum(), x)[0])


@pytest.mark.parametrize(("shape", "calls"), [((5, 7, 3), 9), ((9, 3), 3), ((7, 3), 1)])
def test_by_tiles_is_the_function_itself(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], calls: int) -> None:
    """A last tile that is not full, results of other widths, and too few rows for tiles of four."""
    monkeypatch.setattr(buffers, "_TILE", 12)
    called = []

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        called.append(x.shape)
        return torch.complex(x, y), torch.cat((x * y, x), -1)

    x, y = torch.randn(shape), torch.randn(shape)
    got = buffers.by_tiles(function, x, y)
    assert len(called) == calls
    for value, expected in zip(got, function(x, y), strict=True):
        assert torch.equal(value, expected)
