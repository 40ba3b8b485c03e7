# `make help` lists the targets. Each sets up what it needs from nothing but Python 3.11+ and a package index, and says so before it does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ALL_STAMP := $(VENV)/.installed-all
# Tests start many processes: without bytecode each would compile the package's sources again.
unexport PYTHONDONTWRITEBYTECODE

# A worker for each core: more threads of BLAS would wait for each other.
ONE_THREAD := OPENBLAS_NUM_THREADS=$${OPENBLAS_NUM_THREADS:-1}

# Another target of this file, when it has been said what will be installed.
ONCE := --no-print-directory SAID=yes

.PHONY: help demo test test-all quick test-oldest lint types layers kernels static unit unit-all
.PHONY: fuzz mutants announce browser screenshots bench reproduce asv asv-compare docs docs-figures dist clean
.DEFAULT_GOAL := demo

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / && !seen[$$1]++ { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## cluster embedded data, verify the result and write a report
	$(BIN)/conecollapse demo

# Lint, types and layers need one core, and so does compiling the kernels: they run side by side.
# The tests begin when the kernels are there, else each of their workers would compile them again.
test: announce ## what a change must pass: lint, types, layers, and all tests that need no more than two minutes together
	@begin=$$(date +%s); $(MAKE) $(ONCE) $(STAMP) && $(MAKE) $(ONCE) -j2 static kernels && $(MAKE) $(ONCE) unit \
	  && echo "make test took $$(( $$(date +%s) - begin )) seconds."

test-all: announce ## test, and what takes longer: the site, the browser, killed processes, Dask clusters, the oldest dependencies
	@begin=$$(date +%s); $(MAKE) $(ONCE) $(ALL_STAMP) && $(MAKE) $(ONCE) -j2 static kernels \
	  && $(MAKE) $(ONCE) unit-all && $(MAKE) $(ONCE) test-oldest && $(MAKE) $(ONCE) fuzz && $(MAKE) $(ONCE) mutants \
	  && echo "make test-all took $$(( $$(date +%s) - begin )) seconds."

quick: $(STAMP) ## the quick tests, in about a minute: no browser, no site, no Dask cluster, no network
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -m "not slow and not full"

static: lint types layers ## lint, types and layers

lint: $(STAMP) ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy
	$(BIN)/mypy

layers: $(STAMP) ## import-linter: a module imports only from layers below it
	$(BIN)/lint-imports

kernels: $(STAMP) ## compile the kernels of the usual calls
	$(BIN)/conecollapse warm

unit: $(STAMP) ## the tests of make test
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto -m "not full"

unit-all: $(ALL_STAMP) browser ## all tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto

# The oldest versions have wheels for the oldest Python only.
OLDEST := .venv-oldest
IS_OLDEST := import sys; sys.exit(sys.version_info[:2] != (3, 11))
OLDEST_PYTHON := $(shell for p in $(PYTHON) python3.11; do $$p -c "$(IS_OLDEST)" 2>/dev/null && echo $$p && break; done)

# Two versions of numba must not share a cache of kernels: each would overwrite what the other has written.
ifdef OLDEST_PYTHON
test-oldest: $(OLDEST)/.installed ## the quick tests with Python 3.11 and the oldest version declared for each dependency
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/kernels CONECOLLAPSE_OLDEST=1 $(OLDEST)/bin/python -m pytest -n auto -m "not slow and not full and not own" -p no:cacheprovider
else
test-oldest:
	@echo "make test-oldest needs Python 3.11, and there is none on this machine: skipped."
endif

MINUTES ?= 10
fuzz: $(STAMP) ## compare cones and least squares with exact arithmetic on random problems (MINUTES=10 SEED= FAMILY=)
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(FAMILY),--family $(FAMILY))

N ?= 200
mutants: $(STAMP) ## change the source in random places and report which changes no test notices (N=200 SEED= ONLY=)
	$(BIN)/python tests/tools/mutants.py --number $(N) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only '$(ONLY)')

