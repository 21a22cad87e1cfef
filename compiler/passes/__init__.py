"""Passes over the formula graph; the table of pipeline.py is here."""

from __future__ import annotations

from ..pipeline import Pass

PASSES: tuple[Pass, ...] = ()
