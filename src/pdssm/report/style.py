"""Colours and strokes of the drawings, said once: the page's style sheet, SVG files and matplotlib all read them."""

from __future__ import annotations

from dataclasses import dataclass

PALETTE: dict[str, tuple[str, str]] = {
    # name: (on a light page, on a dark page); text has a contrast of at least 4.5, everything else of at least 3
    "paper": ("#fdfdfb", "#14161a"),
    "panel": ("#ffffff", "#1b1e24"),
    "ink": ("#1d2127", "#e9e7e2"),
    "muted": ("#596170", "#a6abb5"),
    "grid": ("#e3e4e1", "#2d3138"),
    "axis": ("#838993", "#7a818c"),
    "good": ("#1d7348", "#63c593"),
    "bad": ("#b3261e", "#f28b82"),
    "open": ("#855700", "#e3b453"),
    "c0": ("#2a6db0", "#78b0f2"),
    "c1": ("#b5501a", "#f29c5e"),
    "c2": ("#22805a", "#60c79d"),
    "c3": ("#9a3f8d", "#db90d3"),
    "c4": ("#866a00", "#dcbd42"),
    "c5": ("#187a8e", "#60c7da"),
    "c6": ("#b0395b", "#f28eaa"),
    "c7": ("#5b55b8", "#aaa4f7"),
}
SERIES = tuple(f"c{number}" for number in range(8))
ARROWS = {**{name: name for name in SERIES}, "many": "muted"}


@dataclass(frozen=True)
class Style:
    """How a shape is painted; colours are names of the palette."""

    fill: str | None = None
    stroke: str | None = None
    width: float = 1
    dash: tuple[float, ...] = ()
    size: float = 11
    """Of text."""
    bold: bool = False
    opacity: float = 1
    halo: bool = False
    """Of the background's colour around text that stands among lines."""


STYLES: dict[str, Style] = {
    "frame": Style(stroke="axis"),
    "grid": Style(stroke="grid"),
    "limit": Style(stroke="muted", width=1.2, dash=(4, 3)),
    "chance": Style(stroke="axis", width=1, dash=(1, 3)),
    "text": Style(fill="ink"),
    "small": Style(fill="ink", size=9),
    "note": Style(fill="muted"),
    "heading": Style(fill="ink", size=12, bold=True),
    "node": Style(fill="panel", stroke="ink", width=1.2),
    "ring": Style(stroke="ink", width=1),
    "start": Style(stroke="ink", width=1.4),
    "start-head": Style(fill="ink"),
    "wrong": Style(stroke="bad", width=5),
    "wrong-ring": Style(stroke="bad", width=3),
    **{f"{name}-edge": Style(stroke=colour, width=1.3) for name, colour in ARROWS.items()},
    **{f"{name}-faint": Style(stroke=colour, width=0.8, opacity=0.4) for name, colour in ARROWS.items()},
    **{f"{name}-faint-head": Style(fill=colour, opacity=0.4) for name, colour in ARROWS.items()},
    **{f"{name}-head": Style(fill=colour) for name, colour in ARROWS.items()},
    **{f"{name}-label": Style(fill=colour, bold=True, halo=True) for name, colour in ARROWS.items()},
    **{f"{name}-line": Style(stroke=name, width=1.8) for name in SERIES},
    **{f"{name}-dashed": Style(stroke=name, width=1.8, dash=(6, 3)) for name in SERIES},
    **{f"{name}-dot": Style(fill=name) for name in SERIES},
    **{f"{name}-text": Style(fill=name, bold=True) for name in SERIES},
}


def series(number: int) -> str:
    """The colour of a number of a series; after eight they come again."""
    return SERIES[number % len(SERIES)]


def variables() -> str:
    """The palette as custom properties that follow the page's colour scheme."""
    lines = (f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in PALETTE.items())
    return ":root {\n" + "\n".join(lines) + "\n}\n"


def rules(*, themed: bool) -> str:
    """One CSS rule a style: with the page's custom properties, or with the light colours themselves."""

    def colour(name: str | None) -> str:
        return "none" if name is None else f"var(--{name})" if themed else PALETTE[name][0]

    lines = []
    for name, style in STYLES.items():
        parts = [f"fill:{colour(style.fill)}", f"stroke:{colour(style.stroke)}"]
        if style.stroke:
            parts += [f"stroke-width:{style.width:g}", "stroke-linecap:round"]
        if style.dash:
            parts.append(f"stroke-dasharray:{' '.join(f'{length:g}' for length in style.dash)}")
        if style.fill and not style.stroke:
            parts.append(f"font-size:{style.size:g}px")
        if style.bold:
            parts.append("font-weight:600")
        if style.opacity < 1:
            parts.append(f"opacity:{style.opacity:g}")
        if style.halo:
            parts += [f"stroke:{colour('panel')}", "stroke-width:3px", "stroke-linejoin:round", "paint-order:stroke"]
        lines.append(f".d-{name}{{{';'.join(parts)}}}")
    return "\n".join(lines) + "\n"
