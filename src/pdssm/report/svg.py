"""A drawing as SVG: inside a page, whose style sheet paints it, or as a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pdssm.report.drawing import Circle, Curve, Dots, Drawing, Group, Point, Shape, Text
from pdssm.report.style import PALETTE, rules

FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"


def svg(drawing: Drawing) -> str:
    """For a page."""
    width, height = number(drawing.width), number(drawing.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    inside = "".join(element(shape) for shape in drawing.shapes)
    return f'<svg class="drawing" role="img" aria-label="{escape(drawing.title)}" {size}>{inside}</svg>'


def standalone(drawing: Drawing) -> str:
    """A file, in the light colours."""
    size = f"{number(drawing.width)} {number(drawing.height)}"
    width, height = size.split()
    inside = "\n".join(element(shape) for shape in drawing.shapes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {size}">\n'
        f"<title>{escape(drawing.title)}</title>\n"
        f"<style>\ntext{{{FONT}}}\n{rules(themed=False)}</style>\n"
        f'<rect width="100%" height="100%" fill="{PALETTE["panel"][0]}"/>\n'
        f"{inside}\n</svg>\n"
    )


def number(value: float) -> str:
    """Two digits after the point, and none where they are zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(shape: Shape) -> str:
    """One shape, with what it holds."""
    match shape:
        case Curve(moves, style):
            path = "".join(op + " ".join(_pair(point) for point in points) for op, points in moves)
            return f'<path class="{_classes(style)}" d="{path}"/>'
        case Circle((x, y), radius, style):
            place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
            return f'<circle class="{_classes(style)}" {place}/>'
        case Dots(centres, radius, style):
            return f'<path class="{_classes(style)}" d="{"".join(_dots(centres, radius))}"/>'
        case Text():
            return _text(shape)
        case Group(shapes, data, title):
            attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
            shown = f"<title>{escape(title)}</title>" if title else ""
            return f"<g{attributes}>{shown}{''.join(element(inner) for inner in shapes)}</g>"


def _text(shape: Text) -> str:
    x, y = shape.at
    turn = f' transform="rotate(-90 {number(x)} {number(y)})"' if shape.turned else ""
    place = f'x="{number(x)}" y="{number(y)}" dy="0.35em" text-anchor="{shape.anchor}"{turn}'
    return f'<text class="{_classes(shape.style)}" {place}>{escape(shape.text)}</text>'


def _pair(point: Point) -> str:
    return f"{number(point[0])} {number(point[1])}"


def _dots(centres: tuple[Point, ...], radius: float) -> Iterator[str]:
    r, across = number(radius), number(2 * radius)
    for x, y in centres:
        yield f"M{number(x - radius)} {number(y)}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z"


def _classes(style: str) -> str:
    return " ".join(f"d-{name}" for name in style.split())
