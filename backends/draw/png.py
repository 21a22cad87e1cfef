"""Picture → PNG: the SVG in pixels, with a font of our own, so that it is the same on every machine."""

from __future__ import annotations

from importlib.resources import as_file, files

from ...grammar.diagnostics import error
from . import svg
from .layout import lay_out
from .look import USUAL_LOOK, Look
from .picture import Picture

FONT = "DejaVu Sans Mono"
PIXELS = 120_000_000


def write(picture: Picture, look: Look = USUAL_LOOK) -> bytes:
    """The picture in pixels, `scale` to each point of the SVG; the theme auto is light.

    Raises `TransformulaError` where resvg-py is not installed, and for more pixels than anybody looks at.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise error(
            "C660", "a PNG needs resvg-py, which is not installed", help="pip install 'transformula[png]'"
        ) from None
    theme = "light" if look.theme == "auto" else look.theme
    layout = lay_out(picture, look.right)
    pixels = layout.width * layout.height * look.scale**2
    if not 0 < pixels <= PIXELS:
        raise error(
            "C661",
            f"a PNG of {layout.width * look.scale:,.0f} × {layout.height * look.scale:,.0f} pixels is too large",
            help="Close blocks with --depth, make it smaller with --scale, or write an SVG.",
        )
    with as_file(files(__package__) / "fonts") as fonts:
        made = svg_to_bytes(
            svg_string=svg.painted(picture, layout, theme),
            zoom=look.scale,
            skip_system_fonts=True,
            font_files=[str(path) for path in sorted(fonts.glob("*.ttf"))],
            font_family=FONT,
            monospace_family=FONT,
        )
    return bytes(made)
