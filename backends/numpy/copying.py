"""Run-time functions by name, with whatever they mention, as text for a standalone module."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True)
class Piece:
    """A top-level name of the library: its place, its text, the names in it, and whether only types need it."""

    place: int
    text: str
    mentions: frozenset[str]
    is_type: bool


@lru_cache(maxsize=8)
def _read(package: str, files: tuple[str, ...]) -> tuple[dict[str, Piece], dict[str, str]]:
    """Each top-level name with its piece; and each imported name with its import line."""
    found: dict[str, Piece] = {}
    imports: dict[str, str] = {}
    place = 0
    for file in files:
        home, _, name = (file if "." in file else f"{package}.{file}").rpartition(".")
        text = resources.files(home).joinpath(f"{name}.py").read_text("utf-8")
        lines = text.split("\n")
        for part in ast.parse(text).body:
            if isinstance(part, ast.Import | ast.ImportFrom):
                _note_import(part, imports)
                continue
            for name in _defined(part):
                first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", []))])
                names = frozenset(n.id for n in ast.walk(part) if isinstance(n, ast.Name))
                is_type = isinstance(part, ast.Assign) and not name.isupper()
                found[name] = Piece(place, "\n".join(lines[first - 1 : part.end_lineno]), names, is_type)
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
            imports[alias.asname or alias.name] = f"import {alias.name}" + (
                f" as {alias.asname}" if alias.asname else ""
            )


def _defined(part: ast.stmt) -> list[str]:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return [part.name]
    if isinstance(part, ast.Assign):
        return [target.id for target in part.targets if isinstance(target, ast.Name)]
    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
        return [part.target.id]
    return []


@dataclass(frozen=True)
class Copied:
    """Texts for a standalone module: import lines, those that types need, type aliases, functions and constants."""

    imports: list[str]
    type_imports: list[str]
    types: list[str]
    texts: list[str]


@dataclass(frozen=True)
class Library:
    """The run-time functions in some files of a package; a file of another one has its whole name."""

    package: str
    files: tuple[str, ...]

    def names(self) -> frozenset[str]:
        """All run-time names, which generated names must keep clear of."""
        found, imports = _read(self.package, self.files)
        return frozenset((*found, *imports))

    def copied(self, wanted: Iterable[str], typed: Iterable[str] = ()) -> Copied:
        """The wanted names and all that they mention, in the library's order.

        `typed` are names in the module's own types. Annotations are never evaluated in a generated module, so what
        they alone name costs nothing at its start.
        """
        found, imports = _read(self.package, self.files)
        chosen = _closure(wanted, found)
        functions = sorted((found[n] for n in chosen if not found[n].is_type), key=lambda piece: piece.place)
        aliases = sorted((found[n] for n in chosen if found[n].is_type), key=lambda piece: piece.place)
        running = {name for piece in functions for name in _evaluated(piece.text)}
        annotating = {name for piece in (*functions, *aliases) for name in piece.mentions} | set(typed)
        lines = {imports[name] for name in running if name in imports} | {"import numpy as np"}
        others = {imports[name] for name in annotating if name in imports} - lines
        return Copied(
            _sorted(lines), _sorted(others), [piece.text for piece in aliases], [piece.text for piece in functions]
        )


FILES = (
    *("kernels", "attending", "chunked", "rowwise", "spans", "kept", "dense", "border", "results", "caching"),
    *("files", "weights", "options", "choosing", "beams", "generation", "gradients", "slopes", "adamw"),
    "transformula.compiler.draws",
)
NUMPY = Library("transformula.backends.numpy", FILES)
"""The files of this folder that hold run-time functions, in the order in which they are copied."""

names, copied = NUMPY.names, NUMPY.copied


def _closure(wanted: Iterable[str], found: dict[str, Piece]) -> set[str]:
    chosen: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in chosen:
            chosen.add(name)
            stack.extend(inner for inner in found[name].mentions if inner in found)
    return chosen


@lru_cache(maxsize=512)
def _evaluated(text: str) -> frozenset[str]:
    """The names of a text that Python looks up when it runs, annotations left out."""
    names: set[str] = set()
    stack: list[ast.AST] = [ast.parse(text)]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Name):
            names.add(part.id)
        for field, value in ast.iter_fields(part):
            if field in ("annotation", "returns"):
                continue
            stack.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))
    return frozenset(names)


def _sorted(lines: Iterable[str]) -> list[str]:
    """Import lines as one would write them: the standard library, then numpy."""
    lines = list(lines)
    plain = sorted(line for line in lines if line.startswith("import ") and "numpy" not in line)
    named = _grouped(line for line in lines if line.startswith("from ") and "numpy" not in line)
    own = sorted(line for line in lines if line.startswith("import ") and "numpy" in line)
    own += _grouped(line for line in lines if line.startswith("from numpy"))
    first = [*plain, *named]
    return [*first, *([""] if first and own else []), *own]


def _grouped(lines: Iterable[str]) -> list[str]:
    """`from m import a` and `from m import b` as one line."""
    modules: dict[str, set[str]] = {}
    for line in lines:
        module, _, name = line.removeprefix("from ").partition(" import ")
        modules.setdefault(module, set()).add(name)
    return [f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)]
