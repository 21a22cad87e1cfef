"""The syntax tree: frozen objects with source spans, exactly what the text says and nothing more.

Sums, products, comparisons and logical chains are flat (a sum of 5,000 terms is one node), so no later step recurses
along a chain. Spans are left out of comparison: two trees are equal when their text means the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from .diagnostics import Span


@dataclass(frozen=True)
class Node:
    """Anything that stands somewhere in a file."""

    span: Span = field(compare=False, repr=False)


# ---------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Number(Node):
    """A literal, exact: `0.1` is 1/10."""

    value: Fraction
    text: str = field(compare=False, default="")


@dataclass(frozen=True)
class Infinity(Node):
    """`∞` or `inf`."""


@dataclass(frozen=True)
class Text(Node):
    """`"…"`: only config choices and checkpoint names are texts."""

    value: str


@dataclass(frozen=True)
class Name(Node):
    """A name of an axis, value, formula, block, weight or config entry."""

    name: str


@dataclass(frozen=True)
class Unary(Node):
    """op is one of: neg, not, sqrt, abs, transpose."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Sum(Node):
    """a + b - c: pairs of sign (`+`, `-`) and term."""

    terms: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Product(Node):
    """a * b / c // d % e, from left to right: pairs of operator and factor, the first with `*`."""

    factors: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Power(Node):
    """base ^ exponent (also `²`, `³`)."""

    base: Expr
    exponent: Expr


