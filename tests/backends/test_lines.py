"""Which line of a generated module computes what: told by the writers, on every layout, without changing a text."""

import pytest

from transformula.backends.lines import traced
from transformula.backends.numpy import emit as numpy_emit
from transformula.backends.program import Program
from transformula.backends.torch import emit as torch_emit
from transformula.compiler.driver import Compiled, compile_graph

SPEC = """spec two
config
    d = 4
    n = 3

block Half(x[d]) → [d] = y / 2
    where y = x @ W
    weights W : [d → d]

model M(x[seq, d] as inputs) → out[seq, d] = z
    where z = second(tanh(first(x)))
    uses first, second : Half
"""
EMITTERS = {"numpy": numpy_emit.emit, "torch": torch_emit.emit}


@pytest.fixture(scope="module", params=["bert", "gpt2", "t5"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    return compile_graph(request.param)


@pytest.mark.parametrize("backend", EMITTERS)
def test_tracing_changes_no_text(compiled: Compiled, backend: str) -> None:
    plain = EMITTERS[backend](compiled)
    found = traced(lambda: EMITTERS[backend](compiled))
    assert found.text == plain
    assert "\0" not in found.text
    assert len(found.lines) > 10


@pytest.mark.parametrize("backend", EMITTERS)
def test_the_comment_above_a_step_names_the_line_it_comes_from(compiled: Compiled, backend: str) -> None:
    """Each explained place stands in the text as `# file:line`; the table says the same of its lines."""
    program = Program(compiled, backend)
    text = program.source.split("\n")
    explained = 0
    for number, origin in program.lines.items():
        assert origin.span is not None
        written = text[number - 1].strip()
        if written.startswith("# "):
            explained += 1
            assert written.startswith(f"# {origin.span.source.name.rsplit('/', 1)[-1]}:{origin.span.line}  ")
    assert explained > 5


def test_two_instances_of_a_block_have_lines_of_their_own() -> None:
    program = Program(compile_graph(SPEC), "numpy")
    text = program.source.split("\n")
    of: dict[tuple[str, str], list[str]] = {}
    for number, origin in program.lines.items():
        of.setdefault((origin.path, origin.name), []).append(text[number - 1])
    assert [line for line in of["first", ""] if "self.first_W" in line]
    assert [line for line in of["", "z"] if "self.second_W" in line]  # the model's name for what the block makes
    assert not [line for line in of["first", ""] if "self.second_W" in line]
