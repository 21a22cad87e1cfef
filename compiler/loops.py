"""Recurrences: x[0] = …, then for l in layers: x[l + 1] = …, as one loop node however deep the stack.

What is read decides what is carried: x[layers] is the last state; any other state is read from the loop's history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from ..grammar.diagnostics import Note, TransformulaError
from . import expressions, ir, loop_range, showing, wording
from .ir import Axis, Node
from .values import Counter, Poisoned, States, Tensor, Value

if TYPE_CHECKING:
    from .scope import Scope


@dataclass(eq=False)
class LoopRun:
    """A `for` with what is known of it: the states it makes, and, once run, its node."""

    written: s.Loop
    scope: Scope
    states: list[str] = field(default_factory=list)
    node: Node | None = None
    start: int = 0
    stop: Node | None = None
    axis: Axis | None = None
    ident: int = 0
    body_scope: Scope | None = None
    busy: bool = False
    failed: bool = False
    shown: dict[str, s.Output] = field(default_factory=dict)
    seen: dict[str, Tensor] = field(default_factory=dict)


@dataclass(eq=False)
class StateSet:
    """All that defines one recurrence: single states x[0] = …, and the loop with x[l + 1] = …."""

    explicit: dict[int, s.Assign] = field(default_factory=dict)
    loop: LoopRun | None = None
    step: s.Assign | None = None
    offset: int = 1
    values: dict[int, Tensor] = field(default_factory=dict)


def register(scope: Scope, statement: s.Statement) -> None:
    """Takes note of a state's equation or of a loop."""
    if isinstance(statement, s.Assign):
        _register_state(scope, statement)
        return
    run = LoopRun(statement, scope)
    for inner in statement.body:
        if isinstance(inner, s.Assign) and _mentions(inner, statement.variable.name):
            name = inner.name.name
            if inner.brackets and isinstance(inner.brackets[0], s.PlainItem):
                found = scope.states.setdefault(name, StateSet())
                if found.loop is not None:
                    raise scope.fail(
                        "N202",
                        f"`{name}` has two steps",
                        inner.name.span,
                        notes=(Note(found.step.name.span, "first here"),) if found.step else (),
                        help=f"Go on from its last state under another name: y[0] = {name}[…], then y[l + 1] = ….",
                    )
                found.loop, found.step = run, inner
                run.states.append(name)
    if not run.states:
        raise scope.fail(
            "N213",
            "this loop makes no state",
            statement.variable.span,
            because=(f"nothing in it is written with [{statement.variable.name} + 1]",),
            help=_step_advice(statement),
        )


def _step_advice(written: s.Loop) -> str:
    variable = written.variable.name
    name = next((one.name.name for one in written.body if isinstance(one, s.Assign)), "x")
    return f"A repeated step is written {name}[{variable} + 1] = f({name}[{variable}]), after a first {name}[0] = …."


def _mentions(statement: s.Assign, variable: str) -> bool:
    from .names import names_in

    return any(one.name == variable for one in names_in(statement.brackets))


def _register_state(scope: Scope, statement: s.Assign) -> None:
    item = statement.brackets[0]
    assert isinstance(item, s.PlainItem)
    number = expressions.lower(scope, item.value)
    if not isinstance(number, Fraction) or number.denominator != 1 or number < 0:
        raise scope.fail(
            "I803",
            "a state's number is a whole number, or l + 1 inside `for l in …`",
            item.span,
            help=f"The first state is {statement.name.name}[0] = ….",
        )
    states = scope.states.setdefault(statement.name.name, StateSet())
    if int(number) in states.explicit:
        raise scope.fail(
            "N202",
            f"`{statement.name.name}[{number}]` is defined twice",
            statement.name.span,
            notes=(Note(states.explicit[int(number)].name.span, "first here"),),
            help="Each state has one equation.",
        )
    states.explicit[int(number)] = statement


def states_advice(base: States) -> str:
    """How the last and the first state are written."""
    states = base.scope.states[base.name]
    first = f"{base.name}[{min(states.explicit, default=0)}]"
    if states.loop is None:
        return f"For example {first}."
    return f"The last state is {base.name}[{states.loop.written.stop.span.text}], the first {first}."


def state(scope: Scope, base: States, expr: s.Select) -> Value:
    """x[number] of a recurrence, inside its loop or after it."""
    if not isinstance(expr.items[0], s.PlainItem):
        raise scope.fail(
            "N208",
            f"`{base.name}` is a recurrence: say which state first",
            expr.span,
            help=f"{states_advice(base)} Then pick: {base.name}[…][{expr.span.text.partition('[')[2]}.",
        )
    if len(expr.items) > 1:
        raise scope.fail(
            "N208",
            "one number chooses a state",
            expr.items[1].span,
            help=f"Axes come in brackets of their own: {base.name}[{expr.items[0].span.text}][…].",
        )
    states = base.scope.states[base.name]
    number = expressions.lower(scope, expr.items[0].value)
    run = states.loop
    if run is not None and run.busy:
        return _inside(scope, base, states, run, number, expr)
    if isinstance(number, Fraction):
        return after(base.scope, base.name, states, number, expr)
    if run is None:
        raise scope.fail(
            "I803",
            "a state of this recurrence is chosen by a whole number",
            expr.items[0].span,
            help=states_advice(base),
        )
    made = expressions.tensor(scope, number, expr.items[0].value)
    run_loop(states.loop, scope)  # type: ignore[arg-type]
    return recalled(run, base.name, made.node)


