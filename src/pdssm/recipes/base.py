"""What a recipe is: the cells of a table, each a config, its seeds and the paper's number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdssm.errors import check_choice
from pdssm.training import TrainConfig


@dataclass(frozen=True, eq=False)  # its config holds dictionaries: a cell is equal to itself only
class Cell:
    """One number of a table."""

    row: str
    """The model."""
    column: str
    """The task."""
    config: TrainConfig
    """With seed 0; other seeds differ in nothing else."""
    seeds: tuple[int, ...]
    """What ``pdssm reproduce`` runs."""
    paper: str | None
    """Percent, as printed; None where the paper has no number."""
    full: Mapping[str, Any] | None = None
    """What the paper's budget changes, where ours is smaller."""

    @property
    def name(self) -> str:
        """For files and ``--cells``."""
        plain = "".join(c if c.isalnum() else "-" for c in f"{self.row} {self.column}".lower())
        return "-".join(part for part in plain.split("-") if part)

    def with_seed(self, seed: int, full: bool = False) -> TrainConfig:
        """One run."""
        changes = self.full if full and self.full else {}
        return dataclasses.replace(self.config, **{"seed": seed, "threads": 1, **changes})


@dataclass(frozen=True)
class Recipe:
    """One table."""

    name: str
    title: str
    note: str
    """What a reader has to know beside the numbers."""
    cells: tuple[Cell, ...]
    full_seeds: tuple[int, ...]
    """The paper's seeds, for ``--full``."""
    lengths: tuple[int, ...]
    """Where each best model is measured in the end."""

    def find(self, name: str) -> Cell:
        """A cell by name."""
        check_choice("cell", name, [cell.name for cell in self.cells])
        return next(cell for cell in self.cells if cell.name == name)
