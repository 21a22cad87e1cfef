"""Printing and reading back: random trees, and the formatter on whole files."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import transformula
from transformula.grammar import syntax as s
from transformula.grammar.diagnostics import Source, Span
from transformula.grammar.parser import parse
from transformula.grammar.printer import expression, format_source

AT = Span(Source("", ""), 0, 0)
NAMES = st.sampled_from(["x", "W_Q", "γ", "d", "weights", "x₁", "W'", "infinite", "e5"]).map(
    lambda n: s.Name(AT, n)
)
LEAVES = st.one_of(
    NAMES,
    st.fractions(0, 100, max_denominator=1).map(lambda v: s.Number(AT, v)),
    st.sampled_from(["0.1", "1e-12", "12e20", "2.50"]).map(lambda t: s.Number(AT, Fraction(t))),
    st.just(s.Infinity(AT)),
    st.just(s.Text(AT, "a b")),
)
FOLDED = {"sqrt", "abs", "transpose"}


def several(of: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[tuple[s.Expr, ...]]:
    return st.lists(of, min_size=2, max_size=3).map(tuple)


def signed(of: st.SearchStrategy[s.Expr], signs: str) -> st.SearchStrategy[tuple[tuple[str, s.Expr], ...]]:
    rest = st.lists(st.tuples(st.sampled_from(signs.split()), of), min_size=1, max_size=3)
    return st.tuples(of, rest).map(lambda pair: ((signs[0], pair[0]), *pair[1]))


def items(of: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[tuple[s.Item, ...]]:
    names = st.lists(NAMES, min_size=1, max_size=2).map(tuple)
    one = st.one_of(
        st.builds(s.PlainItem, st.just(AT), of),
        st.builds(s.EqualItem, st.just(AT), NAMES, of, st.none() | of),
        st.builds(s.RenameItem, st.just(AT), names | st.just(()), names),
        st.builds(s.RestrictItem, st.just(AT), NAMES, of, st.none() | NAMES, st.none() | NAMES),
        st.builds(s.RestrictItem, st.just(AT), NAMES, st.none(), NAMES, st.none() | NAMES),
    )
    return st.lists(one, min_size=1, max_size=2).map(tuple)


def cases(of: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[s.Expr]:
    pairs = st.lists(st.tuples(of, of), min_size=1, max_size=2)
    return st.tuples(pairs, of).map(lambda both: s.Cases(AT, (*both[0], (both[1], None))))


def larger(of: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[s.Expr]:
    plain = st.lists(st.builds(s.Arg, st.just(AT), st.none(), of), max_size=2)
    named = st.lists(st.builds(s.Arg, st.just(AT), st.sampled_from(["p", "by"]), of), max_size=2)
    axes = st.none() | st.lists(NAMES, min_size=1, max_size=2).map(tuple)
    compared = several(of).flatmap(
        lambda xs: (
            st.lists(
                st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
                min_size=len(xs) - 1,
                max_size=len(xs) - 1,
            )
            .map(tuple)
            .map(lambda signs: s.Compare(AT, xs, signs))
        )
    )
    return st.one_of(
        st.builds(s.Unary, st.just(AT), st.sampled_from(["neg", "not", "sqrt", "abs", "transpose"]), of),
        signed(of, "+ -").map(lambda terms: s.Sum(AT, terms)),
        signed(of, "* / // %").map(lambda factors: s.Product(AT, factors)),
        st.builds(s.Power, st.just(AT), of, of),
        st.builds(s.Contract, st.just(AT), of, of, axes, st.just(AT)),
        compared,
        st.builds(s.Logic, st.just(AT), st.sampled_from(["and", "or"]), several(of)),
        cases(of),
        several(of).map(lambda parts: s.Concat(AT, parts)),
        st.builds(s.Select, st.just(AT), of, items(of)),
        st.tuples(of, plain, named).map(lambda parts: s.Call(AT, parts[0], (*parts[1], *parts[2]))),
        st.builds(s.Member, st.just(AT), of, st.sampled_from(["scores", "e5", "of"])),
    )


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(LEAVES, larger, max_leaves=12))
def test_random_trees_print_and_read_back(tree: s.Expr) -> None:
    text = expression(tree)
    item = parse(f"f = {text}").items[0]
    assert isinstance(item, s.Definition)
    assert item.outputs[0].value == tree
    assert expression(item.outputs[0].value) == text
    formatted = format_source(f"f={text}")
    assert format_source(formatted) == formatted


SPECS = sorted(Path(transformula.__file__).parent.glob("specs/**/*.formula"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_shipped_files_keep_their_meaning(path: Path) -> None:
    text = path.read_text("utf-8")
    formatted = format_source(text, path.name)
    assert parse(formatted) == parse(text)
    assert format_source(formatted) == formatted
    assert [line.strip() for line in formatted.splitlines() if line.strip().startswith("#")] == [
        line.strip() for line in text.splitlines() if line.strip().startswith("#")
    ]


UGLY = """\
# head
spec  s   extends t for "a","b"   # trailing
config   # sizes
  d=8 as hidden_size


  layers  =  12   as n.layers
  # between
  act : activation=gelu
f [ j ] (x[j],y=1e-5)=sqrt(x)*x^2-sqrt(x+1)^2+abs(x)  -inf
g(x) -> [d] =a@ [k]b @ [u;v] / - x  ⊙ y
  where a = (b +   # why
         # own line
      c)
        b=x [a->b] [c:seq if c<=1]
        t(β) =
            1 if β!=0
            -2 otherwise
  weights W,V:[d->head dk]~normal(0.02)   if bias
          long_name : [d]~0
checkpoint hf
  [a;b] :"x{l}"[d,(a b)]
  layer[l]:"y."
      W : "z"
# end"""

NICE = """\
# head
spec s extends t for "a", "b"  # trailing
config  # sizes
    d = 8 as hidden_size

    layers           = 12 as n.layers
    # between
    act : activation = gelu
f[j](x[j], y = 1e-5) = √x * x² - sqrt(x + 1)² + |x| - ∞
g(x) → [d] = a @[k] b @ [u; v] / -x ⊙ y
    where a = (b +  # why
               # own line
               c)
          b = x[a → b][c: seq if c ≤ 1]
          t(β) =
              1 if β ≠ 0
              -2 otherwise
    weights W, V      : [d → head dk] ~ normal(0.02) if bias
            long_name : [d]           ~ 0
checkpoint hf
    [a; b]   : "x{l}" [d, (a b)]
    layer[l] : "y."
        W : "z"
# end
"""


def test_formatting() -> None:
    assert format_source(UGLY) == NICE
    assert format_source(NICE) == NICE
