"""A drawing through matplotlib: PNG for slides, PDF for papers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pdssm.report.drawing import Circle, Curve, Dots, Drawing, Group, Shape, Text
from pdssm.report.style import PALETTE, STYLES, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS_A_UNIT = 0.75
"""A drawing's unit is a CSS pixel, 1/96 inch; a point is 1/72."""


def rendered(drawing: Drawing, kind: str, dpi: int = 192) -> bytes:
    """As ``"png"`` or ``"pdf"``, in the light colours; the same drawing gives the same bytes."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(drawing.width / 96, drawing.height / 96), facecolor=PALETTE["panel"][0])
    axes = sheet.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0), aspect="equal")
    axes.axis("off")
    for order, shape in enumerate(_flat(drawing.shapes)):
        _draw(axes, shape, order)
    content = io.BytesIO()
    sheet.savefig(content, format=kind, dpi=dpi, metadata={"CreationDate": None} if kind == "pdf" else None)
    return content.getvalue()


def _flat(shapes: Iterable[Shape]) -> Iterator[Curve | Circle | Dots | Text]:
    for shape in shapes:
        if isinstance(shape, Group):
            yield from _flat(shape.shapes)
        else:
            yield shape


def _draw(axes: Axes, shape: Curve | Circle | Dots | Text, order: int) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle as Disc
    from matplotlib.patches import PathPatch

    for name in shape.style.split():
        style = STYLES[name]
        match shape:
            case Curve():
                axes.add_patch(PathPatch(_path(shape), zorder=order, **_paint(style)))
            case Circle(centre, radius, _):
                axes.add_patch(Disc(centre, radius, zorder=order, **_paint(style)))
            case Dots(centres, radius, _):
                discs = [Disc(centre, radius) for centre in centres]
                axes.add_collection(PatchCollection(discs, zorder=order, **_paint(style)))
            case Text():
                _write(axes, shape, style, order)


def _write(axes: Axes, shape: Text, style: Style, order: int) -> None:
    from matplotlib.patheffects import Normal, Stroke

    written = axes.text(
        *shape.at,
        shape.text,
        ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
        va="center",
        rotation=90 if shape.turned else 0,
        rotation_mode="anchor",
        fontsize=style.size * POINTS_A_UNIT,
        fontweight="bold" if style.bold else "normal",
        color=PALETTE[style.fill or "ink"][0],
        zorder=order,
        parse_math=False,
    )
    if style.halo:
        written.set_path_effects([Stroke(linewidth=3 * POINTS_A_UNIT, foreground=PALETTE["panel"][0]), Normal()])


def _path(curve: Curve) -> Any:
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, "Z": Path.CLOSEPOLY}
    vertices = [point for _, points in curve.moves for point in points or ((0.0, 0.0),)]
    return Path(vertices, [codes[op] for op, points in curve.moves for _ in points or (None,)])


def _paint(style: Style) -> dict[str, Any]:
    return {
        "facecolor": "none" if style.fill is None else PALETTE[style.fill][0],
        "edgecolor": "none" if style.stroke is None else PALETTE[style.stroke][0],
        "linewidth": style.width * POINTS_A_UNIT if style.stroke else 0,
        "linestyle": (0, tuple(part / style.width for part in style.dash)) if style.dash else "solid",
        "capstyle": "round",
        "alpha": style.opacity,
    }
