"""Trees of small texts: precedence, spellings, sizes, layout."""

from fractions import Fraction

import pytest

from transformula.grammar import syntax as s
from transformula.grammar.diagnostics import Source, Span
from transformula.grammar.parser import parse
from transformula.grammar.printer import expression

AT = Span(Source("", ""), 0, 0)


def read(text: str) -> s.Expr:
    item = parse(f"f(x) = {text}").items[0]
    assert isinstance(item, s.Definition)
    return item.outputs[0].value


def definition(text: str) -> s.Definition:
    item = parse(text).items[0]
    assert isinstance(item, s.Definition)
    return item


def name(text: str) -> s.Name:
    return s.Name(AT, text)


def number(value: int | str) -> s.Number:
    return s.Number(AT, Fraction(value))


def value(expr: s.Expr, x: int = 3, y: int = 2) -> Fraction:
    """Plain arithmetic, to check precedence by its result."""
    match expr:
        case s.Number(value=number_):
            return number_
        case s.Name(name=letter):
            return Fraction({"x": x, "y": y}[letter])
        case s.Unary(op="neg", operand=operand):
            return -value(operand, x, y)
        case s.Power(base=base, exponent=exponent):
            return Fraction(value(base, x, y) ** value(exponent, x, y))
        case s.Sum(terms=terms):
            return sum(((1 if sign == "+" else -1) * value(one, x, y) for sign, one in terms), Fraction(0))
        case s.Product(factors=factors):
            result = Fraction(1)
            for sign, one in factors:
                part = value(one, x, y)
                result = {"*": result * part, "/": result / part, "//": Fraction(result // part)}[sign]
            return result
    raise AssertionError(expr)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("-x^2", -9),
        ("2^3^2", 512),
        ("10/-1", -10),
        ("5-3-1", 1),
        ("12/3/2", 2),
        ("-x*y", -6),
        ("2^-1", Fraction(1, 2)),
        ("-x²", -9),
        ("7 // 2 * 2", 6),
        ("2 * -x", -6),
        ("x⁻¹ * 3", 1),
        ("- -x", 3),
    ],
)
def test_precedence_by_result(text: str, result: Fraction) -> None:
    assert value(read(text)) == result


def test_precedence_is_the_same_at_any_length() -> None:
    assert value(read(" - ".join(["x"] * 101))) == -3 * 99
    assert value(read("^".join(["1"] * 50))) == 1


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a @ b * c", "a @ b * c"),
        ("a @ (b * c)", "a @ (b * c)"),
        ("a * (b @ c)", "a * (b @ c)"),
        ("(a * b) @ c", "a * b @ c"),
        ("√x * y", "√x * y"),
        ("√(x * y)", "√(x * y)"),
        ("√mean[d](x²)", "√mean[d](x²)"),
        ("1 / √dk", "1 / √dk"),
        ("a bᵀ / s".replace("a b", "a @ b"), "a @ bᵀ / s"),
        ("a if b else (c if d else e)", "a if b else (c if d else e)"),
        ("a if b else c if d else e", "a if b else c if d else e"),
        ("not (a and b) or c", "not (a and b) or c"),
        ("(a or b) and c", "(a or b) and c"),
        ("not a == b", "not a == b"),
        ("a < b <= c", "a < b ≤ c"),
        ("(a + b) + c", "(a + b) + c"),
        ("|x| + ||x| - |y||", "|x| + ||x| - |y||"),
        ("‖u - v‖[d]²", "‖u - v‖[d]²"),
        ("[u; v; |u - v|][d → pair]", "[u; v; |u - v|][d → pair]"),
        ("x[seq = t - 1 else 0]", "x[seq = t - 1 else 0]"),
        (
            "f[key if a or b, r: seq if r ≤ i → out](x, y = 2)",
            "f[key if a or b, r: seq if r ≤ i → out](x, y = 2)",
        ),
        ("x[→ stream][a b → c d]", "x[→ stream][a b → c d]"),
    ],
)
def test_fewest_parentheses(text: str, printed: str) -> None:
    assert expression(read(text)) == printed
    assert read(printed) == read(text)


def test_left_to_right() -> None:
    contract = s.Contract(AT, name("a"), name("b"), None, AT)
    assert read("a @ b * c") == s.Product(AT, (("*", contract), ("*", name("c"))))
    product = s.Product(AT, (("*", name("a")), ("*", name("b"))))
    assert read("a * b @[k] c") == s.Contract(AT, product, name("c"), (name("k"),), AT)


def test_norm_is_a_call() -> None:
    function = s.Select(AT, name("norm"), (s.PlainItem(AT, name("d")),))
    assert read("‖u‖[d]") == read("norm[d](u)") == s.Call(AT, function, (s.Arg(AT, None, name("u")),))


def test_numbers_are_exact() -> None:
    assert read("0.1") == number("1/10")
    assert read("1e-12") == number(Fraction(1, 10**12))  # type: ignore[arg-type]
    assert read("1e400") == s.Number(AT, Fraction(10**400))


SPELLINGS = [
    ("x → y".replace("x → y", "x[a → b]"), "x[a -> b]"),
    ("√x + √(2 / π)", "sqrt(x) + sqrt(2 / π)"),
    ("x² - x³", "x^2 - x^3"),
    ("a ⊙ b · c × d ∗ e", "a * b * c * d * e"),
    ("a ≤ b ≥ c ≠ d", "a <= b >= c != d"),
    ("∞ − 1", "inf - 1"),
    ("∑[j](x) * ∏[j](x)", "sum[j](x) * prod[j](x)"),
    ("|x|", "abs(x)"),
    ("Wᵀ", "transpose(W)"),
    ("µ + ϵ + ϕ", "μ + ε + φ"),
    ("W′ * 𝑥 * e\u0301", "W' * x * é"),
    ("x⁻²", "x^-2"),
]


