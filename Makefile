# Two commands to know: `make demo` shows the package at work, `make test` runs every test.
# `make lint` checks the code, `make clean` takes away what these made. PYTHON=python3.12 picks another Python.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=

.PHONY: demo test lint clean

demo: $(VENV)/.has-package
	@$(BIN)/whileai demo

# The tests build their own tiny model; no hub is ever asked for one.
test: $(VENV)/.has-tests
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.has-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests graders -name __pycache__ -prune -exec rm -rf {} +

# Where the system's Python has no ensurepip (Debian without python3-venv), its own pip fills the venv.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "whileai needs Python 3.11 or later, this is " + sys.version.split()[0] + ": set PYTHON, as in make demo PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV) \
		|| { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@touch $@

$(VENV)/.has-package: pyproject.toml $(VENV)/.made
	$(PIP) --editable .
	@touch $@

# torch first, so that trl finds the version that the tests were written for.
$(VENV)/.has-tests: pyproject.toml $(VENV)/.made
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[trl,test]'
	@touch $@ $(VENV)/.has-package

$(VENV)/.has-dev: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.has-package
