"""The same spec at small sizes: what its config makes of 768 and 30522 is proved at 6 and 11.

Sizes that other sizes are computed from are free; computed ones follow and must stay whole (dk = d / head), unless the
user gave them another value than their formula's: such ones are free, too (heads of keys, a head's width). All that
is no size (activation, rates, yes or no, texts) stays as the user's config says, and so does a size of 0 or 1, which
mostly switches something. What is refused falls back, entry by entry, to the size that was legal before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...grammar import syntax as s
from ...grammar.diagnostics import TransformulaError
from .. import expressions
from ..config import Config
from ..driver import Compiled, lowered, selecting
from ..graphs import restricted
from ..heads import losses
from ..ir import Axis, Graph, Node
from ..modules import Entry
from ..names import names_in
from ..scope import config_scope
from ..wanted import wanted

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
ENOUGH = 64
"""A size up to which the user's own is small enough."""

TRIES = 40
"""How many graphs a search for legal sizes may lower."""


@dataclass(frozen=True)
class Small:
    """A model at small sizes: what it is called, the sizes that were chosen, the config and the formula graph."""

    name: str
    sizes: Mapping[str, int]
    config: Config
    graph: Graph

    def __str__(self) -> str:
        return ", ".join(f"{name} = {size}" for name, size in self.sizes.items())


@dataclass(frozen=True)
class Knobs:
    """What of a config can be made small: entries by their use, each with the user's size; and computed sizes."""

    loops: Mapping[str, int]
    tables: Mapping[str, int]
    widths: Mapping[str, int]
    hidden: Mapping[str, int]  # sizes are computed from these, and no axis is called so
    computed: tuple[str, ...]

    @property
    def free(self) -> dict[str, int]:
        """Every entry that may be changed."""
        return {**self.hidden, **self.loops, **self.widths, **self.tables}


def axes_of(graph: Graph) -> set[Axis]:
    """Every axis of known size that a node or weight of the graph has."""
    found = {axis for weight in graph.weights for axis in (*weight.axes, *weight.stack)}
    for one in graph.nodes():
        found.update(one.axes)
        if one.op == "loop":
            found.add(one["axis"])
    return {axis for axis in found if isinstance(axis.size, int)}


def knobs(config: Config, graph: Graph) -> Knobs:
    """The free and the computed sizes of a model."""
    named = {axis.name for axis in axes_of(graph)}
    loops = {one["axis"].name for one in graph.nodes() if one.op == "loop"}
    loops |= {axis.name for weight in graph.weights for axis in weight.stack}
    tables = {axis.name for one in graph.nodes() if one.op == "pick" for axis in _looked_up(one)}
    free: dict[str, int] = {}
    computed = []
    for name in _below(config, named):
        size = _size(config, name)
        if size is None:
            continue
        if any(one in config for one in _mentions(config, name)) and not _apart(config, name, size):
            computed.append(name)
        elif size > 1:
            free[name] = size
    kinds: dict[str, dict[str, int]] = {"loops": {}, "tables": {}, "widths": {}, "hidden": {}}
    for name, size in sorted(free.items(), key=lambda pair: pair[1]):
        kind = "hidden" if name not in named else "loops" if name in loops else "tables" if name in tables else "widths"
        kinds[kind][name] = size
    return Knobs(**kinds, computed=tuple(computed))


def _looked_up(pick: Node) -> Iterator[Axis]:
    """The axes that are picked by something that is known at run time only."""
    for axis, place in zip(pick["keys"], pick.args[1:], strict=True):
        if place.op not in ("const", "counter"):
            yield axis


def _below(config: Config, named: set[str]) -> list[str]:
    """The config entries of these names and all that their values are computed from."""
    found: dict[str, None] = {}
    waiting = sorted(name for name in named if name in config)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += [one for one in _mentions(config, name) if one in config]
    return sorted(found)


def _mentions(config: Config, name: str) -> list[str]:
    return [one.name for one in names_in(config.formula(name))]


def _quotient(config: Config, name: str) -> tuple[str, str]:
    """The names of dividend and divisor of an entry that is a quotient of two entries; no names of any other."""
    value = config.formula(name)
    factors = value.factors if isinstance(value, s.Product) else ()
    match factors:
        case ((_, s.Name(name=above)), ("/", s.Name(name=below))) if below in config:
            return above, below
    return "", ""


def shares(config: Config, graph: Graph) -> dict[str, int]:
    """What the sizes must be multiples of: an instance of the spec has a part of them, G : Generator(d = d / 4)."""
    known = {re.split(r"[.\[]", one.name)[0] for one in graph.weights}
    found: dict[str, int] = {}
    for use in (use for name, use in config.module.uses.items() if name in known):
        for value in (arg.value for arg in use.args):
            match value.factors if isinstance(value, s.Product) else ():
                case ((_, s.Name(name=name)), ("/", s.Number(value=part))) if name in config and part == int(part) > 0:
                    found[name] = math.lcm(found.get(name, 1), int(part))
    return found


