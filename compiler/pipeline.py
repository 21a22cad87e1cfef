"""The passes in their order: a row each, with the reason for its place. `--without`, `--only` and `--until` choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..grammar.diagnostics import did_you_mean, error
from .ir import Graph
from .ledger import Ledger
from .numeric import APPROXIMATING, REASSOCIATING, worst
from .verify import verify

DERIVED = "derive_cache"
"""What is derived of a model beside its graph (decoding/): `without` leaves it out like a pass."""


@dataclass(frozen=True)
class Pass:
    """A row: name, what it does, why it stands where it stands, and the function.

    `numeric` is the class of what fires and is no rule of rules/ (those have their own); `bound` is the largest
    relative error of one rewrite where that is more than rounding.
    """

    name: str
    does: str
    because: str
    run: Callable[[Graph, Ledger], Graph]
    numeric: str = REASSOCIATING
    bound: float = 0.0


@dataclass(frozen=True)
class Stage:
    """The graph after a pass (the first stage, `formula`, is before all)."""

    name: str
    graph: Graph


def table() -> tuple[Pass, ...]:
    """All passes in order."""
    from .passes import PASSES

    return PASSES


def numeric_class(row: Pass, ledger: Ledger) -> str:
    """The class of what a pass did: the loosest of the rules that fired; exact if none did."""
    from .rules import NUMERIC

    fired = [line for line in ledger.lines if line.fired and line.pass_name == row.name]
    return worst(NUMERIC.get(line.rule, row.numeric) for line in fired)


def run(
    graph: Graph, without: Sequence[str] = (), only: Sequence[str] | None = None, until: str | None = None
) -> tuple[tuple[Stage, ...], Ledger]:
    """Runs the chosen passes; the graph is verified after each. Raises `TransformulaError` for unknown names.

    A pass that approximates runs only where `only` names it.
    """
    rows = table()
    known = [*(row.name for row in rows), DERIVED]
    for name in (*without, *(only or ()), *((until,) if until else ())):
        if name not in known and (name != "formula" or name != until):
            raise error(
                "C620", f"there is no pass `{name}`", help=did_you_mean(name, known) or f"Passes: {', '.join(known)}."
            )
    ledger = Ledger()
    stages = [Stage("formula", graph)]
    verify(graph)
    for row in rows:
        if until == "formula":
            break
        if row.numeric == APPROXIMATING and only is None and row.name not in without:
            ledger.refused(row.name, row.name, row.does, f"it approximates, and nobody asked for it: --only {row.name}")
        elif row.name not in without and (only is None or row.name in only):
            graph = row.run(graph, ledger)
            verify(graph)
            stages.append(Stage(row.name, graph))
        if until == row.name:  # even if it is left out itself
            break
    return tuple(stages), ledger
