"""The same mathematics in other words: each rule keeps every value, and no recognised meaning may be lost by it.

A rule takes a term whose arguments are respelled already and gives another one of the same axes, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.fuzz import making as m
from tests.fuzz.making import Draw, number, term
from tests.fuzz.tree import Block, Loop, Spec, State, Term, blocks, on, terms

FIXED = ("d", "dk", "dv", "part", "width", "head", "ffn")
SHORT = 60
"""Letters of a definition that may be written where its name stands."""


@dataclass
class Words:
    """What a rule may ask for: choices, and names that nothing has yet."""

    draw: Draw
    count: int = 0

    def named(self, one: Term, declared: bool = False) -> Term:
        """The term under a name of its own."""
        if one.op in ("name", "leaf", "state", "number", "weight"):
            return one
        self.count += 1
        more = "declared" if declared else ""
        return replace(one, op="name", text=f"v{self.count}", args=(one,), more=more, block=None, reads=None)


Rule = Callable[[Term, Words], "Term | None"]


def _fits(a: Term, b: Term) -> bool:
    return a.axes <= b.axes or b.axes <= a.axes


def commuted(one: Term, words: Words) -> Term | None:
    """a + b = b + a"""
    return on(one, one.args[::-1]) if one.op in ("+", "*", "contract", "and", "or") else None


def reassociated(one: Term, words: Words) -> Term | None:
    """(a + b) + c = a + (b + c)"""
    if one.op not in ("+", "*") or one.args[0].op != one.op:
        return None
    (a, b), c = one.args[0].args, one.args[1]
    if not _fits(b, c) or "int" in (a.kind, b.kind, c.kind):
        return None
    sign = "+" if one.op == "+" else "⊙"
    return m.binary(sign, a, m.binary(sign, b, c))


def scalar_moved(one: Term, words: Words) -> Term | None:
    """c * (a @ b) = (c * a) @ b = a @ (c * b)"""
    if one.op not in ("*", "/") or not one.args or "contract" not in {arg.op for arg in one.args}:
        return None
    product, factor = (one.args[0], one.args[1]) if one.args[0].op == "contract" else one.args[::-1]
    if factor.op != "number" or (one.op == "/" and product is not one.args[0]):
        return None
    a, b = product.args
    sign = "{0} / {1}" if one.op == "/" else "{0} * {1}"
    if words.draw.chance(50):
        return on(product, (term(one.op, sign, a, factor, bound=a.bound), b))
    return on(product, (a, term(one.op, sign, b, factor, bound=b.bound)))


def by_reciprocal(one: Term, words: Words) -> Term | None:
    """a / b = a * (1 / b)"""
    if one.op != "/":
        return None
    a, b = one.args
    inverse = term("/", "{0} / {1}", number("1"), b)
    return term("*", "{0} * {1}", a, inverse, bound=one.bound) if _fits(a, b) else None


def inlined(one: Term, words: Words) -> Term | None:
    """A definition in the place of its name."""
    if one.op != "name" or one.more or one.args[0].op in ("call", "lib") or len(str(one.args[0])) > SHORT:
        return None
    return one.args[0]


def named(one: Term, words: Words) -> Term | None:
    """A name for a part."""
    if one.op in ("number", "leaf", "name", "state", "weight"):
        return None
    return words.named(one, declared=bool(one.axes) and one.kind == "bool" and {"seq", "key"} == one.axes)


def squared(one: Term, words: Words) -> Term | None:
    """x² = x * x = x^2"""
    if one.op != "square":
        return None
    x = words.named(one.args[0])
    if words.draw.chance(50):
        return term("*", "{0} ⊙ {1}", x, x, bound=one.bound, low=0.0)
    return term("^", "{0}^2", x, bound=one.bound, low=0.0)


def turned(one: Term, words: Words) -> Term | None:
    """a if c else b = b if not c else a"""
    if one.op != "where":
        return None
    c, a, b = one.args
    return m.chosen(m.denied(c), b, a)


MIRROR = {"<": ">", "≤": "≥", ">": "<", "≥": "≤", "==": "==", "≠": "≠", "<=": ">="}
OPPOSITE = {"<": "≥", "≤": ">", ">": "≤", "≥": "<", "==": "≠", "≠": "==", "<=": ">"}


def mirrored(one: Term, words: Words) -> Term | None:
    """a < b = b > a; of whole numbers not (a ≥ b), too"""
    if one.op != "compare":
        return None
    if {arg.kind for arg in one.args if arg.op != "number"} == {"int"} and words.draw.chance(50):
        return m.denied(m.compared(OPPOSITE[one.more], *one.args))
    return m.compared(MIRROR[one.more], *one.args[::-1])


def doubly_negated(one: Term, words: Words) -> Term | None:
    """x = -(-x); c = not not c"""
    if one.op in ("number", "leaf", "weight") or one.kind == "int":
        return None
    if one.kind == "bool":
        return m.denied(m.denied(one)) if one.op in ("compare", "name") else None
    inner = term("neg", "-{0}", one, bound=one.bound)
    return term("neg", "-{0}", inner, bound=one.bound, low=one.low)


def difference(one: Term, words: Words) -> Term | None:
    """a - b = a + -b; a + b = a - -b"""
    if one.op not in ("+", "-") or one.kind == "int":
        return None
    a, b = one.args
    return m.binary("-" if one.op == "+" else "+", a, term("neg", "-{0}", b, bound=b.bound))


def neutral(one: Term, words: Words) -> Term | None:
    """x = x + 0 = 1 * x"""
    if one.kind != "real" or one.op in ("number", "weight"):
        return None
    return m.binary("+", one, number("0")) if words.draw.chance(50) else m.times("1", one)


def distributed(one: Term, words: Words) -> Term | None:
    """c * (a + b) = c * a + c * b"""
    if one.op != "*" or one.args[0].op != "number" or one.args[1].op not in ("+", "-"):
        return None
    c, (a, b) = one.args[0], one.args[1].args
    sign = one.args[1].op
    return term(sign, f"{{0}} {sign} {{1}}", *(term("*", "{0} * {1}", c, x, bound=x.bound * 4) for x in (a, b)))


def mean_as_sum(one: Term, words: Words) -> Term | None:
    """mean[d](x) = sum[d](x) / d"""
    kind, _, axis = one.more.partition(" ") if one.op == "reduce" else ("", "", "")
    if kind != "mean" or axis not in FIXED or len(one.args) > 1:
        return None
    size = term("size", axis, axes=frozenset(), kind="int", low=1.0)
    return term("/", "{0} / {1}", m.reduced("sum", axis, one.args[0]), size, bound=one.bound)


def there_and_back(one: Term, words: Words) -> Term | None:
    """x[seq → seq_there][seq_there → seq] = x"""
    axis = next((a for a in sorted(one.axes) if a in ("seq", "d", "head")), None)
    if axis is None or one.op in ("number", "leaf", "weight"):
        return None
    return m.renamed(m.renamed(one, axis, f"{axis}_there"), f"{axis}_there", axis)


def summed(one: Term, words: Words) -> Term | None:
    """a @[k] b = Σ[k] a ⊙ b"""
    if one.op != "contract":
        return None
    a, b = one.args
    made = words.named(term("*", "{0} ⊙ {1}", a, b, bound=a.bound * b.bound), declared=True)
    return m.reduced("sum", one.more, made)


def spelled(one: Term, words: Words) -> Term | None:
    """A library's function by its definition, in one of several ways."""
    if one.op != "lib" or one.more not in FORMS:
        return None
    x = words.named(one.args[0])
    made = FORMS[one.more](one, x, words)
    return None if made is None else replace(made, bound=one.bound, low=one.low)


