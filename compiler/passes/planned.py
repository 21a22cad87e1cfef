"""Passes that a backend carries out while it writes: here they are only switched on, so that each can be left out.

unpad: token-wise work runs on the packed real tokens of many examples, attention per example. Precondition: two lengths
of one example meet in attention only; else one example is computed at a time (the ledger says so). The graph of an
objective has its rows already, by the pass `pack`: here its attention goes from example to example.

schedule: a value is written into memory whose last reader has been, and over its argument where that is dead.
Precondition: the reader is the last one, views of the memory included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir import Graph
from ..ledger import Ledger


def planned(name: str) -> Callable[[Graph, Ledger], Graph]:
    """The pass that switches `name` on."""

    def run(graph: Graph, ledger: Ledger) -> Graph:
        return replace(graph, plan=graph.plan | {name})

    return run
