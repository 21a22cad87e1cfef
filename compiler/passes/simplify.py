"""simplify: scalar algebra, selections that are decided, renames sunk to their consumers.

Common subexpressions and dead code need no work: nodes are interned, and what no result reads is not in the graph.
Precondition: none; every rule keeps the value exactly, or up to the rounding of exact constants.
"""

from __future__ import annotations

from ..ir import Graph
from ..ledger import Ledger
from ..rules import SIMPLIFY, rewrite


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph in its normal form."""
    return rewrite(graph, SIMPLIFY, "simplify", ledger, rounds=24)
