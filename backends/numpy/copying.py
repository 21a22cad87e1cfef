"""Run-time functions by name, with whatever they mention, as text for a standalone module."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

FILES = ("kernels", "dense", "border", "results", "weights")
"""The files of this folder that hold run-time functions, in the order in which they are copied."""


@lru_cache(maxsize=1)
def _library() -> tuple[dict[str, tuple[int, str, frozenset[str]]], dict[str, str]]:
    """Each top-level name: its place, its text and the names in it; and each imported name with its import line."""
    found: dict[str, tuple[int, str, frozenset[str]]] = {}
    imports: dict[str, str] = {}
    place = 0
    for file in FILES:
        text = resources.files(__package__).joinpath(f"{file}.py").read_text("utf-8")
        lines = text.split("\n")
        for part in ast.parse(text).body:
            if isinstance(part, ast.Import | ast.ImportFrom):
                _note_import(part, imports)
                continue
            for name in _defined(part):
                first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", []))])
                names = frozenset(n.id for n in ast.walk(part) if isinstance(n, ast.Name))
                found[name] = (place, "\n".join(lines[first - 1 : part.end_lineno]), names)
                place += 1
    return found, imports


def _note_import(part: ast.Import | ast.ImportFrom, imports: dict[str, str]) -> None:
    if isinstance(part, ast.ImportFrom):
        if part.level:
            return
        for alias in part.names:
            imports[alias.asname or alias.name] = f"from {part.module} import {alias.name}"
    else:
        for alias in part.names:
            imports[alias.asname or alias.name] = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")


def _defined(part: ast.stmt) -> list[str]:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return [part.name]
    if isinstance(part, ast.Assign):
        return [target.id for target in part.targets if isinstance(target, ast.Name)]
    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
        return [part.target.id]
    return []


def names() -> frozenset[str]:
    """All run-time names, which generated names must keep clear of."""
    found, imports = _library()
    return frozenset((*found, *imports))


def copied(wanted: Iterable[str], mentioned: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """(import lines, texts) for the wanted names and all that they mention, in the library's order."""
    found, imports = _library()
    chosen: set[str] = set()
    lines: set[str] = {imports[name] for name in mentioned if name in imports}
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name in chosen:
            continue
        chosen.add(name)
        for inner in found[name][2]:
            if inner in found:
                stack.append(inner)
            elif inner in imports:
                lines.add(imports[inner])
    texts = [found[name][1] for name in sorted(chosen, key=lambda n: found[n][0])]
    plain = sorted(line for line in lines if line.startswith("import ") and "numpy" not in line)
    named = _grouped(line for line in lines if line.startswith("from ") and "numpy" not in line)
    own = ["import numpy as np", *_grouped(line for line in lines if line.startswith("from numpy"))]
    return [*plain, *named, "", *own], texts


def _grouped(lines: Iterable[str]) -> list[str]:
    """`from m import a` and `from m import b` as one line."""
    modules: dict[str, set[str]] = {}
    for line in lines:
        module, _, name = line.removeprefix("from ").partition(" import ")
        modules.setdefault(module, set()).add(name)
    return [f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)]