def _apart(config: Config, name: str, size: int) -> bool:
    """Whether the user gave another size than the entry's formula."""
    if name not in config.module.options:
        return False
    try:
        return expressions.lower(config_scope(config), config.formula(name)) != size
    except TransformulaError:
        return True


def _size(config: Config, name: str) -> int | None:
    """The value of an entry that is a whole number and no text of a choice."""
    option = config.module.options.get(name)
    if option is not None and (option.choice is not None or option.index is not None):
        return None
    try:
        value = config.value(name)
    except TransformulaError:
        return None
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else None


# ------------------------------------------------------------------------------------------------ choosing sizes


def different(found: Knobs) -> dict[str, int]:
    """Pairwise different primes, in the order of the user's own sizes, large ones from 11; three layers."""
    return _primes(found, large=11)


def wide(found: Knobs) -> dict[str, int]:
    """The same with larger primes, for passes that ask whether they pay."""
    return _primes(found, large=37)


def _primes(found: Knobs, large: int) -> dict[str, int]:
    sizes = dict.fromkeys(found.loops, 3)
    many = math.isqrt(max(found.widths.values(), default=0))  # heads are few, what they are parts of is many
    few = [name for name, size in found.widths.items() if size <= many]
    sizes |= dict(zip([*found.hidden, *few], PRIMES, strict=False))
    rest = [name for name in (*found.widths, *found.tables) if name not in sizes]
    return sizes | dict(zip(rest, (p for p in PRIMES if p >= large and p not in sizes.values()), strict=False))


def equal(found: Knobs) -> dict[str, int]:
    """Four of everything, as of entries of a length; two layers."""
    return {**dict.fromkeys(found.free, 4), **dict.fromkeys(found.loops, 2)}


def ones(found: Knobs) -> dict[str, int]:
    """One of everything."""
    return dict.fromkeys(found.free, 1)


PROFILES = {"different": (different, 3), "equal": (equal, 2), "ones": (ones, 1), "wide": (wide, 3)}
"""How sizes are chosen, and the least that one computed from them should be."""


@dataclass(frozen=True)
class Subject:
    """A model, or an objective of it, whose passes are to be proved."""

    entry: Entry
    config: Config
    graph: Graph
    rows: Mapping[str, str] = field(default_factory=dict)

    @property
    def shows(self) -> list[str]:
        """Its results on demand."""
        known = [one.name or "" for one in self.entry.definition.body.shows]
        return [out.name for out in self.graph.outputs if out.name in known]


def subjects(made: Compiled) -> list[Subject]:
    """The model of a compilation, and its objectives as functions of its results."""
    found = [Subject(made.module.entries[made.entry], made.config, made.formula, made.rows)]
    entries = {one.name: one for one in losses(made.module, made.entry, [out.name for out in made.formula.outputs])}
    return [*found, *(Subject(entries[one.entry], one.config, one.formula) for one in made.losses)]


