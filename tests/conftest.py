"""Options of the whole test suite."""

import gc
from collections import Counter

import pytest

FEW = 2
"""How many cases of each comparison with a library run by default; `make slow` runs the others."""

EACH = {  # of tests with very many cases of one kind, one in so many runs by default
    "backends/draw/test_draw.py::test_the_same_in_every_process": 2,
    "backends/draw/test_figures.py::test_figures_add_up_to_the_costs_of_the_graph": 3,
    "backends/draw/test_inspector.py::test_nothing_overlaps": 2,
    "backends/draw/test_layout.py::test_boxes_labels_and_edges_keep_apart": 3,
    "backends/numpy/test_gradients.py::test_gradients_are_those_of_autograd": 2,
    "backends/numpy/test_module.py::test_module_is_the_formula": 2,
    "backends/numpy/test_parity.py::test_shapes_and_activations": 2,
    "backends/numpy/test_random.py::test_random_model": 2,
    "backends/numpy/test_source.py::test_imports_numpy_and_the_standard_library_only": 3,
    "backends/numpy/test_source.py::test_nothing_unused_is_copied": 3,
    "backends/test_bounded.py::test_compiles_as_one_graph": 2,
    "backends/test_bounded.py::test_exports_with_any_batch_and_length": 3,
    "backends/test_bounded.py::test_the_values_are_those_of_the_formula": 3,
    "backends/test_stepping.py::test_any_pieces_give_what_the_whole_text_gives": 3,
    "backends/tex/test_documents.py::test_latex_and_mathml_are_the_same_to_another_converter": 2,
    "backends/tex/test_documents.py::test_page_of_mathml_is_well_formed_and_says_what_it_shows": 3,
    "backends/torch/test_module.py::test_losses_and_states_compile_and_export": 3,
    "backends/torch/test_module.py::test_module_has_the_values_of_the_formulas": 2,
    "compiler/decoding/test_derive.py::test_any_pieces_give_what_the_whole_text_gives": 3,
    "compiler/difference/test_laws.py::test_nothing_differs_from_itself": 3,
    "compiler/difference/test_laws.py::test_one_change_is_told_and_nothing_else": 2,
    "compiler/test_dropout.py::test_every_stage_draws_what_the_formulas_draw": 3,
    "compiler/test_passes.py::test_any_pass_can_be_alone_or_last": 3,
    "compiler/test_passes.py::test_any_pass_can_be_left_out": 5,
    "compiler/test_passes.py::test_every_stage_keeps_every_result": 3,
    "compiler/test_passes.py::test_no_pass_at_all": 3,
    "compiler/test_spellings.py::test_values": 2,
    "compiler/test_summary.py::test_the_tree_adds_up_to_the_costs": 3,
    "compiler/test_validate.py::test_a_planted_fault_is_caught_and_named": 2,
    "compiler/test_validate.py::test_a_planted_fault_shows_in_the_full_proof": 3,
    "compiler/test_validate.py::test_ids_lie_inside_their_tables": 3,
    "compiler/test_validate.py::test_right_passes_are_not_blamed": 4,
    "compiler/test_validate.py::test_shipped_specs_are_not_blamed": 3,
    "compiler/test_validate_gradients.py::test_a_wrong_derivative_is_caught": 3,
    "compiler/test_validate_gradients.py::test_a_wrong_rule_is_caught_in_bert": 2,
    "compiler/test_wanted.py::test_rows_are_those_of_the_whole": 2,
    "fuzz/test_fuzz.py::test_random_specs": 4,
    "fuzz/test_fuzz.py::test_respelled": 3,
    "fuzz/test_metamorphic.py::test_laws_of_batches": 3,
    "fuzz/test_wholes.py::test_whole_numbers": 3,
    "training/test_numpy.py::test_gradients_are_those_of_autograd": 2,
    "training/test_numpy.py::test_twenty_steps_are_those_of_torch": 2,
    "training/test_trainer.py::test_the_loss_of_what_is_held_out_goes_down": 3,
}


def pytest_configure(config: pytest.Config) -> None:
    """Garbage is looked for less often: with the libraries loaded that took a fifth of the time."""
    gc.set_threshold(10_000, 10, 10)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--regen` writes golden files anew instead of comparing with them; read the diff before keeping it."""
    parser.addoption("--regen", action="store_true", help="write golden files anew")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of many configurations of one comparison in tests/specs, all but the first few are slow; of `EACH` most."""
    seen: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0].removeprefix("tests/")
        seen[function] += 1
        if "[" not in item.nodeid:
            continue
        many = function.startswith("specs/") and seen[function] > FEW
        if many or (seen[function] - 1) % EACH.get(function, 1):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _unproved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests compile a thousand models: those that are not about proofs leave them out, to take minutes and not hours.

    tests/compiler/test_validate.py proves the zoo and every shipped spec.
    """
    if request.node.get_closest_marker("proved") is None:
        monkeypatch.setattr("transformula.compiler.validation.prove_quickly", lambda made: None)


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """Are golden files to be written anew?"""
    return bool(request.config.getoption("--regen"))
