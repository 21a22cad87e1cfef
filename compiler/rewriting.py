"""Rebuilding nodes and whole graphs on other arguments, bodies of loops included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from . import making
from .nodes import Node, node, walk_all

Rewrite: TypeAlias = Callable[[Node], Node]


def rebuild(one: Node, args: tuple[Node, ...], body: tuple[Node, ...] | None = None) -> Node:
    """The same operation on other arguments (and another body); axes follow from the arguments."""
    if one.args == args and (body is None or one["body"] == body):
        return one
    match one.op:
        case "map":
            return making.where(*args) if one["fn"] == "where" else making.apply(one["fn"], *args)
        case "contract":
            return making.contract(args[0], args[1], one["over"])
        case "reduce":
            return making.reduce(one["reduction"], args[0], one["over"], args[1] if len(args) > 1 else None)
        case "pick":
            return making.pick(args[0], dict(zip(one["keys"], args[1:], strict=True)))
        case "rename":
            return making.rename(args[0], dict(one["pairs"]))
        case "split":
            return making.split(args[0], one["axis"], one["into"])
        case "merge":
            return making.merge(args[0], one["gone"], one["into"])
        case "concat":
            return making.concat(args, one["along"], one["into"])
        case "widen":
            return making.widen(args[0], one["axis"])
        case "scatter":
            return making.scatter(args[0], dict(zip(one["keys"], args[1:], strict=True)), one.axes)
        case "total":
            return making.total(args, one["over"])
        case "append":
            return making.append(one["name"], args[0], one["along"], one["into"], args[1:])
        case "keep":
            return making.keep(one["name"], args[0], args[1:])
        case "state":
            return making.state(args[0], one["slot"])
        case "history":
            return making.history(args[0], one["slot"], args[1])
        case "loop":
            count = one["slots"]
            return making.loop(
                one["loop"], one["axis"], one["start"], args[count], args[:count], body or one["body"], one["name"]
            )
        case _:
            return node(one.op, args, one.axes, one.kind, **one.attrs)


def transform(roots: Iterable[Node], change: Rewrite, moved: Callable[[Node, Node], None] | None = None) -> list[Node]:
    """Rebuilds the graph bottom-up: each node, its arguments already rebuilt, goes through `change`.

    `moved(old, new)` is told of every node that became another one. Bodies of loops are rebuilt too.
    """
    roots = list(roots)
    done: dict[Node, Node] = {}
    for one in walk_all(roots):
        body = tuple(done[part] for part in one["body"]) if one.op == "loop" else None
        same = rebuild(one, _loop_args(one, done), body)
        if moved is not None and same is not one:
            moved(one, same)
        made = done[one] = change(same)
        if moved is not None and made is not same:
            moved(same, made)
    return [done[one] for one in roots]


def _loop_args(one: Node, done: Mapping[Node, Node]) -> tuple[Node, ...]:
    args = one.args[: one["slots"] + 1] if one.op == "loop" else one.args
    new = tuple(done[arg] for arg in args)
    if one.op == "loop" and new == args and all(done[part] is part for part in one["body"]):
        return one.args
    return new
