"""What the options of a command mean: a spec, a config, settings, a compiled model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiler.driver import Compiled
    from .compiler.modules import Module


def read_spec(name: str) -> str | Path:
    """What the driver takes: a path (or shipped name), or the text of standard input."""
    if name != "-":
        return Path(name)
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    return text if "\n" in text else f"{text}\n"


def read_config_file(file: Path | None) -> dict[str, Any]:
    """The keys of a config.json, or of the one in a folder; none of no file."""
    if file is None:
        return {}
    from .compiler.config import read_config

    return read_config(file / "config.json" if file.is_dir() else file)


def read_settings(given: tuple[str, ...], option: str = "set", example: str = "layers=6") -> dict[str, Any]:
    """NAME=VALUE; a value that is JSON is a number, truth value or list, any other a text."""
    import json

    found: dict[str, Any] = {}
    for name, value in read_pairs(option, given, example):
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def read_pairs(option: str, given: tuple[str, ...], example: str) -> Iterator[tuple[str, str]]:
    """NAME=VALUE as pairs; raises `TransformulaError` for what is none."""
    from .grammar.diagnostics import error

    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise error("C625", f"--{option} {one} should be NAME=VALUE", help=f"For example --{option} {example}.")
        yield name.strip(), value


def read_compiled(
    spec: str | Module,
    config: Path | None = None,
    settings: tuple[str, ...] = (),
    entry: str | None = None,
    without: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    until: str | None = None,
    shows: tuple[str, ...] = (),
    results: tuple[str, ...] = (),
    rows: tuple[str, ...] = (),
    gradients: bool = False,
) -> Compiled:
    """The stages of a spec's model, or of the model that a folder holds; with `gradients`, those of its objectives."""
    from dataclasses import replace

    from .backends.folder import read_generation_config
    from .compiler.driver import compile_graph
    from .compiler.training import compile_gradients

    given, module = read_config_file(config), None
    generation = read_generation_config(config) if config is not None and config.is_dir() else None
    if isinstance(spec, str) and Path(spec).is_dir():
        from .texts import folder_spec

        module, given, entry = folder_spec(Path(spec), given, entry)
    chosen = dict(read_pairs("rows", rows, "logits=last"))
    made = module or (read_spec(spec) if isinstance(spec, str) else spec)
    found = compile_graph(
        made, given, entry, read_settings(settings), without, only or None, until, shows, results, chosen
    )
    found = replace(found, generation=generation)
    return replace(found, gradients=compile_gradients(found)) if gradients else found


def read_drawing(form: str, out: Path | None, chosen: dict[str, Any]) -> dict[str, Any]:
    """What to draw of the options of a picture, which are taken out of `chosen`."""
    from .backends.draw.look import Look
    from .compiler.sizes import Sizes

    if form == "png" and out is None and sys.stdout.isatty():
        from .grammar.diagnostics import error

        raise error("C662", "a PNG is no text for a terminal", help="Give it a file: -o picture.png.")
    look = Look(chosen.pop("direction") == "right", chosen.pop("theme"), chosen.pop("scale"))
    sizes = Sizes(chosen.pop("batch"), chosen.pop("length"), chosen.pop("fill"))
    told = sizes if chosen.pop("figures") else None
    return {name: chosen.pop(name) for name in ("stage", "depth", "full")} | {"sizes": told, "look": look}
