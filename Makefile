# `make help` lists the targets. Each sets up what it needs from nothing but Python 3.11+ and a package index, and says so before it does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests start many processes: without bytecode each would compile the package's sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick test-oldest lint types layers unit fuzz mutants announce browser screenshots bench asv asv-compare docs docs-figures dist clean
.DEFAULT_GOAL := demo

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / && !seen[$$1]++ { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## cluster embedded data, verify the result and write a report
	$(BIN)/conecollapse demo

test: lint types layers unit test-oldest ## everything that a change must pass: lint, types, layers, unit, test-oldest

quick: $(STAMP) ## the quick tests, in about a minute: no browser, no site, no Dask cluster, no network
	$(BIN)/python -m pytest -n auto -m "not slow"

lint: $(STAMP) ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy
	$(BIN)/mypy

layers: $(STAMP) ## import-linter: a module imports only from layers below it
	$(BIN)/lint-imports

unit: $(STAMP) browser ## all tests
	$(BIN)/python -m pytest -n auto

# The oldest versions have wheels for the oldest Python only.
OLDEST := .venv-oldest
IS_OLDEST := import sys; sys.exit(sys.version_info[:2] != (3, 11))
OLDEST_PYTHON := $(shell for p in $(PYTHON) python3.11; do $$p -c "$(IS_OLDEST)" 2>/dev/null && echo $$p && break; done)

# Two versions of numba must not share a cache of kernels: each would overwrite what the other has written.
ifdef OLDEST_PYTHON
test-oldest: $(OLDEST)/.installed ## the quick tests with Python 3.11 and the oldest version declared for each dependency
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/kernels CONECOLLAPSE_OLDEST=1 $(OLDEST)/bin/python -m pytest -n auto -m "not slow and not own" -p no:cacheprovider
else
test-oldest:
	@echo "make test-oldest needs Python 3.11, and there is none on this machine: skipped."
endif

MINUTES ?= 10
fuzz: $(STAMP) ## compare cones and least squares with exact arithmetic on random problems (MINUTES=10 SEED= FAMILY=)
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(FAMILY),--family $(FAMILY))

N ?= 200
mutants: $(STAMP) ## change the source in random places and report which changes no test notices (N=200 SEED= ONLY=)
	$(BIN)/python tests/mutants.py --number $(N) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

bench: $(STAMP) ## the benchmarks behind the documented numbers, each beside a named peer
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# asv describes the machine in a file in the home folder; here that is .asv, so that nothing outside the checkout is written.
ASV := HOME=$(CURDIR)/.asv $(BIN)/asv
asv: $(STAMP) ## time this commit with asv, once each, and keep the numbers in .asv (BENCH= a pattern of names)
	@mkdir -p .asv
	$(ASV) machine --yes --config benchmarks/asv.conf.json
	$(ASV) run --quick --show-stderr --config benchmarks/asv.conf.json --python same --set-commit-hash "$$(git rev-parse HEAD)" \
	  $(if $(BENCH),--bench '$(BENCH)')

OLD ?= main
NEW ?= HEAD
asv-compare: $(STAMP) ## what became slower or faster between two commits that asv has timed (OLD=main NEW=HEAD)
	$(ASV) compare --config benchmarks/asv.conf.json "$$(git rev-parse $(OLD))" "$$(git rev-parse $(NEW))"

docs: $(STAMP) ## the documentation as a site, in build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "the site is build/docs/index.html"

docs-figures: $(STAMP) ## badges and figures of the documentation
	$(BIN)/python docs/badges.py
	$(BIN)/python benchmarks/recovery.py --out docs/figures
	$(BIN)/python benchmarks/extreme.py --out docs/figures

screenshots: $(STAMP) browser ## pictures of the report for the documentation
	CONECOLLAPSE_SCREENSHOTS=docs/figures $(BIN)/python -m pytest tests/test_report.py -k screenshot

dist: $(STAMP) ## build wheel and source archive in dist, install each into a new environment, run its demo there
	@echo "To be installed in temporary folders, which are removed: the wheel and the source archive with their dependencies (about 600 MB each)."
	$(BIN)/python tests/check_dist.py

clean: ## remove the environments, built pages and caches (not .asv)
	rm -rf $(VENV) $(OLDEST) build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What will be installed, and where: said once, before any of it is installed, for all targets that were asked for. Silent when all is there.
GOALS := $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))
announce:
	@! [ -e $(STAMP) ] || [ pyproject.toml -nt $(STAMP) ] && \
	  echo "To be installed in $(VENV), in this folder: conecollapse (editable), its dependencies and the development tools (about 1.6 GB; pip keeps downloads in its cache)." || true
ifneq ($(and $(OLDEST_PYTHON),$(filter test test-oldest,$(GOALS))),)
	@! [ -e $(OLDEST)/.installed ] || [ pyproject.toml -nt $(OLDEST)/.installed ] || [ tests/setup_oldest.py -nt $(OLDEST)/.installed ] && \
	  echo "To be installed in $(OLDEST), in this folder: conecollapse (editable) and the oldest declared version of each dependency." || true
endif
ifneq ($(filter test unit browser screenshots,$(GOALS)),)
	@$(PYTHON) tests/setup_browser.py plan
endif

$(STAMP): pyproject.toml | announce
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

$(OLDEST)/.installed: pyproject.toml tests/setup_oldest.py | announce
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/setup_oldest.py > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(OLDEST)/requirements.txt --editable .
	touch $@

browser: | announce
	@$(PYTHON) tests/setup_browser.py install