def _inside(scope: Scope, base: States, states: StateSet, run: LoopRun, number: Value, expr: s.Select) -> Tensor:
    slot = run.states.index(base.name) if base.name in run.states else -1
    first = states.values[run.start]
    if isinstance(number, Counter) and number.loop == run.ident and number.scale == 1:
        if number.offset == 0:
            return Tensor(ir.carry(run.ident, slot, first.node))
        if number.offset == states.offset and run.body_scope is not None:
            return _this_step(run, base.name, states, expr)
    if isinstance(number, Fraction) and int(number) in states.explicit and number <= run.start:
        return explicit(base.scope, base.name, states, int(number))
    made = expressions.tensor(scope, number, expr)
    shifted = made.node if run.start == 0 else ir.apply("-", made.node, ir.const(run.start))
    return _earlier(base.scope, base.name, run, made.node, ir.past(run.ident, slot, first.node, shifted))


def _earlier(home: Scope, name: str, run: LoopRun, number: Node, recalled: Node) -> Tensor:
    """A state by its number: those before the loop's start have equations of their own."""
    states = home.states[name]
    for place in sorted(states.explicit):
        if place < run.start:
            given = explicit(home, name, states, place)
            recalled = ir.where(ir.apply("==", number, ir.const(place)), given.node, recalled)
    return Tensor(recalled)


def _this_step(run: LoopRun, name: str, states: StateSet, expr: s.Select) -> Tensor:
    assert run.body_scope is not None
    assert states.step is not None
    key = f"{name}[next]"
    if key in run.body_scope.busy:
        before = f"{name}[{run.written.variable.name}]"
        raise run.body_scope.fail(
            "N204", f"`{expr.span.text}` needs itself", expr.span, help=f"The state before is {before}."
        )
    found = run.body_scope.values.get(key)
    if isinstance(found, Tensor):
        return found
    run.body_scope.busy.append(key)
    try:
        made = expressions.tensor(
            run.body_scope, expressions.lower(run.body_scope, states.step.value), states.step.value
        )
    finally:
        run.body_scope.busy.remove(key)
    run.body_scope.values[key] = made
    return made


def explicit(scope: Scope, name: str, states: StateSet, number: int) -> Tensor:
    """A state that an equation of its own gives."""
    if number not in states.values:
        key = f"{name}[{number}]"
        if key in scope.busy:
            raise scope.fail(
                "N204",
                f"`{key}` needs itself",
                states.explicit[number].name.span,
                help="The first state comes from values outside the recurrence.",
            )
        scope.busy.append(key)
        written = states.explicit[number]
        try:
            made = expressions.tensor(scope, expressions.lower(scope, written.value), written.value)
        finally:
            scope.busy.remove(key)
        scope.origin(made.node, written.span, name)
        states.values[number] = made
    return states.values[number]


def after(scope: Scope, name: str, states: StateSet, number: Fraction, expr: s.Select) -> Tensor:
    """x[number] once its loop is done."""
    if number.denominator != 1:
        raise scope.fail(
            "I802",
            f"{float(number):g} is no whole number, and a state's number is one",
            expr.items[0].span,
            help="Round it: divide with //.",
        )
    if int(number) in states.explicit:
        return explicit(scope, name, states, int(number))
    if states.loop is None:
        told = ", ".join(f"{name}[{one}]" for one in sorted(states.explicit))
        raise scope.fail("I804", f"`{name}` has no state {number}", expr.items[0].span, help=f"It has {told}.")
    run = states.loop
    run_loop(run, scope)
    assert run.node is not None
    assert run.stop is not None
    last = run.stop["value"] if run.stop.op == "const" else None
    slot = run.states.index(name)
    if last is not None and number == last:
        return Tensor(ir.state(run.node, slot))
    if last is not None and not run.start <= number <= last:
        raise scope.fail(
            "I804",
            f"`{name}` has no state {number}",
            expr.items[0].span,
            because=(f"its states are {run.start} … {last}",),
            help=states_advice(States(name, scope)),
        )
    return recalled(run, name, ir.const(number))


def recalled(run: LoopRun, name: str, number: Node) -> Tensor:
    """The states of a loop that is done, by number (one for each entry of an axis, say)."""
    assert run.node is not None
    slot = run.states.index(name)
    if run.stop is not None and number is run.stop:
        return Tensor(ir.state(run.node, slot))
    return _earlier(run.scope, name, run, number, ir.history(run.node, slot, number))