class Shrinker:
    """Lowers one model at other sizes."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.knobs = knobs(subject.config, subject.graph)
        self.shares = shares(subject.config, subject.graph)
        self.tries = TRIES
        self._given, self._settings = self._without_computed()

    def _without_computed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the user gave, without sizes that follow from others: they follow from other ones now."""
        config, given = self.subject.config, deepcopy(dict(self.subject.config.given))
        for name in self.knobs.computed:
            option = config.module.options.get(name)
            for key in option.keys if option is not None else ():
                _forget(given, key)
        return given, {name: v for name, v in config.settings.items() if name not in self.knobs.computed}

    def small(self, profile: str) -> Small | None:
        """The model at the sizes of a profile, or as near to them as is legal; None if nothing small is."""
        choose, least = PROFILES[profile]
        wanted = {name: size * self.shares.get(name, 1) for name, size in choose(self.knobs).items()}
        self.tries = TRIES
        return self.lower(profile, self.fitted(wanted, least)) or self._nearest(profile, wanted)

    def grown(self, small: Small) -> Small | None:
        """The same with larger tables, for texts that do not fit into them."""
        more = {name: 2 * small.sizes[name] + 8 for name in (*self.knobs.tables, *self.knobs.hidden)}
        sizes = {**small.sizes, **more}
        return self.lower(small.name, sizes) if more and max(more.values()) < 4 * ENOUGH else None

    def lower(self, name: str, sizes: Mapping[str, int]) -> Small | None:
        """The model at these sizes, None where the spec refuses them."""
        self.tries -= 1
        config = self.config(sizes)
        try:
            return Small(name, dict(sizes), config, self._graph(config))
        except (TransformulaError, ZeroDivisionError, OverflowError):
            return None

    def config(self, sizes: Mapping[str, int]) -> Config:
        """The user's config with these sizes."""
        overrides = {name: Fraction(size) for name, size in sizes.items()}
        given, settings = deepcopy(self._given), dict(self._settings)
        module = self.subject.config.module
        for option in module.options.values():
            axis = option.index.axis.name if option.index is not None and option.index.axis is not None else ""
            if axis in sizes:
                for key in option.keys:
                    _cycle(given, key, sizes[axis])
                _cycle(settings, (option.name.name,), sizes[axis])
        return Config(module, given, settings, overrides)

    def fitted(self, wanted: Mapping[str, int], least: int) -> dict[str, int]:
        """The sizes, changed one at a time until all that is computed from them is whole and at least `least`."""
        tried = [dict(wanted)]
        for _ in range(6 * len(self.knobs.computed)):
            wrong = self._wrong(tried[-1], least)
            repaired = self._repaired(tried, wrong, least) if wrong else None
            if repaired is None:
                break
            tried.append(repaired)
        return tried[-1]

    def _repaired(self, tried: list[dict[str, int]], wrong: list[str], least: int) -> dict[str, int] | None:
        """The last sizes with another one, the nearest that leaves less wrong."""
        sizes = tried[-1]
        behind = [name for name in sizes if name in _below(self.subject.config, set(wrong))]
        near = {name: range(min(2, least), 2 * sizes[name] + 9) for name in behind}
        changes = [
            (abs(size - sizes[name]), name, size)
            for name in behind
            for size in near[name]
            if not size % self.shares.get(name, 1)
        ]
        for _, name, size in sorted(changes):
            changed = {**sizes, name: size}
            if changed not in tried and len(self._wrong(changed, least)) < len(wrong):
                return changed
        return self._multiplied(sizes, wrong, least)

    def _multiplied(self, sizes: dict[str, int], wrong: list[str], least: int) -> dict[str, int] | None:
        """With a multiple of what a size is divided by: group = head / kv is whole for head = 3 * kv."""
        for name in wrong:
            above, below = _quotient(self.subject.config, name)
            unit = _size(self.config(sizes), below) if above in sizes else None
            unit = math.lcm(unit, self.shares.get(above, 1)) if unit else None
            ways = [{**sizes, above: unit * times} for times in range(least, least + 9)] if unit else []
            found = [self._wrong(way, least) for way in ways]
            right = [(len(left), place) for place, left in enumerate(found) if name not in left]
            if right:
                return ways[min(right)[1]]
        return None

    def _wrong(self, sizes: Mapping[str, int], least: int) -> list[str]:
        config = self.config(sizes)
        found = []
        for name in self.knobs.computed:
            own = _size(self.subject.config, name) or 0
            size = _size(config, name)
            if size is None or size < min(least, own):
                found.append(name)
        return found

    def _nearest(self, profile: str, wanted: Mapping[str, int]) -> Small | None:
        """From legal sizes, as many of the wanted ones as are legal together."""
        start = self._legal(profile)
        if start is None:
            return None
        best = start
        for name, size in wanted.items():
            if self.tries <= 0:
                break
            if best.sizes.get(name) != size:
                best = self.lower(profile, {**best.sizes, name: size}) or best
        return best

    def _legal(self, profile: str) -> Small | None:
        """Some legal small sizes: the different ones with as few as possible of the user's own."""
        own = {name: size for name, size in self.knobs.free.items() if size <= ENOUGH}
        begin = {name: size * self.shares.get(name, 1) for name, size in different(self.knobs).items()}
        sizes = self.fitted(begin, 2)
        found = self.lower(profile, sizes)
        for name, size in own.items():
            if found is not None or self.tries <= 0:
                return found
            found = self.lower(profile, {**sizes, name: size})
        return found or self.lower(profile, {**sizes, **own})

    def _graph(self, config: Config) -> Graph:
        """The formula graph, with the results that the user's has."""
        subject = self.subject
        if subject.graph.selects:
            graph = selecting(config.module, config, subject.entry)[0]
        else:
            graph = lowered(config.module, config, subject.entry, subject.shows)
        names = [out.name for out in subject.graph.outputs]
        if [out.name for out in graph.outputs] != names:
            graph = restricted(graph, names)
        return wanted(graph, (), subject.rows)


def _forget(holder: dict[str, Any], key: tuple[str, ...]) -> None:
    for part in key[:-1]:
        inner = holder.get(part)
        if not isinstance(inner, dict):
            return
        holder = inner
    if holder.get(key[-1]) is not None:  # null may be what makes it follow
        holder.pop(key[-1], None)


def _cycle(holder: dict[str, Any], key: tuple[str, ...], size: int) -> None:
    """A list of a value per layer has as many as there are layers."""
    for part in key[:-1]:
        inner = holder.get(part)
        if not isinstance(inner, dict):
            return
        holder = inner
    values = holder.get(key[-1])
    if isinstance(values, list) and values:
        holder[key[-1]] = [values[place % len(values)] for place in range(size)]
