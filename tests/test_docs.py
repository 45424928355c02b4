"""The documents: every Python block runs, every figure is what results/ says, every link leads somewhere."""

from __future__ import annotations

import json
import re
import sys
import traceback
from pathlib import Path

import pytest
import torch

from benchmarks import tables

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def execute(document: Path) -> int:
    """Run a document's Python blocks, in order and in one namespace; the number of them."""
    text = document.read_text()
    namespace: dict[str, object] = {"__name__": document.stem}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        before = text.count("\n", 0, block.start(1))  # so that an error names the document's line
        code = compile("\n" * before + block.group(1), str(document), "exec", dont_inherit=True)
        exec(code, namespace)
    return len(blocks)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        execute(document)


def test_the_blocks_are_found() -> None:
    found = {path.name: len(BLOCK.findall(path.read_text())) for path in DOCUMENTS}
    fences = {path.name: path.read_text().count("```python") for path in DOCUMENTS}
    assert found == fences
    assert min(found[name] for name in ("README.md", "one_datum.md", "adding_a_structure.md")) >= 3


@pytest.mark.parametrize("planted", ["assert one + one == 3", "one + undefined"])
def test_a_broken_block_is_noticed(planted: str, tmp_path: Path) -> None:
    document = tmp_path / "broken.md"
    document.write_text(f"# Broken\n\n```python\none = 1\n```\n\nand\n\n```python\n{planted}\n```\n")
    with pytest.raises((AssertionError, NameError)) as caught:
        execute(document)
    where = traceback.extract_tb(caught.tb)[-1]
    assert (where.filename, where.lineno) == (str(document), 10)


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    missing = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert not missing


# ----------------------------------------------------------------------------------------------------- figures


def run_tables(monkeypatch: pytest.MonkeyPatch, root: Path, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["tables", "--root", str(root), *options])
    tables.main()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small one with one result, and its documents made."""
    figure = {
        "what": "PD step vs snail",
        "at": "B=1",
        "must": "2x faster",
        "aim": "3x",
        "measured": "2.5x faster",
        "value": 2.5,
        "met": True,
        "seconds": {"pdssm": 0.01, "snail": 0.025},
    }
    machine = dict.fromkeys(("cpu", "cores", "threads", "python", "torch", "commit", "date"), "some")
    result = {"machine": machine, "quick": False, "opponents": {"snail": "slow"}, "figures": [figure]}
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "kernels.json").write_text(json.dumps(result))
    (tmp_path / "README.md").write_text(f"before\n\n{tables.BEGIN}\n\n{tables.END}\n\nafter\n")
    run_tables(monkeypatch, tmp_path)
    return tmp_path


def test_the_figures_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    run_tables(monkeypatch, ROOT, "--check")


def test_the_tables_say_what_was_measured(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme, page = (repository / "README.md").read_text(), (repository / "docs" / "results.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith("after\n")
    assert "| PD step vs snail | B=1 | 2.5x faster |" in readme
    assert "pdssm 10 ms, snail 25 ms" in page
    run_tables(monkeypatch, repository, "--check")


@pytest.mark.parametrize("name", ["README.md", "docs/results.md"])
def test_a_figure_typed_by_hand_is_noticed(repository: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    document = repository / name
    document.write_text(document.read_text().replace("2.5x", "9.5x"))
    with pytest.raises(SystemExit, match=f"out of date: {name}"):
        run_tables(monkeypatch, repository, "--check")


def test_a_new_result_is_noticed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = repository / "results" / "kernels.json"
    stored.write_text(stored.read_text().replace("2.5x faster", "2.6x faster"))
    with pytest.raises(SystemExit, match=r"out of date: README\.md, docs/results\.md"):
        run_tables(monkeypatch, repository, "--check")


def test_a_missing_marker_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "README.md").write_text("no markers")
    with pytest.raises(SystemExit, match="must contain each of these markers once"):
        run_tables(monkeypatch, repository)
