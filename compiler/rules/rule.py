"""A rule: a law on one line, how to see it, why it may be refused, what it makes, samples for its automatic test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..ir import Graph, Node, Origin, take_origin, walk, walk_all
from ..ledger import Ledger
from ..numeric import REASSOCIATING

Match: TypeAlias = Mapping[str, Any]


class Context:
    """What a rule may ask about the graph it works on."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self.roots = tuple(roots)
        self._readers: dict[Node, int] | None = None

    def readers(self, one: Node) -> int:
        """How many nodes and results read the node."""
        if self._readers is None:
            self._readers = {}
            for reader in walk_all(self.roots):
                below = (*reader.args, *reader["body"]) if reader.op == "loop" else reader.args
                for arg in below:
                    self._readers[arg] = self._readers.get(arg, 0) + 1
            for root in self.roots:
                self._readers[root] = self._readers.get(root, 0) + 1
        return self._readers.get(one, 0)


def nothing_against(match: Match) -> str:
    """The check of a rule that always holds."""
    return ""


@dataclass(frozen=True)
class Rule:
    """`find` sees the shape (None: it is not there), `refuse` returns the missing fact ('' if none), `make` builds.

    `numeric` is the class of numeric.py; a rule that says `exact` is tested to be so.
    """

    name: str
    law: str
    why: str
    find: Callable[[Node], Match | None]
    make: Callable[[Match], Node]
    samples: Callable[[], Sequence[Node]]
    refuse: Callable[[Match], str] = nothing_against
    refused: Callable[[], Sequence[Node]] = tuple
    numeric: str = REASSOCIATING


def rewrite(graph: Graph, rules: Sequence[Rule], pass_name: str, ledger: Ledger, rounds: int = 8) -> Graph:
    """Applies the rules bottom-up until none fires any more; each firing and refusal is a line of the ledger."""
    told: set[tuple[str, Node]] = set()
    origins = dict(graph.origins)
    for _ in range(rounds):
        fired = False

        def change(one: Node) -> Node:
            nonlocal fired
            for rule in rules:
                made = _apply(rule, one, origins, pass_name, ledger, told)
                if made is not None and made is not one:
                    inherit(origins, one, made)
                    fired = True
                    one = made
            return one

        graph = graph.rewrite(change, origins)
        if not fired:
            break
    return graph


def inherit(origins: Mapping[Node, Origin], old: Node, new: Node) -> None:
    """The parts of a rewritten node come from where the node came from."""
    origin = origins.get(old)
    if origin is None or not isinstance(origins, dict):
        return
    take_origin(origins, old, new)
    for one in walk(new.args, enter=lambda n: n not in origins):
        if one.op not in ("const", "input", "weight", "counter", "carry"):
            origins.setdefault(one, origin)


def _apply(
    rule: Rule, one: Node, origins: Mapping[Node, Origin], pass_name: str, ledger: Ledger, told: set[tuple[str, Node]]
) -> Node | None:
    match = rule.find(one)
    if match is None:
        return None
    origin = origins.get(one)
    span = origin.span if origin else None
    reason = rule.refuse(match)
    if reason:
        if (rule.name, one) not in told:
            told.add((rule.name, one))
            ledger.refused(pass_name, rule.name, rule.law, reason, span)
        return None
    ledger.fired(pass_name, rule.name, rule.law, span)
    return rule.make(match)
