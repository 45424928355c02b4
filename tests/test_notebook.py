"""The notebooks run from top to bottom, and show what is stored in them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from benchmarks.notebook import DOCS, NOTEBOOKS, executed
from tests.test_docs import LINK

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def shown(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """What each code cell puts out: its figures' kinds, and its text without the numbers, which differ by machine."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [output.get("text") or " ".join(sorted(output.data)) for output in cell.outputs]
            cells.append([re.sub(r"\d+(\.\d+)?", "#", text) for text in texts])
    return cells


@every_notebook
def test_a_notebook_runs_and_shows_what_is_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = path.read_bytes()
    stored = nbformat.reads(before.decode(), as_version=4)
    run = executed(path)
    assert shown(run) == shown(stored)
    assert any("image/png" in text for cell in shown(run) for text in cell)
    counts = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert path.read_bytes() == before


def test_a_broken_cell_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1"), new_code_cell("assert x == 2, 'planted'")]), path)
    with pytest.raises(CellExecutionError, match="planted"):
        executed(path)


def test_another_output_is_noticed() -> None:
    stored = nbformat.read(NOTEBOOKS[0], as_version=4)
    changed = nbformat.read(NOTEBOOKS[0], as_version=4)
    cell = next(cell for cell in changed.cells if cell.get("outputs") and "->" in cell.outputs[0].get("text", ""))
    cell.outputs[0].text = cell.outputs[0].text.replace("->", "=>")
    assert shown(changed) != shown(stored)


@every_notebook
def test_links_lead_somewhere(path: Path) -> None:
    links = [
        link
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "markdown"
        for link in LINK.findall(cell.source)
    ]
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
