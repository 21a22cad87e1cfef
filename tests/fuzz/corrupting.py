"""Random corruptions: filters, repetitions, orders, joins, draws and counts, one into the other."""

from __future__ import annotations

import random

HEAD = "from corruptions import running, number, at_random, poisson\n\n"


class Author:
    """Writes one corruption; every value is a text (with its axis) or a number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.texts = [("x", "seq"), ("u", "seq"), ("v", "other")]
        self.numbers = ["n", "k"]
        self.made = 0

    def fresh(self, kind: str) -> str:
        """A name nobody has yet."""
        self.made += 1
        return f"{kind}{self.made}"

    def number(self) -> str:
        """A whole number, one for a text."""
        name, axis = self.random.choice(self.texts)
        return self.random.choice(
            [
                *(str(self.random.randint(0, 4)), self.random.choice(self.numbers), axis),
                *(f"sum[{axis}]({name} % 5)", f"max(count[{axis}]({name} > 3), 1)"),
                *("randint(0, 5)", f"at_random({self.random.choice(['0.3', '2.5'])} * {axis})"),
                "poisson(uniform(0, 1), 2)",
            ]
        )

    def condition(self, name: str, axis: str) -> str:
        """A relation along an axis."""
        return self.random.choice(
            [
                *(f"{name} % 2 == 0", f"{name} > {self.number()}", f"bernoulli[{axis}](0.6)"),
                *(f"index({axis}) < {self.number()}", f"not {name} == 1 and uniform[{axis}](0, 1) < 0.7"),
                f"rank[{axis}]({name}) < 3 or number[seq = {axis}]({name} > 2) % 3 == 0",
            ]
        )

    def along(self, name: str, axis: str) -> str:
        """Another text along the same axis."""
        return self.random.choice(
            [
                *(f"{name} + {self.number()}", f"({name} * 3 + index({axis})) % 11"),
                f"{name} if {self.condition(name, axis)} else 1",
                *(f"running[seq = {axis}]({name}) % 13", f"{name}[{axis} = index({axis}) - 1 else {self.number()}]"),
                *(f"{name}[{axis} = ({axis} - 1 - index({axis}))]", f"max({name}, randint[{axis}](0, 9))"),
                *(f"sort[{axis}]({name}, by = {self.key(name, axis)})", f"min({name}, {self.number()})"),
                f"{name} + (0 if all[{axis}]({name} ≥ 0) else 1)",
            ]
        )

    def key(self, name: str, axis: str) -> str:
        """What a text is sorted by."""
        chosen = f"1 if {self.condition(name, axis)} else 0"
        return self.random.choice([f"{name} % 4", f"-{name}", f"uniform[{axis}](0, 1)", chosen])

    def step(self) -> None:
        """One more text, of the same length or of a new one."""
        (name, axis), new, made = self.random.choice(self.texts), self.fresh("t"), self.fresh("a")
        other, second = self.random.choice(self.texts)
        match self.random.randrange(6):
            case 0:
                text = f"{name}[{axis} if {self.condition(name, axis)} → {made}]"
            case 1:
                text = f"repeat[{axis} → {made}]({name}, {self.random.choice([f'{name} % 3', self.number()])})"
            case 2 if second != axis:
                text = f"[{name}; {self.number()}; {other}][{axis} {second} → {made}]"
            case 3:
                text = f"[{self.number()}; {name}; {self.along(name, axis)}][{axis} → {made}]"
            case _:
                text, made = self.along(name, axis), axis
        self.lines.append(f"{new} = {text}")
        self.texts.append((new, made))

    def text(self) -> str:
        """The whole file."""
        for _ in range(self.random.randint(2, 6)):
            self.step()
        name, axis = self.texts[-1]
        sums = " + ".join(f"sum[{along}]({text})" for text, along in self.texts)
        self.lines.append(f"kept = 0 * (sum[seq](x + u) + sum[other](v) + n + k + {sums})")
        body = "\n          ".join(self.lines)
        return (
            f"{HEAD}corruption Random(x[seq] as input_ids, u[seq], v[other], n = 2, k = 1) → "
            f"out[{axis}] = {name} + kept + 0 * at_random(0.5) + 0 * poisson(0.5, 1) "
            f"+ 0 * sum[seq](running(x)) + 0 * sum[seq](number(x > 1))\n    where {body}\n"
        )
