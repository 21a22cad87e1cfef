"""Spec → a page of Markdown: what it is and who wrote of it, its formulas beside its text, a picture, its weights.

Formulas are rendered by what shows the page (GitHub's math blocks), and so is the picture (Mermaid).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...compiler.checking import deep
from ...compiler.config import Config
from ...compiler.driver import Compiled, compile_graph
from ...compiler.modules import Module
from ...grammar import comments
from ..draw import draw
from ..tex import Part, facts_of, latex, parts_of
from ..tex.facts import Facts
from . import tables
from .markdown import code, fenced, plain, table

DEPTH = 2  # levels of blocks that a picture opens: more than a page can show is a matter of the inspector
PAPER = re.compile(r"\b(19|20)\d\d\b")
WHOLE = ("model", "objective")


@dataclass(frozen=True)
class Page:
    """A page, with what an index says of it."""

    name: str
    about: str
    papers: tuple[str, ...]
    model: str
    parameters: int
    text: str


def page(
    spec: str | Path,
    entry: str | None = None,
    config: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    depth: int = DEPTH,
    links: Mapping[str, str] | None = None,
) -> Page:
    """The page of a spec: of its own file, with the picture and weights of one of its models.

    `links` are files of other specs' pages, by name. Raises `TransformulaError` for mistakes of the spec.
    """
    facts = facts_of(spec, dict(config or {}), dict(settings or {}))
    module = facts.module
    made = _compiled(module, entry, config, settings)
    about, papers = head(module)
    found = tables.parameters(module, made.formula, made.config) if made is not None and made.kind in WHOLE else []
    with deep():
        blocks = [
            f"# {plain(_name(module))}",
            *_head(module, about, papers, links or {}),
            *(_picture(made, depth) if made is not None else ()),
            *_formulas(facts),
            *(_parameters(module, made, found) if made is not None and found else ()),
            *_config(module, made.config if made is not None else Config(module)),
        ]
    text = "\n\n".join(blocks) + "\n"
    return Page(_name(module), " ".join(about), papers, made.entry if found and made else "", tables.total(found), text)


def _name(module: Module) -> str:
    return Path(module.name).stem if module.file.name is None else module.name


def _compiled(
    module: Module, entry: str | None, config: Mapping[str, Any] | None, settings: Mapping[str, Any] | None
) -> Compiled | None:
    """The model that is pictured; a file of functions alone has none."""
    if module.file.name is None or (entry is None and not module.of_kind("model", "objective", "corruption")):
        return None
    return compile_graph(module, config, entry, settings, until="formula")


def head(module: Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The comment at the head of the file: what it says, and the lines with a paper (a title in quotes, a year)."""
    lines = comments.head(module.file.span.source)
    papers = tuple(line for line in lines if '"' in line and PAPER.search(line))
    return tuple(line for line in lines if line and line not in papers), papers


def _head(
    module: Module, about: tuple[str, ...], papers: tuple[str, ...], links: Mapping[str, str]
) -> Iterator[str]:
    if about:
        yield plain(" ".join(about))
    if papers:
        yield "Source: " + plain(" ".join(papers))
    told = []
    if module.file.extends is not None:
        name = module.file.extends.name
        link = f"[{plain(name)}]({links[name]})" if name in links else code(name)
        told.append(f"It extends {link}: what stands here is added or changed, all else is as there.")
    if module.model_types:
        told.append(f"`model_type` in config.json: {', '.join(map(code, module.model_types))}.")
    if told:
        yield " ".join(told)


def _picture(made: Compiled, depth: int) -> Iterator[str]:
    yield f"## {plain(made.entry)} as a picture"
    yield fenced(draw(made, "mermaid", depth=depth), "mermaid")


def _formulas(facts: Facts) -> Iterator[str]:
    """The definitions of the file; one that only changes config has none."""
    if any(name in facts.module.entries for name in facts.module.own):
        yield "## Formulas"
        for part in parts_of(facts):
            yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    yield f"### {plain(part.title)}"
    if part.comment:
        yield plain(" ".join(part.comment))
    yield fenced(latex.aligned(part.all_lines), "math")
    yield fenced(part.source, "text")


def _parameters(module: Module, made: Compiled, found: list[tables.Parameter]) -> Iterator[str]:
    yield f"## Parameters of {plain(made.entry)}"
    yield f"{tables.total(found):,} numbers at the default sizes."
    rows = [
        [
            code(one.name, True),
            code(one.axes, True),
            plain(one.shape),
            f"{one.count:,}",
            ", ".join(code(name, True) for name in one.stored),
            plain("; ".join(one.notes)),
        ]
        for one in found
    ]
    yield table(["weight", "axes", "shape", "count", "stored as", "notes"], rows)
    if tables.ties(module):
        yield f"One storage, where a model has both: {', '.join(map(code, tables.ties(module)))}."


def _config(module: Module, config: Config) -> Iterator[str]:
    rows = [
        [*(code(text, True) for text in (one.name, one.default, one.value)), ", ".join(code(k, True) for k in one.keys)]
        for one in tables.entries(module, config)
    ]
    if rows:
        yield "## Config"
        yield table(["entry", "default", "that is", "keys of config.json"], rows)


def index(pages: Mapping[str, Page]) -> str:
    """The table of pages, by their files."""
    rows = [
        [
            f"[{plain(one.name)}]({file})",
            plain(one.about.split(". ")[0]),
            plain(" ".join(one.papers)),
            code(one.model, True),
            f"{one.parameters:,}" if one.parameters else "",
        ]
        for file, one in pages.items()
    ]
    return table(["spec", "what it is", "source", "model", "parameters"], rows)
