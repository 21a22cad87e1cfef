"""Definitions → lines: the head, the parts of its `where`, its loops, weights and instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...compiler.names import names_in
from ...grammar import syntax as s
from . import calls
from .expressions import SUM, Printer
from .facts import Facts, Home, home, operands
from .names import written
from .place import Place
from .signs import REDUCTION
from .tree import Digits, Layout, Line, Sign, Word, Words, listed, parens, row, scripted, spaced

COUNTED = "lkmnpq"  # the numbers of instances in a stack
CALL = "(…)"  # ends the name of the call that a model `of` another one begins with: compiler/heads.py


def lines(definition: s.Definition, facts: Facts) -> list[Line]:
    """All lines of a definition: its results first, then the parts in their order."""
    here = home(definition)
    printer = Printer(facts)
    made = [line for one in definition.outputs for line in _result(printer, definition, one, here)]
    if len(definition.outputs) > 1 and definition.kind != "objective" and definition.of is None:
        names = listed([written(one.name or "") for one in definition.outputs])
        made.insert(0, Line(head(definition), "=", parens(names)))
    return [*made, *_defaults(printer, definition, here), *_where(printer, definition.body.where, here)]


def head(definition: s.Definition, indices: Iterable[Layout] = ()) -> Layout:
    """f(x, y): the parameters that a caller must give; an index stands at the only one, else behind them all."""
    name = written(definition.name.name)
    if definition.kind == "objective":
        return scripted(Word("ℒ"), [name])
    params = [written(one.name) for one in definition.params or () if one.default is None]
    below = list(indices)
    if definition.params is None:
        return scripted(name, below)
    if len(definition.params) == 1 and not any(one.index for one in definition.axes):
        return row(name, parens(listed([scripted(one, below) for one in params])))
    return row(name, scripted(parens(listed(params)), below))


def _result(printer: Printer, definition: s.Definition, output: s.Output, here: Home) -> Iterator[Line]:
    place, below = _indexed(printer, definition, output.value, here)
    if len(definition.outputs) == 1 and (definition.of is None or output.name is None):
        left = head(definition, below)
    elif definition.kind == "objective" and output is definition.outputs[0]:
        left = head(definition)
    else:
        left = scripted(written(output.name or ""), below)
    yield Line(left, "=", printer.show(output.value, place), spans=(output.value.span,))


def _indexed(
    printer: Printer, definition: s.Definition, value: s.Expr, here: Home
) -> tuple[Place, list[Layout]]:
    """The place of a result: index formulas have the letters they name, others where an axis is free and bound."""
    place = _named(here)
    return (place, list(place.at.values())) if place.at else free(printer, value, here)


def _named(here: Home) -> Place:
    """The letters that an index formula names: causal[i: seq, j: key]."""
    return Place(
        here, {one.axis.name: written(one.index.name) for one in here.definition.axes if one.index is not None}
    )


def free(printer: Printer, value: s.Expr, here: Home) -> tuple[Place, list[Layout]]:
    """The place of an equation, with a letter for each axis that needs one: bound elsewhere in it, or asked for."""
    place = Place(here)
    known = printer.facts.axes(value, here)
    for axis in dict.fromkeys((*wanted(value), *_of_tables(printer, value, here))):
        if axis in known:
            place = place.bound(axis, place.letter())
    return place, list(place.at.values())


def _of_tables(printer: Printer, expr: s.Expr, here: Home) -> Iterator[str]:
    """The axes of parts that are written with their indices, wherever they are mentioned."""
    for one in names_in(expr):
        if one.name in here.tables:
            yield from printer.facts.axes(one, here)


def wanted(expr: s.Expr) -> Iterator[str]:
    """The axes that a sum binds inside, or whose index stands there."""
    match expr:
        case s.Call(function=function, args=args):
            inner = [axis for one in args for axis in wanted(one.value)]
            yield from inner
            if isinstance(function, s.Name) and function.name == "index" and isinstance(args[0].value, s.Name):
                yield args[0].value.name
            if isinstance(function, s.Select) and isinstance(function.base, s.Name) and function.base.name in REDUCTION:
                if function.base.name == "norm":
                    return
                yield from _bound(function.items)
        case s.Select(base=base, items=items):
            single = [one for one in items if isinstance(one, s.RenameItem) and len(one.old) == len(one.new) == 1]
            names = {one.old[0].name: one.new[0].name for one in single}
            yield from (names.get(axis, axis) for axis in wanted(base))
            values = (one.value for one in items if isinstance(one, s.EqualItem | s.PlainItem))
            yield from (axis for value in values for axis in wanted(value))
        case s.Contract(left=left, right=right):
            yield from wanted(left)
            yield from wanted(right)
        case _:
            yield from (axis for one in operands(expr) for axis in wanted(one))


def _bound(items: tuple[s.Item, ...]) -> Iterator[str]:
    for one in items:
        if isinstance(one, s.RestrictItem) and one.as_index is None:
            yield one.axis.name
        elif isinstance(one, s.PlainItem) and isinstance(one.value, s.Name):
            yield one.value.name


# ----------------------------------------------------------------------------------------------------- parts


def _defaults(printer: Printer, definition: s.Definition, here: Home) -> Iterator[Line]:
    """What a parameter is where the caller does not give it."""
    for one in definition.params or ():
        if one.default is not None and not _is_nothing(one.default):
            place, below = free(printer, one.default, here)
            shown = printer.show(one.default, place)
            yield Line(scripted(written(one.name), below), "=", shown, Words("by default"), 1)


def _is_nothing(expr: s.Expr) -> bool:
    return isinstance(expr, s.Name) and expr.name == "none"


def _where(
    printer: Printer, where: Iterable[s.Statement], here: Home, loops: tuple[s.Loop, ...] = ()
) -> Iterator[Line]:
    for one in where:
        if isinstance(one, s.Loop):
            yield from _where(printer, one.body, here, (*loops, one))
        elif not one.name.name.endswith(CALL) and not _is_taken(one):
            yield _part(printer, one, here, loops)


def _is_taken(one: s.Assign) -> bool:
    """logits = BertForMaskedLM(…).logits: a result that an objective takes over by its name, which says nothing."""
    value = one.value
    return (
        isinstance(value, s.Member)
        and value.name == one.name.name
        and isinstance(value.base, s.Name)
        and value.base.name.endswith(CALL)
    )


def _part(printer: Printer, one: s.Assign, here: Home, loops: tuple[s.Loop, ...]) -> Line:
    """name = value, with declared axes as indices, the number of a state below, and the steps of its loops behind."""
    name = written(one.name.name)
    behind = listed([_steps(printer, loop, here) for loop in loops]) if loops else None
    spans = one.span, one.value.span
    if one.params is not None:
        params = listed([written(param.name) for param in one.params])
        return Line(row(name, parens(params)), "=", printer.show(one.value, Place(here)), behind, 1, spans)
    place, below = _named(here), []
    for item in one.brackets:
        if isinstance(item, s.AxisParam):
            letter = written(item.index.name) if item.index is not None else place.letter()
            place = place.bound(item.axis.name, letter)
            below.append(letter)
        elif isinstance(item.value, s.Name) and item.value.name not in here.counters:
            place = place.bound(item.value.name, place.letter())
            below.append(place.at[item.value.name])
        else:
            below.append(printer.show(item.value, place.smaller()))
    if not one.brackets and place.at:
        below = place.indices(printer.facts.axes(one.value, here))
    elif not one.brackets:
        place, below = free(printer, one.value, here)
    return Line(scripted(name, below), "=", printer.show(one.value, place), behind, 1, spans)


def _steps(printer: Printer, loop: s.Loop, here: Home) -> Layout:
    """l = 0, …, layers − 1"""
    place = Place(here).smaller()
    first = Digits("0") if loop.start is None else printer.show(loop.start, place)
    last = row(printer.show(loop.stop, place, SUM), Sign("−"), Digits("1"))
    counter = row(written(loop.variable.name), Sign("=", "relation"), first)
    return listed([counter, Sign("…", "mark"), last])


def weights(definition: s.Definition, facts: Facts) -> list[Line]:
    """W^Q, W^K ∈ ℝ^{d × head d_k}, and what says whether they exist."""
    here = home(definition)
    printer = Printer(facts)
    made = []
    for one in definition.body.weights:
        names = listed([written(name.name, one.axes.outs is not None) for name in one.names])
        shape = _shape(one.axes)
        behind = None
        if one.condition is not None:
            behind = row(Words("if "), printer.show(one.condition, Place(here)))
        made.append(Line(names, "∈", scripted(Word("ℝ"), [], shape) if one.axes.names else Word("ℝ"), behind, 1))
    return made


def uses(definition: s.Definition, facts: Facts) -> list[Line]:
    """layer_l : Layer, and the numbers of a stack; LN : LayerNorm(d = emb), and what says whether it exists."""
    here = home(definition)
    printer = Printer(facts)
    return [_use(printer, one, Place(here)) for one in definition.body.uses]


def _use(printer: Printer, one: s.UseDecl, place: Place) -> Line:
    letters = [Word(letter) for letter in COUNTED[: len(one.indices)]]
    letters = letters if len(letters) == len(one.indices) else [Word(axis.name) for axis in one.indices]
    names = listed([scripted(written(name.name), list(letters)) for name in one.names])
    given = [row(written(item.axis.name), Sign("=", "relation"), printer.show(item.value, place)) for item in one.binds]
    given += [calls.argument(printer, arg, place) for arg in one.args]
    block = written(one.block.name)
    behind: list[Layout] = []
    if letters:
        sizes = zip(letters, one.indices, strict=True)
        behind.append(listed([row(letter, Sign("<", "relation"), written(axis.name)) for letter, axis in sizes]))
    if one.condition is not None:
        behind.append(row(Words(" if "), printer.show(one.condition, place)))
    made = row(block, parens(listed(given))) if given else block
    return Line(names, ":", made, row(*behind) if behind else None, 1)


def _shape(axes: s.Axes) -> Layout:
    """d × head d_k: rows and columns of a map, all axes of a table."""
    if axes.outs is None:
        groups = [[one] for one in axes.names]
    else:
        groups = [*([one] for one in axes.carried), list(axes.ins), list(axes.outs)]
    sides = [spaced([written(one.name) for one in group]) for group in groups if group]
    parts: list[Layout] = []
    for side in sides:
        parts += [Sign("×"), side] if parts else [side]
    return row(*parts) if parts else Word("")