@dataclass(frozen=True)
class Contract(Node):
    """left @[axes] right; axes is None for a bare `@`."""

    left: Expr
    right: Expr
    axes: tuple[Name, ...] | None
    sign: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Compare(Node):
    """a < b ≤ c: operators are `<`, `<=`, `>`, `>=`, `==`, `!=`."""

    operands: tuple[Expr, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Logic(Node):
    """op is `and` or `or`."""

    op: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class Cases(Node):
    """`a if c else b`, or printed cases: pairs of value and condition; the last condition is None (otherwise)."""

    cases: tuple[tuple[Expr, Expr | None], ...]


@dataclass(frozen=True)
class Concat(Node):
    """[u; v; w]"""

    parts: tuple[Expr, ...]


@dataclass(frozen=True)
class Select(Node):
    """base[items]: pick, rename, split, merge, bind, restrict, state or instance; the kinds of names decide."""

    base: Expr
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Arg(Node):
    """A call's argument, by place (name None) or by name."""

    name: str | None
    value: Expr


@dataclass(frozen=True)
class Call(Node):
    """function(args)"""

    function: Expr
    args: tuple[Arg, ...]


@dataclass(frozen=True)
class Member(Node):
    """base.name: a weight or part of an instance, an output or named part of a call."""

    base: Expr
    name: str


# ---------------------------------------------------------------------------------------- items in brackets


@dataclass(frozen=True)
class PlainItem(Node):
    """x[e]: an axis name, a state's number or an instance's number."""

    value: Expr


@dataclass(frozen=True)
class EqualItem(Node):
    """x[axis = e else v]: a pick of a value, or the binding of an axis of a formula."""

    axis: Name
    value: Expr
    otherwise: Expr | None = None


@dataclass(frozen=True)
class RenameItem(Node):
    """x[a → b], split x[d → head dk], merge x[head dk → d], new axis x[→ stream] (old is empty)."""

    old: tuple[Name, ...]
    new: tuple[Name, ...]


@dataclass(frozen=True)
class RestrictItem(Node):
    """f[axis if condition]; `as_index` is the r of f[r: axis if r ≤ i]; `new` the out of x[seq if keep → out]."""

    axis: Name
    condition: Expr | None
    as_index: Name | None = None
    new: Name | None = None


Item: TypeAlias = PlainItem | EqualItem | RenameItem | RestrictItem
Expr: TypeAlias = (
    Number
    | Infinity
    | Text
    | Name
    | Unary
    | Sum
    | Product
    | Power
    | Contract
    | Compare
    | Logic
    | Cases
    | Concat
    | Select
    | Call
    | Member
)


# ------------------------------------------------------------------------------------------------ definitions


@dataclass(frozen=True)
class Axes(Node):
    """Axes of a weight or parameter: table [a, b], or map [carried, in1 in2 → out1 out2] (`outs` is not None)."""

    carried: tuple[Name, ...]
    ins: tuple[Name, ...] = ()
    outs: tuple[Name, ...] | None = None

    @property
    def names(self) -> tuple[Name, ...]:
        """All of them in order: carried, in, out."""
        return (*self.carried, *self.ins, *(self.outs or ()))


@dataclass(frozen=True)
class AxisParam(Node):
    """softmax[j] (index None) or causal[i: seq] (index i, axis seq)."""

    axis: Name
    index: Name | None = None


@dataclass(frozen=True)
class Param(Node):
    """x[d] as alias = default; axes is None when there are no brackets."""

    name: str
    axes: Axes | None = None
    alias: str | None = None
    default: Expr | None = None


@dataclass(frozen=True)
class Output(Node):
    """name[axes] = value of a definition's head; name None for the only, unnamed result; axes None if undeclared."""

    name: str | None
    axes: tuple[Name, ...] | None
    value: Expr


@dataclass(frozen=True)
class Assign(Node):
    """name = e · t[seq, key] = e (declared axes) · a[c: dk] = e (index formula) · x[l + 1] = e (state) · f(p) = e."""

    name: Name
    brackets: tuple[PlainItem | AxisParam, ...]
    params: tuple[Param, ...] | None
    value: Expr


@dataclass(frozen=True)
class Loop(Node):
    """for variable in stop: … or for variable in start..stop: …"""

    variable: Name
    start: Expr | None
    stop: Expr
    body: tuple[Statement, ...]


Statement: TypeAlias = Assign | Loop


@dataclass(frozen=True)
class WeightDecl(Node):
    """W_Q, W_K : [d → head dk] ~ normal(0.02) if bias"""

    names: tuple[Name, ...]
    axes: Axes
    init: Expr | None
    condition: Expr | None


@dataclass(frozen=True)
class UseDecl(Node):
    """layer[layers] : Layer[d = emb](p = 0.1) if gated; `indices` are the axes of the stack."""

    names: tuple[Name, ...]
    indices: tuple[Name, ...]
    block: Name
    binds: tuple[EqualItem, ...]
    args: tuple[Arg, ...]
    condition: Expr | None


@dataclass(frozen=True)
class Body(Node):
    """What stands under a head, in any order."""

    where: tuple[Statement, ...] = ()
    weights: tuple[WeightDecl, ...] = ()
    uses: tuple[UseDecl, ...] = ()
    removes: tuple[Name, ...] = ()
    shows: tuple[Output, ...] = ()


@dataclass(frozen=True)
class Definition(Node):
    """kind is formula, block, model or objective; params is None when there are no parentheses (an index formula).

    A model `of` an instance, or an objective `of` a model, has that one's inputs, and its results by their names. With
    `for choice` an example is several texts, one for each choice, and the model is applied to each.
    """

    kind: str
    name: Name
    axes: tuple[AxisParam, ...]
    params: tuple[Param, ...] | None
    outputs: tuple[Output, ...]
    body: Body
    of: Name | None = None
    each: Name | None = None


@dataclass(frozen=True)
class Change(Node):
    """change NAME(params) [= expr] and the equations, weights and uses to replace; `remove` lines take away."""

    name: Name
    value: Expr | None
    body: Body
    params: tuple[Param, ...] = ()


@dataclass(frozen=True)
class Remove(Node):
    """remove A, B"""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class Import(Node):
    """from functions import gelu, relu"""

    module: Name
    names: tuple[Name, ...]


@dataclass(frozen=True)
class Option(Node):
    """d : choice = 768 as hidden_size, n_embd; `index`/`axis` make it a vector, a value per layer: local[l: layers].

    `null` (`as KEY or none`) is what null in the file means, if that is not the default.
    """

    name: Name
    index: AxisParam | None
    choice: Name | None
    value: Expr
    keys: tuple[tuple[str, ...], ...]
    null: Expr | None = None


@dataclass(frozen=True)
class Choice(Node):
    """choice activation: rows of texts and the formula (or value) that they mean."""

    name: Name
    rows: tuple[tuple[tuple[str, ...], Expr], ...]


@dataclass(frozen=True)
class AxisDecl(Node):
    """axes two = 2"""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Tie(Node):
    """tie G.embed.E = D.embed.E"""

    left: Expr
    right: Expr


@dataclass(frozen=True)
class Path(Node):
    """layer[l].attn.W_Q: names with their indices."""

    parts: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Mapping(Node):
    """path : "name.{l}" [layout]; several paths are one fused tensor; `include` is another model's map with a prefix.

    layout: one group of axis names per stored dimension (an empty group is a dimension of size 1).
    """

    paths: tuple[Path, ...]
    include: Name | None
    stored: str
    layout: tuple[tuple[str, ...], ...] | None
    nested: tuple[Mapping | Skip, ...] = ()
    condition: Expr | None = None


@dataclass(frozen=True)
class Skip(Node):
    """skip "name.{l}": a stored key that is read by nobody."""

    stored: str


@dataclass(frozen=True)
class Checkpoint(Node):
    """checkpoint huggingface of Bert from Other for "BertModel": rows tie weights to stored names."""

    ecosystem: Name
    model: Name | None
    base: Name | None
    architectures: tuple[str, ...]
    rows: tuple[Mapping | Skip, ...]


Declaration: TypeAlias = (
    Import | Option | Choice | AxisDecl | Definition | Change | Remove | UseDecl | WeightDecl | Tie | Checkpoint
)


@dataclass(frozen=True)
class File(Node):
    """A whole file: `spec NAME extends OTHER for "model_type"`; name is None in a file of functions."""

    name: Name | None
    extends: Name | None
    model_types: tuple[str, ...]
    items: tuple[Declaration, ...]
