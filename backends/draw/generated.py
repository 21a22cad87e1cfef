"""The lines of the generated modules that the inspector shows, and which of them each node became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...compiler import pipeline
from ...compiler.driver import Compiled, staged
from ...compiler.ir import Origin
from ...compiler.ledger import Ledger
from ...grammar.diagnostics import TransformulaError
from ..program import BACKENDS, Program, passes_left_out

NAMES = {"numpy": "NumPy", "torch": "PyTorch"}
GAP = 6  # lines between two of a formula that are shown, too
MOST = 2000
"""Nodes of a graph whose modules are written for the page; of a larger one it would take a minute."""
HERE, AT_LINE, WITHIN = 0, 1, 2
"""How near lines are: the node's own; those of its line of the spec; those of a node that it has become a part of."""


@dataclass(frozen=True)
class Generated:
    """A module of a backend: its text, where its lines come from, the ledger after writing; or why there is none."""

    backend: str
    text: str = ""
    lines: Mapping[int, Origin] | None = None
    ledger: Ledger | None = None
    refused: str = ""

    def shown(self) -> list[tuple[int, str]]:
        """The lines of formulas by number, with what stands between lines that are near to each other."""
        numbers = sorted(self.lines or ())
        rows = self.text.split("\n")
        kept: list[int] = []
        for number in numbers:
            near = bool(kept) and number - kept[-1] <= GAP
            kept += range(kept[-1] + 1, number) if near else ()
            kept.append(number)
        return [(number, rows[number - 1]) for number in kept]


def generated(compiled: Compiled, backend: str) -> Generated:
    """The module that `transformula compile` writes of this model for a backend; nothing of the model is touched."""
    count = len(compiled.formula.nodes())
    if count > MOST:
        return Generated(backend, refused=f"the graph has {count:,} nodes; `transformula compile` writes it")
    try:
        made = for_backend(replace(compiled, ledger=Ledger(list(compiled.ledger.lines))), backend)
        program = Program(made, backend)
        return Generated(backend, program.source, program.lines, made.ledger)
    except TransformulaError as fault:
        return Generated(backend, refused="; ".join(one.message for one in fault.diagnostics))


def for_backend(compiled: Compiled, backend: str) -> Compiled:
    """The same model without the passes that a backend has no use for."""
    ran = [stage.name for stage in compiled.stages[1:]]
    kept = [name for name in ran if name not in passes_left_out(backend)]
    if kept == ran:
        return compiled
    if compiled.formula.batch is None:
        stages, ledger = pipeline.run(compiled.formula, only=kept)
        return replace(compiled, stages=stages, ledger=ledger)
    decodes = compiled.decoding is not None
    made = staged(
        compiled.module, compiled.config, compiled.formula, compiled.rows, decodes, only=kept
    )
    return replace(made, generation=compiled.generation)


def modules(compiled: Compiled) -> list[Generated]:
    """The module of each backend."""
    return [generated(compiled, name) for name in BACKENDS]


class Finder:
    """Finds the lines of a module for a node, by where it comes from."""

    def __init__(self, made: Generated) -> None:
        self.exact: dict[tuple[str, str, str, int], list[int]] = {}
        self.of_line: dict[tuple[str, str, int], list[int]] = {}
        for number, origin in (made.lines or {}).items():
            for one in (origin, origin.inner):  # the result of a block is found by its own place, too
                if one is not None and one.span is not None:
                    file, line = one.span.source.name, one.span.line
                    self.exact.setdefault((one.path, one.name, file, line), []).append(number)
                    self.of_line.setdefault((one.path, file, line), []).append(number)

    def own(self, origin: Origin) -> list[int]:
        """The lines that were written for nodes from there."""
        if origin.span is None:
            return []
        return self.exact.get((origin.path, origin.name, origin.span.source.name, origin.span.line), [])

    def same_line(self, origin: Origin) -> list[int]:
        """The lines that were written for any node of that line of the spec, in that instance."""
        return self.of_line.get((origin.path, origin.span.source.name, origin.span.line), []) if origin.span else []


def found_lines(
    finder: Finder, origins: Mapping[str, Origin], sources: Mapping[str, Iterable[str]]
) -> dict[str, tuple[int, list[int], str]]:
    """For each key how near its lines are, their numbers, and the key of the node that it is a part of, if it is.

    A node without lines of its own, or of its line in the spec, is computed where the nearest of its readers is:
    `sources` says what each reads.
    """
    found: dict[str, tuple[int, list[int], str]] = {}
    for key, origin in origins.items():
        if own := finder.own(origin):
            found[key] = (HERE, own, "")
        elif lines := finder.same_line(origin):
            found[key] = (AT_LINE, lines, "")
    queue = [(key, key) for key, (near, _, _) in found.items() if near == HERE]
    for key, reader in queue:  # which grows, reader by reader
        for source in sources.get(key, ()):
            if source in origins and origins[source].span is not None and source not in found:
                found[source] = (WITHIN, found[reader][1], reader)
                queue.append((source, reader))
    return found
