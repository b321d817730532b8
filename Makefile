# Every target sets up what it needs: a virtual environment in .venv, installed through constraints.txt.

# The oldest supported Python, if it is installed; override with make PYTHON=...
PYTHON ?= $(shell python3.11 -c 'import sys; print(sys.executable)' 2>/dev/null || command -v python3)
JOBS ?= 2

# Benchmarks that train need the data sets, and hours without a GPU; that of the page needs Node.js and Chromium: run
# them separately.
BENCHMARKS := $(filter-out benchmarks/many.py benchmarks/narrow.py benchmarks/browser.py, $(wildcard benchmarks/[!_]*.py))

# What matters most, in files that take seconds: golden files, the contract at one size, the reference, states, pools,
# models, errors and the command.
QUICK := tests/golden tests/config tests/contract/test_attention.py tests/ops/test_reference.py \
	tests/ops/test_against_reference.py tests/layers/test_faces.py tests/models/test_stream_model.py \
	tests/models/test_pretrained.py tests/costs/test_flops.py tests/stream/test_pool.py tests/stream/test_refusals.py \
	tests/test_state.py tests/test_compatibility.py tests/train/test_loop.py tests/cli/test_main.py \
	tests/cli/test_help.py

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup test quick test-deploy lint types unit docs gpu-record browser demo bench docs-figures docs-screenshot clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nystream needs Python 3.11 or newer, not " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[audio,cli,data,docs,export,plot,ray,redis,serve,train,test,dev]'
	@touch $@

setup: $(STAMP) ## create .venv and install nystream and all its tools

test: lint types unit docs ## lint, types, tests, documentation; all but test-deploy
	@$(BIN)/python -m lab gpu-smoke --check || true

quick: lint types $(STAMP) ## lint, types and the tests that matter most
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m 'not slow and not deploy' $(QUICK)

# One after the other: each starts processes of its own.
test-deploy: $(STAMP) ## tests that need a cluster, several processes, an installed wheel or a browser
	$(BIN)/pytest -m deploy

lint: $(STAMP) ## ruff (rules and format) and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## mypy
	$(BIN)/mypy

unit: $(STAMP) ## pytest; JOBS=n sets the number of processes
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m 'not deploy'

# The variable silences a notice of the theme about the future of mkdocs. No --quiet: it would hide warnings.
docs: $(STAMP) ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

gpu-record: $(STAMP) ## fail if the record of a GPU is older than the code; CONTRIBUTING says how to renew it
	@$(BIN)/python -m lab gpu-smoke --check

# The documentation carries the page as a demo if it was built before.
browser: $(STAMP) ## build the page that runs a model in the browser, examples/browser/dist; needs Node.js
	cd examples/browser && npm ci --no-audit --no-fund && $(CURDIR)/$(BIN)/python prepare.py && npm run build

demo: $(STAMP) ## train on real electricity demand, then follow it hour by hour
	$(BIN)/nystream demo

bench: $(STAMP) ## run the benchmarks
	set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script"; done
	$(BIN)/nystream bench --json results/bench.json --plot docs/img/bench.png

docs-figures: $(STAMP) ## redraw the figures of the documentation
	$(BIN)/python docs/figures.py
	$(BIN)/python benchmarks/drift.py
	$(BIN)/nystream costs --plain --plot docs/img/costs.png

docs-screenshot: $(STAMP) ## take the picture of the service's page; needs Chromium
	$(BIN)/python docs/screenshot.py

clean: ## remove caches and build products; .venv stays
	rm -rf build dist demo site examples/browser/dist examples/browser/public .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests lab benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
