"""A scope: what each name means inside one call of a definition.

Axes are objects, names are labels: a call labels the caller's axes with its formal names and leaves all others
*lifted*, so nothing can be captured and no graph node is spent on entering or leaving a call (calls.py says when a
fresh axis is needed).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from ..grammar import syntax as s
from ..grammar.diagnostics import Diagnostic, Note, Span, TransformulaError, similar
from . import builtins, heads, instances, ir, lengths, loops, wording
from .config import Config
from .ir import Axis, Node, Origin
from .modules import Entry, Module, local_entry
from .names import declared_names, place_of, renames
from .session import Callee, Session
from .values import Counter, Formula, Poisoned, States, Static, Tensor, Value


@dataclass(eq=False)
class Scope:
    """Names of one call: labelled axes, parameters, equations (on demand), states, weights and instances."""

    session: Session
    config: Config
    module: Module
    entry: Entry | None = None
    path: str = ""
    labels: dict[Axis, str] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    lifted: frozenset[Axis] = frozenset()
    values: dict[str, Value] = field(default_factory=dict)
    equations: dict[str, s.Assign | s.Expr] = field(default_factory=dict)
    states: dict[str, loops.StateSet] = field(default_factory=dict)
    parent: Scope | None = None
    restrict: dict[Axis, Tensor] = field(default_factory=dict)
    outer: tuple[tuple[Axis, Static | Counter | Tensor], ...] = ()
    counters: dict[int, Axis] = field(default_factory=dict)
    tables: bool = False  # whether an elementwise operation may make a table here (its axes are declared)
    guarded: bool = False  # whether a condition guards picks here
    busy: list[str] = field(default_factory=list)
    stands: dict[Axis, Axis] = field(default_factory=dict)  # the caller's axis by the one that stands for it here
    site: str = ""  # the calls that lead here, so that each draws anew
    steps: tuple[int, ...] = ()  # the loops around: a draw is new at each step
    calls: tuple[tuple[str, str], ...] = ()  # of instances around, each as (path, place of the call)

    # -------------------------------------------------------------------------------------------------- errors

    def fail(self, code: str, message: str, span: Span | None, **more: object) -> TransformulaError:
        """The error to raise."""
        via: list[Note] = []
        for callee in reversed(self.session.calls if span is not None else []):
            via.append(callee.at_fault(via[-1].span if via else span))  # type: ignore[arg-type]
        return TransformulaError(Diagnostic(code, message, span, via=tuple(via), **more))  # type: ignore[arg-type]

    def told(self, tensor: Tensor, expr: s.Node | None = None) -> str:
        """`K : [key, dk]`, for messages."""
        shown = self.show(tensor.axes)
        return f"`{wording.text(expr)}` has {shown if shown != '[]' else 'no axes'}" if expr is not None else shown

    def show(self, axes: Iterable[Axis]) -> str:
        """Visible axes by their names here."""
        return "[" + ", ".join(self.label(axis) for axis in axes if self.visible(axis)) + "]"

    def where_from(self, tensor: Tensor, but: Span | None = None) -> tuple[Note, ...]:
        """The place that defined the value, when it is another line."""
        origin = self.session.origins.get(tensor.node)
        if origin is None or origin.span is None or not origin.name:
            return ()
        if but is not None and origin.span.source == but.source and origin.span.line == but.line:
            return ()
        return (Note(origin.span, f"{origin.name} comes from here"),)

    def child(self, tables: bool | None = None, guarded: bool | None = None) -> Scope:
        """A scope inside this one: own names first, then this one's."""
        return Scope(
            self.session,
            self.config,
            self.module,
            path=self.path,
            lifted=self.lifted,
            parent=self,
            restrict=dict(self.restrict),
            outer=self.outer,
            tables=self.tables if tables is None else tables,
            guarded=self.guarded if guarded is None else guarded,
            site=self.site,
            steps=self.steps,
            calls=self.calls,
        )

    def root(self) -> Scope:
        """The scope of the spec itself, which owns what is declared at its top level."""
        if self.session.top is None:
            self.session.top = Scope(self.session, self.session.config, self.session.module)
        return self.session.top

    def condition(self, axis: Axis) -> Node | None:
        """The condition on a restricted axis that reductions here must respect."""
        found = self.restrict.get(axis)
        return found.node if found is not None else None

    # ---------------------------------------------------------------------------------------------------- axes

    def visible(self, axis: Axis) -> bool:
        """Whether texts here may name the axis."""
        return axis not in self.lifted and axis not in self.session.listed

    def label(self, axis: Axis) -> str:
        """The name of an axis here."""
        scope: Scope | None = self
        while scope is not None:
            if axis in scope.labels:
                return scope.labels[axis]
            scope = scope.parent
        for name, own in self.config.own_axes.items():
            if own == axis:
                return name
        return axis.name

    def find(self, tensor: Tensor, name: str) -> Axis | None:
        """The visible axis of the value with this name."""
        hits = [axis for axis in tensor.axes if self.visible(axis) and self.label(axis) == name]
        return hits[0] if hits else None

    def axis(self, name: str) -> Axis | None:
        """The axis that a name means here without a value at hand: formal, config's, or one a rename introduces."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.axes:
                return scope.axes[name]
            scope = scope.parent
        found = self.config.axis(name)
        if found is not None:
            return found
        return self._renamed_axis(name) or lengths.made_axis(self, name)

    def _renamed_axis(self, name: str) -> Axis | None:
        """A rename [old → name] anywhere in this definition's text introduces the name, whatever the order."""
        if self.entry is None:
            return self.parent._renamed_axis(name) if self.parent else None
        found: set[Axis] = set()
        for item in renames(self.entry.definition):
            if len(item.old) == len(item.new) == 1 and item.new[0].name == name and item.old[0].name != name:
                old = self.axis(item.old[0].name)
                if old is not None:
                    found.add(Axis(name, old.size, old.owner))
        if len(found) == 1:
            return found.pop()
        return self.parent._renamed_axis(name) if self.parent and not found else None

    def need_axis(self, name: s.Name) -> Axis:
        """The axis that a name means here, or an error."""
        found = self.axis(name.name)
        if found is not None:
            return found
        known = self.known_axes()
        raise self.fail(
            "A110",
            f"no axis `{name.name}` is known here",
            name.span,
            because=(f"the axes here are {', '.join(known)}",) if known else (),
            help=self.suggest(name.name, known) or f"Declare it in a parameter's brackets, like x[{name.name}].",
        )

    def known_axes(self) -> list[str]:
        """The names of axes that may be used here."""
        scope: Scope | None = self
        found: dict[str, None] = {}
        while scope is not None:
            found.update(dict.fromkeys(scope.axes))
            scope = scope.parent
        return list(found)

    def note_axes(self, tensor: Tensor) -> None:
        """Remembers the visible axes of a value by name, so that index formulas written later find them."""
        for axis in tensor.axes:
            if self.visible(axis):
                self.axes.setdefault(self.label(axis), axis)

    def suggest(self, name: str, known: Iterable[str]) -> str:
        """`Did you mean X?`, or nothing."""
        near = similar(name, known)
        return f"Did you mean {near[0]}?" if near else ""

    # --------------------------------------------------------------------------------------------------- names

    def lookup(self, name: str) -> Value | None:
        """What the name means here, without evaluating index formulas; None when it means nothing."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._local(name)
            if found is not None:
                return found
            scope = scope.parent
        return self._global(name)

    def _local(self, name: str) -> Value | None:
        if name in self.values:
            return self.values[name]
        if name in self.states:
            return States(name, self)
        if name in self.equations:
            return self._solve(name)
        if self.entry is not None:
            found = instances.part(self, name)
            if found is not None:
                return found
        if name in self.axes:
            return self.length(self.axes[name])
        return None

    def _global(self, name: str) -> Value | None:
        found = instances.spec_part(self, name)
        if found is not None:
            return found
        if name in self.config:
            return self.config.value(name)
        entry = self.module.entries.get(name)
        if entry is not None:
            return Formula(entry, scope=self)
        axis = self._renamed_axis(name) or lengths.made_axis(self, name)
        if axis is not None:
            return self.length(axis)
        return Poison if name in self.module.broken else builtins.value(name)

    def length(self, axis: Axis) -> Value:
        """The size of an axis as a number."""
        if isinstance(axis.size, int):
            return Fraction(axis.size)
        return Tensor(ir.size(axis))

    def need(self, name: s.Name) -> Value:
        """What the name means here, or an error with the nearest name."""
        found = self.lookup(name.name)
        if found is not None:
            return found
        known = self.known()
        raise self.fail(
            "N201",
            f"unknown name `{name.name}`",
            name.span,
            notes=self.removed(name.name),
            help=self._advice(name.name, known),
        )

    def removed(self, name: str) -> tuple[Note, ...]:
        """Where a spec that extends another one took the name away."""
        place = self.session.module.removed.get(name)
        return (Note(place, "removed here"),) if place else ()

    def _advice(self, name: str, known: list[str]) -> str:
        near = self.suggest(name, known)
        if near:
            return near
        from .library import where_defined

        other = where_defined(name)
        if other is not None:
            module, found = other
            text = f"{module}.formula defines {found}; import it:  from {module} import {found}"
            if module != self.module.name:
                return text
        return "Declare it: as a parameter, in a `where`, under `weights`, or in config."

    def known(self) -> list[str]:
        """Every name that means something here."""
        found: dict[str, None] = {}
        scope: Scope | None = self
        while scope is not None:
            for names in (scope.values, scope.equations, scope.states, scope.axes):
                found.update(dict.fromkeys(names))
            if scope.entry is not None:
                body = scope.entry.definition.body
                found.update((n.name, None) for n in declared_names(body))
            scope = scope.parent
        found.update(dict.fromkeys((*self.config.names(), *self.module.entries, *self.module.uses, *builtins.NAMES)))
        return list(found)

    # ----------------------------------------------------------------------------------------------- equations

    def take(self, where: Iterable[s.Statement]) -> None:
        """Registers the equations of a `where`: plain ones on demand, recurrences as states."""
        seen: dict[str, s.Name] = {}
        for statement in where:
            if isinstance(statement, s.Loop) or self._is_state(statement):
                loops.register(self, statement)
                continue
            self._unique(statement.name, seen)
            if statement.params is not None:
                self.values[statement.name.name] = Formula(local_entry(statement, self.module), scope=self)
            else:
                self.equations[statement.name.name] = statement

    def _is_state(self, statement: s.Assign) -> bool:
        if len(statement.brackets) != 1 or not isinstance(statement.brackets[0], s.PlainItem):
            return False
        value = statement.brackets[0].value
        if isinstance(value, s.Name):
            return isinstance(self.lookup(value.name), Counter)
        return True

    def _unique(self, name: s.Name, seen: dict[str, s.Name]) -> None:
        if name.name in seen:
            raise self.fail(
                "N202",
                f"`{name.name}` is defined twice in this `where`",
                name.span,
                notes=(Note(seen[name.name].span, "first here"),),
                help="Parts stand in any order, so a name has one meaning. A repeated step is a recurrence: "
                f"{name.name}[0] = …, then {name.name}[l + 1] = layer[l]({name.name}[l]).",
            )
        seen[name.name] = name

    def _solve(self, name: str) -> Value:
        from . import expressions

        equation = self.equations[name]
        if name in self.busy:
            raise self._circle(name)
        self.busy.append(name)
        try:
            found = heads.shared(self, name, equation) or expressions.equation(self, name, equation)
        except Poisoned:
            del self.equations[name]
            self.values[name] = Poison
            raise
        except TransformulaError as fault:
            for one in fault.diagnostics:
                self.session.diagnostics.add(one)
            self.values[name] = Poison
            raise Poisoned from None
        finally:
            self.busy.remove(name)
        self.values[name] = found
        return found

    def _circle(self, name: str) -> TransformulaError:
        round_ = [*self.busy[self.busy.index(name) :], name]
        pairs = list(pairwise(round_))
        steps = [f"`{a}` needs {f'`{b}`' if a != b else 'itself'}" for a, b in pairs]
        places = [place_of(self.equations[a], b) for a, b in pairs]
        others = zip(places[1:4], steps[1:4], strict=True)
        return self.fail(
            "N204",
            " and ".join(steps) if len(steps) < 5 else f"{steps[0]}, and so on round to `{name}`",
            places[0],
            notes=tuple(Note(place, step.replace("`", "")) for place, step in others),
            help="A definition may not go in a circle. If this is a step repeated over layers, index it: "
            f"{name}[l + 1] = f({name}[l]).",
        )

    def part(self, name: str, span: Span) -> Value:
        """A named part of this call (`a.scores`), for whoever made it."""
        found = self._local(name)
        if found is not None:
            return found
        known = [*self.values, *self.equations, *self.states]
        kind = self.entry.name if self.entry else "this"
        advice = self.suggest(name, known) or (f"Its parts are {', '.join(known)}." if known else "")
        raise self.fail("N207", f"`{kind}` has no part `{name}`", span, help=advice)

    def origin(self, node: Node, span: Span, name: str) -> None:
        """Remembers where a node comes from (the first place wins; a named one wins over an unnamed one)."""
        old = self.session.origins.get(node)
        if old is None or (name and not old.name):
            block = self.entry.name if self.entry else ""
            path = self.path.rstrip(".")
            inner = (old.inner or old) if old is not None and old.path != path else None
            self.session.origins[node] = Origin(span, path, name, block, self.calls, inner)


class _Poison:
    """Stands for a value whose mistake has been told."""


Poison: Value = _Poison()  # type: ignore[assignment]


def config_scope(config: Config) -> Scope:
    """A scope that sees config and the module's formulas only."""
    return Scope(Session(config.module, config), config, config.module)


def module_scope(module: Module, config: Config | None = None) -> Scope:
    """A scope for the top of a module."""
    own = config if config is not None else Config(module)
    return Scope(Session(module, own), own, module)


__all__ = ["Callee", "Poison", "Scope", "Session", "config_scope", "module_scope"]
