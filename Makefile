# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-lowest test-newest coverage bench reproduce calibration campaign format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /  \1\t/'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("bagwise needs Python 3.11 or newer, but $(PYTHON) is %d.%d: try make PYTHON=python3.11" % v[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing bagwise and its test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --quiet -c constraints.txt -e ".[test]"
	@touch $@

install: $(STAMP) ## make .venv, with bagwise and its test tools

demo: $(STAMP) ## a short tour: fit, predict, and see why
	@$(BIN)/python -m benchmarks.demo

test: $(STAMP) ## style, types, module order and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m compileall -q src # or each program that tests start would do it
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/benchmarks

coverage: $(STAMP) ## which lines and branches the tests reach; takes twice as long as the tests
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-branch --cov-report=term:skip-covered

test-all: $(STAMP) ## the same with the long tests, every combination of crossed cases, and those of the benchmarks
	$(BIN)/python -m pytest -n auto --dist worksteal -m "long or not long"

# Old libraries use each other in ways that are deprecated by now. Our own use of them is watched by
# make test and make test-newest, where every warning is an error.
test-lowest: ## the tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	$(PYTHON) -m venv --clear .venv-lowest
	grep -oE '"[A-Za-z0-9._-]+(\[[a-z]+\])?>=[0-9.]+"' pyproject.toml | sed -E 's/"//g; s/\[.*\]//; s/>=/==/' > .venv-lowest/floors.txt
	.venv-lowest/bin/python -m pip install --quiet --quiet -c .venv-lowest/floors.txt -e ".[test]"
	.venv-lowest/bin/python -m pytest -n auto --dist worksteal -W ignore::DeprecationWarning

test-newest: ## the tests with the newest versions there are, in .venv-newest
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --quiet -e ".[test]"
	.venv-newest/bin/python -m pytest -n auto --dist worksteal

.PHONY: docs
SITE := docs/_build/html
$(VENV)/.installed-docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --quiet -c constraints.txt -e ".[docs]"
	@touch $@

docs: $(VENV)/.installed-docs ## the site, into docs/_build/html: every warning is an error, every link is followed
	@PYTHONPATH=src $(BIN)/python -m sphinx -q -b html -W --keep-going -n docs $(SITE)
	@$(BIN)/python docs/check_links.py $(SITE)

.PHONY: dist
dist: $(STAMP) ## wheel and sdist, into dist, checked
	@$(BIN)/python -m pip install --quiet --quiet -c constraints.txt -e ".[release]"
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

.PHONY: fuzz
fuzz: $(STAMP) ## thousands of generated cases, hostile ones among them; "python -m fuzz" runs one again
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz

bench: $(STAMP) ## time and score the models
	@$(BIN)/python -m benchmarks.bench

reproduce: $(STAMP) ## the paper's tables and figures, ours beside the authors'
	@$(BIN)/bagwise reproduce gamma-varying --out docs/results
	@$(BIN)/bagwise reproduce gamma-fixed --out docs/results

calibration: $(STAMP) ## coverage, classes and molecules: are the answers as sure as they should be
	@$(BIN)/python -m benchmarks.calibration

campaign: $(STAMP) ## hours: calibration of samplers, coverage in worlds, fuzz, kills; goes on where it was
	@$(BIN)/python -m benchmarks.campaign

format: $(STAMP) ## put the code in its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and everything that can be made again
	rm -rf $(VENV) .venv-lowest .venv-newest build dist docs/_build docs/auto_examples docs/reference/generated .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
