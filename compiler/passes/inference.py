"""inference: what acts in training alone is taken out: dropout, and the stops of gradients.

Precondition: the module never trains. A backend whose modules do leaves the pass out (SKIP of its emit.py).
"""

from __future__ import annotations

from ..ir import Graph
from ..ledger import Ledger
from ..rules import INFERENCE, rewrite


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph as it is used: dropout(x, p) = x, stop(x) = x."""
    return rewrite(graph, INFERENCE, "inference", ledger)
