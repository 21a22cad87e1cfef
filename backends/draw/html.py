"""A compiled model → the inspector: one page with all stages, the spec, the generated modules and the ledger.

The page holds one JSON text and draws it with our own scripts, layout included. Both are packed (zlib, base64: a third
of their size), so no text of a spec stands in the page as it is. It asks for nothing: no other file, no network, and
its Content-Security-Policy allows the scripts and the style that it came with, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup

from ...compiler.driver import Compiled
from ...compiler.sizes import USUAL, Sizes
from ...grammar.diagnostics import error
from ..pages import page_template
from .inspecting import inspected
from .look import USUAL_LOOK, Look
from .palette import DARK, LIGHT

SCRIPTS = ("layers", "model", "paint", "panels", "inspector")
"""In this order they are one script."""

INK = {  # name -> in the light, in the dark
    "paper": ("#ffffff", "#0d1117"),
    "soft": ("#f3f5f9", "#171e29"),
    "ink": ("#0f172a", "#e6edf3"),
    "dim": ("#566377", "#9aa7b9"),
    "rule": ("#cdd5e0", "#313b4a"),
    "hover": ("#e2e9f6", "#223049"),
    "yellow": ("#fde68a", "#54430f"),
    "accent": ("#1d4ed8", "#8ab4ff"),
    "focus": ("#c026d3", "#f0abfc"),
    "hit": ("#7c3aed", "#c4b5fd"),
    "new": ("#0f766e", "#4fd1c5"),
    "changed": ("#a14a00", "#ffb454"),
    "gone": ("#be123c", "#ff8095"),
}
PLACES = {  # colour of svg.py -> where the page has it
    "cluster": ".frame",
    "odd": ".odd",
    "box": ".plain .body",
    "block": ".block .body",
    "input": ".input .body",
    "output": ".output .body",
    "state": ".state .body",
    "edge": ".edge",
    "tip": ".tip",
    "name": ".name",
    "formula": ".formula",
    "figures": ".axes",
    "shared": ".shared",
    "weight": ".weight",
    "badge": ".badge",
    "count": ".count",
}
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Signs that nobody sees, or that turn around what follows; the page's own `clean` knows them, too."""


def write(
    compiled: Compiled,
    stage: str = "formula",
    depth: int | None = None,
    full: bool = False,
    sizes: Sizes | None = USUAL,
    look: Look = USUAL_LOOK,
) -> str:
    """The page of a model; it opens at a stage, with blocks opened to a depth (None: as many as are readable).

    Raises `TransformulaError` for a page that should go to the right.
    """
    if look.right:
        raise error("C665", "a page is drawn downwards only", help="For a picture to the right, choose svg or png.")
    data = {**inspected(compiled, stage, depth, full, sizes), "theme": look.theme}
    style, script, unpack = _style(), _script(), _text("unpack.js.j2")
    return page_template("draw", "page.html.j2").render(
        title=UNSEEN.sub("\N{REPLACEMENT CHARACTER}", data["name"]),
        style=Markup(style),
        unpack=Markup(unpack),
        style_hash=Markup(_hash(style)),
        script_hash=Markup(f"{_hash(unpack)} {_hash(script)}"),
        script=packed(script),
        data=packed(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)),
    )


def packed(text: str) -> str:
    """The text compressed, in letters, digits, +, / and = alone."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def unpacked(page: str, name: str = "data") -> str:
    """A text that a page holds: its `data`, which is JSON, or its `script`."""
    found = re.search(f'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', page)
    return zlib.decompress(base64.b64decode(found[1])).decode() if found else ""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(name: str) -> str:
    """A template that holds text only."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


@lru_cache(maxsize=1)
def _script() -> str:
    """All scripts as one, without comments on lines of their own and without the space before a line."""
    text = "\n".join(_text(f"{name}.js.j2") for name in SCRIPTS)
    lines = (line.strip() for line in text.split("\n"))
    return '"use strict";\n' + "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


@lru_cache(maxsize=1)
def _style() -> str:
    """The style with its colours for light and dark; those of boxes and edges are the ones of the SVG."""
    text = re.sub(r"\s*\n\s*", "\n", _text("page.css.j2")).strip()
    dark = ":root[data-scheme=dark]"
    rows = [f":root{{color-scheme:light;{_inks(0)}}}", f"{dark}{{color-scheme:dark;{_inks(1)}}}"]
    rows += [f"{where}{{{LIGHT[name]}}}" for name, where in PLACES.items()]
    rows += [f":where({dark}) {where}{{{DARK[name]}}}" for name, where in PLACES.items()]
    return "\n".join([*rows, text, ""])


def _inks(way: int) -> str:
    return "".join(f"--{name}:{pair[way]};" for name, pair in INK.items())
