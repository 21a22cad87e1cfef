"""The author of random specs: typed steps over a stream x[seq, d] or x[d], in blocks, in loops and after them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.fuzz import making as m
from tests.fuzz.making import Draw, leaf, number, term
from tests.fuzz.tree import Block, Loop, Spec, State, Term

EPS = ("1e-5", "1e-6", "0.1", "1e-3")  # no smaller: rows that are nearly constant would tell roundings apart
SHARED = 4
"""Percent of steps that call an instance again."""


@dataclass
class Here:
    """Where a step is written: the streams that may be read, the axes of a stream, the loop if there is one."""

    known: list[Term]
    axes: frozenset[str]
    loop: Loop | None = None
    tokens: Term | None = None
    called: list[Term] = field(default_factory=list)

    @property
    def seq(self) -> bool:
        """Whether positions are seen."""
        return "seq" in self.axes


def sizes(draw: Draw) -> dict[str, str]:
    """Sizes that coincide, are primes, are 1, or are mixed."""
    mode = draw.choice(("mixed", "equal", "primes", "ones"))
    pools: dict[str, tuple[int, ...]] = {
        "mixed": (4, 2, 6, 3),
        "equal": (draw.choice((2, 4, 3)),),
        "primes": (2, 3, 5, 7),
        "ones": (1, 2),
    }
    pool = pools[mode]

    def one() -> int:
        return draw.choice(pool)

    part, width = (1, one()) if draw.chance(30) else (one(), draw.choice((1, 2)))
    made = {"part": part, "width": width, "vocab": max(one(), 2), "head": one(), "dk": one(), "kv": one()}
    made |= {"group": draw.choice((1, 2)), "bucket": max(one(), 2), "ffn": one(), "dv": one()}
    made |= {"layers": draw.choice((2, 1, 3)), "place": 8}
    if mode == "equal":
        made |= {"part": 1, "width": pool[0]}
    text = {name: str(size) for name, size in made.items()}
    return {**text, "d": "part * width", "pair": "2 * d"}


class Author:
    """Draws one spec; `makes` are the kinds of steps, each a method that gives a stream of the place's axes."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.sizes = sizes(draw)
        self.count = 0

    def size(self, axis: str) -> int:
        """The size of an axis."""
        return int(
            eval(self.sizes[axis], {}, {n: self.size(n) for n in ("part", "width", "d") if n in self.sizes[axis]})
        )

    # ---------------------------------------------------------------------------------------------- small parts

    def fresh(self, letter: str) -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"{letter}{self.count}"

    def named(self, one: Term, letter: str = "a", declared: bool = False) -> Term:
        """A definition in `where`."""
        if one.op in ("name", "leaf", "state"):
            return one
        more = "declared" if declared else ""
        return replace(one, op="name", text=self.fresh(letter), args=(one,), more=more, block=None, reads=None)

    def weight(self, letter: str, declaration: str, axes: str) -> Term:
        """A weight of the scope, as it is declared."""
        name = self.fresh(letter)
        return Term("weight", name, axes=frozenset(axes.split()), bound=2.0, more=f"{name} : [{declaration}]")

    def vector(self, letter: str = "b", axes: str = "d") -> Term:
        """A weight without an arrow."""
        return self.weight(letter, axes.replace(" ", ", "), axes)

    def known(self, here: Here) -> Term:
        """An earlier stream, mostly a late one."""
        back = 1
        while back < len(here.known) and self.draw.chance(40):
            back += 1
        return here.known[-back]

    def stream(self, here: Here, limit: float = 30.0) -> Term:
        """An earlier stream, with its size under a limit."""
        found = self.known(here)
        if found.bound <= limit:
            return found
        return m.fn("tanh", found) if self.draw.chance(40) else self.normalised(found)

    def product(self, a: Term, inside: str, outside: str, bias: bool | None = None) -> Term:
        """a @ W (+ b), or the same with Wᵀ."""
        if self.draw.chance(15) and inside != outside and " " not in outside:
            turned = self.weight("W", f"{outside} → {inside}", "")
            W = term("weight", turned.text + "ᵀ", bound=2.0, more=turned.more)
        else:
            W = self.weight("W", f"{inside} → {outside}", "")
        axes = a.axes - frozenset(inside.split()) | frozenset(outside.split())
        made = term("apply", "{0} @ {1}", a, W, axes=axes, bound=min(a.bound * 3, 1e3), more=f"{inside} → {outside}")
        if self.draw.chance(50) if bias is None else bias:
            b = self.vector("b", outside)
            made = m.binary("+", made, b) if self.draw.chance(70) else m.binary("+", b, made)
        return made

    def normalised(self, a: Term, axis: str = "d") -> Term:
        """LayerNorm or RMSNorm, with or without gain and shift."""
        eps = self.draw.choice(EPS)
        if self.draw.chance(60):
            gain = self.vector("γ", axis) if self.draw.chance(70) else None
            shift = self.vector("β", axis) if gain is not None and self.draw.chance(70) else None
            parts = [one for one in (gain, shift) if one is not None]
            gaps = "".join(f", {{{i + 1}}}" for i in range(len(parts)))
            fill = "" if len(parts) == 2 else ", ε = "
            text = f"layer_norm[{axis}]({{0}}{gaps}{fill or ', '}{eps})"
            return m.library(text, a, *parts, bound=8.0)
        if self.draw.chance(70):
            return m.library(f"rms_norm[{axis}]({{0}}, {{1}}, {eps})", a, self.vector("g", axis), bound=8.0)
        return m.library(f"rms_norm[{axis}]({{0}}, ε = {eps})", a, bound=4.0)

    def activated(self, a: Term) -> Term:
        """One of the activations."""
        name = self.draw.choice(("gelu", "silu", "relu", "gelu_tanh", "sigmoid", "quick_gelu", "tanh"))
        if name == "tanh":
            return m.fn("tanh", a)
        low = 0.0 if name in ("relu", "sigmoid") else -1.0
        return m.library(f"{name}({{0}})", a, bound=1.0 if name == "sigmoid" else a.bound, low=low)

    # ------------------------------------------------------------------------------------ whole and truth values

    def whole(self, here: Here, depth: int = 2) -> Term:
        """A whole number at each position."""
        assert here.tokens is not None
        kind = self.draw.whole(0, 6 if depth else 2)
        if kind < 2:
            return here.tokens
        if kind == 2:
            return leaf("index(seq)", "seq", "int", 8.0, 0.0)
        if kind == 3:
            return leaf("position(seq)", "seq", "int", 8.0, 0.0)
        a = self.whole(here, depth - 1)
        size = str(self.draw.choice((2, 3, 1)))
        if kind == 4:
            return m.binary(self.draw.choice(("+", "-")), a, self.whole(here, depth - 1))
        op = self.draw.choice(("%", "//"))
        return term(op, f"{{0}} {op} {{1}}", a, number(size), kind="int", bound=max(a.bound, 3))

    def relation(self, here: Here, depth: int = 2) -> Term:
        """A condition at each position."""
        kind = self.draw.whole(0, 5)
        if depth and kind == 3:
            return m.joined(self.draw.choice(("and", "or")), self.relation(here, 0), self.relation(here, 0))
        if depth and kind == 4:
            return m.denied(self.relation(here, 0))
        if kind == 5 or here.tokens is None:
            a = self.known(here)
            if here.tokens is not None:  # of whole streams there is no condition along d for a length
                a = term("contract", "{0} @[d] {1}", a, self.vector("w"), axes=a.axes - {"d"}, more="d", bound=50.0)
            return m.compared(self.draw.choice((">", "<", "≥", "≤")), a, number(self.draw.choice(("0.123", "1.17"))))
        op = self.draw.choice(("≠", "==", "<", "≤", ">", "≥"))
        return m.compared(op, self.whole(here), number(str(self.draw.whole(0, 3))))

    # ----------------------------------------------------------------------------------------------------- steps

    def step(self, here: Here) -> Term:
        """One new stream, under a name."""
        makes = TOKENWISE + (ALONG if here.seq else ())
        while True:
            made = getattr(self, self.draw.choice(makes))(here)
            if made is not None:
                return self.named(made)

    def s_sum(self, here: Here) -> Term:
        a, b = self.known(here), self.known(here)
        return m.binary(self.draw.choice(("+", "-")), a, b)

    def s_product(self, here: Here) -> Term:
        return m.binary("⊙", self.stream(here), self.stream(here))

    def s_scaled(self, here: Here) -> Term:
        a = self.known(here)
        factor = self.draw.choice(("0.5", "3", "2^(-1/2)", "1 / 3", "√d"))
        if factor == "√d":
            d = Term("number", "√d", bound=4.0, more="ratio")
            return term("*", "{0} * {1}", d, a, bound=a.bound * 4)
        return m.times(factor, a) if self.draw.chance(60) else term("/", "{0} / {1}", a, number("4"), bound=a.bound)

    def s_scaled_sum(self, here: Here) -> Term:
        return m.times("0.25", m.binary("+", self.known(here), self.known(here)))

    def s_squared(self, here: Here) -> Term:
        a = self.stream(here)
        square = term("square", "{0}²", a, bound=a.bound**2, low=0.0)
        return m.over(a, m.binary("+", m.reduced("mean", "d", square), number("0.5")))

    def s_quotient(self, here: Here) -> Term:
        return m.over(self.stream(here), m.positive(self.stream(here)))

    def s_function(self, here: Here) -> Term:
        a = self.stream(here)
        kind = self.draw.whole(0, 5)
        if kind == 0:
            return m.fn(self.draw.choice(("tanh", "sin", "cos", "erf")), a)
        if kind == 1:
            return m.fn("exp", a if a.bound < 9 else m.fn("tanh", a))
        if kind == 2:
            return m.fn(self.draw.choice(("sqrt", "log")), m.positive(a, "0.25"))
        if kind == 3:
            return m.larger(self.draw.choice(("max", "min")), a, self.draw.choice((self.stream(here), number("0.5"))))
        if kind == 4:
            return term("square", "{0}²", a, bound=a.bound**2, low=0.0)
        return term("neg", "-{0}", m.magnitude(a), bound=a.bound)

    def s_activation(self, here: Here) -> Term:
        a = self.stream(here)
        return self.activated(m.binary("+", a, self.vector("b")) if self.draw.chance(40) else a)

    def s_norm(self, here: Here) -> Term:
        a = self.known(here)
        if self.draw.chance(50):
            a = m.binary("+", a, self.known(here))
            if self.draw.chance(30):
                a = m.binary("+", a, self.vector("b"))
        return self.normalised(a)

    def s_softmax(self, here: Here) -> Term:
        name = self.draw.choice(("softmax", "log_softmax"))
        return m.library(f"{name}[d]({{0}})", self.stream(here), bound=1.0 if name == "softmax" else 60.0)

    def s_linear(self, here: Here) -> Term:
        return self.product(self.stream(here), "d", "d")

    def s_ffn(self, here: Here) -> Term:
        a = self.stream(here)
        up = self.activated(self.product(a, "d", "ffn"))
        if self.draw.chance(30):
            up = m.binary("⊙", up, self.product(a, "d", "ffn"))
        return self.product(up, "ffn", "d")

    def s_residual(self, here: Here) -> Term:
        return m.binary("+", self.known(here), self.s_linear(here))

    def s_heads(self, here: Here) -> Term:
        a = self.stream(here)
        axes = a.axes - {"d"} | {"part", "width"}
        parts = term("split", "{0}[d → part width]", a, axes=axes, bound=a.bound)
        kind = self.draw.choice(("softmax", "mean", "turn"))
        if kind == "softmax":
            parts = m.library("softmax[part]({0})", parts, bound=1.0)
        elif kind == "mean":
            parts = m.binary("-", parts, m.reduced("mean", "width", parts))
        else:
            last = leaf("part - 1 - index(part)", "part", "int", 8.0, 0.0)
            parts = m.picked(parts, "part", last)
        order = "part width" if self.draw.chance(70) else "width part"
        return term("merge", f"{{0}}[{order} → d]", parts, axes=a.axes, bound=parts.bound)

    def s_pair(self, here: Here) -> Term:
        a, b = self.stream(here), self.stream(here)
        joined = term(
            "concat", "[{0}; {1}][d → pair]", a, b, axes=a.axes - {"d"} | {"pair"}, bound=max(a.bound, b.bound)
        )
        return self.product(joined, "pair", "d")

    def s_chosen(self, here: Here) -> Term:
        return m.chosen(self.relation(here), self.stream(here), self.draw.choice((self.stream(here), number("0"))))

    def s_dropout(self, here: Here) -> Term:
        a = self.known(here)
        return term("dropout", f"dropout({{0}}, {self.draw.choice(('0.1', '0'))})", a, bound=a.bound, more="dropout")

    def s_centred(self, here: Here) -> Term:
        a = self.stream(here)
        return m.binary("-", a, m.reduced(self.draw.choice(("mean", "max", "sum")), "d", a))

    def s_block(self, here: Here) -> Term:
        """A call of a block: a new one for each place, or an instance of before."""
        again = [one for one in here.called if one.block is not None]
        a = self.stream(here, 12.0)
        if again and self.draw.chance(40):
            old = self.draw.choice(again)
            return replace(old, args=(a,), axes=a.axes, step=old.step or a.step)
        block = self.block(here.seq and self.draw.chance(50))
        stacked = here.loop is not None and self.draw.chance(70)
        name = self.fresh("c")
        text = f"{name}[l]({{0}})" if stacked else f"{name}({{0}})"
        made = term("call", text, a, bound=block.results[0][2].bound, more=f"{name}[layers]" if stacked else name)
        made = replace(made, block=block, step=here.loop if stacked else made.step)
        here.called.append(made)
        return made

    def block(self, seq: bool) -> Block:
        """A block of a few steps over x[seq, d] or x[d]."""
        axes = ("seq", "d") if seq else ("d",)
        x = leaf(self.fresh("x"), " ".join(axes), bound=12.0)
        here = Here([x], frozenset(axes))
        for _ in range(self.draw.whole(1, 3)):
            here.known.append(self.step(here))
        last = here.known[-1]
        if "x" not in {one.text[0] for one in self._leaves(last)}:
            last = m.binary("+", last, x)
        return Block(f"block {self.fresh('B')}({x.text}[{', '.join(axes)}])", [("", axes, last)])

    @staticmethod
    def _leaves(one: Term) -> list[Term]:
        from tests.fuzz.tree import walk

        return [part for part in walk([one]) if part.op == "leaf"]

    # ---------------------------------------------------------------------------------- steps along the sequence

    def s_pooled(self, here: Here) -> Term:
        a, b = self.stream(here), self.stream(here)
        return m.binary(self.draw.choice(("+", "-", "⊙")), a, self.pooled(here, b))

    def pooled(self, here: Here, a: Term) -> Term:
        """One vector of the whole sequence."""
        kind = self.draw.whole(0, 6)
        if kind == 0:
            return m.reduced("mean", "seq", a)
        if kind == 1:
            return m.picked(a, "seq", number("0"))
        if kind == 2:
            return m.picked(a, "seq", leaf("seq - 1", "", "int"))
        if kind == 3 and here.tokens is not None:
            name = self.draw.choice(("mean", "sum"))
            return m.reduced(name, "seq", a, self.relation(here))
        if kind == 4:
            scores = m.contracted(a if a.bound < 20 else m.fn("tanh", a), self.vector("w"), "d")
            shares = m.library("softmax[seq]({0})", self.named(scores), bound=1.0)
            return m.reduced("sum", "seq", m.binary("⊙", shares, a))
        if kind == 5:
            shares = m.library("softmax[seq]({0})", a, bound=1.0)
            return m.reduced("sum", "seq", m.binary("⊙", shares, self.stream(here)))
        return m.reduced(self.draw.choice(("sum", "mean")), "seq", a)

    def s_shifted(self, here: Here) -> Term:
        a = self.stream(here)
        by = self.draw.choice((" - 1", " + 1", " // 2"))
        at = leaf(f"index(seq){by}", "seq", "int")
        return m.picked(a, "seq", at, "" if by == " // 2" else self.draw.choice(("0", "0.5")))

    def s_table(self, here: Here) -> Term | None:
        if here.tokens is None:
            return None
        inside = m.larger("max", m.larger("min", self.whole(here), leaf("bucket - 1", "", "int")), number("0"))
        table = self.vector("T", "bucket d")
        return m.binary("+", self.known(here), m.picked(table, "bucket", self.named(inside, "n")))

    def s_attention(self, here: Here) -> Term:
        from tests.fuzz.attending import Attending

        return Attending(self, here).heads()

    # ------------------------------------------------------------------------------------------------ whole specs

    def loop(self, here: Here) -> None:
        """A recurrence over the layers, whose last state (and an earlier one at times) is known after it."""
        made = Loop("l", "layers")
        first = [self.stream(here, 12.0) for _ in range(2 if self.draw.chance(25) else 1)]
        made.states = [State(self.fresh("h"), one, one) for one in first]
        states = [
            Term("state", f"{s.name}[l]", (), here.axes, "real", 20.0, reads=made, step=made, more="l")
            for s in made.states
        ]
        inner = Here([*here.known[-1:], *states], here.axes, made, here.tokens)
        for _ in range(self.draw.whole(1, 4)):
            inner.known.append(self.step(inner))
        for number_, state in enumerate(made.states):
            new = inner.known[-1 - number_ % len(inner.known)]
            new = m.binary("+", new, states[number_]) if self.draw.chance(50) else new
            if new.bound > 12 or self.draw.chance(30):
                new = self.normalised(new)
            state.next = new
        for state in made.states:
            here.known.append(self.after(made, state, "layers"))
        if self.draw.chance(20):
            here.known.insert(-1, self.after(made, made.states[0], "layers - 1"))

    def after(self, loop: Loop, state: State, place: str) -> Term:
        """A state of a finished loop."""
        return Term("state", f"{state.name}[{place}]", (), state.first.axes, "real", 12.0, reads=loop, more=place)

    def scan(self, here: Here) -> Term:
        """A recurrence over the positions: a running sum, or one that forgets."""
        made = Loop("t", "seq")
        if self.draw.chance(50):
            a = self.named(m.reduced("mean", "d", self.stream(here)))
            first: Term = number("0")
        else:
            a = self.stream(here)
            first = m.binary("*", number("0"), self.vector("w"))
        made.states = [State(self.fresh("r"), first, first)]
        state = made.states[0]
        axes = a.axes - {"seq"}
        before = Term("state", f"{state.name}[t]", (), axes, "real", 80.0, reads=made, step=made, more="t")
        entry = Term("pick", "{0}[seq = t]", (a,), axes, "real", a.bound, step=made, more="seq")
        half = before if first.text == "0" else m.times("0.5", before)
        state.next = m.binary("+", half, entry)
        if first.text != "0" and self.draw.chance(50):
            last = Term("state", f"{state.name}[seq]", (), axes, "real", 20.0, reads=made, more="seq")
        else:
            last = Term("state", f"{state.name}[index(seq) + 1]", (), a.axes, "real", 80.0, reads=made, more="each")
        return m.binary("+", self.known(here), last)

    def spec(self) -> Spec:
        """A model of token ids: an embedding, steps, a loop, steps, and results of several kinds."""
        tokens = leaf("tokens", "seq", "int", 8.0, 0.0)
        E = self.vector("E", "vocab d")
        x = m.picked(E, "vocab", tokens)
        if self.draw.chance(40):
            x = m.binary("+", x, m.picked(self.vector("P", "place d"), "place", leaf("position(seq)", "seq", "int")))
        here = Here([self.named(x, "u")], frozenset({"seq", "d"}), None, tokens)
        for _ in range(self.draw.whole(0, 3)):
            here.known.append(self.step(here))
        if self.draw.chance(60):
            self.loop(here)
        if self.draw.chance(12):
            here.known.append(self.named(self.scan(here)))
        for _ in range(self.draw.whole(0, 3)):
            here.known.append(self.step(here))
        return Spec(self.sizes, Block("model M(tokens[seq] as input_ids)", self.results(here, E)))

    def results(self, here: Here, E: Term) -> list[tuple[str, tuple[str, ...], Term]]:
        """The last stream, and at times an earlier one, a pooled one, logits and attention weights."""
        last = here.known[-1]
        found: list[tuple[str, tuple[str, ...], Term]] = []
        if self.draw.chance(75):
            found.append(("y", ("seq", "d"), last))
        if self.draw.chance(30):
            found.append(("z", ("seq", "d"), self.known(here)))
        if self.draw.chance(25):
            found.append(("logits", ("seq", "vocab"), m.contracted(self.stream(here), E, "d")))
        if not found or self.draw.chance(40):
            pooled = self.pooled(here, self.stream(here))
            found.append(
                ("p", ("d",), self.activated(self.product(pooled, "d", "d")) if self.draw.chance(50) else pooled)
            )
        shown = [one for one in here.called if one.op == "name" and "key" in one.axes]
        if shown and self.draw.chance(30):
            one = self.draw.choice(shown)
            if one.step is None:
                found.append(("w", tuple(sorted(one.axes)), one))
        return found


TOKENWISE = (
    "s_sum", "s_product", "s_scaled", "s_quotient", "s_function", "s_activation", "s_norm", "s_norm", "s_softmax",
    "s_linear", "s_ffn", "s_residual", "s_heads", "s_pair", "s_chosen", "s_dropout", "s_centred", "s_block",
    "s_scaled_sum", "s_squared",
)  # fmt: skip
ALONG = ("s_attention", "s_attention", "s_attention", "s_pooled", "s_shifted", "s_table")
