# make demo: clusters and cones of embedded data, with a report, verified.  make test: lint, types, layers, tests.  make docs: the documentation.
# make quick: the tests that take little time.  make test-oldest: the same with the oldest declared version of each dependency.
# Each sets up a virtual environment (.venv, .venv-oldest) from nothing but Python 3.11+ and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test quick test-oldest lint types layers unit fuzz mutants browser screenshots bench docs docs-figures clean

demo: $(STAMP)
	$(BIN)/conecollapse demo

test: lint types layers unit test-oldest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

unit: $(STAMP) browser
	$(BIN)/python -m pytest -n auto

MINUTES ?= 10
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(FAMILY),--family $(FAMILY))

N ?= 200
mutants: $(STAMP)
	$(BIN)/python tests/mutants.py --number $(N) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

quick: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not slow"

# The oldest versions have wheels for the oldest Python only.
OLDEST := .venv-oldest
IS_OLDEST := import sys; sys.exit(sys.version_info[:2] != (3, 11))
OLDEST_PYTHON := $(shell for p in $(PYTHON) python3.11; do $$p -c "$(IS_OLDEST)" 2>/dev/null && echo $$p && break; done)

# Two versions of numba must not share a cache of kernels: each would overwrite what the other has written.
ifdef OLDEST_PYTHON
test-oldest: $(OLDEST)/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/kernels CONECOLLAPSE_OLDEST=1 $(OLDEST)/bin/python -m pytest -n auto -m "not slow" -p no:cacheprovider
else
test-oldest:
	@echo "make test-oldest needs Python 3.11, and there is none on this machine: skipped."
endif

$(OLDEST)/.installed: pyproject.toml tests/setup_oldest.py
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/setup_oldest.py > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(OLDEST)/requirements.txt --editable .
	touch $@

browser:
	@$(PYTHON) tests/setup_browser.py

screenshots: $(STAMP) browser
	CONECOLLAPSE_SCREENSHOTS=docs/figures $(BIN)/python -m pytest tests/test_report.py -k screenshot

bench: $(STAMP)
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "the site is build/docs/index.html"

docs-figures: $(STAMP)
	$(BIN)/python docs/badges.py
	$(BIN)/python benchmarks/recovery.py --out docs/figures
	$(BIN)/python benchmarks/extreme.py --out docs/figures

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(OLDEST) build docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
