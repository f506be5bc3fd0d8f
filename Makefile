# make demo   creates .venv, installs, runs the bundled example
# make test   everything that CI runs; make check: lint, types, import rules
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format bench soak clean

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "workbench needs Python 3.11 or later, and '$(PYTHON)' was not found. Install it, or run: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "workbench needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Run: make PYTHON=/path/to/newer/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv module. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sys; sys.exit(os.name != "posix")' || { echo "Workflows run on Linux and macOS only: the worker's limits need POSIX. On Windows use WSL."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || { echo "Installing the dependencies failed: a package index must be reachable (see pip's message above)."; exit 1; }
	@$(BIN)/python -m compileall -q extension_api workflows_core workbench
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/workbench demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

# Everything that make test runs, and the full counts of the reliability demands; about an hour on two cores.
soak: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q -m 'soak or not soak' --soak

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
