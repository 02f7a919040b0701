# `make demo` and `make test` do all the set-up: they make .venv and fill it from the pinned locks.
# A stamp file remembers that, so a second run installs nothing until a lock or a pyproject.toml changes.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2
OUT ?= demo-out
BROWSER := tests/report/browser

.PHONY: demo test lint bench docs pages clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo-installed
	$(BIN)/vedute demo --out $(OUT)

# One BLAS thread in each test process: two workers on two cores leave no core for more.
test: export OPENBLAS_NUM_THREADS = 1
test: export OMP_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: $(VENV)/.dev-installed $(VENV)/.system-installed
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev-installed
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/federation.py

# The documentation site, in site/; a warning is an error. Pages open from disk; search needs `$(BIN)/mkdocs serve`.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.dev-installed
	$(BIN)/mkdocs build --strict

# Write the tables of modules; play the pages of the documentation and write down what their commands printed and drew.
# Look at the difference.
pages: export COLUMNS = 120
pages: export MPLBACKEND = agg
pages: $(VENV)/.dev-installed
	$(BIN)/python tests/reference/module_tables.py --write
	$(BIN)/python tests/reference/walking.py --write docs/federation.md
	set -e; for page in docs/*.md docs/howto/*.md; do test $$page = docs/federation.md && continue; \
		folder=$$(mktemp -d); root=$$PWD; (cd $$folder && $$root/$(BIN)/python $$root/tests/reference/playing.py \
		$$root/$$page --write); rm -rf $$folder; done

clean:
	rm -rf $(BROWSER)/node_modules
	rm -rf $(VENV) $(OUT) site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "vedute needs Python 3.11 or later; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: requirements/demo.lock pyproject.toml | $(BIN)/python
	$(PIP) install -r requirements/demo.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev-installed: requirements/dev.lock pyproject.toml reproduction/pyproject.toml | $(BIN)/python
	$(PIP) install -r requirements/dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable . --editable ./reproduction
	touch $@

# What tests need besides Python: hosts, a real browser, an accessibility checker; what it cannot install it names.
$(VENV)/.system-installed: tests/system.sh $(BROWSER)/package-lock.json | $(BIN)/python
	tests/system.sh
	touch $@
