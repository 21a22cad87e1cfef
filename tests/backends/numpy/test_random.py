"""Random models: whatever is read when, no scratch memory is written over before its last reader."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler import zoo
from tests.compiler.spec_tools import rng
from transformula import TransformulaError

PARTS = """
block Lin(x[d]) → [d] = x @ W + b
    weights W : [d → d]
            b : [d]
block Bare(x[d]) → [d] = x @ W
    weights W : [d → d]
block Up(x[d]) → [d] = gelu(x @ W + b) @ V
    weights W : [d → wide]
            V : [wide → d]
            b : [wide]
block Attn(x[seq, d]) → [seq, d] = heads @ W_O + b_O
    where Q = x @ W_Q + b_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
          heads = attention[key](Q, K, V)
    weights W_Q, W_K, W_V : [d → head dk]
            b_Q : [head, dk]
            W_O : [head dk → d]
            b_O : [d]
axes wide = 5
"""
BLOCKS = ("Lin", "Bare", "Up", "Attn")
FORMS = (
    "{a} + {b}", "{a} - {b}", "{a} ⊙ {b} / 2", "0.5 * {a}", "{a} / (1 + |{b}|)", "max({a}, {b})",
    "layer_norm[d]({a}, γ, β, 1e-5)", "layer_norm[d]({a} + {b}, γ, β, 1e-5)",
    "layer_norm[d]({a} + {b} + β, γ, β, 1e-5)", "rms_norm[d]({a} + {b}, γ, 1e-6)",
    "rms_norm[d]({a}, γ, 1e-6)", "gelu({a})", "silu({a} + β)", "tanh({a})", "max({a}, 0)",
    "gelu_tanh({a} + {b})", "softmax[d]({a}) ⊙ {b}", "{a} - mean[seq]({b})", "{a} + {b}[seq = 0]",
    "{a} + sum[seq](softmax[seq]({a}) ⊙ {b})", "{Lin}({a})", "{Lin}({a} + {b})", "{Bare}({a})",
    "{Bare}({a}) + {b}", "{Bare}({a}) + {b} ⊙ {a}", "{Up}({a})", "{Up}({a}) + {b}", "{Attn}({a})",
    "{a} + {Attn}({b})", "layer_norm[d]({a} + {Attn}({a}), γ, β, 1e-5)",
    "layer_norm[d]({a} + {Up}({b}), γ, β, 1e-5)", "tanh({Lin}({a})) ⊙ {b}", "{a} if {b} > 0 else {b}",
)  # fmt: skip
FUNCTIONS = "attention, softmax, layer_norm, rms_norm, gelu, gelu_tanh, silu"


class Author:
    """Writes a random model: steps before a loop, in it and after it, each reading any earlier ones."""

    def __init__(self, seed: int) -> None:
        self.draw = rng(seed)
        self.uses: dict[str, str] = {}
        self.count = 0

    def step(self, known: list[str], loop: str) -> str:
        form = str(self.draw.choice(FORMS))
        a, b = (known[min(int(self.draw.geometric(0.45)), len(known)) * -1] for _ in "ab")
        named = {block: self.instance(block, loop) for block in BLOCKS if f"{{{block}}}" in form}
        return form.format(a=a, b=b, **named)

    def instance(self, block: str, loop: str) -> str:
        self.count += 1
        name = f"{block.lower()}_{self.count}"
        self.uses[f"{name}[layers]" if loop else name] = block
        return f"{name}[{loop}]" if loop else name

    def steps(self, known: list[str], count: int, letter: str, loop: str = "") -> list[str]:
        lines = []
        for number in range(count):
            name = f"{letter}{number}"
            lines.append(f"{name} = {self.step(known, loop)}")
            known.append(name)
        return lines

    def text(self) -> str:
        before, after = ["u"], ["y[layers]"]
        head = self.steps(before, int(self.draw.integers(0, 4)), "a")
        inside = ["u", "y[l]"] if self.draw.random() < 0.5 else ["y[l]", "y[l]"]
        body = self.steps(inside, int(self.draw.integers(1, 6)), "b", "l")
        if self.draw.random() < 0.3:
            after += ["u", "y[layers - 1]"]
        tail = self.steps(after, int(self.draw.integers(0, 4)), "c")
        last = inside[-1]
        results = {"h": after[-1], "r": after[max(-2, -len(after))]}
        if self.draw.random() < 0.5:
            results["p"] = f"mean[seq]({after[-1]})"
        shown = ", ".join(f"{n}[d] = {v}" if n == "p" else f"{n}[seq, d] = {v}" for n, v in results.items())
        where = ["u = E[vocab = tokens]", *head, f"y[0] = {before[-1]}", "for l in layers:"]
        where += [f"    {line}" for line in body] + [
            f"    y[l + 1] = layer_norm[d]({last} + y[l], γ, β, 1e-5)",
            *tail,
        ]
        if self.draw.random() < 0.4:
            where[-1 - len(tail)] = f"    y[l + 1] = {last}"
        uses = [f"{name} : {block}" for name, block in self.uses.items()]
        lines = [f"model M(tokens[seq] as input_ids) → {shown}"]
        lines += [f"    {'where' if i == 0 else '     '} {line}" for i, line in enumerate(where)]
        lines += [f"    {'uses' if i == 0 else '    '} {line}" for i, line in enumerate(uses)]
        lines += ["    weights E : [vocab, d]", "            γ, β : [d]"]
        return zoo.spec(FUNCTIONS, PARTS + "\n".join(lines) + "\n")


def used_text(seed: int) -> str:
    """The model without the parts that it does not use (unused names are mistakes)."""
    text = Author(seed).text()
    head, model = text.split("model M")
    for block in BLOCKS:
        if f" : {block}\n" not in model:
            start = head.index(f"block {block}(")
            ends = [head.find(end, start + 1) for end in ("\nblock ", "\naxes ")]
            head = head[:start] + head[min(end for end in ends if end > 0) + 1 :]
    if "block Up" not in head:
        head = head.replace("axes wide = 5\n", "")
    imports = [f for f in FUNCTIONS.split(", ") if f"{f}(" in head + model or f"{f}[" in head + model]
    head = (
        head.replace(FUNCTIONS, ", ".join(imports))
        if imports
        else head.replace(f"from functions import {FUNCTIONS}", "")
    )
    return f"{head}model M{model}"


def check(seed: int) -> bool:
    """Whether the model of this seed was compared: one that grows beyond what float64 compares is not."""
    text = used_text(seed)
    made = zoo.program(text)
    given = zoo.inputs("any")
    try:
        wanted = zoo.reference_results(made.compiled.formula, given)
    except TransformulaError as fault:  # the naive exponentials of the reference overflow first: ∞ / ∞
        if fault.diagnostics[0].code == "I801":
            return False
        raise
    size = max(float(np.abs(value).max(initial=0)) for value in wanted.values())
    if not np.isfinite(size) or size > 1e12:
        return False
    for names in (None, *([name] for name in wanted)):
        found = zoo.model(made)(**given, outputs=names)
        assert zoo.difference(found, {n: wanted[n] for n in found}) < 1e-9, text
    return True


@pytest.mark.parametrize("seed", [*range(40), 43, 61, 71, 74, 82, 127, 192, 202, 241, 394])
def test_random_model(seed: int) -> None:
    assert check(seed), "choose another seed"


@pytest.mark.slow
def test_many_random_models() -> None:
    compared = sum(check(seed) for seed in range(400, 1000))
    assert compared > 580
