"""Lark's LALR(1) table of transformula.lark, written to table.py: `python -m transformula.grammar.tabulate`.

Lark checks the grammar and computes the table; it takes longer to import than a whole spec takes to parse, so
at run time a driver of some lines (parser.py) reads the table instead. If table.py is older than the grammar,
the table is computed anew in memory, and a test asks to run this module.
"""

from __future__ import annotations

import base64
import json
import textwrap
import zlib
from pathlib import Path
from typing import Any

from .table import fingerprint

HERE = Path(__file__).parent
GRAMMAR = HERE / "transformula.lark"


def lark(strict: bool = False) -> Any:
    """The grammar as a Lark parser; strict demands that interegular is installed."""
    from lark import Lark

    return Lark(GRAMMAR.read_text("utf-8"), parser="lalr", lexer="contextual", strict=strict)


def compute() -> dict[str, Any]:
    """Terminals, rules, actions and gotos as plain lists (see parser.Tables), in an order of their own."""
    parser = lark()
    table = parser.parser.parser._parse_table
    rules = sorted(set(parser.rules), key=str)
    number = {rule: place for place, rule in enumerate(rules)}
    terminals = sorted(
        parser.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name)
    )
    order = _order(table)
    rows = [json.dumps(_row(table.states[state], number, order), sort_keys=True) for state in order]
    distinct = sorted(set(rows))
    place = {text: position for position, text in enumerate(distinct)}
    return {
        "terminals": [[t.name, t.pattern.to_regexp(), t.pattern.type == "str"] for t in terminals],
        "rules": [_rule(rule) for rule in rules],
        "rows": [json.loads(text) for text in distinct],
        "states": [place[row] for row in rows],
        "end": order[table.end_states["start"]],
    }


def _order(table: Any) -> dict[int, int]:
    """New numbers of the states, as met from the first one on (Lark's own change from run to run)."""
    order = {table.start_states["start"]: 0}
    queue = list(order)
    for state in queue:
        for _, (action, target) in sorted(table.states[state].items()):
            if action.name == "Shift" and target not in order:
                order[target] = len(order)
                queue.append(target)
    return order


def _row(actions: dict[str, tuple[Any, Any]], rules: dict[Any, int], order: dict[int, int]) -> dict[str, int]:
    """What a state does with each symbol: shift or go to n as n, reduce by rule n as -n - 1."""
    return {
        name: -rules[target] - 1 if action.name == "Reduce" else order[target]
        for name, (action, target) in actions.items()
    }


def _rule(rule: Any) -> list[Any]:
    """Origin, builder method, number of symbols, places kept, and whether an only child stands for the whole.

    A kept place is a number; -n - 1 for a list that is spliced in; None for an absent `[…]`.
    """
    kept: list[int | None] = []
    absent = list(rule.options.empty_indices or [False] * (len(rule.expansion) + 1))
    gap = 0
    for place, symbol in enumerate(rule.expansion):
        while absent[gap]:
            kept.append(None)
            gap += 1
        gap += 1
        if not symbol.is_term:
            kept.append(-place - 1 if symbol.name.startswith("_") else place)
        elif not symbol.filter_out:
            kept.append(place)
    kept += [None] * sum(absent[gap:])
    origin = rule.origin.name
    method = "" if origin.startswith("_") else rule.alias or str(origin)
    return [str(origin), method, len(rule.expansion), kept, bool(rule.options.expand1 and not rule.alias)]


def write() -> None:
    """Renews the data at the end of table.py."""
    packed = base64.b64encode(
        zlib.compress(json.dumps(compute(), separators=(",", ":")).encode(), 9)
    ).decode()
    lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(packed, 100))
    code = HERE.joinpath("table.py").read_text("utf-8").partition("\nFINGERPRINT = ")[0]
    data = f"\nFINGERPRINT = {fingerprint()}\nPACKED = (\n{lines}\n)\n"
    HERE.joinpath("table.py").write_text(code + data, "utf-8")


if __name__ == "__main__":
    write()
