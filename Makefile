# Each target sets up what it needs in .venv, from nothing but Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.dev
BENCH := $(VENV)/.bench
ORACLES := $(VENV)/.oracles
# A test that wants more threads asks for them; two of each worker would wait for one another on two cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-slow test-browser bench lint types format clean

demo: $(SETUP)
	rm -rf demo
	$(BIN)/pdssm demo --out demo

test: lint types $(SETUP)
	$(PYTEST) -m "not slow and not browser" -n 2

test-slow: $(ORACLES)
	$(PYTEST) -m "slow or browser"

test-browser: $(SETUP)
	$(PYTEST) -m browser

# More than an hour; each benchmark can be run alone.
bench: $(BENCH)
	$(BIN)/python -m benchmarks.kernels --json results/kernels.json
	$(BIN)/python -m benchmarks.frozen --json results/frozen.json
	$(BIN)/python -m benchmarks.training --json results/training.json
	$(BIN)/python -m benchmarks.layer --json results/layer.json
	$(BIN)/python -m benchmarks.mixers --json results/mixers.json
	$(BIN)/python -m benchmarks.table1 --json results/table1.json
	$(BIN)/python -m benchmarks.runtime --json results/runtime.json --plots results/runtime
	$(BIN)/python -m benchmarks.automata --json results/automata.json
	$(BIN)/python -m benchmarks.certify --json results/certify.json
	$(BIN)/python -m benchmarks.tables

# make reproduce-table2, reproduce-table2b, reproduce-ablations: hours, and each can be cut and goes on.
reproduce-%: $(SETUP)
	$(BIN)/pdssm reproduce $* --jobs 2

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(SETUP)
	$(BIN)/mypy

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and alone: the pinned version must be there before anything else asks for "some torch".
$(SETUP): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(BENCH): $(SETUP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	touch $@

$(ORACLES): $(SETUP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[oracles]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
