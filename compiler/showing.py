"""What a definition `shows`: results on demand, each the values of a loop's steps, one after the other.

    shows hidden_states[seq, d]      = x                the states of a recurrence, the first one included
          encoder_states[seq, d]     = m.hidden_states  what a call inside shows
          attentions[head, seq, key] = y.a.heads.A      a value of the loop's body, at each of its steps
          hidden_states[seq, d]      = [x[0]; y]        both kinds, one after the other

One that config leaves out is `none` there: `… = y.c.heads.A if crossed else none`.

A value of the body becomes one more state of the loop (which starts from zeros that nobody reads), so nothing but loops
and their histories is needed. Nobody pays for what is not asked for: it is no part of the graph then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ..grammar import syntax as s
from . import expressions, ir, loops
from .ir import Axis
from .names import is_none, parts, used_names
from .values import Tensor, Value

if TYPE_CHECKING:
    from .config import Config
    from .scope import Scope


def present(definition: s.Definition, config: Config) -> dict[str, s.Output]:
    """The results on demand that there are in this config, by name; conditions of config are decided."""
    found = {}
    for output in definition.body.shows:
        value = _chosen(output.value, config)
        if output.name is not None and not is_none(value):
            found[output.name] = replace(output, value=value)
    return found


def _chosen(written: s.Expr, config: Config) -> s.Expr:
    """What config chooses of a if c else b."""
    from .scope import config_scope

    if not isinstance(written, s.Cases):
        return written
    for value, condition in written.cases:
        if condition is None or expressions.lower(config_scope(config), condition) is True:
            return _chosen(value, config)
    return written


def register_all(scope: Scope, definition: s.Definition) -> None:
    """Tells the loops of a call which values of their steps are asked for; before any of them runs."""
    asked = _asked(scope, definition)
    for output in asked:
        register(scope, output)
    inside = (one.name for one in parts(tuple(output.value for output in asked)) if isinstance(one, s.Member))
    scope.session.shows |= frozenset(inside)  # what a call is asked for in turn


def _asked(scope: Scope, definition: s.Definition) -> list[s.Output]:
    if not scope.session.shows:
        return []
    return [one for name, one in present(definition, scope.config).items() if name in scope.session.shows]


def register(scope: Scope, output: s.Output) -> None:
    """Tells the loop whose steps have the value, if it is one."""
    if isinstance(output.value, s.Concat):
        for number, one in enumerate(output.value.parts):
            register(scope, _part(output, number, one))
        return
    run = _owner(scope, output)
    if run is not None and output.name is not None:
        run.shown[output.name] = output


def shown(scope: Scope, definition: s.Definition) -> dict[str, Value]:
    """The results on demand that are asked for, their declared axes checked."""
    made: dict[str, Value] = {}
    for output in _asked(scope, definition):
        found = value(scope, output)
        assert output.axes is not None
        assert output.name is not None
        expressions.stated(scope, found, output.axes, output.value, output.span)
        made[output.name] = found
    return made


def value(scope: Scope, output: s.Output) -> Tensor:
    """The value here: all states of a recurrence, all steps of a loop inside, a plain value, or [several; of these]."""
    run, written = _owner(scope, output), output.value
    if isinstance(written, s.Concat):
        return _joined(scope, output, written)
    if run is not None:
        assert output.name is not None
        loops.run_loop(run, scope)
        assert run.node is not None
        slot = len(run.states) + list(run.seen).index(output.name)
        steps = _steps(scope, output, _last(scope, run, output) - run.start)
        return Tensor(ir.history(run.node, slot, ir.apply("+", ir.index(steps), ir.const(run.start + 1))))
    states = scope.states.get(written.name) if isinstance(written, s.Name) else None
    if states is not None and states.loop is not None and isinstance(written, s.Name):
        run, first = states.loop, min(states.explicit)
        loops.run_loop(run, scope)
        steps = _steps(scope, output, _last(scope, run, output) - first + 1)
        number = ir.index(steps) if first == 0 else ir.apply("+", ir.index(steps), ir.const(first))
        return loops.recalled(run, written.name, number)
    return expressions.tensor(scope, expressions.lower(scope, written), written)


def _joined(scope: Scope, output: s.Output, written: s.Concat) -> Tensor:
    """The steps of each part, one after the other; a part without steps is one."""
    nodes, along = [], []
    for number, one in enumerate(written.parts):
        node = value(scope, _part(output, number, one)).node
        gone = tuple(axis for axis in node.axes if axis in scope.session.listed)
        if len(gone) > 1:
            steps = _steps(scope, output, math.prod(int(axis.size) for axis in gone if isinstance(axis.size, int)))
            node, gone = ir.merge(node, gone, steps), (steps,)
        nodes.append(node)
        along.append(gone[0] if gone else None)
    count = sum(axis.size if axis is not None and isinstance(axis.size, int) else 1 for axis in along)
    return Tensor(ir.concat(nodes, along, _steps(scope, output, count)))


def _part(output: s.Output, number: int, value: s.Expr) -> s.Output:
    return replace(output, name=f"{output.name} {number}", value=value)


def _owner(scope: Scope, output: s.Output) -> loops.LoopRun | None:
    """The loop of this scope whose body defines a name of the value."""
    wanted = used_names([output.value])
    for states in scope.states.values():
        run = states.loop
        if run is not None and wanted & _inside(run):
            return run
    return None


def _inside(run: loops.LoopRun) -> set[str]:
    """The names that a loop's body defines, other than the states that are seen outside."""
    from .modules import statement_names

    return {name for one in run.written.body for name in statement_names(one)} - set(run.states)


def _last(scope: Scope, run: loops.LoopRun, output: s.Output) -> int:
    if run.stop is None or run.stop.op != "const":
        raise scope.fail(
            "I803",
            f"`{output.name}` would have as many values as the text is long",
            output.value.span,
            help="Only loops over sizes of config are shown step by step.",
        )
    return int(run.stop["value"])


def _steps(scope: Scope, output: s.Output, count: int) -> Axis:
    """An axis for the steps, which no text can name."""
    steps = scope.session.fresh_axis(f"{output.name} step", Axis("step", count))
    scope.session.listed.add(steps)
    return steps
