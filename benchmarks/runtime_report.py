"""What the runtime study says: ratios beside the paper's, goals, and the lines that are printed and stored."""

from __future__ import annotations

from typing import Any

from benchmarks.command import Figure
from benchmarks.runtime_cells import Cell, Party
from benchmarks.runtime_fit import Exponents
from benchmarks.runtime_paper import COMPARED, HALF, REPORTED, SETTINGS, parameters


def ratios(cells: list[Cell]) -> list[dict[str, Any]]:
    """Of every setting, width and length, beside the paper's where it prints one."""
    found = []
    for setting in SETTINGS:
        for cell in cells:
            for pair in COMPARED:
                if not all(family in setting.sizes for family in pair):
                    continue
                row: dict[str, Any] = {"setting": setting.name, "D": cell.dim, "L": cell.length}
                row["ratio"] = f"{pair[0]} / {pair[1]}"
                for algorithm in ("associative", "best"):
                    sides = [Party(family, setting.sizes[family](cell.dim), algorithm) for family in pair]
                    if all(side in cell.seconds for side in sides):
                        row[algorithm] = cell.seconds[sides[0]] / cell.seconds[sides[1]]
                row["paper"] = REPORTED.get((setting.name, cell.dim, cell.length, pair))
                if "best" in row or "associative" in row:
                    found.append(row)
    return found


def figures(cells: list[Cell], on_cpu: bool) -> list[Figure]:
    """The study's goals, which are set for a CPU; reported elsewhere."""
    found = []
    pd, dense = Party("pd", 1024, "best"), Party("dense", 2048, "best")
    for cell in cells:
        if (cell.dim, cell.length) == (2048, 64):
            for opponent, must in ((dense._replace(algorithm="associative"), 100), (dense, 8)):
                if pd in cell.seconds and opponent in cell.seconds:
                    found.append(_faster(cell, pd, opponent, must, on_cpu))
    worst = _worst_price(cells)
    if worst:
        ratio, cell, pd, diagonal = worst
        found.append(
            Figure(
                "PD forward / diagonal forward, the worst", f"D=2N={cell.dim}, L={cell.length}",
                "at most 3" if on_cpu else "reported", "2" if on_cpu else "", f"{ratio:.2f}", ratio,
                ratio <= 3 if on_cpu else None,
                {"pd": cell.seconds[pd], "diagonal": cell.seconds[diagonal]},
            )
        )  # fmt: skip
    return found


def _faster(cell: Cell, pd: Party, opponent: Party, must: float, on_cpu: bool) -> Figure:
    ratio = cell.seconds[opponent] / cell.seconds[pd]
    scan = "associative scan" if opponent.algorithm == "associative" else "its best algorithm"
    return Figure(
        f"PD forward vs dense by {scan}", f"D=2N={cell.dim}, L={cell.length}",
        f"{must:g}x faster" if on_cpu else "reported", "", f"{ratio:.1f}x faster", ratio,
        ratio >= must if on_cpu else None,
        {"pd": cell.seconds[pd], "dense": cell.seconds[opponent]},
    )  # fmt: skip


def _worst_price(cells: list[Cell]) -> tuple[float, Cell, Party, Party] | None:
    """The largest pd / diagonal with D = 2N, both by their best algorithm."""
    prices = []
    for cell in cells:
        pd, diagonal = (Party(family, HALF.sizes[family](cell.dim), "best") for family in ("pd", "diagonal"))
        if pd in cell.seconds and diagonal in cell.seconds:
            prices.append((cell.seconds[pd] / cell.seconds[diagonal], cell, pd, diagonal))
    return max(prices, key=lambda price: price[0], default=None)


def report(cell: Cell) -> str:
    """A cell in a few lines."""
    lines = [f"D={cell.dim} L={cell.length}"]
    lines += [
        f"  {party!s:34s} {1e3 * spent:10.2f} ms  ({cell.calls[party]} calls)" for party, spent in cell.seconds.items()
    ]
    return "\n".join(lines + [f"  {party!s:34s} skipped, {why}" for party, why in cell.skipped.items()])


def report_ratios(rows: list[dict[str, Any]], everything: bool = False) -> str:
    """The ratios beside the paper's; ``everything`` also where the paper has none."""
    lines = [f"{'ratio':18s} {'setting':36s} {'D':>5s} {'L':>4s} {'associative':>12s} {'best':>8s} {'paper':>7s}"]
    for row in rows:
        if row["paper"] is None and not everything:
            continue
        numbers = [f"{row[key]:.2f}" if row.get(key) else "-" for key in ("associative", "best", "paper")]
        lines.append(
            f"{row['ratio']:18s} {row['setting']:36s} {row['D']:5d} {row['L']:4d} "
            f"{numbers[0]:>12s} {numbers[1]:>8s} {numbers[2]:>7s}"
        )
    return "\n".join(lines)


def report_exponents(found: list[Exponents]) -> str:
    """Table 1's cost column."""
    return "\n".join(
        f"{each.family:18s} {each.algorithm:12s} L^{each.a:.2f} N^{each.b:.2f}   expected L^{each.expected[0]} "
        f"N^{each.expected[1]}   R^2 {each.r_squared:.3f}"
        for each in found
    )


def as_stored(cells: list[Cell]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The measured and the skipped parties, a line each."""

    def line(cell: Cell, party: Party) -> dict[str, Any]:
        return {"D": cell.dim, "L": cell.length, "family": party.family, "N": party.size, "algorithm": party.algorithm}

    measured = [
        line(cell, party)
        | {
            "seconds": spent,
            "calls": cell.calls[party],
            "parameters": parameters(party.family, cell.dim, party.size),
        }
        for cell in cells
        for party, spent in cell.seconds.items()
    ]
    skipped = [line(cell, party) | {"why": why} for cell in cells for party, why in cell.skipped.items()]
    return measured, skipped