bench: $(STAMP) ## the benchmarks behind the documented numbers, each beside a named peer
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

STUDY ?= scoreboard
reproduce: $(STAMP) ## measure the paper's Table 2 on the sets of CONECOLLAPSE_DATA, in docs/results (STUDY=ablation, constants; SEEDS=10)
	$(BIN)/python -m benchmarks.paper --study $(STUDY) --out docs/results $(if $(SEEDS),--seeds $(SEEDS))
	$(BIN)/python -m benchmarks.records

# asv describes the machine in a file in the home folder; here that is .asv, so that nothing outside the checkout is written.
ASV := HOME=$(CURDIR)/.asv $(BIN)/asv
asv: $(ALL_STAMP) ## time this commit with asv, once each, and keep the numbers in .asv (BENCH= a pattern of names)
	@mkdir -p .asv
	$(ASV) machine --yes --config benchmarks/asv.conf.json
	$(ASV) run --quick --show-stderr --config benchmarks/asv.conf.json --python same --set-commit-hash "$$(git rev-parse HEAD)" \
	  $(if $(BENCH),--bench '$(BENCH)')

OLD ?= main
NEW ?= HEAD
asv-compare: $(ALL_STAMP) ## what became slower or faster between two commits that asv has timed (OLD=main NEW=HEAD)
	$(ASV) compare --config benchmarks/asv.conf.json "$$(git rev-parse $(OLD))" "$$(git rev-parse $(NEW))"

docs: $(ALL_STAMP) ## the documentation as a site, in build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "the site is build/docs/index.html"

docs-figures: $(ALL_STAMP) ## figures of the documentation
	$(BIN)/python benchmarks/recovery.py --out docs/figures
	$(BIN)/python benchmarks/extreme.py --out docs/figures
	$(BIN)/python benchmarks/sample.py amlall --out docs/figures

screenshots: $(ALL_STAMP) browser ## pictures of the report for the documentation
	CONECOLLAPSE_SCREENSHOTS=docs/figures $(BIN)/python -m pytest tests/report/test_report.py -k screenshot

dist: $(STAMP) ## build wheel and source archive in dist, install each into a new environment, run its demo there
	@echo "To be installed in temporary folders, which are removed: the wheel and the source archive with their dependencies (about 600 MB each)."
	$(BIN)/python tests/tools/check_dist.py

clean: ## remove the environments, built pages and caches (not .asv)
	rm -rf $(VENV) $(OLDEST) build dist docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What will be installed, and where: said once, before any of it is installed, for all targets that were asked for. Silent when all is there.
GOALS := $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))
announce:
ifndef SAID
	@! [ -e $(STAMP) ] || [ pyproject.toml -nt $(STAMP) ] && \
	  echo "To be installed in $(VENV), in this folder: conecollapse (editable), its dependencies and the development tools (about 1.1 GB, with the tools of make test-all 1.6; pip keeps downloads in its cache)." || true
ifneq ($(and $(OLDEST_PYTHON),$(filter test-all test-oldest,$(GOALS))),)
	@! [ -e $(OLDEST)/.installed ] || [ pyproject.toml -nt $(OLDEST)/.installed ] || [ tests/tools/setup_oldest.py -nt $(OLDEST)/.installed ] && \
	  echo "To be installed in $(OLDEST), in this folder: conecollapse (editable) and the oldest declared version of each dependency." || true
endif
ifneq ($(filter test-all unit-all browser screenshots,$(GOALS)),)
	@$(PYTHON) tests/tools/setup_browser.py plan
endif
endif

$(STAMP): pyproject.toml | announce
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[dev]"
	touch $@

$(ALL_STAMP): $(STAMP) | announce
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[dev-all]"
	touch $@

$(OLDEST)/.installed: pyproject.toml tests/tools/setup_oldest.py | announce
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/tools/setup_oldest.py > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(OLDEST)/requirements.txt --editable .
	touch $@

browser: | announce
	@$(PYTHON) tests/tools/setup_browser.py install
