# make demo: clusters and cones of embedded data, with a report, verified.  make test: lint, types, layers, tests.  make docs: the documentation.
# Each sets up a virtual environment in .venv from nothing but Python 3.11+ and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types layers unit fuzz mutants browser screenshots bench docs docs-figures clean

demo: $(STAMP)
	$(BIN)/conecollapse demo

test: lint types layers unit

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
	rm -rf $(VENV) build docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
