"""Colours and shapes of pictures, for light and dark. No kind of thing is told by its colour alone.

    input     round ends               output   round ends, a thick line
    state     round ends, dashed       block    bars inside its left and right edge
    equation  a plain box              shared   the mark ≡

Texts have a contrast of 4.5 and more to whatever they stand on (WCAG 2.2 AA); a test holds it, and that those who
see no red, green or blue tell the kinds' borders apart as far as the shapes do not.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS = ("box", "block", "input", "output", "state")
TEXTS = ("name", "formula", "figures", "weight", "shared")

LIGHT: Mapping[str, str] = {
    "paper": "fill:#ffffff",
    "cluster": "fill:#f4f7fb;stroke:#b9c4d3",
    "odd": "fill:#e9eef6;stroke:#a9b7c9",
    "box": "fill:#ffffff;stroke:#64748b",
    "block": "fill:#eaf1ff;stroke:#2f6bd8",
    "input": "fill:#e8f7ef;stroke:#0d7d5b",
    "output": "fill:#fff4dd;stroke:#a85f00",
    "state": "fill:#f5efff;stroke:#8347c9",
    "edge": "stroke:#5b6b80",
    "tip": "fill:#5b6b80",
    "name": "fill:#0f172a",
    "formula": "fill:#1e3a8a",
    "figures": "fill:#475569",
    "label": "fill:#475569",
    "weight": "fill:#8f3010",
    "shared": "fill:#6b21a8",
    "badge": "fill:#3730a3",
    "count": "fill:#ffffff",
}
DARK: Mapping[str, str] = {
    "paper": "fill:#0d1117",
    "cluster": "fill:#141a23;stroke:#3b4758",
    "odd": "fill:#1b232f;stroke:#4a586c",
    "box": "fill:#0f151d;stroke:#8593a8",
    "block": "fill:#13233f;stroke:#6ea0ff",
    "input": "fill:#0e261b;stroke:#3fc193",
    "output": "fill:#2b210e;stroke:#e2a03f",
    "state": "fill:#211735;stroke:#b58cf5",
    "edge": "stroke:#94a1b5",
    "tip": "fill:#94a1b5",
    "name": "fill:#f0f4f9",
    "formula": "fill:#a9c8ff",
    "figures": "fill:#a6b2c4",
    "label": "fill:#a6b2c4",
    "weight": "fill:#f5ab80",
    "shared": "fill:#d3b3ff",
    "badge": "fill:#c7d2fe",
    "count": "fill:#1e1b4b",
}
SHAPES = (
    ".edge{fill:none;stroke-width:1.4}.back{stroke-dasharray:4 3}.state{stroke-dasharray:5 3}"
    ".output{stroke-width:2.6}.bar{fill:none}text{white-space:pre}.name,.count{font-weight:600}"
)


def style(theme: str = "auto") -> str:
    """The style sheet: light and dark as the reader has it, or one of them."""
    if theme == "auto":
        return f"{SHAPES}{_rules(LIGHT)}@media (prefers-color-scheme:dark){{{_rules(DARK)}}}"
    return SHAPES + _rules(DARK if theme == "dark" else LIGHT)


def _rules(colours: Mapping[str, str]) -> str:
    found = {**colours, "bar": colours["block"].partition(";")[2]}
    return "".join(f".{name}{{{rule}}}" for name, rule in found.items())
