"""The blocks that pages in docs/ show of the measurements: what they say, and that nothing else can stand there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import limits, sections, tables
from benchmarks.markdown import Result

MACHINE = {"cpu": "a CPU", "cores": 2, "threads": 2, "python": "3", "torch": "2", "commit": "abc1234", "date": "today"}


def figure(what: str, at: str, value: float, **seconds: float) -> Result:
    return {"what": what, "at": at, "value": value, "measured": f"{value} us/token", "seconds": seconds}


def a_run(row: str, task: str, seed: int, accuracy: float | None, steps: int, far: float | None) -> Result:
    found: Result = {"row": row, "column": task, "seed": seed, "best_accuracy": accuracy, "steps": steps}
    found |= {"commits": ["0123456789"], "reason": "reached" if accuracy else "nan"}
    return found if far is None else found | {"by_length": {"1000": {"accuracy": far}, "10000": {"accuracy": far / 2}}}


def ratio(setting: str, pair: str, dim: int, length: int, best: float) -> Result:
    return {"setting": setting, "ratio": pair, "D": dim, "L": length, "best": best, "paper": None}


STORED: dict[str, Any] = {
    "layer.json": {
        "machine": MACHINE, "quick": True,
        "figures": [
            figure("train step, PD-SSM", "cpu, B=2", 6.0), figure("train step, LSTM", "cpu, B=2", 4.0),
            figure("train step, complex diagonal", "cuda, B=2", 1.0),  # another device: no ratio with this one
            figure("streaming step, PD-SSM", "cpu", 90.0, bytes=1024),
            figure("streaming step, LSTM", "cpu", 30.0, bytes=512),
        ],
    },
    "layer_gpu.json": {
        "machine": MACHINE | {"gpu": "a GPU"}, "quick": False,
        "figures": [figure("train step, PD-SSM", "cuda, B=8", 5.0), figure("train step, LSTM", "cuda, B=8", 0.5)],
    },
    "runtime.json": {
        "machine": MACHINE, "quick": False,
        "ratios": [
            *(ratio("equal state size", "pd / diagonal", dim, length, dim / length)
              for dim in (128, 256) for length in (64, 128, 512)),
            ratio("precomputed P", "pd / given", 256, 64, 1.5), ratio("precomputed P", "pd / diagonal", 256, 64, 77.0),
        ],
    },
    "kernels.json": {
        "machine": MACHINE, "quick": False,
        "figures": [figure("PD with rows vs lstm", "B=1", 2.0), figure("PD step vs published", "B=1", 50.0)],
    },
    "table2b/one-seed0.json": a_run("PD-SSM", "A5:2", 0, 1.0, 500, 0.9),
    "table2b/one-seed1.json": a_run("PD-SSM", "A5:2", 1, 0.5, 2000, 0.1),
    "table2b/two-seed0.json": a_run("complex diagonal", "A5:2", 0, None, 7, None),
    "recall.json": {
        "machine": MACHINE, "quick": False, "chance": 0.0625,
        "layers": [{"layer": "LSTM", "steps": 2000, "batch": 64, "accuracy": {"2": 1.0, "64": 0.25}}],
    },
    "starts.json": {
        "machine": MACHINE, "task": "A5:2", "budget": 4000,
        "runs": [
            a_run("near_one, shrink", "A5:2", 0, 0.9999, 750, 0.8)
            | {"median_distance_from_1": 3e-4, "largest_phase": 0.25, "phases_at_0": 0.5},
            a_run("near_one, shrink", "A5:2", 1, None, 9, None),
        ],
    },
}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name, content in STORED.items():
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return tmp_path / "results"


SAYS: dict[str, tuple[str, ...]] = {
    "train_cost": (
        "| time of PD-SSM over that of | on cpu, B=2 | on cuda, B=8 |",
        "| LSTM | 1.5x | 10x |",
        "`results/layer.json` (a CPU, 2 threads, commit `abc1234`, a quick run); ",
        "`results/layer_gpu.json` (a GPU beside a CPU, 2 threads, commit",
    ),
    "streaming_cost": ("| LSTM | 3x |", "| PD-SSM | 1,024 |", "| LSTM | 512 |"),
    "width_cost": (
        "| on a | time of | length | N = 128 | N = 256 |",
        "| CPU | PD / diagonal | 64 | 2x | 4x |",
        "| CPU | PD / diagonal | 512 | 0.25x | 0.5x |",
        "| CPU | PD / PD with P given | 64 |  | 1.5x |",
    ),
    "learnt": (
        "| PD-SSM | A5:2 | 2 | 1 | 500 to 2,000 | 50.00 to 100.00 | 10.0 to 90.0 | 5.0 to 45.0 |",
        "| complex diagonal | A5:2 | 1 | 1 | 7 | 0.00 |  |  |",
        "(3 runs, commits `0123456`;",
    ),
    "recall": (
        "| one layer of | 2 pairs | 64 pairs |", "| LSTM | 100.0 | 25.0 |",
        "after 2,000 steps of 64 sequences, one seed; chance is 6.2. From `results/recall.json` (a CPU,",
    ),
    "on_tokens": ("| PD with rows vs lstm | B=1 | 2.0 us/token |",),
    "starts": (
        "| near_one, shrink | 750 / not reached | 99.99 / no value | no value / no value | 80.0 / no value |",
        "| 0.0003 / no value | 50 % / no value | 0.2 / no value |",
    ),
}  # fmt: skip
SILENT = {"train_cost": "complex diagonal", "width_cost": "128 |  |", "on_tokens": "published", "learnt": "nan"}


@pytest.mark.parametrize("name", limits.BLOCKS)
def test_a_block_says_what_was_measured(results: Path, name: str) -> None:
    text = limits.BLOCKS[name](results)
    assert [line for line in SAYS[name] if line not in text] == []
    assert name not in SILENT or SILENT[name] not in text


@pytest.mark.parametrize("name", limits.BLOCKS)
def test_of_nothing_a_block_says_nothing(tmp_path: Path, name: str) -> None:
    assert limits.BLOCKS[name](tmp_path) == ""


def test_the_section_of_starts(results: Path) -> None:
    text = sections.starts(json.loads((results / "starts.json").read_text()))
    assert "The word problem A5:2 with the `group` preset, at most 4,000 steps" in text


# ------------------------------------------------------------------------------------------------------- the pages


def page(results: Path, text: str) -> str:
    return tables.with_measurements(Path("page.md"), text, results)


def test_a_page_is_written_anew_between_its_markers(results: Path, tmp_path: Path) -> None:
    blocks = (f"<!-- measured: {name} -->\n<!-- measured: end -->" for name in ("on_tokens", "learnt"))
    bare = f"before\n{next(blocks)}\nafter\n{next(blocks)}"
    once = page(results, bare)
    assert once.startswith("before\n<!-- measured: on_tokens -->\n\n| what |")
    assert "\nafter\n" in once
    assert page(results, once) == once
    assert page(results, once.replace("2.0 us", "9.0 us")) == once  # a figure typed by hand is gone
    assert page(tmp_path / "nothing", once) == bare


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- measured: on_tokens -->\n", "has an unpaired marker"),
        ("<!-- measured: end -->\n", "has an unpaired marker"),
        ("<!-- measured: on_tokens -->\n<!-- measured: learnt -->\n<!-- measured: end -->", "has an unpaired marker"),
        ("<!-- measured: speed -->\n<!-- measured: end -->", "asks for the block 'speed'; expected one of"),
    ],
)
def test_a_wrong_marker_is_named(results: Path, text: str, message: str) -> None:
    with pytest.raises(SystemExit, match=f"page.md {message}"):
        page(results, text)


def test_pages_with_markers_are_among_the_documents() -> None:
    found = {path.name for path in tables.documents(tables.ROOT)}
    assert {"README.md", "results.md", "when_not_to_use.md"} <= found
    assert "one_datum.md" not in found
