"""Run the notebooks of docs/ and store what they show: ``python -m benchmarks.notebook``."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


def executed(path: Path, seconds: int = 300) -> NotebookNode:
    """The notebook after a run in a fresh kernel; ``nbclient.exceptions.CellExecutionError`` where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=seconds, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}},
        record_timing=False, coalesce_streams=True,
    )  # fmt: skip
    client.execute()
    notebook.metadata.language_info = {"name": "python"}  # not the version that happened to run it
    return notebook


def main() -> None:
    """Run and write them all."""
    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
        print(f"wrote docs/{path.name}")


if __name__ == "__main__":
    main()
