"""How a picture looks, whatever it shows: its direction, its colours, how large its pixels are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """To the right instead of downwards; `theme` is auto, light or dark; `scale` is pixels for each point of a PNG."""

    right: bool = False
    theme: str = "auto"
    scale: float = 2.0


USUAL_LOOK = Look()
THEMES = ("auto", "light", "dark")