def _form(template: str, *args: Term) -> Term:
    """A compound term written as one text."""
    return term("form", template, *args)


def _softmax(one: Term, x: Term, words: Words) -> Term | None:
    axis = one.text.split("[")[1].split("]")[0]
    if " if " in axis or "∞" in one.text or x.bound > 300:
        return None
    if words.draw.chance(50):
        x = words.named(_form(f"{{0}} - max[{axis}]({{0}})", x))
    e = words.named(_form("exp({0})", x))
    return _form(words.draw.choice((f"{{0}} / sum[{axis}]({{0}})", f"{{0}} * (1 / sum[{axis}]({{0}}))")), e)


def _log_softmax(one: Term, x: Term, words: Words) -> Term | None:
    axis = one.text.split("[")[1].split("]")[0]
    if x.bound > 300:
        return None
    return _form(
        words.draw.choice((f"{{0}} - log(sum[{axis}](exp({{0}})))", f"-log(sum[{axis}](exp({{0}})) / exp({{0}}))")), x
    )


def _norm(one: Term, x: Term, words: Words) -> Term | None:
    axis = one.text.split("[")[1].split("]")[0]
    eps = one.text.rstrip(")").split(", ")[-1].removeprefix("ε = ")
    mean = words.draw.choice((f"mean[{axis}]({{0}})", f"sum[{axis}]({{0}}) / {axis}"))
    c = x if one.more == "rms_norm" else words.named(_form(f"{{0}} - {mean}", x))
    square = words.draw.choice(("{0}²", "{0} ⊙ {0}"))
    over = words.draw.choice((f"mean[{axis}]({square})", f"sum[{axis}]({square}) / {axis}"))
    by = words.draw.choice(("{0} / √({1} + {2})", "{0} * ({1} + {2})^(-1/2)", "{0} * (1 / √({1} + {2}))"))
    made = by.replace("{1}", over).replace("{2}", eps)
    if len(one.args) > 1:
        made = words.draw.choice((f"{{1}} ⊙ ({made})", f"({made}) ⊙ {{1}}"))
    if len(one.args) > 2:
        made = words.draw.choice((f"{made} + {{2}}", f"{{2}} + {made}"))
    return _form(made, c, *one.args[1:])