# ------------------------------------------------------------------------------------------------- the loop


def run_loop(run: LoopRun, scope: Scope) -> None:
    """Lowers the loop once: first states, body, node."""
    if run.node is not None:
        return
    if run.failed:
        raise Poisoned
    home = run.scope
    run.start, run.stop, run.axis = loop_range.found(home, run.written)
    while True:
        first, new = [_first(home, name, run) for name in run.states], _body(run)
        if not _widened(home, run, first, new):
            break
    for name, before, now in zip(run.states, first, new, strict=True):
        _same_axes(home, name, before, now, run)
    nodes = [ir.widen_to(now.node, before.axes) for before, now in zip(first, new, strict=True)]
    begun = [f.node for f in first] + [ir.widen_to(ir.const(0), one.axes) for one in run.seen.values()]
    nodes += [one.node for one in run.seen.values()]
    run.node = ir.loop(run.ident, run.axis, run.start, run.stop, begun, nodes, run.written.variable.name)
    home.origin(run.node, run.written.span, run.states[0])


def _body(run: LoopRun) -> list[Tensor]:
    """The next states, from the body lowered once."""
    home = run.scope
    home.session.loops += 1
    run.ident = home.session.loops
    body = home.child()
    body.steps = (*home.steps, run.ident)
    body.values[run.written.variable.name] = Counter(run.ident, Fraction(1), Fraction(0))
    run.body_scope = body
    run.busy = True
    try:
        body.take([one for one in run.written.body if not _is_step(one, run)])
        for output in run.shown.values():
            showing.register(body, output)
        new = [_step(home, body, name, run) for name in run.states]
        run.seen = {name: showing.value(body, output) for name, output in run.shown.items()}
        return new
    except (TransformulaError, Poisoned):
        run.failed = True
        raise
    finally:
        run.busy = False


def _widened(home: Scope, run: LoopRun, first: Sequence[Tensor], new: Sequence[Tensor]) -> bool:
    """Widens first states by axes that no text here can name (the batch, say), and by the owner of a length's steps."""
    wider = False
    owner = run.stop.axes if run.stop is not None else ()
    for name, before, now in zip(run.states, first, new, strict=True):
        more = [*owner, *(axis for axis in now.axes if axis not in owner and not home.visible(axis))]
        lifted = [axis for axis in more if axis not in before.axes]
        if lifted:
            node = ir.widen_to(before.node, (*before.axes, *lifted))
            home.states[name].values[run.start] = Tensor(node, before.bottom, before.zero)
            wider = True
    return wider


def _is_step(statement: s.Statement, run: LoopRun) -> bool:
    return isinstance(statement, s.Assign) and statement.name.name in run.states and bool(statement.brackets)


def _first(scope: Scope, name: str, run: LoopRun) -> Tensor:
    states = scope.states[name]
    if run.start not in states.explicit:
        step = states.step
        raise scope.fail(
            "N214",
            f"`{name}[{run.start}]` is missing: the loop has nothing to start from",
            step.name.span if step else run.written.span,
            help=f"Write {name}[{run.start}] = … before the loop.",
        )
    return explicit(scope, name, states, run.start)


def _step(scope: Scope, body: Scope, name: str, run: LoopRun) -> Tensor:
    states = scope.states[name]
    assert states.step is not None
    item = states.step.brackets[0]
    assert isinstance(item, s.PlainItem)
    number = expressions.lower(body, item.value)
    if not (isinstance(number, Counter) and number.loop == run.ident and number.scale == 1 and number.offset == 1):
        variable = run.written.variable.name
        raise scope.fail(
            "I803",
            f"a step of this loop gives the next state, {name}[{variable} + 1]",
            item.span,
            help=f"Write {name}[{variable} + 1] = … {name}[{variable}] ….",
        )
    made = _this_step(run, name, states, s.Select(states.step.span, states.step.name, (item,)))
    body.origin(made.node, states.step.span, name)
    return made


def _same_axes(scope: Scope, name: str, before: Tensor, now: Tensor, run: LoopRun) -> None:
    extra = [a for a in now.axes if a not in before.axes]
    if not extra:
        return
    states = scope.states[name]
    assert states.step is not None
    labels = " ".join(scope.label(a) for a in extra)
    first = states.explicit[run.start]
    start = wording.postfix(wording.text(first.value))
    raise scope.fail(
        "A125",
        f"`{name}` changes its axes from step to step",
        states.step.value.span,
        because=(
            f"{name}[{run.start}] has {scope.show(before.axes)}",
            f"{name}[{run.written.variable.name} + 1] has {scope.show(now.axes)}",
        ),
        notes=(Note(first.span, "the first state"),),
        help=f"Give the first state all axes: {name}[{run.start}] = {start}[→ {labels}].",
    )


def unread_states(states: Sequence[StateSet]) -> list[s.Assign]:
    """The steps of loops that were never run: nobody reads them."""
    return [one.step for one in states if one.step is not None and one.loop is not None and one.loop.node is None]