@pytest.mark.parametrize(("unicode", "ascii_"), SPELLINGS)
def test_spellings(unicode: str, ascii_: str) -> None:
    assert read(unicode) == read(ascii_)


def test_heads_in_ascii() -> None:
    assert parse("block B(x[d]) -> [d] = x\n    weights W : [a, d -> d]\n") == parse(
        "block B(x[d]) → [d] = x\n    weights W : [a, d → d]\n"
    )


def test_chains_are_flat() -> None:
    for sign, kind in ((" + ", s.Sum), (" * ", s.Product), (" and ", s.Logic), (" < ", s.Compare)):
        tree = read(sign.join(["a"] * 5000))
        assert isinstance(tree, kind)
        assert not any(isinstance(child, kind) for child in vars(tree).values())
    choice = read("a if b else " * 5000 + "c")
    assert isinstance(choice, s.Cases)
    assert len(choice.cases) == 5001


def test_words_are_words_only_where_they_may_stand() -> None:
    found = definition(
        "attend(x) = output\n"
        "    where weights = softmax[key](x)\n"
        "          uses[seq] = weights\n"
        "          where = remove\n"
        "          remove = model + block.spec\n"
        "          output(of, import) = otherwise\n"
    )
    assert [one.name.name for one in found.body.where if isinstance(one, s.Assign)] == [
        "weights",
        "uses",
        "where",
        "remove",
        "output",
    ]
    assert definition("model(x) = x").kind == "formula"
    assert parse("config\n    model = 3\n    config = 4\n").items[0].name == name("model")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "f(x) = a\n    where a = b\n          b = c\n",
        "f(x) = a\n    where\n        a = b\n        b = c\n",
        "f(x) = a\n    where a = b\n      b = c\n",
        "f(x) = a\r\n\twhere\r\n\t\ta = b\r\n\r\n\t\tb = c",
        "\ufefff(x) = a # one\n\n  # two\n    where a = b # three\n# four\n          b = c",
        "f(x) =\n        a\n    where a =\n                  b\n          b = c\n",
        "f(\nx\n    ) = (\n a)\n  where a = b\n        b = c\n".replace("\nx\n", "\n  x\n"),
    ],
)
def test_layout(text: str) -> None:
    assert parse(text) == parse("f(x) = a\n    where a = b\n          b = c\n")


def test_cases_as_printed() -> None:
    one = definition("m[i: seq, j: key] = 0 if i ≥ j else -∞")
    assert one == definition("m[i: seq, j: key] =\n    0 if i ≥ j\n    -∞ otherwise\n")
    assert one.params is None
    body = "\n    where b = 3\n"
    shallow = definition("m[i: seq] =\n        0 if i ≥ b\n        1 otherwise" + body)
    assert shallow == definition("m[i: seq] =\n    0 if i ≥ b\n    1 otherwise" + body)
    assert shallow == definition("m[i: seq] = 0 if i ≥ b else 1" + body)


def test_outputs() -> None:
    found = definition("model M(x) → h[seq, d] = a,\n      p[d] = b,\n      q = c\n")
    assert [(one.name, one.axes and len(one.axes)) for one in found.outputs] == [
        ("h", 2),
        ("p", 1),
        ("q", None),
    ]
    assert definition("model M(x) → [] = a").outputs[0].axes == ()
    assert definition("model M(x) = a").outputs[0].axes is None


def test_maps() -> None:
    text = "weights A : [d → head dk]\n        B : [expert, d → ffn]\n        C : [d →]\n        D : []\n"
    axes = [one.axes for one in parse(text).items if isinstance(one, s.WeightDecl)]
    assert [(len(one.carried), len(one.ins), one.outs and len(one.outs)) for one in axes] == [
        (0, 1, 2),
        (1, 1, 1),
        (0, 1, ()),
        (0, 0, None),
    ]


def test_uses_are_grouped_by_indices() -> None:
    items = parse("uses a, b, c[layers] : Block[d = e](p = 1) if gated").items
    assert [len(one.names) for one in items if isinstance(one, s.UseDecl)] == [2, 1]


def test_checkpoint() -> None:
    text = """checkpoint hf of Bert from Base for "A", "B"
    layer[l] : "encoder.{l}."
        [a.Q; a.K] : "qkv" [d, (part head dk), 1] if fused
        skip "bias"
    bert : Bert "bert."
"""
    (found,) = parse(text).items
    assert isinstance(found, s.Checkpoint)
    first, second = found.rows
    assert isinstance(first, s.Mapping)
    assert isinstance(second, s.Mapping)
    nested = first.nested[0]
    assert isinstance(nested, s.Mapping)
    assert (len(nested.paths), nested.layout) == (2, (("d",), ("part", "head", "dk"), ()))
    assert first.nested[1] == s.Skip(AT, "bias")
    assert second.include == name("Bert")
    assert found.architectures == ("A", "B")


def test_spans_point_at_the_text() -> None:
    text = "f(x) = γ ⊙ (x - μ)\n    where μ = mean[d](x)\n"
    found = definition(text)
    assert found.outputs[0].value.span.text == "γ ⊙ (x - μ)"
    assert found.body.where[0].span.text == "μ = mean[d](x)"
    assert found.span.text == text.rstrip("\n")
