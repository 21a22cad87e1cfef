"""Attention as an author may write it: heads, masks, biases, scales, and where each of them stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz import making as m
from tests.fuzz.making import leaf, number, term
from tests.fuzz.tree import Term

if TYPE_CHECKING:
    from tests.fuzz.author import Author, Here

I = leaf("index(seq)", "seq", "int", 8.0, 0.0)  # noqa: E741
J = leaf("index(key)", "key", "int", 8.0, 0.0)


class Attending:
    """One attention over the sequence of a place."""

    def __init__(self, author: Author, here: Here) -> None:
        self.author, self.here, self.draw = author, here, author.draw
        form = self.draw.choice(("heads", "one", "grouped"))
        self.q = {"heads": "head dk", "one": "dk", "grouped": "kv group dk"}[form]
        self.k = {"heads": "head dk", "one": "dk", "grouped": "kv dk"}[form]
        self.v = self.k.replace("dk", "dv") if self.draw.chance(30) else self.k
        self.out = self.q.replace("dk", "dv") if "dv" in self.v else self.q

    def heads(self) -> Term:
        """Concat(heads) @ W_O."""
        x, memory = (self.author.stream(self.here, 10.0) for _ in range(2))
        memory = x if self.draw.chance(70) else memory
        Q = self.projected(x, self.q)
        K, V = self.keys(memory, self.k), self.keys(memory, self.v)
        made = self.author.named(self.weighed(Q, K, V), "o")
        return self.author.product(made, self.out, "d")

    def projected(self, x: Term, outside: str) -> Term:
        """x @ W (+ b), normalised or turned by its position at times."""
        made = self.author.product(x, "d", outside)
        if "dv" not in outside and self.draw.chance(15):
            made = self.author.normalised(self.author.named(made), "dk")
        if "dv" not in outside and self.author.size("dk") % 2 == 0 and self.draw.chance(20):
            made = m.library("rope[dk]({0}, position(seq), 10000)", self.author.named(made), bound=made.bound * 2)
        return self.author.named(made)

    def keys(self, x: Term, outside: str) -> Term:
        """The same, seen as keys: renamed before or after the product."""
        if self.draw.chance(30):
            return self.author.named(self.author.product(m.renamed(x, "seq", "key"), "d", outside))
        return self.author.named(m.renamed(self.projected(x, outside), "seq", "key"))

    def relation(self) -> Term:
        """Which query sees which key."""
        one = self.simple_relation()
        if self.draw.chance(35):
            return m.joined(self.draw.choice(("and", "or")), one, self.simple_relation())
        return m.denied(one) if self.draw.chance(8) else one

    def simple_relation(self) -> Term:
        kind = self.draw.whole(0, 6)
        if kind == 0:
            return m.compared("≤", J, I)
        if kind == 1:
            return leaf("causal", "seq key", "bool")
        if kind == 2:
            return m.compared(self.draw.choice(("<", "≤")), m.magnitude(self.distance()), number("2"))
        if kind == 3:
            return m.compared("<", J, number(str(self.draw.choice((2, 1, 3, 0)))))
        if kind == 4:
            return m.compared(self.draw.choice(("<", "<=")), J, I)
        if self.here.tokens is None:
            return m.compared("==", term("%", "{0} % {1}", J, number("2"), kind="int"), number("0"))
        tokens = self.here.tokens
        if kind == 5:
            return m.compared("≠", m.renamed(tokens, "seq", "key"), number("1"))
        same = m.compared("==", tokens, m.renamed(tokens, "seq", "key"))
        return self.author.named(same, "m", declared=True)

    def distance(self) -> Term:
        """key − query at each pair."""
        return self.author.named(m.binary("-", J, I), "e", declared=True)

    def bias(self) -> Term:
        """What is added to the scores."""
        kind = self.draw.whole(0, 3)
        if kind == 0:
            return m.times("0.25", self.distance())
        if kind == 1 and "head" in self.q:
            slope = self.author.vector("s", "head")
            return self.author.named(m.binary("⊙", slope, self.distance()), "t", declared=True)
        at = m.binary("+", self.distance(), number("1"))
        inside = m.larger("max", m.larger("min", at, leaf("bucket - 1", "", "int")), number("0"))
        axes = "bucket head" if "head" in self.q and kind == 2 else "bucket"
        return m.picked(self.author.vector("R", axes), "bucket", self.author.named(inside, "n"))

    def weighed(self, Q: Term, K: Term, V: Term) -> Term:
        """softmax(scores) @ V in one of its forms."""
        see = self.relation() if self.draw.chance(60) else None
        see = None if see is None else self.author.named(see, "m", declared=see.axes == {"seq", "key"})
        bias = self.author.named(self.bias(), "t") if self.draw.chance(35) else None
        if self.draw.chance(40):
            return self.called(Q, K, V, see, bias)
        scores = self.author.named(self.scores(Q, K, bias), "s")
        kind = self.draw.whole(0, 3)
        if see is None and kind == 0:
            e = self.author.named(m.fn("exp", scores), "e")
            total = m.reduced("sum", "key", e)
            if self.draw.chance(50):
                return term("/", "{0} / {1}", m.contracted(e, V, "key"), total, bound=V.bound)
            A = term("/", "{0} / {1}", e, total, bound=1.0)
        elif see is None:
            A = m.library("softmax[key]({0})", scores, bound=1.0)
        elif kind == 1:
            A = m.library("softmax[key]({0} if {1} else -∞)", scores, see, bound=1.0)
        elif kind == 2:
            A = m.library("softmax[key]({0} + (0 if {1} else -∞))", scores, see, bound=1.0)
        else:
            A = m.library("softmax[key if {1}]({0})", scores, see, bound=1.0)
        if self.draw.chance(15):
            A = term("dropout", "dropout({0}, 0.2)", A, bound=1.0, more="dropout")
        A = self.author.named(A, "A")
        self.here.called.append(A)
        return m.contracted(A, V, "key") if self.draw.chance(80) else m.contracted(V, A, "key")

    def called(self, Q: Term, K: Term, V: Term, see: Term | None, bias: Term | None) -> Term:
        """By the library's function."""
        axes = f"key if {{{3}}}" if see is not None else "key"
        args = [Q, K, V, *([see] if see is not None else []), *([bias] if bias is not None else [])]
        more = f", {{{len(args) - 1}}}" if bias is not None else ""
        more += self.draw.choice(("", "", ", scale = 1", ", drop = 0.1"))
        made = m.library(f"attention[{axes}, dk]({{0}}, {{1}}, {{2}}{more})", *args, bound=V.bound)
        out = m.union(Q, V) - {"key", *({"dk"} if "dv" in self.v else ())}
        return term("lib", made.text, *args, axes=out, bound=V.bound, more="attention")

    def scores(self, Q: Term, K: Term, bias: Term | None) -> Term:
        """The product of query and key with its scale, and the bias before or after it."""
        scale = Term("number", "√dk", bound=3.0, more="ratio")
        kind = self.draw.whole(0, 4)
        if kind == 0:
            Q = self.author.named(term("/", "{0} / {1}", Q, scale, bound=Q.bound), "q")
        s = m.contracted(Q, K, "dk")
        if bias is not None and self.draw.chance(30):
            s, bias = m.binary("+", s, bias), None
        if kind == 1:
            s = term("/", "{0} / {1}", s, scale, bound=s.bound)
        elif kind == 2:
            s = m.times("0.5", s)
        elif kind == 3:
            s = term("*", "{0} * {1}", s, Term("number", "dk^(-1/2)", bound=1.0, more="ratio"), bound=s.bound)
        if bias is not None:
            s = m.binary("+", s, bias) if self.draw.chance(60) else m.binary("+", bias, s)
        return s