def _pointwise(*templates: str) -> Callable[[Term, Term, Words], Term | None]:
    def form(one: Term, x: Term, words: Words) -> Term | None:
        return _form(words.draw.choice(templates), x) if x.bound < 300 else None

    return form


FORMS: Mapping[str, Callable[[Term, Term, Words], Term | None]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "gelu": _pointwise(
        "{0} * (1 + erf({0} / √2)) / 2", "0.5 * ({0} + {0} * erf({0} / √2))", "{0} * (0.5 + 0.5 * erf({0} * √0.5))"
    ),
    "gelu_tanh": _pointwise("{0} / 2 * (1 + tanh(√(2 / π) * {0} * (1 + 0.044715 * {0}²)))"),
    "silu": _pointwise("{0} / (1 + exp(-{0}))", "{0} * (1 + tanh({0} / 2)) / 2"),
    "sigmoid": _pointwise("(1 + tanh({0} / 2)) / 2", "1 / (1 + exp(-{0}))", "1 - 1 / (1 + exp({0}))"),
    "relu": _pointwise("max({0}, 0)", "{0} if {0} > 0 else 0", "({0} + |{0}|) / 2", "-min(-{0}, 0)"),
}

RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        commuted, reassociated, scalar_moved, by_reciprocal, inlined, named, squared, turned, mirrored, doubly_negated,
        difference, neutral, distributed, mean_as_sum, there_and_back, summed, spelled,
    )
}  # fmt: skip


# --------------------------------------------------------------------------------------------------- whole specs


@dataclass
class Respeller:
    """Goes through a spec and tries rules at its terms; loops and blocks are made anew, with what they hold."""

    words: Words
    rules: tuple[Rule, ...]
    percent: int = 30
    done: dict[Term, Term] = field(default_factory=dict)
    loops: dict[Loop, Loop] = field(default_factory=dict)
    made: dict[Block, Block] = field(default_factory=dict)

    def spec(self, spec: Spec) -> Spec:
        """The spec in other words."""
        for block in blocks(spec):
            self.made[block] = self.block(block)
        return replace(spec, model=self.made[spec.model])

    def block(self, block: Block) -> Block:
        """A block in other words."""
        parts = terms(block)
        for one in parts:
            for loop in (one.reads, one.step):
                if loop is not None and loop not in self.loops:
                    self.loops[loop] = Loop(loop.variable, loop.over)
        for one in parts:
            if one not in self.done:
                self.done[one] = self.term(one)
        for old, new in self.loops.items():
            if not new.states:
                new.states = [State(s.name, self.done[s.first], self.done[s.next]) for s in old.states]
        return Block(block.head, [(name, axes, self.done[one]) for name, axes, one in block.results])

    def term(self, one: Term) -> Term:
        """A term on its new arguments, by a rule now and then."""
        args = tuple(self.done[arg] for arg in one.args)
        reads, step = self.moved(one.reads), self.moved(one.step)
        block = self.made[one.block] if one.block is not None else None
        here = replace(one, args=args, reads=reads, step=step, block=block)
        for rule in self.rules:
            if self.words.draw.chance(self.percent):
                found = rule(here, self.words)
                if found is not None and found.axes == here.axes:
                    here = found
        return here

    def moved(self, loop: Loop | None) -> Loop | None:
        """The loop that stands for a loop."""
        return None if loop is None else self.loops[loop]


def respelled(spec: Spec, draw: Draw, rules: tuple[Rule, ...] = tuple(RULES.values()), percent: int = 12) -> Spec:
    """The spec in other words, by some of the rules at some of its places."""
    return Respeller(Words(draw), rules, percent).spec(spec)
